"""`open_host`: binds the verbs to a host."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from awaitbox.host.errors import HostError

if TYPE_CHECKING:
    from awaitbox.host.approval import Approver
    from awaitbox.host.host import Host
    from awaitbox.host.trace import OnEvent


def check_platform() -> None:
    """Raises `HostError` (`unsupported_platform`) elsewhere than on Linux."""
    if sys.platform != "linux":
        raise HostError(
            f"awaitbox runs on Linux, this is {sys.platform}: its processes and terminals rest on "
            "/proc, pidfds and subreapers",
            code="unsupported_platform",
        )


def checked_env(env: Mapping[str, str]) -> dict[str, str]:
    """Raises `HostError` (`invalid_option`) for what no process can be given."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise HostError(f"env has no place for {name!r}={value!r}", code="invalid_option")
    return dict(env)


def open_host(
    workspace: str | os.PathLike[str],
    *,
    mode: str = "full-access",
    read_roots: Sequence[str | os.PathLike[str]] = (),
    write_roots: Sequence[str | os.PathLike[str]] = (),
    approve: Approver | None = None,
    toggles: Mapping[str, bool] | None = None,
    env: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
    verbs: Sequence[Callable[..., Any]] = (),
    limits: Mapping[str, float] | None = None,
    on_event: OnEvent | None = None,
) -> AbstractAsyncContextManager[Host]:
    """Open a host on a workspace: `async with open_host(".") as host:`, in a trio program.

    `mode`: only "full-access" is built; the others raise `HostError` (`mode_unavailable`).
    `read_roots`, `write_roots`: folders that the file verbs may use beside the workspace.
    `approve`: an async function of one `Request` that answers "allow_once", "allow_always", "deny"
    or `Deny(reason)`; without it whatever needs approval is refused.
    `toggles`: `{"shell": False}` takes the shell verbs and the posix shim away.
    `env`: added to the environment of every process.
    `imports`: packages of the host's environment that cells may import, e.g. `["numpy"]`.
    `verbs`: your own async functions, offered as bare awaitables beside ours.
    `limits`: see `awaitbox.host.limits.Limits`.
    `on_event`: called with a dict for each cell and call.

    Raises `HostError`: `unsupported_platform`, `invalid_option` and `invalid_verb` at once,
    `mode_unavailable` and `custody_lost` when entered.
    """
    check_platform()
    for name, function in (("approve", approve), ("on_event", on_event)):
        if function is not None and not callable(function):
            raise HostError(f"{name} must be a function", code="invalid_option")
    # Not above: elsewhere than on Linux these modules fail at their own imports.
    from awaitbox.host.host import Host
    from awaitbox.host.limits import Limits
    from awaitbox.host.options import Options
    from awaitbox.host.verb import Verb
    from awaitbox.tools import ALL

    options = Options(
        mode=mode,
        read_roots=[os.fspath(root) for root in read_roots],
        write_roots=[os.fspath(root) for root in write_roots],
        approve=approve,
        toggles=dict(toggles or {}),
        env=checked_env(env or {}),
        imports=list(imports),
        limits=Limits.of(limits),
        on_event=on_event,
    )
    own = [Verb.from_function(function) for function in verbs]
    return Host.open(workspace, options, [*ALL, *own])

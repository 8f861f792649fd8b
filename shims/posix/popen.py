"""`subprocess.Popen` whose child is started, waited for and signalled by the host.

All else is inherited from CPython: pipes, text mode, `communicate`, `wait` with its care for an
interrupt, the context manager, the errors. An override below calls the host and nothing else does;
one that the garbage collector may run calls nobody, for it may run while this very thread is inside
the link.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from awaitbox.shims.posix.request import CHILD_ARGUMENTS, PIPE_ENDS, make_request

LONGEST_WAIT_SECONDS = 1_000_000  # of a timeout; poll(2) takes milliseconds in an int, 24 days
LOST_STATUS = 255 << 8  # over, and nobody knows how; asyncio reports 255 for that, too


class Link(Protocol):
    """The way to the host. Errors of a verb are raised with their `code`."""

    def call_sync(
        self,
        verb: str,
        args: dict[str, Any],
        *,
        fds: Sequence[int] = (),
        timeout: float | None = None,
    ) -> Any: ...

    async def call(self, verb: str, args: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Door:
    """Where programs are asked for, and how the cell's own output gets ahead of theirs."""

    link: Link
    flush: Callable[[], None]


class Popen(subprocess.Popen[Any]):
    __doc__ = subprocess.Popen.__doc__
    __module__ = "subprocess"

    _door: ClassVar[Door]
    _handle: int
    _wait_status: int | None = None  # the kernel's, for `os.system`

    def _execute_child(self, *values: Any) -> None:
        given = dict(zip(CHILD_ARGUMENTS, values, strict=True))
        request = make_request(given)
        self._door.flush()
        try:
            started = self._door.link.call_sync("process.start", request.args, fds=request.fds)
        except Exception as failure:
            native = request.native(failure)
            if native is None:
                raise
            raise native from None
        self._handle, self.pid = started["handle"], started["pid"]
        self._child_created = True
        # The host has its own copies; ours would keep an end of file from ever coming.
        self._close_pipe_fds(*[given[end] for end in PIPE_ENDS])  # type: ignore[attr-defined]

    def _ask(self, verb: str, timeout: float | None = None, **args: Any) -> Any:
        return self._door.link.call_sync(verb, {"handle": self._handle, **args}, timeout=timeout)

    def _await_end(self, timeout: float | None) -> None:
        status = self._ask("process.wait", timeout)["status"]
        self._settle(LOST_STATUS if status is None else status)

    def _settle(self, status: int | None) -> None:
        """Take a status in; whoever asked first has set it already, to the same."""
        if status is not None and self.returncode is None:
            self._wait_status = status
            self.returncode = os.waitstatus_to_exitcode(status)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None:
            self._settle(self._ask("process.poll")["status"])
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is not None:
            return self.returncode
        if timeout is None:
            self._await_end(None)
            return self.returncode
        if timeout > 0:
            with contextlib.suppress(TimeoutError):
                self._await_end(min(timeout, LONGEST_WAIT_SECONDS))
        # A program that is over is never late, however short the bound: CPython looks first, too.
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        self.poll()
        if self.returncode is not None:
            return
        number = operator.index(sig)
        if not 0 <= number < signal.NSIG:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._ask("process.signal", signal=number)

    def __del__(self) -> None:
        """Nothing to reap here: what still runs is the host's."""

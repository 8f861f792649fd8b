"""One root of a session, bound to the directory that it was when the session began."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from awaitbox.host.descent import Descent, Identity, identity_of
from awaitbox.host.errors import HostError, VerbOSError, VerbPermission


@dataclass(frozen=True)
class Root:
    """A directory that a session may reach; `path` is absolute and without links."""

    path: str
    identity: Identity
    is_writable: bool
    names: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, is_writable: bool) -> Root:
        """Bind a root to what it is now. Raises `HostError` (`invalid_root`)."""
        try:
            real = os.path.realpath(path)
            real.encode()  # a cell is told its workspace as text
            fd = os.open(real, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise HostError(f"{path} cannot be a root: {error}", code="invalid_root") from None
        names = tuple(name for name in real.split("/") if name)
        try:
            return cls(real, identity_of(fd), is_writable, names)
        finally:
            os.close(fd)


def held_by(roots: Sequence[Root], at: Descent) -> Root | None:
    """The first of `roots` that holds the current directory of a descent from `/`.

    Raises `VerbOSError` (`root_replaced`) if another directory stands at that root's path.
    """
    names = tuple(step.name for step in at.trail[1:])
    for root in roots:
        depth = len(root.names)
        if names[:depth] == root.names:
            if at.trail[depth].identity == root.identity:
                return root
            raise replaced(root)
    return None


def outside(roots: Sequence[Root], given: str, access: str) -> VerbPermission:
    """The refusal of a path that no root holds, with the roots there are; innermost come first."""
    may = [root.path for root in reversed(roots) if access == "read" or root.is_writable]
    return VerbPermission(
        f"{given!r} leads outside the roots; "
        f"this session may {access} below: {', '.join(dict.fromkeys(may))}"
    )


def unwritable(roots: Sequence[Root], given: str, root: Root) -> VerbPermission:
    """The refusal of a write to a root that may only be read."""
    may = [other.path for other in reversed(roots) if other.is_writable]
    return VerbPermission(
        f"{given!r} lies in {root.path}, which may only be read; "
        f"this session may write below: {', '.join(dict.fromkeys(may))}"
    )


def replaced(root: Root) -> VerbOSError:
    """The refusal of a root that was swapped or removed since."""
    return VerbOSError(
        f"{root.path} is not the directory any more that it was when the session began; "
        "open a new session",
        code="root_replaced",
    )

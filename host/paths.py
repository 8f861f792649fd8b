"""The roots of a session: what its file verbs and the folders of its commands may be."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from awaitbox.host.descent import Descent
from awaitbox.host.errors import VerbError, VerbOSError
from awaitbox.host.place import Place, StrPath, Walk, text_of
from awaitbox.host.refusal import system_error
from awaitbox.host.root import Root

__all__ = ["Place", "Root", "Roots", "StrPath"]


class Roots:
    """What a session may reach: the workspace, further roots, and its own scratch folder."""

    def __init__(
        self,
        workspace: StrPath,
        *,
        read_roots: Sequence[StrPath] = (),
        write_roots: Sequence[StrPath] = (),
        scratch: StrPath | None = None,
    ) -> None:
        """Binds every root to the directory it is now. Raises `HostError` (`invalid_root`)."""
        self.workspace = Root.of(workspace, is_writable=True)
        self.scratch = None if scratch is None else Root.of(scratch, is_writable=True)
        found = [self.workspace, *(Root.of(path, is_writable=True) for path in write_roots)]
        found += [] if self.scratch is None else [self.scratch]
        found += [Root.of(path, is_writable=False) for path in read_roots]
        # Innermost first, so that a read root inside the workspace stays one; the sort is stable,
        # so of two roots on one directory the one that may be written counts.
        self.all = tuple(sorted(found, key=lambda root: len(root.names), reverse=True))

    def listed(self) -> list[str]:
        """Paths of all roots, the workspace first, each once."""
        paths = [self.workspace.path, *(root.path for root in reversed(self.all))]
        return list(dict.fromkeys(paths))

    @contextmanager
    def place(
        self,
        path: StrPath,
        access: Literal["read", "write"],
        *,
        follow_last: bool,
        has_parents: bool = True,
    ) -> Iterator[Place]:
        """The place of a path, for as long as the block runs.

        `follow_last=False` gives a link itself, with a slash at its end too. `has_parents=False`
        leaves directories that are missing on the way to `Place.make_parents`. Blocks on the disk.
        Raises `VerbPermission` outside the roots, `VerbFileNotFound` and `VerbOSError` for the way
        there, `VerbValue` for text that is no path. An OSError of the block becomes the verb's own.
        """
        given = text_of(path)
        with Descent("/") as at:
            walk = Walk(
                self.all,
                self.workspace,
                at,
                given,
                follow_last=follow_last,
                has_parents=has_parents,
            )
            try:
                walk.run()
                yield walk.place(access)
            except VerbError:
                raise
            except OSError as error:
                raise system_error(error, given) from None

    def directory(self, path: StrPath | None) -> str:
        """The absolute path, without links, of an existing directory below any root; None is the
        workspace. Raises as `place` does."""
        with self.place("." if path is None else path, "read", follow_last=True) as place:
            if not stat.S_ISDIR(place.existing().st_mode):
                raise VerbOSError(f"{place.given!r} is not a directory")
            return place.path

"""The way from a path that a model wrote to a place below the roots.

A path is walked from `/` component by component, as the kernel does it (`..` is taken after links),
but by descriptors that never follow a link: each link is read and its text walked in turn. So the
place found is a directory held open plus a last name, it was reached through the roots as they were
when the session began, and nothing that is swapped afterwards leads anywhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Literal

from awaitbox.host.descent import Descent, Identity
from awaitbox.host.errors import VerbError, VerbValue
from awaitbox.host.limits import PATH_LINKS
from awaitbox.host.refusal import system_error
from awaitbox.host.root import Root, held_by, outside, replaced, unwritable

StrPath = str | os.PathLike[str]


class Walk:
    """One path on its way. Afterwards `at` is the directory of the last `name`, or the last one
    there is on the way to it: then `missing` are those between."""

    def __init__(
        self,
        roots: tuple[Root, ...],
        workspace: Root,
        at: Descent,
        given: str,
        *,
        follow_last: bool,
        has_parents: bool,
    ) -> None:
        self._roots = roots
        self._follow_last = follow_last
        self._has_parents = has_parents
        self._pending = list(reversed(_components(given)))
        if not given.startswith("/"):
            self._pending += reversed(workspace.names)
        self._links = 0
        self.at = at
        self.given = given
        self.name = ""
        self.missing: list[str] = []
        self.is_directory_meant = _ends_as_directory(given)

    def run(self) -> None:
        """Walk to the end. Raises `VerbError`."""
        while self._pending:
            name = self._pending.pop()
            try:
                self._step(name)
            except OSError as error:
                raise self._failure(name, error) from None
        if not self.name and self.missing:  # `new/..` of a directory that is yet to be made
            self.name = self.missing.pop()
        elif not self.name:  # it ended in `..`, or is `/`: the current directory is what is meant
            self.name = self.at.trail[-1].name if len(self.at.trail) > 1 else "."
            self.at.up()

    def place(self, access: Literal["read", "write"]) -> Place:
        """What was found. Raises `VerbError`: outside the roots, or not with that access."""
        names = [step.name for step in self.at.trail[1:]] + self.missing
        if self.name != ".":
            names.append(self.name)
        root = self._root_at(names)
        if root is None:
            raise outside(self._roots, self.given, access)
        if access == "write" and not root.is_writable:
            raise unwritable(self._roots, self.given, root)
        holds_root = any(list(other.names[: len(names)]) == names for other in self._roots)
        return Place(self, root, names, holds_root)

    def _step(self, name: str) -> None:
        is_last = not self._pending
        if name == ".." and self.missing:
            self.missing.pop()
        elif name == "..":
            self.at.up()
        elif self.missing and not is_last:
            self.missing.append(name)
        elif is_last:
            text = _link_text(name, self.at.fd) if self._follow_last and not self.missing else None
            self._end_at(name, text)
        else:
            self._enter(name)

    def _end_at(self, name: str, text: str | None) -> None:
        if text is None:
            self.name = name
        else:
            self.is_directory_meant |= _ends_as_directory(text)
            self._take(text)

    def _enter(self, name: str) -> None:
        try:
            self.at.down(name)
        except NotADirectoryError:
            text = _link_text(name, self.at.fd)
            if text is None:
                raise
            self._take(text)
        except FileNotFoundError:
            if self._has_parents or held_by(self._roots, self.at) is None:
                raise
            self.missing.append(name)

    def _take(self, text: str) -> None:
        """Walk the text of a link in its place."""
        self._links += 1
        if self._links > PATH_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if text.startswith("/"):
            while len(self.at.trail) > 1:
                self.at.up()
        self._pending += reversed(_components(text))

    def _root_at(self, names: list[str]) -> Root | None:
        """The innermost root that holds the place, or is it."""
        for root in self._roots:
            if list(root.names) == names:
                try:
                    found = os.stat(self.name, dir_fd=self.at.fd, follow_symlinks=False)
                except FileNotFoundError:
                    raise replaced(root) from None
                if (found.st_dev, found.st_ino) != root.identity:
                    raise replaced(root)
                return root
        return held_by(self._roots, self.at)

    def _failure(self, name: str, error: OSError) -> OSError:
        """What went wrong on the way, or only that it is outside: what is there is not told."""
        if isinstance(error, VerbError) or error.errno in (errno.EMFILE, errno.ENFILE):
            return error
        names = (*(step.name for step in self.at.trail[1:]), name)
        is_missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        for root in self._roots:
            if root.names[: len(names)] == names:
                return replaced(root) if is_missing else system_error(error, self.given)
        if held_by(self._roots, self.at) is None:
            return outside(self._roots, self.given, "read")
        return system_error(error, self.given)


class Place:
    """Where a path leads: `name` in the directory `parent`, a descriptor that is open as long as
    the place. Whether anything stands there is not said.

    `path` is absolute and without links but for the last name; `root` the innermost root that holds
    it; `is_root` says that it is a root, or holds one, and so cannot be deleted, moved or replaced.
    """

    def __init__(self, walk: Walk, root: Root, names: list[str], is_root: bool) -> None:
        self._at = walk.at
        self._missing = walk.missing
        self._is_directory_meant = walk.is_directory_meant
        self.given = walk.given
        self.name = walk.name
        self.path = "/" + "/".join(names)
        self.root = root
        self.is_root = is_root

    @property
    def parent(self) -> int:
        """The directory that `name` is in, or the last one there is on the way to it."""
        return self._at.fd

    @property
    def above(self) -> list[Identity]:
        """The directories on the way, from `/` to `parent`."""
        return [step.identity for step in self._at.trail]

    def lstat(self) -> os.stat_result | None:
        """What stands there, a link as itself; None if nothing, also where a slash at its end says
        that a directory is meant and it is neither one nor a link. Raises OSError."""
        if self._missing:
            return None
        try:
            found = os.stat(self.name, dir_fd=self.parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        is_named_right = not self._is_directory_meant or _is_directory_or_link(found.st_mode)
        return found if is_named_right else None

    def existing(self) -> os.stat_result:
        """What stands there. Raises OSError, FileNotFoundError if nothing."""
        found = self.lstat()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return found

    def check_taking(self, mode: int) -> None:
        """Raises OSError if a file of that mode cannot get this name, as it ends in a slash."""
        if self._is_directory_meant and not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, "a slash at its end names a directory")

    def make_parents(self) -> None:
        """Make the directories on the way that are missing; `parent` is the last one then."""
        while self._missing:
            with suppress(FileExistsError):  # another call made it meanwhile
                os.mkdir(self._missing[0], dir_fd=self.parent)
            self._at.down(self._missing.pop(0))


def text_of(path: StrPath) -> str:
    """A path as text. Raises `VerbValue` for what no path can be."""
    text = os.fspath(path)
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        encoded = b"\0"
    if not text or b"\0" in encoded:
        raise VerbValue(f"{text!r} is not a path")
    return text


def _components(text: str) -> list[str]:
    return [name for name in text.split("/") if name not in ("", ".")]


def _is_directory_or_link(mode: int) -> bool:
    return stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _ends_as_directory(text: str) -> bool:
    return text.endswith(("/", "/.", "/..")) or text in (".", "..")


def _link_text(name: str, parent: int) -> str | None:
    """The text of a link; None for anything else, also for nothing."""
    try:
        return os.readlink(name, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise

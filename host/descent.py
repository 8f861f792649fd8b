"""A place in a directory tree, held by one descriptor: down by name, up by `..`, never over a link.

What was looked at stays what is acted on, because everything is done relative to the descriptor.
One descriptor serves a path or a tree of any depth.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

Identity = tuple[int, int]  # (device, inode)

# To pass through, and act below, without the right to list.
PASS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Step(NamedTuple):
    """One directory on the way: its name in the one before, and which directory it is."""

    name: str
    identity: Identity


def identity_of(fd: int) -> Identity:
    """Which file a descriptor is open on."""
    found = os.stat(fd)
    return found.st_dev, found.st_ino


class Descent:
    """Starts at directory `name` of `above` (a descriptor) or at a path; owns `fd`, the current
    directory. `trail` holds the steps from the start, which is the first, to the current one.

    Every method raises OSError, after which the place is unchanged. For one thread at a time.
    """

    __slots__ = ("_flags", "fd", "trail")

    def __init__(self, name: str, *, above: int | None = None, flags: int = PASS) -> None:
        self._flags = flags
        self.fd = os.open(name, flags, dir_fd=above)
        self.trail = [Step(name, identity_of(self.fd))]

    def __enter__(self) -> Descent:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def down(self, name: str) -> None:
        """Enter a directory. NotADirectoryError also stands for a link."""
        fd = os.open(name, self._flags, dir_fd=self.fd)
        os.close(self.fd)
        self.fd = fd
        self.trail.append(Step(name, identity_of(fd)))

    def up(self) -> None:
        """Back to the directory before; at the start nothing happens.

        Raises OSError (ESTALE) if the current one was moved elsewhere meanwhile: then `..` is a
        directory that nobody asked for.
        """
        if len(self.trail) == 1:
            return
        fd = os.open("..", self._flags, dir_fd=self.fd)
        if identity_of(fd) != self.trail[-2].identity:
            os.close(fd)
            raise OSError(errno.ESTALE, "was moved while it was being walked", self.trail[-1].name)
        os.close(self.fd)
        self.fd = fd
        self.trail.pop()

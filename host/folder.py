"""The folder of one running host, below the temporary folder of the machine."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from awaitbox.host.custody.removal import remove_tree
from awaitbox.host.errors import HostError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PREFIX = "run-"
_TRIES = 20


class RunFolder:
    """One per host. `path` holds the folders of its sessions, `lock` is its open descriptor.

    It is locked as long as the host or its warden lives, through one open file description; what
    nobody has locked is swept by the next host.
    """

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self.lock = lock

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[RunFolder]:
        """Make one, after sweeping stale ones; at the exit it is removed. Both in a thread.

        Raises `HostError` (`folder_refused`) if the folder of all hosts of this user is somebody
        else's or open to others, `OSError`.
        """
        base = base_folder()
        with trio.CancelScope(shield=True):  # it can't be broken off half-way
            path, lock = await trio.to_thread.run_sync(_make, base)
        folder = cls(path, lock)
        try:
            await trio.to_thread.run_sync(sweep, base)
            yield folder
        finally:
            with trio.CancelScope(shield=True):
                await folder.remove(path)
            os.close(lock)

    def session(self) -> str:
        """Make a session's folder, with an empty `tmp` in it. Returns its path."""
        path = tempfile.mkdtemp(prefix="session-", dir=self.path)
        os.mkdir(os.path.join(path, "tmp"), 0o700)
        return path

    async def remove(self, path: str) -> bool:
        """Remove a tree in a thread, as `remove_tree` does: whether nothing is left of it."""
        return await trio.to_thread.run_sync(partial(remove_tree, path))


def base_folder() -> str:
    """The folder of all hosts of this user. Made if it is missing; checked, no link is followed."""
    path = os.path.join(os.path.abspath(tempfile.gettempdir()), f"awaitbox-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    try:
        fd = os.open(path, _FOLDER)
    except OSError as error:
        raise HostError(
            f"{path} is not a folder of yours ({error.strerror}); remove it, or set TMPDIR",
            code="folder_refused",
        ) from None
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    if found.st_uid != os.getuid():
        raise HostError(
            f"{path} belongs to user {found.st_uid}; remove it, or set TMPDIR",
            code="folder_refused",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise HostError(f"{path} is open to others: chmod 700 {path}", code="folder_refused")
    return path


def _make(base: str) -> tuple[str, int]:
    """A new, locked folder. A sweeper may lock or remove one between its making and its lock."""
    for _ in range(_TRIES):
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        lock = _locked(path)
        if lock is not None:
            try:
                if os.path.samestat(os.stat(path), os.fstat(lock)):
                    return path, lock
            except FileNotFoundError:
                pass
            os.close(lock)
    raise OSError(f"no folder could be locked below {base}")


def _locked(path: str) -> int | None:
    """A descriptor that holds the lock of a folder of ours, or None."""
    try:
        fd = os.open(path, _FOLDER)
    except OSError:
        return None
    try:
        if os.fstat(fd).st_uid == os.getuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def sweep(base: str) -> None:
    """Remove the folders of hosts that are dead. Blocks. What can't be removed stays."""
    with os.scandir(base) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in paths:
        if (lock := _locked(path)) is not None:
            remove_tree(path)
            os.close(lock)

"""Removing a tree of folders that a hostile program filled.

Links are never followed, modes are put back first, and depth costs nothing: every folder found is
moved up beside the first one before it is emptied, so there is no recursion and no long path.
"""

from __future__ import annotations

import os
import time

_PASSES = 3  # over a folder that somebody still writes to
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str, seconds: float = float("inf")) -> bool:
    """Remove a folder and all in it, for at most so long. Whether nothing is left.

    Blocks; raises nothing. What another user owns, or a mount point, stays.
    """
    parent, name = os.path.split(os.path.abspath(path))
    deadline = time.monotonic() + seconds
    try:
        at = os.open(parent, _FOLDER)
    except OSError:
        return not os.path.lexists(path)
    try:
        return _remove(at, name, deadline)
    finally:
        os.close(at)


def _remove(at: int, name: str, deadline: float) -> bool:
    try:
        top = _open(at, name)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        for _ in range(_PASSES):
            serial = 0
            todo = _empty(top, top, serial, deadline)
            serial += len(todo)
            while todo and time.monotonic() < deadline:
                found = _remove_moved(top, todo.pop(), serial, deadline)
                serial += len(found)
                todo += found
            try:
                os.rmdir(name, dir_fd=at)
                return True
            except OSError:
                if time.monotonic() > deadline:
                    return False
        return False
    finally:
        os.close(top)


def _open(at: int, name: str) -> int:
    """A folder that can be listed and emptied, whatever its mode was."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # through the handle: no link is followed
        return os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)


def _remove_moved(top: int, name: str, serial: int, deadline: float) -> list[str]:
    """Empty a folder directly below `top` and remove it. -> folders that came up from it"""
    try:
        fd = _open(top, name)
    except OSError:
        return []
    try:
        found = _empty(fd, top, serial, deadline)
    finally:
        os.close(fd)
    try:
        os.rmdir(name, dir_fd=top)
    except OSError:
        pass  # something in it can't be removed
    return found


def _empty(fd: int, top: int, serial: int, deadline: float) -> list[str]:
    """Unlink the files of a folder and move its folders up to `top`, under new names."""
    moved: list[str] = []
    with os.scandir(fd) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if time.monotonic() > deadline:
            break
        try:
            if not is_folder:
                os.unlink(name, dir_fd=fd)
            elif (new := _move_up(fd, name, top, serial + len(moved))) is not None:
                moved.append(new)
        except OSError:
            pass
    return moved


def _move_up(fd: int, name: str, top: int, serial: int) -> str | None:
    """The new name, or None if the folder was empty and is gone already."""
    try:
        os.rmdir(name, dir_fd=fd)
        return None
    except OSError:
        pass
    os.close(_open(fd, name))  # a folder without write permission can't get another parent
    new = f".removed-{os.getpid()}-{serial}"
    os.rename(name, new, src_dir_fd=fd, dst_dir_fd=top)
    return new

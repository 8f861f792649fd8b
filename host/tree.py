"""Copying and removing what may be a whole tree, relative to directories that are held open.

Nothing here follows a link, and a tree of any depth takes two descriptors. Every function blocks:
it runs in a thread, and calls `check` before each entry, whose exception ends it there.
An OSError inside a tree says in its text where.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from awaitbox.host.descent import LIST, Descent
from awaitbox.host.limits import COPY_BYTES

Check = Callable[[], None]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A file system that cannot copy by itself, or not to that other one
_NO_OFFLOAD = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


def remove(parent: int, name: str, check: Check) -> None:
    """Remove a file, a link or a whole tree. What was removed before a failure stays removed.

    Raises OSError; FileNotFoundError only if nothing is there, or another call was quicker.
    """
    check()
    while not _unlink(name, parent):
        with suppress(FileNotFoundError):  # another call removes the same tree: look again
            with Descent(name, above=parent, flags=LIST) as at:
                _empty(at, check)
            os.rmdir(name, dir_fd=parent)
            return


def copy(parent: int, name: str, to: int, new: str, check: Check) -> None:
    """Make `new` in directory `to` a copy of `name`: trees whole, links as links, modes and times
    kept, FIFOs and sockets made anew and never read. Set-id bits of files go, the owner may be
    another. Holes stay holes.

    Raises OSError, FileExistsError if `new` exists. What a failure leaves behind is the caller's
    to remove.
    """
    check()
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        _copy_entry(found, parent, name, to, new, check)
        return
    os.mkdir(new, 0o700, dir_fd=to)
    with (
        Descent(name, above=parent, flags=LIST) as source,
        Descent(new, above=to, flags=LIST) as target,
    ):
        _fill(source, target, check)
        _set_mode_and_times(target.fd, os.stat(source.fd))


def _unlink(name: str, parent: int) -> bool:
    """False if it is a directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        return False
    return True


def _empty(at: Descent, check: Check) -> None:
    """Remove all that is in a directory. `folders` are those yet to be emptied, level by level."""
    folders = [_remove_files(at, check)]
    while True:
        if folders[-1]:
            if _enter(at, folders[-1].pop()):
                folders.append(_remove_files(at, check))
            continue
        folders.pop()
        if not folders:
            return
        name = at.trail[-1].name
        with _told(at):
            at.up()
            with suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=at.fd)


def _enter(at: Descent, name: str) -> bool:
    """False if it is gone: another call removes the same tree."""
    with _told(at, name), suppress(FileNotFoundError):
        at.down(name)
        return True
    return False


def _remove_files(at: Descent, check: Check) -> list[str]:
    """Remove what is no directory, and name the directories."""
    folders = []
    with _told(at):
        names = os.listdir(at.fd)
    for name in names:
        check()
        with _told(at, name), suppress(FileNotFoundError):
            if not _unlink(name, at.fd):
                folders.append(name)
    return folders


def _fill(source: Descent, target: Descent, check: Check) -> None:
    """Copy all that is in one directory to another. `names` are those yet to be copied, level by
    level."""
    names = [os.listdir(source.fd)]
    while True:
        if names[-1]:
            name = names[-1].pop()
            check()
            with _told(source, name):
                found = os.stat(name, dir_fd=source.fd, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    _copy_entry(found, source.fd, name, target.fd, name, check)
                    continue
                os.mkdir(name, 0o700, dir_fd=target.fd)
                source.down(name)
                target.down(name)
                names.append(os.listdir(source.fd))
            continue
        names.pop()
        if not names:
            return
        with _told(source):
            _leave(source, target)


def _leave(source: Descent, target: Descent) -> None:
    """Go up in both, and give the copied directory its mode: one without `x` could not be left."""
    found = os.stat(source.fd)
    done = os.dup(target.fd)
    try:
        source.up()
        target.up()
        _set_mode_and_times(done, found)
    finally:
        os.close(done)


def _copy_entry(
    found: os.stat_result, parent: int, name: str, to: int, new: str, check: Check
) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFREG:
        _copy_file(parent, name, to, new, check)
    elif kind == stat.S_IFLNK:
        os.symlink(os.readlink(name, dir_fd=parent), new, dir_fd=to)
        times = (found.st_atime_ns, found.st_mtime_ns)
        os.utime(new, ns=times, dir_fd=to, follow_symlinks=False)
    elif kind in (stat.S_IFIFO, stat.S_IFSOCK):
        os.mknod(new, kind | stat.S_IMODE(found.st_mode) & 0o777, dir_fd=to)
    else:
        raise OSError(errno.EINVAL, "is a device, which is not copied")


def _copy_file(parent: int, name: str, to: int, new: str, check: Check) -> None:
    # O_NONBLOCK: were a FIFO put in the file's place just now, the open would wait for a writer.
    reader = os.open(name, _READ, dir_fd=parent)
    try:
        found = os.stat(reader)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.ESTALE, "was replaced while it was being copied")
        writer = os.open(new, _WRITE, 0o600, dir_fd=to)
        try:
            _copy_bytes(reader, writer, found.st_size, check)
            _set_mode_and_times(writer, found)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_bytes(reader: int, writer: int, size: int, check: Check) -> None:
    """The bytes that were there at the start: a log that grows meanwhile would have no end."""
    at = 0
    copy_some = _offload
    while at < size and (at := _seek(reader, at, os.SEEK_DATA, at)) < size:
        end = min(_seek(reader, at, os.SEEK_HOLE, size), size)
        while at < end:
            check()
            done = copy_some(reader, writer, min(end - at, COPY_BYTES), at)
            if done == 0 and copy_some is _offload:
                copy_some = _read_and_write
            elif done == 0:  # it was cut short meanwhile
                os.ftruncate(writer, at)
                return
            at += done
    os.ftruncate(writer, size)  # a hole at the end is only a length


def _seek(fd: int, at: int, whence: int, unknown: int) -> int:
    """Where the next data or the next hole begin, at or behind `at`; beyond any size if there are
    none, `unknown` where the file system does not tell holes."""
    try:
        return os.lseek(fd, at, whence)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return 1 << 62
        if error.errno == errno.EINVAL:
            return unknown
        raise


def _offload(reader: int, writer: int, count: int, at: int) -> int:
    """Let the kernel copy: shared blocks where the file system has them. 0 if it cannot."""
    try:
        return os.copy_file_range(reader, writer, count, at, at)
    except OSError as error:
        if error.errno not in _NO_OFFLOAD:
            raise
        return 0


def _read_and_write(reader: int, writer: int, count: int, at: int) -> int:
    data = memoryview(os.pread(reader, count, at))
    done = 0
    while done < len(data):
        done += os.pwrite(writer, data[done:], at + done)
    return done


def _set_mode_and_times(fd: int, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # the copy is ours: it would run as us
    os.fchmod(fd, mode)
    os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))


@contextmanager
def _told(at: Descent, name: str = "") -> Iterator[None]:
    """An OSError of the block names the place in the tree."""
    try:
        yield
    except OSError as error:
        inside = "/".join([*(step.name for step in at.trail[1:]), name]).rstrip("/")
        raise OSError(error.errno, f"{error.strerror} (at {inside or '.'!r} in it)") from None

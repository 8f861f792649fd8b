"""What `copy` and `move` share: whether a destination may be taken, and taking it in one step.

What stands at a destination is replaced as a whole, never merged, and stays until its successor is
complete: that is built under a name of its own beside it and then renamed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from awaitbox.host import tree
from awaitbox.host.errors import VerbError, VerbFileExists, VerbOSError, VerbPermission, VerbValue
from awaitbox.host.paths import Place, Roots
from awaitbox.host.refusal import system_failure

_NOREPLACE = 1  # RENAME_NOREPLACE of linux/fs.h
_libc = ctypes.CDLL(None, use_errno=True)


def copy(roots: Roots, src: str, dest: str, check: tree.Check, *, is_overwrite: bool) -> None:
    """Copy `src`, a link as what it leads to, to `dest`, whose missing parents are made. Blocks.

    After a failure, or an exception of `check`, no half of a copy is left, and what stood at `dest`
    stands; parents that were made stay. Raises `VerbError`.
    """
    with roots.place(src, "read", follow_last=True) as source:
        found = source.existing()
        with _target(roots, source, found, dest, is_overwrite=is_overwrite) as target:
            _copy(source, target, check, is_overwrite=is_overwrite)


def move(roots: Roots, src: str, dest: str, check: tree.Check, *, is_overwrite: bool) -> None:
    """Rename `src`, a link as itself, to `dest`, whose missing parents are made; across file
    systems copy it and remove it then. Blocks, fails and raises as `copy` does; `src` stands until
    `dest` is complete."""
    with roots.place(src, "write", follow_last=False) as source:
        found = source.existing()
        if source.is_root:
            raise VerbPermission(f"{src!r} is a root of this session or holds one, and stays")
        with _target(roots, source, found, dest, is_overwrite=is_overwrite) as target:
            try:
                take(source.parent, source.name, target, is_overwrite=is_overwrite)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy(source, target, check, is_overwrite=is_overwrite)
                tree.remove(source.parent, source.name, _never)


@contextmanager
def _target(
    roots: Roots, source: Place, found: os.stat_result, dest: str, *, is_overwrite: bool
) -> Iterator[Place]:
    """The place `dest` when it may become what `found` is, with its parents made. An OSError of the
    block is told as one of both paths."""
    with roots.place(dest, "write", follow_last=False, has_parents=False) as target:
        _check(source, found, target, is_overwrite=is_overwrite)
        target.make_parents()
        try:
            yield target
        except VerbError:
            raise
        except OSError as error:
            message = f"{source.given!r} to {dest!r}: {error.strerror or error}"
            raise system_failure(error, message) from None


def _check(source: Place, found: os.stat_result, target: Place, *, is_overwrite: bool) -> None:
    src, dest = source.given, target.given
    if source.path == target.path:
        raise VerbValue(f"{src!r} and {dest!r} are the same place")
    if stat.S_ISDIR(found.st_mode) and (found.st_dev, found.st_ino) in target.above:
        raise VerbValue(f"{dest!r} lies inside {src!r}; a tree cannot go into itself")
    target.check_taking(found.st_mode)
    there = target.lstat()
    if there is None:
        return
    if not is_overwrite:
        raise VerbFileExists(f"{dest!r} exists; is_overwrite=True replaces it")
    if target.is_root:
        raise VerbPermission(f"{dest!r} is a root of this session or holds one, and stays")
    if (there.st_dev, there.st_ino) in source.above:
        raise VerbValue(f"{dest!r} holds {src!r}, so it cannot be replaced by it")
    if stat.S_ISDIR(there.st_mode) and not stat.S_ISDIR(found.st_mode):
        inside = os.path.join(dest, os.path.basename(source.path))
        raise VerbFileExists(
            f"{dest!r} is a directory, which no file replaces. To put it in there, write "
            f"dest={inside!r}; to have it in that place, delete the directory first"
        )


def _copy(source: Place, target: Place, check: tree.Check, *, is_overwrite: bool) -> None:
    fresh = _fresh_name()
    try:
        tree.copy(source.parent, source.name, target.parent, fresh, check)
        take(target.parent, fresh, target, is_overwrite=is_overwrite)
    except BaseException:
        with suppress(FileNotFoundError):
            tree.remove(target.parent, fresh, _never)
        raise


def take(parent: int, name: str, target: Place, *, is_overwrite: bool) -> None:
    """Rename `name` in `parent` to `target`; with `is_overwrite` in place of what stands there.

    A file replaces a file at once. Where a directory goes or comes, the old one is moved aside,
    and back if the rename fails. Raises OSError, FileExistsError also if something came there since
    it was last looked at.
    """
    try:
        _rename(parent, name, target.parent, target.name)
    except FileExistsError:
        if not is_overwrite:
            raise
        _replace(parent, name, target)


def _replace(parent: int, name: str, target: Place) -> None:
    new = os.stat(name, dir_fd=parent, follow_symlinks=False)
    old = os.stat(target.name, dir_fd=target.parent, follow_symlinks=False)
    if os.path.samestat(new, old):
        os.unlink(name, dir_fd=parent)  # two names of one file: rename(2) would do nothing
        return
    if not stat.S_ISDIR(new.st_mode):
        os.rename(name, target.name, src_dir_fd=parent, dst_dir_fd=target.parent)
        return
    aside = _fresh_name()
    _rename(target.parent, target.name, target.parent, aside)
    try:
        _rename(parent, name, target.parent, target.name)
    except BaseException:
        _rename(target.parent, aside, target.parent, target.name)
        raise
    try:
        tree.remove(target.parent, aside, _never)
    except OSError as error:
        raise VerbOSError(
            f"{target.given!r} was replaced, but what stood there could not be removed whole: "
            f"{error.strerror}; the rest is {aside!r} beside it"
        ) from None


def _rename(parent: int, name: str, to: int, new: str) -> None:
    """Rename, never over anything: a look before the rename would miss what comes in between."""
    result = _libc.renameat2(parent, os.fsencode(name), to, os.fsencode(new), _NOREPLACE)
    if result == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, os.strerror(number))
    with suppress(FileNotFoundError):  # a file system that does not know the flag
        os.stat(new, dir_fd=to, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(name, new, src_dir_fd=parent, dst_dir_fd=to)


def _fresh_name() -> str:
    return f".awaitbox-{secrets.token_hex(8)}"


def _never() -> None:
    """The check of a part that is finished once it was begun."""

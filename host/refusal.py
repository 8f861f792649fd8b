"""The operating system's refusals as a verb's own errors."""

from __future__ import annotations

import errno

from awaitbox.host.errors import VerbFileExists, VerbFileNotFound, VerbOSError, VerbPermission


def system_error(error: OSError, given: str) -> OSError:
    """`error` about the path that the caller wrote as `given`, see `system_failure`."""
    hint = ""
    if given.startswith("~") and error.errno == errno.ENOENT:
        hint = "; '~' is not expanded here, os.path.expanduser does it"
    return system_failure(error, f"{given!r}: {error.strerror or error}{hint}")


def system_failure(error: OSError, message: str) -> OSError:
    """A `VerbError` that is also the builtin that `error` is, with its errno.

    Want of descriptors stays as it is: it says nothing about a path, and has an answer of its own.
    """
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return error
    made: VerbFileNotFound | VerbFileExists | VerbPermission | VerbOSError
    if isinstance(error, FileNotFoundError):
        made = VerbFileNotFound(message)
    elif isinstance(error, FileExistsError):
        made = VerbFileExists(message)
    elif isinstance(error, PermissionError):
        made = VerbPermission(message, code="os_error")
    else:
        made = VerbOSError(message)
    made.errno = error.errno
    return made


def says_nothing_is_there(error: OSError) -> bool:
    """Whether `error` means that no file has that path; any other leaves it open."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)

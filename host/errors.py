"""Errors of the host: one base, a stable `code`, and a message that names the next call to make.

Whose fault a failure is can be read from its code's class: what a caller did (`invalid_arguments`,
`unknown_id`), what the world did (`custody_lost`, `session_lost`), what is not there
(`mode_unavailable`).
"""

from __future__ import annotations


class HostError(Exception):
    """Base of all errors that awaitbox raises on purpose. `code` is stable, the message is not."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


class VerbError(HostError):
    """A verb's own failure. `builtin` names the exception that a cell sees it as."""

    builtin = "RuntimeError"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message, code=code or self.default_code)

    default_code = "verb_failed"


class VerbFileNotFound(VerbError, FileNotFoundError):
    """A path, a program or a folder that is not there."""

    builtin = "FileNotFoundError"
    default_code = "not_found"


class VerbFileExists(VerbError, FileExistsError):
    """Something already stands where the call would write."""

    builtin = "FileExistsError"
    default_code = "exists"


class VerbPermission(VerbError, PermissionError):
    """Outside the roots, refused by a rule or a person, or toggled off."""

    builtin = "PermissionError"
    default_code = "denied"


class VerbUnknownId(VerbError, KeyError):
    """An id that this session does not know; the message lists the live ones."""

    builtin = "KeyError"
    default_code = "unknown_id"


class VerbValue(VerbError, ValueError):
    """An argument of the right type outside its bounds."""

    builtin = "ValueError"
    default_code = "out_of_bounds"


class VerbArguments(VerbError, TypeError):
    """An unknown, missing or ill-typed argument."""

    builtin = "TypeError"
    default_code = "invalid_arguments"


class VerbOSError(VerbError, OSError):
    """The operating system refused; the message names the file and the reason."""

    builtin = "OSError"
    default_code = "os_error"

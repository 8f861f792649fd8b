"""The exceptions of verbs: what `wire.Raise` becomes in a cell.

Each is a `VerbError` and also the builtin that a user expects, and looks like it: its name, and the
plain message as its text (a `KeyError` would show a repr).
"""

from __future__ import annotations

from typing import Any

from awaitbox.shims import wire


class HostError(Exception):
    """Base of all errors that the host raises on purpose. `code` is stable, the message is not."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self).__name__, self.code, self.message)


class VerbError(HostError):
    """A verb's own failure."""


_BASES = (
    OSError,
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    NotADirectoryError,
    IsADirectoryError,
    ConnectionError,
    TimeoutError,
    InterruptedError,
    KeyError,
    IndexError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    MemoryError,
    ArithmeticError,
    OverflowError,
    AssertionError,
)


def _subclass(base: type[Exception]) -> type[VerbError]:
    members = {"__module__": "builtins", "__doc__": f"A verb's failure that is a {base.__name__}."}
    return type(base.__name__, (VerbError, base), members)


_CLASSES = {base.__name__: _subclass(base) for base in _BASES}


def failure(frame: wire.Raise) -> VerbError:
    """The exception to raise for an answer; of a type that is not known here, a RuntimeError."""
    return _rebuild(frame.type, frame.code, frame.message)


def _rebuild(name: str, code: str, message: str) -> VerbError:
    return _CLASSES.get(name, _CLASSES["RuntimeError"])(message, code)

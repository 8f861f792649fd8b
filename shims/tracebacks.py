"""What a cell's error looks like: the user's lines, with carets, and nothing of the machinery.

Shown are frames of cells, of modules below the workspace, and what those called in the standard
library. Chained exceptions and groups are followed; everything is bounded.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from msgspec import structs

from awaitbox.shims.bounds import (
    CHAIN_LINKS,
    FRAMES_HEAD,
    FRAMES_TAIL,
    MESSAGE_CHARS,
    TRACEBACK_CHARS,
)
from awaitbox.shims.interrupt import is_library
from awaitbox.shims.wire import Failure

_UNITS = 1_000  # frames of a traceback that are looked at from its outer end


def describe(error: BaseException, filename: str, workspace: str) -> Failure:
    """The failure of the cell whose code has that filename.

    Runs the exception's own `__str__`; whatever that does is caught.
    """
    message = _message(error)
    try:
        text, line = _format(error, filename, workspace)
    except Exception as failure:
        text, line = f"(no traceback: {type(failure).__name__} while it was made)\n", None
    return Failure(
        type=type(error).__name__,
        message=clip(message, MESSAGE_CHARS),
        traceback=clip(text, TRACEBACK_CHARS),
        line=line,
    )


def hinted(failure: Failure, hint: str) -> Failure:
    """The same with a line more."""
    return structs.replace(
        failure,
        message=f"{failure.message}\n{hint}" if failure.message else hint,
        traceback=f"{failure.traceback}{hint}\n",
    )


def at(places: Iterable[tuple[str, int | None, str]]) -> str:
    """The lines of a traceback for places without an exception."""
    frames = [traceback.FrameSummary(file, line, name) for file, line, name in places if line]
    lines = dict.fromkeys(traceback.StackSummary.from_list(frames[:FRAMES_HEAD]).format())
    return "".join(["Traceback (most recent call last):\n", *lines])


def one_line(error: BaseException) -> str:
    """`ValueError: what`, for a notice."""
    message = _message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def clip(text: str, limit: int) -> str:
    """Cut the middle out of what is longer, and say so there. Lone surrogates become U+FFFD."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half:,} characters ...\n{text[-half:]}"
    return sendable(text)


def sendable(text: str) -> str:
    """The text without lone surrogates, which no frame can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.msg:
        return str(error.msg)
    if isinstance(error, SystemExit):
        return str(error.code)
    try:
        return str(error)
    except Exception as failure:
        return f"<its text can't be shown: {type(failure).__name__}>"


def _format(error: BaseException, filename: str, workspace: str) -> tuple[str, int | None]:
    shown = traceback.TracebackException.from_exception(error, limit=-_UNITS, compact=True)
    line = _line_in(shown, filename)
    _prune(shown, workspace)
    return "".join(shown.format()), line


def _line_in(shown: traceback.TracebackException, filename: str) -> int | None:
    """The innermost place in the cell, or the place of its syntax error."""
    if issubclass(shown.exc_type or object, SyntaxError) and shown.filename == filename:
        return int(shown.lineno) if shown.lineno else None
    for frame in reversed(shown.stack):
        if frame.filename == filename:
            return frame.lineno
    for member in shown.exceptions or ():
        if (line := _line_in(member, filename)) is not None:
            return line
    return None


def _prune(root: traceback.TracebackException, workspace: str) -> None:
    todo, seen = [root], 0
    while todo:
        shown = todo.pop()
        seen += 1
        shown.stack = _users(shown.stack, workspace)
        if seen + len(todo) >= CHAIN_LINKS:
            shown.__cause__ = shown.__context__ = None
            continue
        todo += [link for link in (shown.__cause__, shown.__context__) if link is not None]
        todo += list(shown.exceptions or ())


def _users(frames: Iterable[traceback.FrameSummary], workspace: str) -> traceback.StackSummary:
    kept: list[traceback.FrameSummary] = []
    for frame in frames:
        name = frame.filename
        if name.startswith("<cell ") or (
            not is_machinery(name) and (kept or name.startswith(workspace))
        ):
            kept.append(frame)
    if len(kept) > FRAMES_HEAD + FRAMES_TAIL:
        count = len(kept) - FRAMES_HEAD - FRAMES_TAIL
        gap = traceback.FrameSummary(f"... {count} more frames ...", 0, "...", line="")
        kept[FRAMES_HEAD:-FRAMES_TAIL] = [gap]
    return traceback.StackSummary.from_list(kept)


def is_machinery(filename: str) -> bool:
    """Ours, an event loop's, or the import system's: never shown."""
    return is_library(filename) or filename.startswith("<frozen importlib")

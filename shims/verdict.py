"""How a cell ended: status, error and value, as they are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from awaitbox.shims import tracebacks
from awaitbox.shims.cell import Cell
from awaitbox.shims.unawaited import Ledger, Lost
from awaitbox.shims.wire import VALUE_CHARS, Failure


def verdict(
    cell: Cell,
    error: BaseException | None,
    lost: list[Lost],
    workspace: str,
    in_step: Callable[..., Any],
) -> tuple[str, Failure | None]:
    """-> the status and the failure of a cell. That of an interrupted one says where it stood.

    `in_step` runs code of the user, here the text of an exception, where an interrupt can end it.
    """
    if isinstance(error, SystemExit) and error.code in (None, 0):
        error = None
    if error is not None:
        failure = _describe(cell, error, lost, workspace, in_step)
        return "interrupted" if cell.interrupts else "error", failure
    if not lost:
        return "ok", None
    hint = Ledger.message(lost)
    line = next((item.line for item in lost if item.filename == cell.filename), None)
    text = tracebacks.at((item.filename, item.line, item.function) for item in lost)
    return "error", Failure("RuntimeError", hint, f"{text}RuntimeError: {hint}\n", line)


def _describe(
    cell: Cell,
    error: BaseException,
    lost: list[Lost],
    workspace: str,
    in_step: Callable[..., Any],
) -> Failure:
    try:
        failure: Failure = in_step(tracebacks.describe, error, cell.filename, workspace)
    except BaseException:
        name = type(error).__name__
        return Failure(name, "(its text could not be made)", f"{name}\n", None)
    if not cell.interrupts and (causes := Ledger.causes(lost, failure)):
        return tracebacks.hinted(failure, Ledger.message(causes))
    return failure


def clipped(text: str) -> tuple[str, int]:
    """A repr as it is sent, and how much of its middle is missing. Its bytes must fit a frame."""
    limit = VALUE_CHARS if text.isascii() else VALUE_CHARS // 4
    missing = max(0, len(text) - limit)
    if missing:
        half = limit // 2
        text = text[:half] + text[-half:]
    return tracebacks.sendable(text), missing

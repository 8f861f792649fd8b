"""How a cell ended, from what its worker said and what the host knows."""

from __future__ import annotations

from dataclasses import dataclass

from awaitbox.host.limits import CELL_CODE_BYTES
from awaitbox.host.result import CellError
from awaitbox.shims.wire import Done, Failure

MACHINE_ENDED = "the machine of this session ended, and all that ran in it; open a new session"
NAMESPACE_LOST = "the namespace is lost, backgrounds still run"


@dataclass(frozen=True)
class Ending:
    """What the host knows. `asked` is `interrupted` or `deadline` if it stopped the cell itself."""

    asked: str | None
    cell_seconds: float
    is_machine_lost: bool
    worker_fault: str | None


def verdict(done: Done | None, ending: Ending) -> tuple[str, CellError | None]:
    """-> the status and the error of a cell; `done` is None if the worker died under it."""
    error: CellError | None
    if done is None:
        status, error = _died(ending)
    else:
        status, error = done.status, _error(done.error)
        if status == "interrupted":
            status = ending.asked or "interrupted"
        elif status not in ("ok", "error"):
            status = "error"  # a worker's word is not trusted beyond these
    if status == "deadline":
        error = _deadline(error, ending.cell_seconds)
    return status, error


def unsendable(code: str) -> CellError | None:
    """Why source can't be sent to a worker: a lone surrogate, or too much of it."""
    try:
        size = len(code.encode())
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        text = f"line {line} has a lone surrogate ({code[error.start]!r}), which is no text"
        return {**_plain("SyntaxError", text), "line": line}
    if size > CELL_CODE_BYTES:
        text = f"a cell of {size:,} bytes, over the {CELL_CODE_BYTES:,} of one; put data in a file"
        return _plain("ValueError", text)
    return None


def _died(ending: Ending) -> tuple[str, CellError]:
    if ending.is_machine_lost:
        return "worker_lost", _plain("SessionLost", MACHINE_ENDED)
    if ending.asked is not None:
        text = (
            "the cell could not be stopped from inside, so its worker was replaced: "
            + NAMESPACE_LOST
        )
        return ending.asked, _plain("NamespaceLost", text)
    why = ending.worker_fault or "it crashed or was killed"
    text = f"the worker died ({why}): {NAMESPACE_LOST}; the next cell gets a fresh worker"
    return "worker_lost", _plain("WorkerLost", text)


def _deadline(error: CellError | None, seconds: float) -> CellError:
    line = None if error is None else error["line"]
    where = "" if line is None else f" in line {line}"
    text = f"stopped after {seconds:g} s{where}: the bound of one cell (limits: cell_seconds)"
    trace = ""
    if error is not None and error["type"] == "NamespaceLost":
        text += f"; {error['message']}"
    elif error is not None:
        trace = error["traceback"].rstrip("\n") + "\n"
    return {
        "type": "CellDeadline",
        "message": text,
        "traceback": f"{trace}CellDeadline: {text}",
        "line": line,
    }


def _plain(kind: str, text: str) -> CellError:
    return {"type": kind, "message": text, "traceback": f"{kind}: {text}", "line": None}


def _error(failure: Failure | None) -> CellError | None:
    if failure is None:
        return None
    return {
        "type": failure.type,
        "message": failure.message,
        "traceback": failure.traceback,
        "line": failure.line,
    }

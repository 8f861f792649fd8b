"""What a cell leaves for its reader: `CellResult`, the `Output` pieces that stream, and notices."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, field
from typing import Any, TypedDict

from awaitbox.host.limits import CELL_TEXT_BYTES
from awaitbox.host.process.cleaner import Cleaner


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of a cell's output as it came; `stream` is `stdout` or `stderr`."""

    stream: str
    text: str

    def __str__(self) -> str:
        return self.text


class Notice(TypedDict):
    """Something that happened beside the cells; `at` is seconds since the epoch."""

    ids: list[str]
    kind: str
    text: str
    at: float


class CellError(TypedDict):
    """`line` counts in the cell that raised, from 1; None where no line of it was reached."""

    type: str
    message: str
    traceback: str
    line: int | None


class CallRecord(TypedDict):
    """One call of a verb; `outcome` is `ok`, `error`, `denied` or `cancelled`."""

    verb: str
    arguments: dict[str, Any]
    duration_ms: float
    outcome: str


@dataclass(frozen=True)
class CellResult:
    """How a cell ended. `status` is `ok`, `error`, `interrupted`, `deadline` or `worker_lost`.

    stdout, stderr and value are clipped in their middle at 64 KiB each; `is_clipped` tells.
    """

    status: str
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    display: list[dict[str, Any]] = field(default_factory=list)
    error: CellError | None = None
    notices: list[Notice] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    duration_ms: float = 0.0
    is_clipped: bool = False

    def as_text(self) -> str:
        """All of it as one text for a model: output, value, error, notices."""
        parts = [self.stdout.rstrip("\n")]
        if self.stderr:
            parts.append(f"[stderr]\n{self.stderr}".rstrip("\n"))
        if self.value is not None:
            parts.append(self.value)
        if self.error is not None:
            parts.append(self.error["traceback"].rstrip("\n") or self.error["message"])
        if self.status not in ("ok", "error") and self.error is None:
            parts.append(f"[{self.status}]")
        parts += [f"[notice] {notice['text']}" for notice in self.notices]
        return "\n".join(part for part in parts if part)


class ClippedText:
    """Text of any length in bounded memory: its first and last halves of a bound, and a count.

    The middle goes; a marker in its place says how much is missing and how to get it.
    """

    def __init__(self, limit_bytes: int = CELL_TEXT_BYTES) -> None:
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.missing_bytes = 0

    def add(self, text: str) -> None:
        """Take more text; constant time per byte whatever came before."""
        data = text.encode("utf-8", "replace")
        room = self._half - len(self._head)
        if room > 0 and not self._tail:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self.missing_bytes += gone

    @property
    def is_clipped(self) -> bool:
        return self.missing_bytes > 0 or self._tail_size > self._half

    def text(self, mend: str) -> str:
        """The whole, or head, marker and tail; `mend` tells how to get at the rest."""
        if not self._head:
            return ""
        tail = b"".join(self._tail)
        over = max(0, len(tail) - self._half)
        if not self.missing_bytes and not over:
            return (self._head + tail).decode("utf-8", "ignore")
        missing = self.missing_bytes + over
        head = bytes(self._head).decode("utf-8", "ignore")
        end = tail[over:].decode("utf-8", "ignore")
        return f"{head}\n[... {missing:,} bytes are missing here: {mend} ...]\n{end}"


def clip(text: str, mend: str) -> tuple[str, bool]:
    """`text` clipped like a cell's output, and whether anything is missing."""
    if len(text) <= CELL_TEXT_BYTES // 4:  # a character is four bytes of UTF-8 at most
        return text, False
    clipped = ClippedText()
    clipped.add(text)
    return clipped.text(mend), clipped.is_clipped


class StreamText:
    """One output stream of a cell: raw bytes in, cleaned text out, the clipped whole kept."""

    def __init__(self) -> None:
        self._cleaner = Cleaner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.kept = ClippedText()
        self.is_used = False

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that became complete with `data`."""
        self.is_used = True
        text = self._decoder.decode(self._cleaner.feed(data, final), final)
        if text:
            self.kept.add(text)
        return text

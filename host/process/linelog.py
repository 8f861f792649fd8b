"""What a background printed: a ring of finished lines and the line that is being written."""

from __future__ import annotations

import codecs
from collections import deque
from itertools import islice

from awaitbox.host.limits import LOG_BYTES, LOG_LINE_CHARS, LOG_LINES
from awaitbox.host.process.cleaner import Cleaner
from awaitbox.host.process.line import Line, settled


class LineLog:
    """The newest `LOG_LINES` lines within `LOG_BYTES` (as UTF-8), each as `Line` keeps it.

    Takes the output of a terminal or of a pipe. `total` counts every line that was ever finished.
    """

    def __init__(self) -> None:
        self.total = 0
        self._lines: deque[str] = deque()
        self._bytes = 0
        self._line = Line()
        self._cleaner = Cleaner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def dropped(self) -> int:
        """Finished lines that have left the ring."""
        return self.total - len(self._lines)

    @property
    def partial(self) -> str:
        """The unfinished last line, e.g. a prompt; "" when there is none."""
        return self._line.text()

    @property
    def discarded(self) -> int:
        """Bytes that an endless escape sequence swallowed."""
        return self._cleaner.discarded

    def tail(self, n: int) -> tuple[list[str], str]:
        """Return the newest `n` finished lines, oldest first, and the partial line."""
        return list(islice(self._lines, max(0, len(self._lines) - n), None)), self.partial

    def feed(self, data: bytes, final: bool = False) -> None:
        """Take output in. `final` also takes what was held back; the partial line stays one."""
        text = self._decoder.decode(self._cleaner.feed(data, final), final)
        if not text:
            return
        first, *others = text.split("\n")
        self._line.write(first)
        if not others:
            return
        finished = [self._line.text()]
        self._line.clear()
        self._line.write(others.pop())
        self.total += 1 + len(others)
        finished += others[-LOG_LINES:]
        if "\r" in text or "\b" in text or max(map(len, finished)) > LOG_LINE_CHARS:
            finished[1:] = map(settled, finished[1:])
        self._append(finished)

    def _append(self, lines: list[str]) -> None:
        """In bulk: a stream finishes thousands of lines at a time."""
        self._lines += lines
        self._bytes += _size("".join(lines))
        over = len(self._lines) - LOG_LINES
        if over > 0:
            self._bytes -= _size("".join([self._lines.popleft() for _ in range(over)]))
        while self._bytes > LOG_BYTES:
            self._bytes -= _size(self._lines.popleft())


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())

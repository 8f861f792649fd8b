"""What a background printed: a ring of finished lines and the line that is being written."""

from __future__ import annotations

import codecs
from collections import deque
from itertools import islice

from awaitbox.host.limits import LOG_BYTES, LOG_LINES
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
        if len(others) < LOG_LINES:
            finished += map(settled, others)
        else:
            finished = [settled(line) for line in others[-LOG_LINES:]]
        self._append(finished)

    def _append(self, lines: list[str]) -> None:
        self._lines += lines
        self._bytes += sum(map(_size, lines))
        while len(self._lines) > LOG_LINES or self._bytes > LOG_BYTES:
            self._bytes -= _size(self._lines.popleft())


def _size(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode())

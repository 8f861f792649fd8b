"""The line that is being written: redrawn by CR, corrected by BS, kept to a bound.

CR starts the line anew with the next character after it, and nothing of the former state shows
through: programs clear the rest of the line by sequences that are gone by now. BS moves left, and
what follows overwrites; that is what line editors, spinners and overstruck text need. One code
point is one cell.
"""

from __future__ import annotations

from awaitbox.host.limits import LOG_LINE_CHARS


class Line:
    """Cells and a cursor. All cells are counted, the first `LOG_LINE_CHARS` are kept."""

    __slots__ = ("_column", "_is_returned", "_kept", "_length")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start the next line."""
        self._kept = ""
        self._length = 0
        self._column = 0
        self._is_returned = False

    def write(self, text: str) -> None:
        """Add `text`, which holds no newline."""
        if "\r" not in text:
            self._write_segment(text)
            return
        first, *others = text.split("\r")
        self._write_segment(first)
        self._is_returned = True
        for segment in reversed(others):
            if segment.lstrip("\b"):
                self._write_segment(segment)
                self._is_returned = segment is not others[-1]
                return

    def text(self) -> str:
        """Return the line's state; a line over the bound says how many characters are missing."""
        if self._length > LOG_LINE_CHARS:
            return f"{self._kept} [... {self._length - LOG_LINE_CHARS:,} more characters]"
        if self._column < self._length:  # erased by `BS blank BS`
            return self._kept[: self._column] + self._kept[self._column :].rstrip(" ")
        return self._kept

    def _write_segment(self, segment: str) -> None:
        if self._is_returned:
            segment = segment.lstrip("\b")
            if not segment:
                return
            self.clear()
        if self._column == self._length and "\b" not in segment:
            if self._length < LOG_LINE_CHARS:
                self._kept += segment[: LOG_LINE_CHARS - self._length]
            self._length += len(segment)
            self._column = self._length
        else:
            self._overwrite(segment)

    def _overwrite(self, segment: str) -> None:
        cells = list(self._kept)
        column, length = self._column, self._length
        for index, piece in enumerate(segment.split("\b")):
            if index and column:
                column -= 1
            if column < LOG_LINE_CHARS:
                kept = piece[: LOG_LINE_CHARS - column]
                cells[column : column + len(kept)] = kept
            column += len(piece)
            length = max(length, column)
        self._kept = "".join(cells)
        self._column, self._length = column, length


def settled(text: str) -> str:
    """Return the last state of a whole line."""
    if len(text) <= LOG_LINE_CHARS and "\r" not in text and "\b" not in text:
        return text
    line = Line()
    line.write(text)
    return line.text()

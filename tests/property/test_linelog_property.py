"""The line log against a model that keeps everything and looks at one character at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaitbox.host.process import line, linelog
from awaitbox.host.process.cleaner import Cleaner
from awaitbox.host.process.linelog import LineLog

LINES, BYTES, CHARS = 4, 100, 12

ATOMS = [b"a", b"b ", b" ", b"\n", b"\r", b"\b", b"\r\n", b"\x1b[1G", b"\x1b[0m", b"longer words"]
ATOMS += [b"\n" * 6, b"\xff", "é日😀".encode()]
CHUNKS = st.lists(st.lists(st.sampled_from(ATOMS), max_size=12).map(b"".join), max_size=8)


def model_of_a_line(text: str) -> str:
    cells: list[str] = []
    column = 0
    is_returned = False
    for character in text:
        if character == "\r":
            is_returned = True
        elif character == "\b":
            column -= bool(column and not is_returned)
        else:
            if is_returned:
                cells, column, is_returned = [], 0, False
            cells[column : column + 1] = [character]
            column += 1
    if len(cells) > CHARS:
        return f"{''.join(cells[:CHARS])} [... {len(cells) - CHARS} more characters]"
    while len(cells) > column and cells[-1] == " ":
        cells.pop()
    return "".join(cells)


@settings(max_examples=150, deadline=None)
@given(CHUNKS, st.integers(1, 6))
def test_any_chunks_give_what_the_model_gives(chunks: list[bytes], n: int) -> None:
    text = Cleaner().feed(b"".join(chunks), final=True).decode("utf-8", "replace")
    *finished, partial = map(model_of_a_line, text.split("\n"))
    kept = finished[-LINES:]
    while sum(len(line.encode()) for line in kept) > BYTES:
        del kept[0]
    with pytest.MonkeyPatch.context() as patch:
        for module in (line, linelog):
            patch.setattr(module, "LOG_LINE_CHARS", CHARS)
        patch.setattr(linelog, "LOG_LINES", LINES)
        patch.setattr(linelog, "LOG_BYTES", BYTES)
        log = LineLog()
        for chunk in chunks:
            log.feed(chunk)
        log.feed(b"", final=True)
        assert log.tail(n) == (kept[-n:], partial)
        assert (log.total, log.dropped) == (len(finished), len(finished) - len(kept))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_never_an_exception_and_never_a_control(chunks: list[bytes]) -> None:
    log = LineLog()
    for chunk in chunks:
        log.feed(chunk)
        lines, partial = log.tail(2_000)
        for character in "".join([*lines, partial]):
            assert character == "\t" or not (ord(character) < 32 or 127 <= ord(character) < 160)

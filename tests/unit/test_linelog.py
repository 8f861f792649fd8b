"""The line log: redraws, the ring's bounds, the unfinished line, long lines."""

from __future__ import annotations

import time

import pytest

from awaitbox.host.limits import LOG_BYTES, LOG_LINE_CHARS, LOG_LINES, MIB, SEQUENCE_BYTES
from awaitbox.host.process.linelog import LineLog


def log_of(*chunks: bytes) -> LineLog:
    log = LineLog()
    for chunk in chunks:
        log.feed(chunk)
    return log


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (b"", ""),
        (b"$ ", "$ "),
        (b"1%\r2%", "2%"),
        (b"1%\r", "1%"),
        (b"loading...\rdone", "done"),
        (b"1%\r2%\r\r", "2%"),
        (b"1%\r\b", "1%"),
        (b"\x1b[2K\x1b[1G- a\x1b[2K\x1b[1Gb", "b"),
        (b"a_\bb", "ab"),
        (b"abc\b \b", "ab"),
        (b"abc\b\b\bx", "xbc"),
        (b"a \b", "a"),
        (b"|\b/\b-\b", "-"),
        (b"\b\b\ba", "a"),
        ("日本\b語".encode(), "日語"),
        (b"\xff\xfea\xe6", "\ufffd\ufffda"),
        (b"a\tb", "a\tb"),
    ],
)
def test_the_last_state_of_a_line(given: bytes, shown: str) -> None:
    assert log_of(given).tail(10) == ([], shown)
    assert log_of(*(given[i : i + 1] for i in range(len(given)))).partial == shown
    assert log_of(given + b"\n").tail(10) == (
        ([shown], "") if not given.endswith(b"\xe6") else ([shown + "\ufffd"], "")
    )
    assert log_of(b"first\n" + given + b"\nlast\n").tail(10)[0][0::2] == ["first", "last"]


def test_counts_and_tail() -> None:
    log = log_of(b"a\nb", b"c\r\n", b"\nd")
    assert log.tail(10) == (["a", "bc", ""], "d")
    assert log.tail(1) == ([""], "d")
    assert log.tail(0) == ([], "d")
    assert (log.total, log.dropped) == (3, 0)


@pytest.mark.parametrize("lines_a_chunk", [1, 7, LOG_LINES - 1, LOG_LINES, 3 * LOG_LINES])
def test_the_ring_is_bound_by_lines(lines_a_chunk: int) -> None:
    count = 3 * LOG_LINES
    lines = [f"line {number}" for number in range(count)]
    log = LineLog()
    for start in range(0, count, lines_a_chunk):
        log.feed("".join(f"{line}\n" for line in lines[start : start + lines_a_chunk]).encode())
    assert log.tail(LOG_LINES) == (lines[-LOG_LINES:], "")
    assert (log.total, log.dropped) == (count, count - LOG_LINES)


@pytest.mark.parametrize("character", ["x", "日"])
def test_the_ring_is_bound_by_bytes(character: str) -> None:
    log = LineLog()
    line = character * 10_000
    for _ in range(600):
        log.feed(f"{line}\n".encode())
    kept, _ = log.tail(LOG_LINES)
    assert len(kept) == LOG_BYTES // len(line.encode())
    assert set(kept) == {line}
    assert (log.total, log.dropped) == (600, 600 - len(kept))


@pytest.mark.parametrize("character", ["x", "é", "日", "😀"])
def test_a_long_line_says_what_is_missing(character: str) -> None:
    whole = character * LOG_LINE_CHARS
    cut = f"{whole} [... 1,234 more characters]"
    log = log_of((whole + "\n").encode(), (whole + character * 1_234).encode())
    assert log.tail(1) == ([whole], cut)
    log.feed(b"\n")
    assert log.tail(1) == ([cut], "")
    assert log_of(f"a\n{whole}{character * 1_234}\nb\n".encode()).tail(2)[0] == [cut, "b"]


def test_backspaces_beyond_the_bound_of_a_line() -> None:
    log = log_of(b"x" * (LOG_LINE_CHARS + 2) + b"\b\b\byz")
    assert log.partial == "x" * (LOG_LINE_CHARS - 1) + "y [... 2 more characters]"
    log.feed(b"\rshort")
    assert log.partial == "short"


def test_fifty_megabytes_without_a_newline() -> None:
    log = LineLog()
    chunk = b"x" * MIB
    begin = time.process_time()
    for _ in range(50):
        log.feed(chunk)
    assert time.process_time() - begin < 1
    assert log.partial.endswith(f"x [... {50 * MIB - LOG_LINE_CHARS:,} more characters]")
    assert len(log.partial) < LOG_LINE_CHARS + 50
    log.feed(b"\nnext")
    assert log.tail(1)[1] == "next"


def test_a_line_redrawn_without_end_stays_small() -> None:
    log = LineLog()
    for _ in range(100):
        log.feed(b"\rprogress 99%" * 1_000)
    assert log.tail(10) == ([], "progress 99%")


def test_final_takes_what_was_held_back() -> None:
    log = log_of(b"a\xe6\x97")
    assert log.partial == "a"
    log.feed(b"", final=True)
    assert log.tail(10) == ([], "a\ufffd")
    assert log.total == 0
    log.feed(b"b\n")
    assert log.tail(10) == (["a\ufffdb"], "")


def test_lost_output_is_counted() -> None:
    log = log_of(b"\x1b]", b"x" * SEQUENCE_BYTES)
    assert log.discarded == SEQUENCE_BYTES + 2

"""The cleaner by table: what goes, what stays, what waits for the next chunk."""

from __future__ import annotations

import pytest

from awaitbox.host.limits import SEQUENCE_BYTES
from awaitbox.host.process.cleaner import Cleaner

CASES = [
    ("text", b"a b\tc\n", b"a b\tc\n"),
    ("empty", b"", b""),
    ("colour", b"\x1b[1;31mred\x1b[0m", b"red"),
    ("colour with colons", b"\x1b[38:2::1:2:3mx", b"x"),
    ("private CSI", b"\x1b[?2004h$ \x1b[>4;2m\x1b[!p", b"$ "),
    ("CSI with parameters behind an intermediate", b"\x1b[ 1mx", b"x"),
    ("CSI broken off by a newline", b"\x1b[3\nx", b"\nx"),
    ("CSI broken off by UTF-8", "\x1b[3é".encode(), "é".encode()),
    ("title, BEL", b"\x1b]0;title\x07x", b"x"),
    ("title, ST", b"\x1b]0;title\x1b\\x", b"x"),
    ("string cut off by another sequence", b"\x1b]0;title\x1b[31mx", b"x"),
    ("string cancelled", b"\x1b]0;title\x18x", b"x"),
    ("DCS, APC, PM, SOS", b"\x1bP1$r\x1b\\a\x1b_Gx\x1b\\b\x1b^m\x1b\\c\x1bXs\x1b\\d", b"abcd"),
    ("nF and two bytes", b"\x1b(Ba\x1b=b\x1bMc\x1b7d", b"abcd"),
    ("ESC alone", b"a\x1b\x1b[0m\x1b\nb", b"a\nb"),
    ("controls", b"a\x00\x07\x0b\x0c\x0e\x7fb", b"ab"),
    ("C1 as UTF-8", b"a\xc2\x9b\xc2\x85b", b"ab"),
    ("C1 between strays", b"\xc2\xc2\x9b\x9b", b"\xc2"),
    ("raw C1 bytes", b"a\x9b\x80b", b"a\x9b\x80b"),
    ("UTF-8 that holds C1 bytes", "✓日本".encode(), "✓日本".encode()),
    ("NBSP is no C1", "\xa0".encode(), "\xa0".encode()),
]
REDRAWS = [
    ("CRLF", b"a\r\n\r\r\nb", b"a\n\nb", b"a\n\nb"),
    ("CR", b"1%\r\r2%", b"1%\r2%", b"1%2%"),
    ("BS", b"a\bb", b"a\bb", b"ab"),
    ("column one", b"1%\x1b[G2%\x1b[1G3%\x1b[0G4%", b"1%\r2%\r3%\r4%", b"1%2%3%4%"),
    ("column two", b"1\x1b[2G2", b"12", b"12"),
    ("column one ends a string", b"\x1b]0;t\x1b[Gx", b"\rx", b"x"),
    ("sequence inside a CRLF", b"a\r\x1b[K\nb", b"a\nb", b"a\nb"),
    ("C1 inside a CRLF", b"a\r\xc2\x9b\nb", b"a\nb", b"a\nb"),
]


@pytest.mark.parametrize("keeps_redraws", [True, False])
@pytest.mark.parametrize(("given", "clean"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_removes(given: bytes, clean: bytes, keeps_redraws: bool) -> None:
    for size in (len(given) or 1, 1):
        cleaner = Cleaner(keeps_redraws=keeps_redraws)
        pieces = [given[i : i + size] for i in range(0, len(given), size)]
        assert b"".join([*map(cleaner.feed, pieces), cleaner.feed(b"", final=True)]) == clean


@pytest.mark.parametrize(
    ("given", "log", "terminal"), [c[1:] for c in REDRAWS], ids=[c[0] for c in REDRAWS]
)
def test_redraws(given: bytes, log: bytes, terminal: bytes) -> None:
    assert Cleaner().feed(given, final=True) == log
    assert Cleaner(keeps_redraws=False).feed(given, final=True) == terminal


@pytest.mark.parametrize(
    ("first", "shown", "second", "then"),
    [
        (b"a\x1b", b"a", b"[31mb", b"b"),
        (b"a\x1b[3", b"a", b"1mb", b"b"),
        (b"a\x1b]0;ti", b"a", b"tle\x07b", b"b"),
        (b"a\x1b]0;title\x1b", b"a", b"\\b", b"b"),
        (b"a\r", b"a", b"\nb", b"\nb"),
        (b"a\r", b"a", b"b", b"\rb"),
        (b"a\r\xc2", b"a", b"\x9b\nb", b"\nb"),
        (b"a\xc2", b"a", b"\xa9", b"\xc2\xa9"),
    ],
)
def test_holds_back_what_is_unfinished(
    first: bytes, shown: bytes, second: bytes, then: bytes
) -> None:
    cleaner = Cleaner()
    assert cleaner.feed(first) == shown
    assert cleaner.feed(second) == then


def test_final_gives_what_was_held_and_starts_afresh() -> None:
    cleaner = Cleaner()
    cleaner.feed(b"a\r\xc2")
    assert cleaner.feed(b"", final=True) == b"\r\xc2"
    cleaner.feed(b"\x1b]" + bytes(100))
    assert cleaner.feed(b"", final=True) == b""
    assert cleaner.feed(b"\x1b[" + b"1" * 100, final=True) == b""
    assert cleaner.feed(b"m") == b"m"
    assert cleaner.discarded == 0


@pytest.mark.parametrize(
    ("start", "inside", "end"),
    [(b"\x1b]", b"x\n", b"\x07"), (b"\x1b[", b"1;", b"m"), (b"\x1b", b" ", b"B")],
)
def test_endless_sequences_are_discarded_to_their_end_and_counted(
    start: bytes, inside: bytes, end: bytes
) -> None:
    cleaner = Cleaner()
    assert cleaner.feed(b"a" + start) == b"a"
    fed = len(start)
    while fed <= SEQUENCE_BYTES:
        assert cleaner.discarded == 0
        assert cleaner.feed(inside * 5_000) == b""
        fed += len(inside) * 5_000
    assert cleaner.discarded == fed
    assert cleaner.feed(end + b"b") == b"b"
    assert cleaner.discarded == fed + 1
    cleaner.feed(b"\x1b]0;title\x07")
    assert cleaner.discarded == fed + 1


def test_a_sequence_that_a_stray_byte_breaks_off_late() -> None:
    cleaner = Cleaner()
    cleaner.feed(b"\x1b[" + b"1" * 100)
    assert cleaner.feed(b"2\nb") == b"\nb"

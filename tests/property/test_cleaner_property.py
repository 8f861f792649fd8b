"""The cleaner against a machine that looks at one byte at a time, for any cutting into chunks."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from awaitbox.host.process.cleaner import Cleaner

ATOMS = [
    *(bytes([c]) for c in b"a0;mG[]\\ (\t\n\r\b\x00\x07\x18\x1a\x1b\x7f\x80\x9b\x9c\xc2\xe2\xff"),
    b"\x1b[",
    b"\x1b[1G",
    b"\x1b[31m",
    b"\x1b]0;t",
    b"\x1b\\",
    b"\x1b(B",
    b"\x1bP",
    b"\xc2\x9b",
    b"1;" * 30,
    b" " * 40,
    b"\r\n",
    "é✓日😀".encode(),
]
STREAMS = st.lists(st.sampled_from(ATOMS) | st.binary(max_size=3), max_size=30).map(b"".join)
CUTS = st.lists(st.integers(0, 120), max_size=12)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def without_sequences(data: bytes, keeps_redraws: bool) -> bytes:
    """Walk through the states of ECMA-48: ground, escape, csi, nf, string."""
    out = bytearray()
    state = "ground"
    parameters = b""
    for byte in data:
        one = bytes([byte])
        if state == "string":
            state = "escape" if byte == 0x1B else "ground" if byte in b"\x07\x18\x1a" else state
            continue
        if state == "escape" and one in b"]PX^_":
            state = "string"
        elif state == "escape" and byte == ord("["):
            state, parameters = "csi", b""
        elif state in ("escape", "nf") and 0x20 <= byte <= 0x2F:
            state = "nf"
        elif state in ("escape", "nf") and 0x30 <= byte <= 0x7E:
            state = "ground"
        elif state == "csi" and 0x20 <= byte <= 0x3F:
            parameters += one
        elif state == "csi" and 0x40 <= byte <= 0x7E:
            state = "ground"
            if keeps_redraws and byte == ord("G") and parameters in (b"", b"0", b"1"):
                out += b"\r"
        else:
            state = "escape" if byte == 0x1B else "ground"
            if byte != 0x1B:
                out += one
    return bytes(out)


def reference(data: bytes, keeps_redraws: bool) -> bytes:
    kept = b"\t\n\r\b" if keeps_redraws else b"\t\n"
    text = bytes(
        byte
        for byte in without_sequences(data, keeps_redraws)
        if byte in kept or (byte >= 0x20 and byte != 0x7F)
    )
    return re.sub(rb"\r+", b"\r", re.sub(rb"\xc2[\x80-\x9f]+", b"", text)).replace(b"\r\n", b"\n")


@settings(max_examples=200, deadline=None)
@given(STREAMS, CUTS, st.booleans())
def test_any_chunks_give_what_the_reference_gives(
    data: bytes, cuts: list[int], keeps_redraws: bool
) -> None:
    cleaner = Cleaner(keeps_redraws=keeps_redraws)
    got = b"".join([*map(cleaner.feed, pieces(data, cuts)), cleaner.feed(b"", final=True)])
    assert got == reference(data, keeps_redraws)
    assert Cleaner(keeps_redraws=keeps_redraws).feed(data, final=True) == got


@settings(max_examples=100, deadline=None)
@given(STREAMS, CUTS)
def test_nothing_that_steers_a_terminal_is_left(data: bytes, cuts: list[int]) -> None:
    cleaner = Cleaner(keeps_redraws=False)
    got = b"".join([*map(cleaner.feed, pieces(data, cuts)), cleaner.feed(b"", final=True)])
    for character in got.decode("utf-8", "replace"):
        assert character in "\t\n" or not (ord(character) < 32 or 127 <= ord(character) < 160)

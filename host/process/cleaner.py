"""Terminal output to plain text, as a stream of bytes.

Escape sequences, control characters and C1 controls that are encoded as UTF-8 go; text, tabs and
newlines stay. ESC and all controls are ASCII, so working on bytes never cuts a UTF-8 character, and
the raw bytes 0x80 to 0x9f (the inside of characters) are left alone.

The result does not depend on how the stream was cut into chunks: what the next chunk could still
change (an unfinished sequence, a CR that may belong to a CRLF, half of a C1) is held back. A short
unfinished sequence is held as bytes; of a longer one only its kind is remembered, for nothing but
its end matters. So time is linear and memory constant however a sequence is cut.
"""

from __future__ import annotations

import re

from awaitbox.host.limits import SEQUENCE_BYTES

_HELD_BYTES = 32  # the one sequence that is looked into is `ESC [ 1 G`

_SEQUENCE = re.compile(
    rb"\x1b(?:"
    rb"\[[\x20-\x3f]*+(?:[\x40-\x7e]|(?=[^\x20-\x7e]))"  # CSI, or one broken off by a stray byte
    rb"|[\]PX^_][^\x07\x18\x1a\x1b]*+(?:[\x07\x18\x1a]|(?=\x1b))"  # OSC DCS SOS PM APC
    rb"|[\x20-\x2f]++(?:[\x30-\x7e]|(?=[^\x20-\x7e]))"  # nF, as in `ESC ( B`
    rb"|[\x30-\x4f\x51-\x57\x59\x5a\x5c\x60-\x7e]"  # two bytes; `ESC \` is what ends a string
    rb"|(?=[^\x20-\x7e])"  # an ESC alone
    rb")"
)
# The rest of a sequence whose beginning is forgotten; group 1 is empty while it goes on.
_REST_OF_CSI = re.compile(rb"[\x20-\x3f]*+([\x40-\x7e]?)")
_REST_OF_STRING = re.compile(rb"[^\x07\x18\x1a\x1b]*+([\x07\x18\x1a]?)")
_REST_OF_NF = re.compile(rb"[\x20-\x2f]*+([\x30-\x7e]?)")

_COLUMN_ONE = re.compile(rb"\x1b\[[01]?G")
_CR_RUN = re.compile(rb"\r\r+")
# Stray bytes behind a C1 go with it: else `C2 C2 9B 9B` would leave a C1 behind.
_C1_SECOND = bytes(range(0x80, 0xA0))
_C1 = re.compile(rb"\xc2[\x80-\x9f]+")

_CONTROLS = bytes(c for c in (*range(32), 127) if c not in b"\t\n\x1b")
_CONTROLS_OF_A_LOG = bytes(c for c in _CONTROLS if c not in b"\b\r")


class Cleaner:
    """Feed it bytes, get clean bytes.

    With `keeps_redraws` (for line logs) CR and BS stay, runs of CR are one, CR before a newline is
    dropped, and "cursor to column 1" becomes a CR. Without it both are removed, so CRLF is LF.
    """

    __slots__ = ("_deleted", "_held", "_keeps_redraws", "_lost", "_rest", "_sequence_bytes")

    def __init__(self, *, keeps_redraws: bool = True) -> None:
        self._keeps_redraws = keeps_redraws
        self._deleted = _CONTROLS_OF_A_LOG if keeps_redraws else _CONTROLS
        self._held = b""
        self._rest: re.Pattern[bytes] | None = None
        self._sequence_bytes = 0
        self._lost = 0

    @property
    def discarded(self) -> int:
        """Bytes that went as part of sequences longer than `SEQUENCE_BYTES`: likely lost text."""
        return self._lost + (self._sequence_bytes if self._sequence_bytes > SEQUENCE_BYTES else 0)

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Clean `data`. With `final` nothing is held back and the next call starts afresh."""
        if self._rest is not None:
            data = self._after_sequence(self._rest, data)
            if self._rest is not None and not final:
                return b""
        if self._held:
            data = self._held + data
            self._held = b""
        unfinished = b""
        if b"\x1b" in data:
            data, unfinished = self._without_sequences(data)
        data = data.translate(None, self._deleted)
        tail = b""
        if b"\xc2" in data:
            if not final:
                data, tail = _without_open_c1(data)
            data = _C1.sub(b"", data)
        if b"\r" in data:
            if not final and data[-1] == 13:
                data = data.rstrip(b"\r")
                tail = b"\r" + tail
            if b"\r\r" in data:
                data = _CR_RUN.sub(b"\r", data)
            data = data.replace(b"\r\n", b"\n")
        if final:
            self._end_sequence()
        else:
            self._held = tail + unfinished
        return data

    def _without_sequences(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the data without sequences, and the unfinished one at its end if it is short."""
        if self._keeps_redraws:
            # CAN, because this ESC also ends whatever sequence it stands in.
            data = _COLUMN_ONE.sub(b"\x18\r", data)
        data = _SEQUENCE.sub(b"", data)
        start = data.find(b"\x1b")
        if start < 0:
            return data, b""
        unfinished = data[start:]
        if len(unfinished) > _HELD_BYTES:
            kind = unfinished[1]
            if kind in b"]PX^_":
                self._rest = _REST_OF_STRING
            else:
                self._rest = _REST_OF_CSI if kind == ord("[") else _REST_OF_NF
            self._sequence_bytes = len(unfinished)
            unfinished = b""
        return data[:start], unfinished

    def _after_sequence(self, rest: re.Pattern[bytes], data: bytes) -> bytes:
        """Return what follows the sequence that is being skipped."""
        match = rest.match(data)
        assert match is not None  # each of the patterns matches nothing, too
        self._sequence_bytes += match.end()
        if match.end() < len(data) or match[1]:
            self._end_sequence()
        return data[match.end() :]

    def _end_sequence(self) -> None:
        self._lost = self.discarded
        self._sequence_bytes = 0
        self._rest = None


def _without_open_c1(data: bytes) -> tuple[bytes, bytes]:
    """Split off a C1 at the end that may be unfinished or may have stray bytes behind it."""
    body = data.rstrip(_C1_SECOND)
    if body[-1:] != b"\xc2":
        return data, b""
    start = len(body) - 1
    return data[:start], data[start : start + 2]

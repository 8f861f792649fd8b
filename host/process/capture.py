"""One output stream of a command on a pipe: whole to a bound, then its two ends and a file.

Up to `CAPTURE_BYTES` all is kept. What is larger is kept as its first `CAPTURE_HEAD_BYTES` and last
`CAPTURE_TAIL_BYTES`, and goes whole into a file, up to `SPILL_BYTES`.
"""

from __future__ import annotations

import math
import os

import trio

from awaitbox.host.limits import (
    CAPTURE_BYTES,
    CAPTURE_HEAD_BYTES,
    CAPTURE_READ_BYTES,
    CAPTURE_TAIL_BYTES,
    PIPE_BYTES,
    SPILL_BLOCK_BYTES,
)
from awaitbox.host.process.spill import Spill


class Capture:
    """What a stream gave. `name` (`stdout`, `stderr`) is what `note` calls it.

    `folder` gets the file; `shown` is what the reader of the note calls that folder. `is_ended`
    says that the end of file was reached.
    """

    def __init__(self, name: str, folder: str, *, shown: str = "$TMPDIR") -> None:
        self.name = name
        self.total = 0
        self.is_ended = False
        self._last_byte_at = -math.inf
        self._is_spilling = False
        self._head = b""
        self._tail = bytearray()  # all of it until there is a head
        self._spill = Spill(folder, f"{name}-", shown)

    @property
    def last_byte_at(self) -> float:
        """When something last came, as `trio.current_time()`; -inf: never yet.

        It is the present while a block is being written, for nobody looks at the stream then, and a
        slow disk must not pass for a quiet command.
        """
        return trio.current_time() if self._is_spilling else self._last_byte_at

    @property
    def left_out(self) -> int:
        """Bytes that are in neither end."""
        return max(0, self.total - len(self._head) - CAPTURE_TAIL_BYTES) if self._head else 0

    @property
    def raw(self) -> bytes:
        """All bytes, or those of the two ends."""
        return self._head + self._last()

    def text(self) -> str:
        """Decode what `raw` has; what is not UTF-8 becomes U+FFFD."""
        if not self._head:
            return self._tail.decode("utf-8", "replace")
        # Apart, or two cut characters could join to one that was never there.
        return self._head.decode("utf-8", "replace") + self._last().decode("utf-8", "replace")

    def note(self) -> str | None:
        """Say what is missing from `text`, where, and which file has it; None if nothing is."""
        if not self.left_out:
            return None
        return (
            f"{self.name}: {self.total:,} bytes, {self.left_out:,} of them left out after the "
            f"first {len(self._head):,}; {self._spill.note()}"
        )

    def feed(self, data: bytes) -> None:
        """Take bytes in. Once `is_spill_due`, `spill` must follow before much more comes."""
        self.total += len(data)
        self._tail += data
        if self._head:
            self._spill.add(data)
        elif self.total > CAPTURE_BYTES:
            self._spill.add(self._tail)
            self._head = bytes(self._tail[:CAPTURE_HEAD_BYTES])
            del self._tail[:CAPTURE_HEAD_BYTES]
        if self._head and len(self._tail) >= 2 * CAPTURE_TAIL_BYTES:
            del self._tail[:-CAPTURE_TAIL_BYTES]

    def take(self, fd: int, bound: int) -> None:
        """Feed what the non-blocking pipe `fd` holds now, at most about `bound` bytes."""
        got = 0
        while got < bound and not self.is_ended:
            try:
                data = os.read(fd, CAPTURE_READ_BYTES)
            except BlockingIOError:
                break
            self.feed(data)
            got += len(data)
            self.is_ended = not data
        if got:
            self._last_byte_at = trio.current_time()

    @property
    def is_spill_due(self) -> bool:
        """Whether a block for the file has gathered."""
        return self._spill.pending >= SPILL_BLOCK_BYTES

    async def spill(self) -> None:
        """Write what has gathered, in a thread. Checkpoints; a cancel waits for the thread.

        A file that cannot be written is no error; `note` says so. Not to be called beside `feed`.
        """
        self._is_spilling = True
        try:
            await self._spill.flush()
        finally:
            self._is_spilling = False
            self._last_byte_at = trio.current_time()

    async def finish(self) -> None:
        """Write the rest and close the file. Checkpoints; a cancel may leave it open."""
        if self._spill.pending:
            await self._spill.flush()
        else:
            await trio.lowlevel.checkpoint()
        self._spill.close()

    def close(self) -> None:
        """Close the file without the rest. What was kept stays readable."""
        self._spill.close()

    def _last(self) -> bytes:
        return bytes(self._tail[-CAPTURE_TAIL_BYTES:] if self._head else self._tail)


async def drain(fd: int, capture: Capture) -> None:
    """Read the non-blocking pipe `fd` into `capture` until the end of file. Checkpoints.

    A cancel leaves `fd` open, and in `capture` all that had been written by then. The caller calls
    `finish`.
    """
    try:
        while not capture.is_ended:
            await trio.lowlevel.wait_readable(fd)
            capture.take(fd, CAPTURE_READ_BYTES)
            if capture.is_spill_due:
                await capture.spill()
    except trio.Cancelled:
        capture.take(fd, PIPE_BYTES)
        raise

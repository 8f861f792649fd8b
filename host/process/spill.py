"""The file that takes a stream which is too large to be kept in memory."""

from __future__ import annotations

import os
import tempfile

import trio

from awaitbox.host.limits import SPILL_BYTES


class Spill:
    """A file of its own in `folder`, made by the first `flush`; at most `SPILL_BYTES` go into it.

    What fails (a full disk, a folder that is gone) is kept for `note`, and nothing more is written.
    """

    def __init__(self, folder: str, prefix: str, shown: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._shown = shown
        self._path: str | None = None
        self._fd = -1
        self._pending = bytearray()
        self._written = 0
        self._is_cut = False
        self._is_closed = False
        self._failure: str | None = None

    @property
    def pending(self) -> int:
        """Bytes that wait for `flush`."""
        return len(self._pending)

    def add(self, data: bytes | bytearray) -> None:
        """Take bytes for the file; those beyond its bound, or after a failure, are dropped."""
        room = SPILL_BYTES - self._written - len(self._pending)
        if len(data) > room:
            self._is_cut = True
            data = data[: max(0, room)]
        if self._failure is None and not self._is_closed:
            self._pending += data

    async def flush(self) -> None:
        """Write what waits, in a thread. Checkpoints; a cancel comes before it or after it."""
        await trio.to_thread.run_sync(self._write)

    def close(self) -> None:
        """Close the file; what still waits is dropped, and `note` counts what is in the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._is_cut = self._is_cut or bool(self._pending)
        self._pending.clear()
        self._is_closed = True

    def note(self) -> str:
        """Say what is in which file."""
        if self._path is None:
            return f"no file has them: {self._failure or 'none was written'}"
        where = f"{self._shown}/{os.path.basename(self._path)}"
        if self._failure is not None:
            return f"only the first {self._written:,} are in {where}: {self._failure}"
        if self._is_cut or self._pending:
            return f"the first {self._written:,} are in {where}"
        return f"all of it is in {where}"

    def _write(self) -> None:
        if not self._pending:
            return
        try:
            if self._fd < 0:
                self._fd, self._path = tempfile.mkstemp(".log", self._prefix, self._folder)
            rest = memoryview(self._pending)
            try:
                while rest:
                    count = os.write(self._fd, rest)
                    self._written += count
                    rest = rest[count:]
            finally:
                rest.release()
        except OSError as error:
            self._failure = error.strerror or str(error)
        self._pending.clear()

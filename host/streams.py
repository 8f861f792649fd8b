"""A session's stdout and stderr: the two pipes that its workers and their uncaptured programs
write to.

They belong to the session and not to a worker: a program that outlives a worker never dies of a
closed pipe, and its text appears in the running or the next cell.
"""

from __future__ import annotations

import fcntl
import os
import select
from collections.abc import Callable

import trio

from awaitbox.host.limits import STREAM_PIPE_BYTES, STREAM_READ_BYTES
from awaitbox.host.result import Output, StreamText

OnOutput = Callable[[Output], None]


class CellStreams:
    """Both pipes, their readers, and the text of the current cell."""

    def __init__(self) -> None:
        self._readers: dict[str, int] = {}
        self.write_ends: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._poll = select.poll()
        for name in ("stdout", "stderr"):
            self._readers[name], self.write_ends[name] = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._readers[name], False)
            try:
                fcntl.fcntl(self._readers[name], fcntl.F_SETPIPE_SZ, STREAM_PIPE_BYTES)
            except PermissionError:  # over this user's share of pipe memory: the usual size works
                pass
            self._names[self._readers[name]] = name
            self._poll.register(self._readers[name], select.POLLIN)
        self._texts = {name: StreamText() for name in self._readers}
        self._on_output: OnOutput | None = None
        self._failure: Exception | None = None

    async def run(self) -> None:
        """Read both until cancelled."""
        async with trio.open_nursery() as nursery:
            for name in self._readers:
                nursery.start_soon(self._read, name)

    async def _read(self, name: str) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._readers[name])
            self._take(name)
            await trio.lowlevel.checkpoint()

    def _take(self, name: str) -> int:
        try:
            data = os.read(self._readers[name], STREAM_READ_BYTES)
        except BlockingIOError:
            return 0
        self._emit(name, self._texts[name].feed(data))
        return len(data)

    def _emit(self, name: str, text: str) -> None:
        if not text or self._on_output is None:
            return
        try:
            self._on_output(Output(name, text))
        except Exception as error:  # the embedder's: the cell goes on, `execute` raises it
            self._on_output = None
            self._failure = error

    def raise_failure(self) -> None:
        """Raise what `on_output` raised during the cell that ended, if it did."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def begin(self, on_output: OnOutput | None) -> None:
        """A cell starts; what came since the last one is its first output."""
        self._on_output = on_output
        if on_output is not None:
            for name, text in self._texts.items():
                self._emit(name, text.kept.text("it came between two cells"))

    def end(self) -> dict[str, StreamText]:
        """A cell is over: read what it wrote before it said so, and start afresh.

        What a worker wrote before its last frame lies in the pipe by then, so one pipe's size is
        enough; a program that goes on printing does not hold the cell.
        """
        for fd, _ in self._poll.poll(0):  # one look at both: most cells print nothing
            room = 2 * STREAM_PIPE_BYTES
            while room > 0 and (size := self._take(self._names[fd])):
                room -= size
        texts = self._texts
        for name, text in texts.items():
            if text.is_used:
                self._emit(name, text.feed(b"", final=True))
        self._texts = {n: StreamText() if text.is_used else text for n, text in texts.items()}
        self._on_output = None
        return texts

    def close(self) -> None:
        """Close all four ends; only when nothing of the session lives any more."""
        for fd in (*self._readers.values(), *self.write_ends.values()):
            os.close(fd)
        self._readers.clear()
        self.write_ends.clear()

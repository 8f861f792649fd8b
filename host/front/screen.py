"""The terminal of a command: one task writes to it, in order, and never on the loop's own thread.

What a cell prints, what we say about it and the status line all pass through here, so that none of
them lands inside another. A reader that does not read (a pager) holds up only this task.
"""

from __future__ import annotations

import errno
import os
import select
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from awaitbox.host.front.status import StatusLine
from awaitbox.host.limits import SCREEN_BACKLOG_BYTES, STATUS_REST_SECONDS

STDOUT, STDERR = 1, 2
_READER_GONE = (errno.EPIPE, errno.EIO)  # of a pipe, of a terminal


class Screen:
    """`out`, `err` and `say` may be called from any task, and return at once.

    While `status` is set, its text (if it gives one) is the status line. `on_broken` is called when
    a write failed; from then on everything is dropped, and `failure` says why.
    """

    def __init__(self) -> None:
        self.on_broken: Callable[[], None] = lambda: None
        self.failure: OSError | None = None
        self._status: Callable[[], str | None] | None = None
        self._queue: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._left_out = 0
        self._last = {STDOUT: b"\n", STDERR: b"\n"}
        self._is_terminal = {fd: os.isatty(fd) for fd in (STDOUT, STDERR)}
        self._is_held = False
        self._wake = trio.Event()
        self._written = trio.Event()
        self._written.set()
        self._writing = trio.Lock()
        self._line = StatusLine() if self._is_terminal[STDERR] else None

    def out(self, text: str) -> None:
        self._put(STDOUT, text)

    def err(self, text: str) -> None:
        self._put(STDERR, text)

    def say(self, text: str) -> None:
        """Something of our own, on stderr."""
        for line in text.split("\n"):
            self.err(f"awaitbox: {plain(line)}\n")

    def end_line(self) -> None:
        """Start a new line on stdout if the last one is unfinished."""
        if self._last[STDOUT] != b"\n":
            self.out("\n")

    def _put(self, fd: int, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        if not data or self.failure is not None:
            return
        if self._size + len(data) > SCREEN_BACKLOG_BYTES:
            self._left_out += len(data)
            return
        self._queue.append((fd, data))
        self._size += len(data)
        self._last[fd] = data[-1:]
        if self._written.is_set():
            self._written = trio.Event()
        self._wake.set()

    @property
    def status(self) -> Callable[[], str | None] | None:
        return self._status

    @status.setter
    def status(self, status: Callable[[], str | None] | None) -> None:
        self._status = status
        self._wake.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled. A cancel may leave what was not yet written; see `flush`."""
        task_status.started()
        try:
            while True:
                await self._rest()
                async with self._writing:
                    await self._step()
        finally:
            self._erase()

    async def _rest(self) -> None:
        if not self._queue:
            self._wake = trio.Event()
            is_ticking = self._line is not None and self._status is not None
            with trio.move_on_after(STATUS_REST_SECONDS if is_ticking else float("inf")):
                await self._wake.wait()

    async def _step(self) -> None:
        if self._queue:
            await trio.to_thread.run_sync(self._write, self._take(), abandon_on_cancel=True)
            self._settle()
        elif self._line is not None:
            text = self._status_text()
            await trio.to_thread.run_sync(self._line.draw, text, abandon_on_cancel=True)

    async def flush(self) -> None:
        """Return when all has been written and no status line shows."""
        await self._written.wait()
        async with self._writing:
            await trio.to_thread.run_sync(self._erase, abandon_on_cancel=True)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """The terminal is a person's in here: all is written, and no status line is drawn."""
        self._is_held = True
        try:
            await self.flush()
            yield
        finally:
            self._is_held = False

    def _erase(self) -> None:
        """Take away the status line; while it shows, the cursor is hidden."""
        if self._line is not None:
            self._line.erase()

    def _status_text(self) -> str | None:
        is_free = self._last[STDERR] == b"\n" and (
            self._last[STDOUT] == b"\n" or not self._is_terminal[STDOUT]
        )
        return self._status() if self._status and is_free and not self._is_held else None

    def _take(self) -> list[tuple[int, bytes]]:
        """All that waits, in order; neighbours of one stream in one piece."""
        batch: list[tuple[int, list[bytes]]] = []
        while self._queue:
            fd, data = self._queue.popleft()
            if not batch or batch[-1][0] != fd:
                batch.append((fd, []))
            batch[-1][1].append(data)
        return [(fd, b"".join(parts)) for fd, parts in batch]

    def _write(self, batch: list[tuple[int, bytes]]) -> None:
        """In a thread."""
        self._erase()
        for fd, data in batch:
            try:
                _write_all(fd, data)
            except OSError as error:
                self.failure = self.failure or error
                return

    def _settle(self) -> None:
        self._size = sum(len(data) for _, data in self._queue)
        if self.failure is not None:
            self._queue.clear()
            self.on_broken()
        elif self._left_out and not self._queue:
            left_out, self._left_out = self._left_out, 0
            self.say(f"{left_out:,} bytes of output were left out here: nobody read them")
        if not self._queue:
            self._written.set()

    @property
    def is_reader_gone(self) -> bool:
        """True if writing failed because nobody reads any more: no reason for a complaint."""
        return self.failure is not None and self.failure.errno in _READER_GONE


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # somebody made our terminal non-blocking
            select.select([], [fd], [])


def plain(text: str) -> str:
    """`text` on one line, nothing in it that could move a cursor or turn the reading direction."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

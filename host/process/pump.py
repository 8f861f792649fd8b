"""One task that reads all terminals, and all pipes of adopted programs, of a host.

A task for each would cost three to six times the processor time: most terminals print a little, all
the time, and it is the wake-ups that cost. So all stand in one epoll set; after a round of reading
the pump rests, and what comes meanwhile is read at once then. Only while something streams it goes
on without a rest, at most `PUMP_ROUND_SECONDS` at a time.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import trio

from awaitbox.host.limits import (
    PUMP_DRAIN_BYTES,
    PUMP_READ_BYTES,
    PUMP_REST_SECONDS,
    PUMP_ROUND_SECONDS,
    PUMP_STREAM_BYTES,
)

_EVENTS = 1_024  # one answer of epoll; the kernel hands the others out first the next time


class _Source(NamedTuple):
    sink: Callable[[bytes], None]
    on_end: Callable[[], None] | None


class Pump:
    """Feeds what the descriptors give to their sinks. The descriptors stay the caller's.

    All methods belong to the trio thread, and a sink or an `on_end` may call any of them. An error
    that a sink raises ends whatever called it, `run` included.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._sources: dict[int, _Source] = {}
        self._due: deque[int] = deque()

    def close(self) -> None:
        """Let go of all descriptors, after `run` has ended."""
        self._sources.clear()
        self._epoll.close()

    def add(
        self, fd: int, sink: Callable[[bytes], None], on_end: Callable[[], None] | None = None
    ) -> None:
        """Read `fd` from now on.

        At its end (EOF, or EIO of a terminal that nobody holds open any more) it is removed first,
        then `on_end` is called; never after `remove`. Raises `ValueError` if `fd` would block or is
        there already, `PermissionError` for what cannot be waited for, e.g. a file.
        """
        if os.get_blocking(fd):
            raise ValueError(f"descriptor {fd} is blocking; call os.set_blocking({fd}, False)")
        if fd in self._sources:
            raise ValueError(f"descriptor {fd} is in the pump already; call remove() before close")
        self._epoll.register(fd, select.EPOLLIN)
        self._sources[fd] = _Source(sink, on_end)

    def remove(self, fd: int) -> None:
        """Read `fd` no more; no error if it is not there. To be called before it is closed."""
        if self._sources.pop(fd, None) is None:
            return
        try:
            self._epoll.unregister(fd)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EBADF):  # it was closed before
                raise

    def refresh(self, fd: int) -> None:
        """Read what is there now, at most `PUMP_READ_BYTES`; nothing if `fd` is not there."""
        self._read(fd, PUMP_READ_BYTES)

    def drain(self, fd: int) -> bool:
        """Read until nothing is there or the end is reached: True, and True if `fd` is not there.

        A writer that never stops can hold it no longer than `PUMP_DRAIN_BYTES`: then False.
        """
        left = PUMP_DRAIN_BYTES
        while fd in self._sources and left > 0:
            got = self._read(fd, min(left, PUMP_READ_BYTES))
            if not got:
                return True
            left -= got
        return fd not in self._sources

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read until cancelled. A cancel falls between two rounds and loses nothing."""
        task_status.started()
        while True:
            if not self._due:
                await trio.lowlevel.wait_readable(self._epoll)
            if self._round():
                await trio.lowlevel.checkpoint()
            else:
                await trio.sleep(PUMP_REST_SECONDS)

    def _round(self) -> bool:
        """Read each descriptor that has something, once; True if there is likely more."""
        if not self._due:
            self._due.extend(fd for fd, _ in self._epoll.poll(0, _EVENTS))
        until = time.monotonic() + PUMP_ROUND_SECONDS
        is_streaming = False
        while self._due:
            if self._read(self._due.popleft(), PUMP_READ_BYTES) >= PUMP_STREAM_BYTES:
                is_streaming = True
            if time.monotonic() > until:
                break
        return is_streaming or bool(self._due)

    def _read(self, fd: int, bound: int) -> int:
        """Give the sink what is there, as one piece; return its size."""
        source = self._sources.get(fd)
        if source is None:
            return 0
        pieces: list[bytes] = []
        got = 0
        is_over = False
        while got < bound:
            try:
                piece = os.read(fd, bound - got)
            except BlockingIOError:
                # Only now: a short read of a terminal says nothing, its kernel passes output on in
                # a thread of its own. Before EAGAIN it waits for that thread.
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                piece = b""
            if not piece:
                is_over = True
                break
            pieces.append(piece)
            got += len(piece)
        if got:
            source.sink(b"".join(pieces))
        if is_over and self._sources.get(fd) is source:
            self.remove(fd)
            if source.on_end is not None:
                source.on_end()
        return got

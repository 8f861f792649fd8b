"""One task that reads for all of custody: an epoll set, a handler per descriptor, and deadlines.

A task per command would cost a wake of its own at each of its few packets; and the ends of a
closing host must still be read after its other tasks were cancelled.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Hashable

import trio

_EVENTS = 256  # handled before other tasks get their turn


class Watch:
    """Handlers run on the trio thread, must not wait and must not raise.

    A handler may be called without anything to read, if its descriptor's number was used anew
    within one round.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._due: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._scope = trio.CancelScope()

    def add(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Call it before the descriptor is closed. No error if it was not added."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def expect(self, key: Hashable, seconds: float, overdue: Callable[[], None]) -> None:
        """Call `overdue` once if `arrived(key)` does not come in time; replaces an earlier call."""
        deadline = trio.current_time() + seconds
        self._due[key] = (deadline, overdue)
        self._scope.deadline = min(self._scope.deadline, deadline)

    def arrived(self, key: Hashable) -> None:
        self._due.pop(key, None)

    def close(self) -> None:
        self._epoll.close()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            earliest = min((deadline for deadline, _ in self._due.values()), default=float("inf"))
            with trio.CancelScope(deadline=earliest) as self._scope:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
            # what arrived while this thread was busy comes before what it was too late for
            for fd, _ in self._epoll.poll(0, _EVENTS):
                if (handler := self._handlers.get(fd)) is not None:
                    handler()
            now = trio.current_time()
            for key, (deadline, overdue) in list(self._due.items()):
                if deadline <= now and self._due.get(key) == (deadline, overdue):
                    del self._due[key]
                    overdue()

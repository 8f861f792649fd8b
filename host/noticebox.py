"""The notices of one session that nobody has taken yet. Each is delivered once, to whoever comes
first: the next cell result, `Session.notices`, or the verb."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import trio

from awaitbox.host.limits import NOTICES_KEPT
from awaitbox.host.result import Notice


class NoticeBox:
    """A bounded box. When it runs over, the oldest go, and a notice in their place counts them."""

    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque()
        self._lost = 0
        self._arrived = trio.Event()

    def put(self, ids: Sequence[str], kind: str, text: str) -> None:
        if len(self._waiting) == NOTICES_KEPT:
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append({"ids": list(ids), "kind": kind, "text": text, "at": time.time()})
        self._arrived.set()

    def take(self) -> list[Notice]:
        """All that wait; the box is empty then."""
        taken, self._waiting, lost, self._lost = list(self._waiting), deque(), self._lost, 0
        self._arrived = trio.Event()
        if lost:
            text = f"{lost} older notices were dropped: nobody took them"
            taken.insert(0, {"ids": [], "kind": "lost", "text": text, "at": time.time()})
        return taken

    def __aiter__(self) -> NoticeBox:
        return self

    async def __anext__(self) -> Notice:
        """The next notice, as soon as there is one. A cancel takes none."""
        while not self._waiting:
            await self._arrived.wait()
        first = self._waiting.popleft()
        if not self._waiting:
            self._arrived = trio.Event()
        return first

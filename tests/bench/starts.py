"""How long a session takes to start, with and without a spare.

The clock stops when `open_session` has its session: machine, waiting leader and a worker that said
it is ready. The floor is one fork of the zygote's image whose child says one byte, and its clock
stops at that byte. The reap behind it takes longer than the fork, for the kernel takes the image
apart; it is left out where there is a bound, as the end of a session is. `start-reaped` compares
with the whole of it, `start-result` counts the product until the first cell has its result.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from awaitbox.host.host import Host, Options
from awaitbox.tools import ALL
from tests.bench.floors import Forked
from tests.bench.pair import Group, Pair

_SPARE_SECONDS = 10.0


class _Starts:
    """Samples of one host. Each waits first until nothing is forked ahead any more."""

    def __init__(self, host: Host, forked: Forked) -> None:
        self._host = host
        self._forked = forked

    async def settled(self) -> None:
        """Until a spare is there, where there is to be one: `Host.settled` does not know of one
        whose making has not begun."""
        await self._host.settled()
        with trio.fail_after(_SPARE_SECONDS):
            while self._host.options.has_spare and self._host._spare is None:
                await trio.lowlevel.checkpoint()

    async def session(self) -> float:
        await self.settled()
        began = time.perf_counter()
        async with self._host.open_session():
            return time.perf_counter() - began

    async def result(self) -> float:
        await self.settled()
        began = time.perf_counter()
        async with self._host.open_session() as session:
            await session.execute("1")
            return time.perf_counter() - began

    async def byte(self) -> float:
        await self.settled()
        return self._forked.fork()[0]

    async def reaped(self) -> float:
        await self.settled()
        return self._forked.fork()[1]


@asynccontextmanager
async def _starts(workspace: str, *, has_spare: bool) -> AsyncIterator[_Starts]:
    with Forked.open() as forked:
        async with Host.open(workspace, Options(has_spare=has_spare), ALL) as host:
            yield _Starts(host, forked)


@asynccontextmanager
async def _without(workspace: str) -> AsyncIterator[list[Pair]]:
    async with _starts(workspace, has_spare=False) as of:
        yield [
            Pair("start", "session start, no spare", "s", of.session, of.byte, 4.0),
            Pair("start-reaped", "the same, floor with reap", "s", of.session, of.reaped),
            Pair("start-result", "until a first result", "s", of.result, of.byte),
        ]


@asynccontextmanager
async def _with(workspace: str) -> AsyncIterator[list[Pair]]:
    async with _starts(workspace, has_spare=True) as of:
        yield [Pair("start-spare", "session start, spare", "s", of.session, of.byte, 0.6)]


GROUPS = (
    Group(("start", "start-reaped", "start-result"), _without),
    Group(("start-spare",), _with),
)

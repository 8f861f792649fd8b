"""How long a session takes to start, with and without a spare.

The clock stops when `open_session` has its session: machine, waiting leader and a worker that said
it is ready. The floor is one fork of the zygote's image whose child says one byte, the clock stops
at that byte: the reap behind it is left out, as the end of a session is.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from awaitbox.host.host import Host, Options
from awaitbox.tools import ALL
from tests.bench.floors import Forked
from tests.bench.pair import Group, Pair


@asynccontextmanager
async def _pairs(
    name: str, text: str, workspace: str, *, bound: float, has_spare: bool
) -> AsyncIterator[list[Pair]]:
    with Forked.open() as forked:
        async with Host.open(workspace, Options(has_spare=has_spare), ALL) as host:

            async def start() -> float:
                await host.settled()
                began = time.perf_counter()
                async with host.open_session():
                    return time.perf_counter() - began

            async def fork() -> float:
                await host.settled()  # or the next spare would be forked beside it
                return forked.fork()[0]

            yield [Pair(name, text, "s", start, fork, bound)]


def _without(workspace: str):
    return _pairs("start", "session start, no spare", workspace, bound=4.0, has_spare=False)


def _with(workspace: str):
    return _pairs("start-spare", "session start, spare", workspace, bound=0.6, has_spare=True)


GROUPS = (Group(("start",), _without), Group(("start-spare",), _with))

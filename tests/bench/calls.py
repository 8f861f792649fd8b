"""Warm cells, and verb calls out of them.

A cell is timed where the embedder stands, from `execute` to its result; a call inside the cell. The
floor is the blocking echo of `echo.py`, timed at the same places: the same frames, encoded and
decoded by the same codec, one `send` and one `recv` on each side.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from awaitbox.host.host import Host, Options
from awaitbox.host.session import Session
from awaitbox.tools import ALL
from tests.bench.floors import Echo
from tests.bench.pair import Group, Pair

_CELLS = 40  # of one sample
_CALLS = 100
_GATHERED = 1_000
_PREPARE = """
import subprocess, time
program = subprocess.Popen(["sleep", "1000"])
await shell_background(["sleep 1000"], id="quiet")
"""
_SYNC = f"""
began = time.perf_counter()
for _ in range({_CALLS}):
    program.poll()
(time.perf_counter() - began) / {_CALLS}
"""
_AWAITED = f"""
began = time.perf_counter()
for _ in range({_CALLS}):
    await shell_logs("quiet", n=1)
(time.perf_counter() - began) / {_CALLS}
"""
_GATHER = f"""
began = time.perf_counter()
answers = await gather(*[shell_logs("quiet", n=1) for _ in range({_GATHERED})])
(time.perf_counter() - began) / len(answers)
"""


async def value_of(session: Session, code: str) -> str:
    """The value of a cell, which must not fail."""
    result = await session.execute(code)
    if result.status != "ok" or result.value is None:
        raise RuntimeError(f"a cell of the bench failed: {result.as_text()}")
    return result.value


def timed(session: Session, code: str) -> Callable[[], Awaitable[float]]:
    """A sample that a cell takes: its value is the seconds."""

    async def sample() -> float:
        return float(await value_of(session, code))

    return sample


@asynccontextmanager
async def _pairs(workspace: str) -> AsyncIterator[list[Pair]]:
    with Echo.open() as echo:
        async with Host.open(workspace, Options(has_spare=False), ALL) as host:
            async with host.open_session() as session:
                await value_of(session, f"{_PREPARE}\n0")
                logs = await host.call(session, "shell_logs", {"id": "quiet", "n": 1})

                async def cell() -> float:
                    began = time.perf_counter()
                    for _ in range(_CELLS):
                        await session.execute("1+1")
                    return (time.perf_counter() - began) / _CELLS

                async def echoed_cell() -> float:
                    return echo.cell("1+1", _CELLS)

                def echoed(verb: str, args: dict[str, Any], value: Any, count: int):
                    async def sample() -> float:
                        return echo.call(verb, args, value, count)

                    return sample

                poll = echoed("process.poll", {"handle": 1}, {"status": None}, _CALLS)
                read = {"id": "quiet", "n": 1}
                yield [
                    Pair("cell", "1+1, warm", "s", cell, echoed_cell, 7.0),
                    Pair("call-sync", "Popen.poll()", "s", timed(session, _SYNC), poll, 6.0),
                    Pair(
                        "call-await",
                        "await shell_logs(...)",
                        "s",
                        timed(session, _AWAITED),
                        echoed("shell_logs", read, logs, _CALLS),
                        11.0,
                    ),
                    Pair(
                        "call-gather",
                        f"{_GATHERED:,} gathered, each",
                        "s",
                        timed(session, _GATHER),
                        echoed("shell_logs", read, logs, _GATHERED),
                        5.0,
                    ),
                ]


GROUPS = (Group(("cell", "call-sync", "call-await", "call-gather"), _pairs),)

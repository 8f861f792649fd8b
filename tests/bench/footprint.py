"""What an idle session takes: memory of its processes and of the host, and descriptors.

Memory is the proportional share (PSS): a page that n processes map counts a n-th for each. The
floor is a bare child of the zygote's image, which shares with its parent alone, as the worker of
the only session of a host does.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil

from awaitbox.host.host import Host, Options
from awaitbox.host.session import Session
from awaitbox.tools import ALL
from tests.bench.calls import value_of
from tests.bench.floors import Forked
from tests.bench.pair import Group
from tests.bench.statistic import Row

_SESSIONS = 10
_BACKGROUNDS = 10
_MIB = 1 << 20


def memory(pid: int | str, name: str = "Pss") -> float:
    """MiB of one process. Raises OSError if it is gone, or not ours to read."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / _MIB
    raise ValueError(f"the kernel gives no {name} of a process")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@asynccontextmanager
async def _rows(workspace: str) -> AsyncIterator[list[Row]]:
    with Forked.open() as forked, forked.held() as child:
        bare = memory(child)
    async with Host.open(workspace, Options(has_spare=False), ALL) as host:
        async with host.open_session() as session:
            parts = await _parts(session)
            each = await _descriptors(host, session)
        grown = await _growth(host)
    text = ", ".join(f"{name} {size:.1f}" for name, size in parts.items())
    yield [
        Row("memory", f"idle session: {text}", "MiB", sum(parts.values()), bare, None),
        Row("host-memory", "host, per session", "MiB", grown, None, None, rounds=_SESSIONS),
        Row("descriptors", "host, per background", "", each, None, 3.0, rounds=_BACKGROUNDS),
    ]


async def _parts(session: Session) -> dict[str, float]:
    """After one cell, so that the worker's loop runs."""
    await value_of(session, "1+1")
    worker = session._rig.worker
    assert worker is not None
    init = session.context.machine.pid
    leaders = [child.pid for child in psutil.Process(init).children(recursive=True)]
    return {
        "init": memory(init),
        "leader": sum(map(memory, leaders)),
        "worker": memory(worker.process.pid),
    }


async def _descriptors(host: Host, session: Session) -> float:
    before = descriptors()
    for number in range(_BACKGROUNDS):
        answer = await host.call(
            session, "shell_background", {"commands": ["sleep 1000"], "id": f"b{number}"}
        )
        assert answer["status"] == "running"
    return (descriptors() - before) / _BACKGROUNDS


async def _growth(host: Host) -> float:
    """Of the host's own pages, a session, each after one cell."""
    before = memory("self", "Private_Dirty")
    async with AsyncExitStack() as sessions:
        for _ in range(_SESSIONS):
            await value_of(await sessions.enter_async_context(host.open_session()), "1+1")
        return (memory("self", "Private_Dirty") - before) / _SESSIONS


GROUPS = (Group(("memory", "host-memory", "descriptors"), _rows),)

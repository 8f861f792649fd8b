"""One command that does nothing, by `shell_run`.

The floor is a plain `subprocess.run` in this process, which is small. CPython starts it by vfork,
so that a process of 500 MB took 1.4 times as long; where it has to fork (`preexec_fn`), ten times.
The product does not depend on the size of its host, for the leader starts the program.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from awaitbox.host.host import Host, Options
from awaitbox.tools import ALL
from tests.bench.calls import timed, value_of
from tests.bench.pair import Group, Pair

_RUNS = 2  # of one sample
_IN_CELL = f"""
began = time.perf_counter()
for _ in range({_RUNS}):
    await shell_run(["true"])
(time.perf_counter() - began) / {_RUNS}
"""


@asynccontextmanager
async def _pairs(workspace: str) -> AsyncIterator[list[Pair]]:
    async with Host.open(workspace, Options(has_spare=False), ALL) as host:
        async with host.open_session() as session:
            await value_of(session, "import time\n0")

            async def plain() -> float:
                return run_plainly(_RUNS)

            async def native() -> float:
                began = time.perf_counter()
                for _ in range(_RUNS):
                    answer = await host.call(session, "shell_run", {"commands": ["true"]})
                    assert answer["exit"] == 0
                return (time.perf_counter() - began) / _RUNS

            in_cell = timed(session, _IN_CELL)
            yield [
                Pair("run-cell", "shell_run, from a cell", "s", in_cell, plain, 2.2),
                Pair("run-host", "shell_run, host.call", "s", native, plain, 2.0),
            ]


def run_plainly(count: int) -> float:
    """Seconds that one of `count` runs takes."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["bash", "-c", "true"], capture_output=True, check=True)
    return (time.perf_counter() - began) / count


GROUPS = (Group(("run-cell", "run-host"), _pairs),)

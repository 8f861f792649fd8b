"""The benchmarks: what the product costs beside the least that the same work can cost.

    python tests/bench/run.py                      # the table; exit status 1 if a bound is missed
    python tests/bench/run.py --json --rounds 40
    python tests/bench/run.py --only cell --only call-sync

Product and floor run in turns, round by round, in the same run and on one processor: the whole tree
of processes is pinned to it before a host is opened. Lower quartiles are compared (upper ones where
a rate is measured). What each floor is stands in the module of its rows. Only ratios travel from
one machine to another, and on a busy one they are worth little.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:  # run by path: neither host nor zygote shall find our modules by short names
    sys.path[0] = str(Path(__file__).resolve().parents[2])

if TYPE_CHECKING:
    from tests.bench.pair import Group
    from tests.bench.statistic import Row


def groups() -> list[Group]:
    from tests.bench import calls, commands, footprint, ingest, starts

    modules = (starts, calls, commands, ingest, footprint)
    return [group for module in modules for group in module.GROUPS]


def main() -> int:
    import trio

    from tests.bench.table import as_json, show

    all_groups = groups()
    names = [name for group in all_groups for name in group.names]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=str(names))
    parser.add_argument("--json", action="store_true", help="print an object instead of a table")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    wanted = set(options.only or names)
    cpu = max(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    os.sched_setaffinity(0, {cpu})
    rows = trio.run(measured, all_groups, wanted, options.rounds)
    facts = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu": f"{cpu} of {os.cpu_count()}",
        "load before": f"{load:.2f}",
    }
    if options.json:
        print(as_json(rows, facts))
    else:
        show(rows, facts)
    return 0 if all(row.is_met for row in rows) else 1


async def measured(all_groups: list[Group], wanted: set[str], rounds: int) -> list[Row]:
    """The rows of that name, one group after another, each in an empty workspace."""
    from tests.bench.pair import Pair, measure

    rows: list[Row] = []
    for group in all_groups:
        if not wanted.intersection(group.names):
            continue
        with tempfile.TemporaryDirectory() as workspace:
            async with group.open(workspace) as items:
                pairs = [i for i in items if isinstance(i, Pair) and i.name in wanted]
                rows += [i for i in items if not isinstance(i, Pair) and i.name in wanted]
                rows += await measure(pairs, rounds)
    return rows


if __name__ == "__main__":
    sys.exit(main())

"""How fast the output of a background becomes its log.

`cat` writes a file of ordinary lines to the terminal; the clock runs from the start of the script
until all of it is in the log and the end is known. The floor runs the same script on a terminal of
the same settings and throws away what a plain loop of blocking reads gets from it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from awaitbox.host.background import Background
from awaitbox.host.host import Host, Options
from awaitbox.host.limits import TERMINAL_COLUMNS, TERMINAL_ROWS
from awaitbox.host.process.pty import Pty
from awaitbox.tools import ALL
from tests.bench.pair import Group, Pair

_LINE = b"2024-05-17 12:00:00,123 INFO  worker-7: handled request 4711 in 0.25 ms (cached)\n"
_TIMES = 8  # the file is written so many times
_LINES = 175_000  # of the file, 14 MB: it stays in the page cache
_READ_BYTES = 16 << 10  # a terminal gives 4 KiB at a time; a larger buffer only costs the floor
_MB = 1e6


@asynccontextmanager
async def _pairs(workspace: str) -> AsyncIterator[list[Pair]]:
    script = write_lines(workspace)
    size = len(_LINE) * _LINES * _TIMES
    async with Host.open(workspace, Options(has_spare=False), ALL) as host:
        async with host.open_session() as session:

            async def into_the_log() -> float:
                began = time.perf_counter()
                answer = await host.call(session, "shell_background", {"commands": [script]})
                background = session.resources.get(answer["id"], Background)
                await background.finished.wait()
                seconds = time.perf_counter() - began
                assert background.log.total == _LINES * _TIMES, "lines are missing"
                return size / seconds / _MB

            async def plain() -> float:
                return size / read_all(script) / _MB

            yield [
                Pair(
                    "ingest",
                    f"{size / _MB:.0f} MB, terminal to log",
                    "MB/s",
                    into_the_log,
                    plain,
                    0.5,
                    is_at_least=True,
                    most_rounds=5,
                )
            ]


def write_lines(workspace: str) -> str:
    """A file of lines, and the script that prints it so many times."""
    file = Path(workspace, "lines.txt")
    file.write_bytes(_LINE * _LINES)
    return f"exec cat{f' {file}' * _TIMES}"


def read_all(script: str) -> float:
    """Seconds that it takes to run `script` on a terminal and read all that it prints."""
    began = time.perf_counter()
    pty = Pty.open(TERMINAL_COLUMNS, TERMINAL_ROWS)
    os.set_blocking(pty.master, True)
    slave = os.open(pty.path, os.O_RDWR | os.O_NOCTTY)
    with subprocess.Popen(
        ["bash", "-c", script], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ):
        os.close(slave)
        try:
            while os.read(pty.master, _READ_BYTES):
                pass
        except OSError as error:
            if error.errno != errno.EIO:  # the last one has closed it
                raise
    pty.close()
    return time.perf_counter() - began


GROUPS = (Group(("ingest",), _pairs),)

"""A host that is killed: `python custody_victim.py TAG COUNT`.

It prints its warden's pid and its folder, waits for a line, and starts COUNT daemons. With COUNT 0
it says so first and starts a single one, to be killed while it does. With a third argument it has
forked by then, and the fork, whose pid it prints, keeps all its descriptors open.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import trio

sys.path.append(str(Path(__file__).parents[1]))  # `tests` itself, of which no file may be shadowed

from awaitbox.host.custody.custody import Custody
from awaitbox.host.custody.machine import Machine
from awaitbox.host.folder import RunFolder
from tests.custody_rig import DAEMON, ENV, line


async def start(machine: Machine, tag: str, *, is_awaited: bool) -> None:
    read, write = os.pipe2(os.O_CLOEXEC)
    argv = [sys.executable, "-I", "-S", "-c", f"{DAEMON}\n#{tag}"]
    async with trio.lowlevel.FdStream(read) as stream:
        await machine.spawn(argv, env=ENV, cwd="/", fds=[write, write])
        os.close(write)
        if is_awaited:
            await line(stream)


def forked() -> int:
    pid = os.fork()
    while pid == 0:
        signal.pause()
    return pid


async def main(tag: str, count: int) -> None:
    sys.path.append(str(Path(__file__).parent))
    async with (
        RunFolder.open() as folder,
        Custody.open(folder, worker_module="custody_worker") as custody,
    ):
        machine = await custody.machine(folder.session())
        print(custody.pid, folder.path, flush=True)
        sys.stdin.readline()
        if count == 0:
            print("starting", flush=True)
            await start(machine, tag, is_awaited=False)
        else:
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(lambda: start(machine, tag, is_awaited=True))
            print(forked() if len(sys.argv) > 3 else "started", flush=True)
        await trio.sleep_forever()


trio.run(main, sys.argv[1], int(sys.argv[2]))

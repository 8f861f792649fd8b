"""What tests of custody share: an open custody, a machine in it, and looks at the kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from awaitbox.host.custody import kernel
from awaitbox.host.custody.command import Command
from awaitbox.host.custody.custody import Custody
from awaitbox.host.custody.machine import Machine
from awaitbox.host.folder import RunFolder

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
TESTS = Path(__file__).parent

# forks twice, leaves its session, ignores what asks; tells its pid on stdout
DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.write(1, b"%d\\n" % os.getpid())
os.close(1)
time.sleep(600)
"""


@asynccontextmanager
async def opened() -> AsyncIterator[Custody]:
    """A custody whose zygote imports next to nothing."""
    sys.path.append(str(TESTS))
    try:
        async with (
            RunFolder.open() as folder,
            Custody.open(folder, worker_module="custody_worker") as custody,
        ):
            yield custody
    finally:
        sys.path.remove(str(TESTS))


@asynccontextmanager
async def one_machine() -> AsyncIterator[Machine]:
    async with opened() as custody:
        yield await custody.machine("")


@asynccontextmanager
async def running(
    machine: Machine,
    argv: Sequence[str | bytes] | str,
    *,
    env: Mapping[str, str] = ENV,
    cwd: str = "/",
) -> AsyncIterator[tuple[Command, trio.lowlevel.FdStream]]:
    """A command (a text is for bash) without input, and a stream of its stdout and stderr."""
    argv = ["bash", "-c", argv] if isinstance(argv, str) else argv
    read, write = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    async with trio.lowlevel.FdStream(read) as stream:
        try:
            command = await machine.spawn(argv, env=env, cwd=cwd, fds=[null, write, write])
        finally:
            os.close(write)
            os.close(null)
        try:
            yield command, stream
        finally:
            await command.stop(0)
            command.close()


async def output(
    machine: Machine,
    argv: Sequence[str | bytes] | str,
    *,
    env: Mapping[str, str] = ENV,
    cwd: str = "/",
) -> tuple[int | None, str]:
    """Raw status and all output of a command that ends by itself."""
    async with running(machine, argv, env=env, cwd=cwd) as (command, stream):
        text = b"".join([part async for part in stream])
        await command.ended.wait()
        return command.status, text.decode()


async def line(stream: trio.abc.ReceiveStream) -> str:
    """One line; what a program prints when it is ready."""
    return (await lines(stream, 1))[0]


async def lines(stream: trio.abc.ReceiveStream, count: int) -> list[str]:
    """So many lines, not one byte more may have been printed."""
    text = b""
    while text.count(b"\n") < count:
        part = await stream.receive_some()
        assert part, text
        text += part
    return text.decode().split("\n")[:-1]


def is_alive(pid: int) -> bool:
    found = kernel.stat(pid)
    return found is not None and found.is_living


def leader_of(command: Command) -> int:
    found = kernel.stat(command.pid)
    assert found is not None
    return found.parent


async def ended(*pids: int, seconds: float = 5) -> None:
    """Wait until none of these processes lives."""
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            with trio.fail_after(seconds):
                await trio.lowlevel.wait_readable(pidfd)
        finally:
            os.close(pidfd)

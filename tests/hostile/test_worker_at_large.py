"""A real worker that does what it should not, and what the host makes of it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

import pytest
import trio

from awaitbox import CellResult
from awaitbox.host.session import Session
from awaitbox.shims import wire
from tests.product import OpenHost, is_alive, ok, until


def pid_of(session: Session) -> int:
    worker = session._rig.worker
    assert worker is not None
    return worker.process.pid


async def during_a_cell(session: Session, act: Callable[[int], None]) -> CellResult:
    """Do something to the worker while a cell of its waits: -> the cell's result."""
    begun = trio.Event()
    results: list[CellResult] = []

    async def run() -> None:
        code = "print('begun', flush=True)\nawait sleep(300)"
        results.append(await session.execute(code, on_output=lambda piece: begun.set()))

    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await begun.wait()
            act(pid_of(session))
    return results[0]


async def test_a_killed_worker_is_told_and_replaced(opened: OpenHost) -> None:
    async with opened() as host, host.open_session() as session, host.open_session() as other:
        await ok(other, "x = 1")
        before = pid_of(session)
        result = await during_a_cell(session, lambda pid: os.kill(pid, signal.SIGKILL))
        assert result.status == "worker_lost"
        assert not is_alive(before)
        assert (await ok(session, "1")).value == "1"
        assert pid_of(session) != before
        assert (await ok(other, "x")).value == "1"


@pytest.mark.slow  # until it is given up
async def test_a_stopped_worker_is_replaced_at_an_interrupt(session: Session) -> None:
    async def stop_and_interrupt() -> CellResult:
        begun = trio.Event()
        results: list[CellResult] = []

        async def run() -> None:
            code = "print('begun', flush=True)\nawait sleep(300)"
            results.append(await session.execute(code, on_output=lambda piece: begun.set()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await begun.wait()
            os.kill(pid_of(session), signal.SIGSTOP)
            await session.interrupt()
        return results[0]

    with trio.fail_after(8):
        result = await stop_and_interrupt()
    assert result.status == "interrupted"
    assert "namespace is lost" in result.as_text()
    assert (await ok(session, "1")).value == "1"


@pytest.mark.slow  # until it is given up
async def test_a_stopped_worker_does_not_hold_the_end_of_its_session(opened: OpenHost) -> None:
    async with opened() as host:
        async with host.open_session() as session:
            pid = pid_of(session)
            os.kill(pid, signal.SIGSTOP)
        assert not is_alive(pid)


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", bytes(8), wire.pack(wire.Ready(1)), wire.pack(wire.Cancel(1))[:-1]],
    ids=["length", "zeros", "ready twice", "half a frame, then the end"],
)
async def test_garbage_on_the_wire_of_a_session(opened: OpenHost, data: bytes) -> None:
    async with opened() as host, host.open_session() as session, host.open_session() as other:
        await ok(other, "x = 1")
        await ok(session, "y = 1")

        def inject(pid: int) -> None:
            pidfd = os.pidfd_open(pid)
            try:
                theirs = take_descriptor(pidfd, 3)
            finally:
                os.close(pidfd)
            try:
                os.write(theirs, data)
                if data[0] == 0 and len(data) != 8:
                    os.kill(pid, signal.SIGKILL)
            finally:
                os.close(theirs)

        result = await during_a_cell(session, inject)
        assert result.status == "worker_lost"
        assert result.error is not None
        assert "namespace is lost" in result.error["message"]
        assert (await session.execute("y")).status == "error"
        assert (await ok(other, "x")).value == "1"


def take_descriptor(pidfd: int, number: int) -> int:
    """A copy of another process's descriptor (pidfd_getfd)."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    taken = int(libc.syscall(438, pidfd, number, 0))
    if taken < 0:
        pytest.skip(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return taken


async def test_a_worker_that_dies_again_and_again_is_replaced_each_time(session: Session) -> None:
    for number in range(3):
        os.kill(pid_of(session), signal.SIGKILL)

        async def over() -> bool:
            worker = session._rig.worker
            return worker is None or worker.state == "over"

        await until(over)
        assert (await ok(session, f"{number}")).value == str(number)


async def test_an_idle_worker_that_dies_ends_nothing_else(opened: OpenHost) -> None:
    async with opened() as host:
        async with host.open_session() as session:
            os.kill(pid_of(session), signal.SIGKILL)
        async with host.open_session() as session:
            assert (await ok(session, "1")).value == "1"


async def test_a_program_that_holds_the_workers_socket_holds_nothing_up(
    opened: OpenHost,
) -> None:
    with trio.fail_after(20):
        async with opened() as host, host.open_session() as session:
            result = await session.execute(
                "import subprocess\np = subprocess.Popen(['sleep', '3441'], stdin=3)"
            )
            if result.status == "ok":
                os.kill(pid_of(session), signal.SIGKILL)
            await session.reset()
            assert (await ok(session, "1")).value == "1"


async def test_descriptors_sent_with_a_call_that_takes_none_are_closed(session: Session) -> None:
    await ok(session, "1")
    before = len(os.listdir("/proc/self/fd"))
    pidfd = os.pidfd_open(pid_of(session))
    theirs = socket.socket(fileno=take_descriptor(pidfd, 3))
    os.close(pidfd)
    with theirs:
        for verb in ("shell_logs", "sleep", "no_such", "process.wait", "session.state"):
            for id in range(3):
                call = wire.Call(1_000_000 + id, verb, {}, fds=3)
                socket.send_fds(theirs, [wire.pack(call)], [0, 0, 0])
        assert (await ok(session, "1")).value == "1"

        async def as_before() -> bool:
            return len(os.listdir("/proc/self/fd")) <= before + 1  # `theirs` is one

        await until(as_before, seconds=2)

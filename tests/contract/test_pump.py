"""The pump on real pipes, terminals and programs."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import trio
import trio.testing

from awaitbox.host.limits import PUMP_DRAIN_BYTES, PUMP_REST_SECONDS, PUMP_STREAM_BYTES
from awaitbox.host.process import pump as pump_module
from awaitbox.host.process.linelog import LineLog
from awaitbox.host.process.pty import Pty
from awaitbox.host.process.pump import Pump

Pipe = Callable[[], tuple[int, int]]


@pytest.fixture
def idle() -> Iterator[Pump]:
    """A pump whose task does not run."""
    pump = Pump()
    yield pump
    pump.close()


@pytest.fixture
async def pump(idle: Pump) -> AsyncIterator[Pump]:
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: idle.run(task_status=task_status))
        yield idle
        nursery.cancel_scope.cancel()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with ExitStack() as stack:

        def opened() -> tuple[int, int]:
            reader, writer = os.pipe2(os.O_NONBLOCK)
            for end in (reader, writer):
                stack.callback(close_quietly, end)
            return reader, writer

        yield opened


def close_quietly(fd: int) -> None:
    try:
        os.close(fd)
    except OSError as error:
        assert error.errno == errno.EBADF  # the test closed it


def gathered() -> tuple[bytearray, Callable[[bytes], None]]:
    got = bytearray()
    return got, got.extend


def never(data: bytes) -> None:
    """A sink of what must not be read."""
    raise AssertionError(data)


def on_terminal(pty: Pty, script: str) -> subprocess.Popen[bytes]:
    slave = os.open(pty.path, os.O_RDWR | os.O_NOCTTY)
    program = subprocess.Popen(["/bin/sh", "-c", script], stdout=slave)
    os.close(slave)
    return program


async def test_output_of_a_program_on_a_terminal(pump: Pump) -> None:
    pty = Pty.open(80, 24)
    log = LineLog()
    ended = trio.Event()
    pump.add(pty.master, log.feed, ended.set)
    with on_terminal(pty, "seq 5000; printf end"):
        await ended.wait()
    pty.close()
    assert log.total == 5_000
    assert log.tail(1) == (["5000"], "end")


async def test_an_end_is_told_once_after_removal(pump: Pump, pipe: Pipe) -> None:
    reader, writer = pipe()
    got, sink = gathered()
    ended = trio.Event()

    def on_end() -> None:
        assert not ended.is_set()
        pump.add(reader, sink)  # it is gone from the pump by now
        pump.remove(reader)
        ended.set()

    pump.add(reader, sink, on_end)
    os.write(writer, b"last words")
    os.close(writer)
    await ended.wait()
    assert got == b"last words"
    assert pump.drain(reader)


async def test_removed_is_removed(pump: Pump, pipe: Pipe) -> None:
    reader, writer = pipe()
    got, sink = gathered()
    pump.add(reader, sink, pytest.fail)
    pump.remove(reader)
    pump.remove(reader)
    os.write(writer, b"x")
    os.close(writer)
    await trio.testing.wait_all_tasks_blocked()
    pump.refresh(reader)
    assert got == b""
    pump.add(reader, sink)
    assert pump.drain(reader)
    assert got == b"x"


def test_removing_what_was_closed_before(idle: Pump, pipe: Pipe) -> None:
    reader, _ = pipe()
    idle.add(reader, never)
    os.close(reader)
    idle.remove(reader)


async def test_a_sink_may_remove_its_own_and_others(pump: Pump, pipe: Pipe) -> None:
    pairs = [pipe() for _ in range(5)]
    called: list[int] = []

    def sink(own: int, _: bytes) -> None:
        called.append(own)
        for reader, _writer in pairs:
            pump.remove(reader)

    for reader, writer in pairs:
        os.write(writer, b"x")
        pump.add(reader, partial(sink, reader))
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert len(called) == 1


async def test_it_rests_after_a_little_and_not_in_a_stream(
    pump: Pump, pipe: Pipe, mock_clock: trio.testing.MockClock
) -> None:
    reader, writer = pipe()
    got, sink = gathered()
    left = 50

    def refilled(data: bytes) -> None:
        nonlocal left
        sink(data)
        if left:
            left -= 1
            os.write(writer, b"y" * PUMP_STREAM_BYTES)

    pump.add(reader, refilled)
    os.write(writer, b"x" * PUMP_STREAM_BYTES)
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert len(got) == 51 * PUMP_STREAM_BYTES
    os.write(writer, b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    os.write(writer, b"b")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert got.endswith(b"ya")
    mock_clock.jump(PUMP_REST_SECONDS)
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert got.endswith(b"yab")


async def test_while_it_rests_refresh_reads(
    pump: Pump, pipe: Pipe, mock_clock: trio.testing.MockClock
) -> None:
    reader, writer = pipe()
    got, sink = gathered()
    pump.add(reader, sink)
    os.write(writer, b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    os.write(writer, b"b")
    pump.refresh(reader)
    assert got == b"ab"


@pytest.mark.parametrize("seconds", [0, 1])
async def test_one_that_streams_does_not_starve_the_others(
    pump: Pump, pipe: Pipe, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Neither the other descriptors, with a round of one descriptor as of all, nor other tasks."""
    monkeypatch.setattr(pump_module, "PUMP_ROUND_SECONDS", seconds)
    hot, hot_writer = pipe()
    pairs = [pipe() for _ in range(20)]
    heard: set[int] = set()
    everyone = trio.Event()

    def refill(_: bytes) -> None:
        os.write(hot_writer, b"x" * PUMP_STREAM_BYTES)

    def hear(reader: int, _: bytes) -> None:
        heard.add(reader)
        if len(heard) == len(pairs):
            everyone.set()

    pump.add(hot, refill)
    refill(b"")
    for reader, writer in pairs:
        await trio.lowlevel.checkpoint()
        pump.add(reader, partial(hear, reader))
        os.write(writer, b"x")
    await everyone.wait()
    pump.remove(hot)


def test_drain_takes_the_tail_and_the_end(idle: Pump, pipe: Pipe) -> None:
    reader, writer = pipe()
    got, sink = gathered()
    ends: list[bool] = []
    idle.add(reader, sink, lambda: ends.append(True))
    os.write(writer, b"x" * 60_000)
    assert idle.drain(reader)
    assert (len(got), ends) == (60_000, [])
    os.write(writer, b"y")
    os.close(writer)
    assert idle.drain(reader)
    assert got.endswith(b"y")
    assert ends == [True]
    assert idle.drain(reader)
    assert ends == [True]


def test_drain_is_not_held_by_one_that_never_stops(idle: Pump, pipe: Pipe) -> None:
    reader, writer = pipe()
    size = 0

    def refill(data: bytes) -> None:
        nonlocal size
        size += len(data)
        os.write(writer, b"x" * 50_000)

    idle.add(reader, refill)
    refill(b"")
    assert not idle.drain(reader)
    assert size == PUMP_DRAIN_BYTES


def test_the_tail_of_a_terminal_that_hung_up(idle: Pump) -> None:
    pty = Pty.open(80, 24)
    got, sink = gathered()
    ends: list[bool] = []
    idle.add(pty.master, sink, lambda: ends.append(True))
    assert idle.drain(pty.master)  # nobody has opened it yet: that is no end
    slave = os.open(pty.path, os.O_RDWR | os.O_NOCTTY)
    os.write(slave, b"tail\n")
    os.close(slave)
    assert idle.drain(pty.master)
    pty.close()
    assert ends == [True]
    assert bytes(got) == b"tail\n"


def test_after_the_end_of_a_program_drain_has_all_of_it(idle: Pump) -> None:
    """Also while somebody else holds the terminal, so that there is no hang-up to wait for."""
    pty = Pty.open(80, 24)
    log = LineLog()
    idle.add(pty.master, log.feed, pytest.fail)
    holder = os.open(pty.path, os.O_RDWR | os.O_NOCTTY)
    for count in range(1, 6):
        with on_terminal(pty, "seq 500"):
            pass
        assert idle.drain(pty.master)
        assert log.total == 500 * count
    idle.remove(pty.master)
    os.close(holder)
    pty.close()


def test_what_cannot_be_pumped_is_refused(idle: Pump, pipe: Pipe) -> None:
    reader, _ = pipe()
    idle.add(reader, never)
    with pytest.raises(ValueError, match="in the pump already"):
        idle.add(reader, never)
    os.set_blocking(reader, True)
    with pytest.raises(ValueError, match="is blocking"):
        idle.add(reader, never)
    file = os.open(__file__, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(PermissionError):
            idle.add(file, never)
    finally:
        os.close(file)

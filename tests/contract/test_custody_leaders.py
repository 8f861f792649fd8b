"""Leaders: used again by the next command, and what a command can do to its own or to others."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest
import trio

from awaitbox.host.custody import kernel, leader, leaders
from awaitbox.host.custody.command import Command
from awaitbox.host.custody.machine import Machine
from awaitbox.host.errors import HostError
from tests.custody_rig import (
    DAEMON,
    ENV,
    ended,
    is_alive,
    leader_of,
    line,
    one_machine,
    output,
    running,
)

TRIES = 60
NUMBERS = (signal.SIGKILL, signal.SIGSTOP)
KEYCTL, IOPRIO_SET = {"x86_64": (250, 251), "aarch64": (219, 30)}[os.uname().machine]


def programs_of(machine: Machine) -> list[int]:
    """All that runs below its leaders."""
    return [pid for pid, parent in kernel.descendants(machine.pid) if parent != machine.pid]


async def parent_of_the_next(machine: Machine) -> int:
    status, text = await output(machine, "echo $PPID; exit 3")
    assert status == 3 << 8
    return int(text)


def hit_all(machine: Machine, number: int) -> None:
    """All its leaders."""
    for pid in kernel.children(machine.pid):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not condition():
            await trio.lowlevel.checkpoint()


# ------------------------------------------------------------------ one after another
async def test_commands_one_after_another_have_the_same_leader() -> None:
    async with one_machine() as machine:
        assert len({await parent_of_the_next(machine) for _ in range(10)}) == 1


@pytest.mark.slow
async def test_five_hundred_commands_on_few_leaders() -> None:
    async with one_machine() as machine:
        seen = {}
        for number in range(500):
            status, text = await output(machine, f"echo $PPID; exit {number % 256}")
            assert status == (number % 256) << 8
            seen[int(text)] = seen.get(int(text), 0) + 1
        assert 5 <= len(seen) <= 6
        assert max(seen.values()) == leader._COMMANDS
        assert programs_of(machine) == []


async def test_few_wait_after_many_at_once() -> None:
    async with one_machine() as machine:
        seen: set[int] = set()

        async def one() -> None:
            seen.add(await parent_of_the_next(machine))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(one)
        await until(lambda: len(kernel.children(machine.pid)) <= leaders._MOST_WAITING)
        assert await parent_of_the_next(machine) in seen
        assert programs_of(machine) == []


async def test_descriptors_of_one_command_do_not_reach_the_next() -> None:
    async with one_machine() as machine:
        first = await parent_of_the_next(machine)
        read, write = os.pipe2(os.O_CLOEXEC)
        command = await machine.spawn(["true"], env=ENV, cwd="/tmp", fds=[read, write, write] * 2)
        await command.gone.wait()
        command.close()
        os.close(write)
        assert os.read(read, 1) == b""  # nobody holds the other end
        os.close(read)
        text = (await output(machine, ["ls", "-l", "/proc/self/fd"]))[1]
        assert len(text.splitlines()) == 1 + 4  # 0, 1, 2 and that of the listing itself
        assert await parent_of_the_next(machine) == first
        if os.getuid() == 0:
            # 0, 1, 2, the sockets to init, the lifeline, both ends of the pipe of SIGCHLD
            await until(lambda: len(os.listdir(f"/proc/{first}/fd")) == 7)
            assert os.readlink(f"/proc/{first}/cwd") == "/"


# ------------------------------------------------------------------ who is not used again
async def test_a_leader_that_had_more_to_do_is_not_used_again() -> None:
    async with one_machine() as machine:
        big = ["bash", "-c", "echo $PPID", "x" * 100_000]
        for argv in ("sleep 0.02 & echo $PPID", big):
            async with running(machine, argv) as (command, stream):
                used = int(await line(stream))
                await command.gone.wait()
            await ended(used)
            assert await parent_of_the_next(machine) != used
        async with running(machine, "echo $PPID; sleep 600") as (command, stream):
            used = int(await line(stream))
            await command.stop(0)
        await ended(used)
        assert await parent_of_the_next(machine) != used


async def test_after_a_terminal_and_after_a_failed_start_too() -> None:
    async with one_machine() as machine:
        used = await parent_of_the_next(machine)
        with pytest.raises(FileNotFoundError):
            await output(machine, ["no such program"])
        await ended(used)
        master, slave = os.openpty()
        command = await machine.spawn(
            ["sleep", "600"], env=ENV, cwd="/", fds=(), tty=os.ttyname(slave)
        )
        os.close(slave)
        used = leader_of(command)
        command.signal(signal.SIGTERM)
        await command.gone.wait()
        command.close()
        os.close(master)
        await ended(used)
        assert await parent_of_the_next(machine) != used


async def test_what_a_daemon_does_later_is_its_commands() -> None:
    """It forks, and is orphaned, while other commands run on other leaders."""
    late = f"(read -t 0.05; exec {sys.executable} -I -S -c '{DAEMON}') & echo; exit 4"
    async with one_machine() as machine, running(machine, late) as (command, stream):
        await line(stream)
        await command.ended.wait()
        others = {await parent_of_the_next(machine) for _ in range(5)}
        daemon = int(await line(stream))
        oldest = await command.survivors()
        assert oldest is not None
        found = kernel.stat(daemon)
        assert found is not None
        assert found.parent not in others
        await command.stop(0)
        assert not is_alive(daemon)
        assert await parent_of_the_next(machine) in others


@pytest.mark.slow
async def test_a_leader_that_was_changed_from_outside_starts_nothing() -> None:
    changes = {
        "a limit": "r.prlimit(p, r.RLIMIT_NOFILE, (50, 60))",
        "its priority": "os.setpriority(os.PRIO_PROCESS, p, 7)",
        "its processors": "os.sched_setaffinity(p, [max(os.sched_getaffinity(0))])",
        "its scheduling": "os.sched_setscheduler(p, os.SCHED_BATCH, os.sched_param(0))",
        "its disk priority": f"assert libc.syscall({IOPRIO_SET}, 1, p, 2 << 13 | 7) == 0",
        "its keys": f"assert not libc.syscall({KEYCTL}, 1, 0) < 0; "
        f"assert not libc.syscall({KEYCTL}, 18) < 0",
    }
    for name, change in changes.items():
        async with one_machine() as machine:
            before = await output(machine, "ulimit -a; nice")
            code = "import ctypes, os, resource as r; libc = ctypes.CDLL(None); p = os.getppid(); "
            code += f"{change}; print(p)"
            status, used = await output(machine, [sys.executable, "-I", "-S", "-c", code])
            if name == "its keys" and "AssertionError" in used:
                continue  # a kernel without keys, or a container that keeps us from them
            assert status == 0, (name, used)
            assert await parent_of_the_next(machine) != int(used), name
            assert await output(machine, "ulimit -a; nice") == before
            await ended(int(used))


# ------------------------------------------------------------------ killed and stopped
@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
async def test_a_leader_that_is_hit_before_the_start(number: int) -> None:
    async with one_machine() as machine:
        for _ in range(TRIES):
            hit_all(machine, number)
            assert await output(machine, "echo out; exit 3") == (3 << 8, "out\n")
        assert programs_of(machine) == []
        assert not machine.lost.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
async def test_a_leader_that_is_hit_around_the_start(number: int) -> None:
    """At any time from before the request is there until after the program has ended."""
    async with one_machine() as machine:
        lost = 0
        for moment in range(TRIES):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_hit_all_after, machine, moment / TRIES * 0.004, number)
                try:
                    status, text = await output(machine, "echo out; exit 3")
                except HostError as error:
                    assert (error.code, number) == ("leader_lost", signal.SIGKILL)
                    lost += 1
                else:
                    assert status == 3 << 8 or (status, number) == (signal.SIGKILL, signal.SIGKILL)
                    assert text in ("out\n", "") if status == signal.SIGKILL else text == "out\n"
            assert await output(machine, "exit 4") == (4 << 8, "")
        assert lost < TRIES
        assert programs_of(machine) == []
        assert not machine.lost.is_set()


async def _hit_all_after(machine: Machine, seconds: float, number: int) -> None:
    """A thread does it, so that nothing the host does meanwhile sets the moment."""

    def hit() -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        hit_all(machine, number)

    await trio.to_thread.run_sync(hit)


@pytest.mark.slow
async def test_a_command_that_kills_its_leader_at_once() -> None:
    async with one_machine() as machine:
        told = 0
        for _ in range(TRIES):
            try:
                async with running(machine, "echo before; kill -9 $PPID; sleep 600") as (
                    command,
                    stream,
                ):
                    await command.gone.wait()
                    assert command.status == signal.SIGKILL
                    assert command.note is not None
                    assert command.note.startswith("its leader was killed")
                    assert await line(stream) == "before"
                    told += 1
            except HostError as error:
                assert error.code == "leader_lost"
                assert "whether it ran is not known" in error.message
            assert programs_of(machine) == []
            assert await output(machine, "exit 3") == (3 << 8, "")
        assert told


@pytest.mark.slow
async def test_a_command_that_stops_its_leader() -> None:
    """Init lets it go on; its command ends as it would have."""
    async with one_machine() as machine:
        for number in range(TRIES):
            text = f"kill -STOP $PPID; echo $PPID; exit {number}"
            status, used = await output(machine, text)
            assert status == number << 8
            assert await parent_of_the_next(machine) != int(used)
        assert programs_of(machine) == []


async def test_a_command_that_stops_its_leader_again_and_again_is_ended() -> None:
    async with one_machine() as machine:
        text = "trap go=1 USR1; echo; until [ $go ]; do :; done; "
        text += "while kill -STOP $PPID; do :; done; sleep 600"
        async with running(machine, text) as (command, stream):
            await line(stream)
            command.signal(signal.SIGUSR1)
            with trio.fail_after(5):
                await command.gone.wait()
            assert str(command.note).startswith("its leader was killed")
        assert await output(machine, "exit 3") == (3 << 8, "")


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
async def test_a_leader_that_is_hit_right_after_the_end(number: int) -> None:
    async with one_machine() as machine:
        for _ in range(TRIES):
            read, write = os.pipe2(os.O_CLOEXEC)
            command = await machine.spawn(
                ["bash", "-c", "echo $PPID; exit 5"], env=ENV, cwd="/", fds=[write, write]
            )
            os.close(write)
            await command.ended.wait()
            used = int(os.read(read, 100))
            os.close(read)
            os.kill(used, number)
            assert await output(machine, "exit 3") == (3 << 8, "")
            await _is_clean(command)
            await ended(used)
        assert programs_of(machine) == []


async def _is_clean(command: Command) -> None:
    assert (command.status, command.left, command.note) == (5 << 8, 0, None)
    await command.gone.wait()
    command.close()


async def test_orphans_are_ended_and_leaders_that_wait_are_not() -> None:
    async with one_machine() as machine:
        waits = await parent_of_the_next(machine)
        async with running(machine, ["sleep", "600"]) as (other, _):
            assert leader_of(other) == waits
            spare = await parent_of_the_next(machine)
            async with running(machine, "sleep 600 & sleep 600") as (command, _):
                used = leader_of(command)
                os.kill(used, signal.SIGKILL)
                await command.gone.wait()
            assert is_alive(other.pid)
        assert spare == used  # it was the only one that waited
        assert programs_of(machine) == []


async def test_leaders_end_with_their_machine() -> None:
    async with one_machine() as machine:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(parent_of_the_next, machine)
        waiting = kernel.children(machine.pid)
        assert waiting
        os.kill(machine.pid, signal.SIGKILL)
        await machine.over.wait()
        assert not any(is_alive(pid) for pid in waiting)

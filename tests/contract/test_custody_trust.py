"""What a compromised init or leader can say to a host, with a fake in its place."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from awaitbox.host.custody import command as command_module
from awaitbox.host.custody import kernel, parcel, protocol, stages
from awaitbox.host.custody.command import Command
from awaitbox.host.custody.machine import Machine
from awaitbox.host.custody.watch import Watch
from awaitbox.host.errors import HostError
from tests.custody_rig import ENV, ended, is_alive


class Fake:
    """A leader's end of the socket, a process in the place of init with one below it, and what a
    command needs of its machine."""

    def __init__(self, init: subprocess.Popen[bytes], program: int) -> None:
        self.init = init
        self.program = program
        self.abandoned = 0
        self.given_up: list[str] = []
        self.watch = Watch()
        ours, self.sock = parcel.pair()
        self.pid = init.pid
        self.lost = trio.Event()
        self.is_init_dead = False
        self.command = Command(1, socket.socket(fileno=ours.detach()), self, self.watch)

    def look(self) -> None:
        if self.is_init_dead:
            self.lost.set()

    def lost_error(self) -> HostError:
        return HostError("the machine ended", code="session_lost")

    def kill_leader(self, id: int) -> None:
        self.abandoned += 1

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)

    def forget(self, id: int) -> None:
        pass

    def says(self, kind: int, *values: int, pids: tuple[int, ...] = ()) -> None:
        fds = [os.pidfd_open(pid) for pid in pids]
        parcel.send(self.sock, protocol.pack(kind, 0, *values), fds)
        parcel.close_all(fds)

    async def starts(self) -> None:
        self.says(protocol.STARTED, pids=(self.program,))
        await self.command.answered.wait()
        assert await self.hears() == protocol.ACK

    async def hears(self) -> int:
        await trio.lowlevel.wait_readable(self.sock.fileno())
        return protocol.unpack(parcel.receive(self.sock)[0])[0]

    async def until_lost(self) -> None:
        with trio.fail_after(5):
            while self.command.stage != stages.LOST:
                await trio.testing.wait_all_tasks_blocked()

    async def ends_program(self, number: int) -> None:
        os.kill(self.program, number)
        await ended(self.program)


def _init_and_program() -> tuple[subprocess.Popen[bytes], int]:
    script = "sleep 600 & echo $!; trap 'exit' TERM; wait; wait"
    init = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE)
    assert init.stdout is not None
    return init, int(init.stdout.readline())


@asynccontextmanager
async def fake_leader() -> AsyncIterator[Fake]:
    fake = Fake(*_init_and_program())
    init = fake.init
    assert init.stdout is not None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fake.watch.run)
            yield fake
            nursery.cancel_scope.cancel()
    finally:
        fake.command.release()
        fake.watch.close()
        fake.sock.close()
        for pid in (fake.program, init.pid):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        init.wait()
        init.stdout.close()


# ------------------------------------------------------------------ pidfds
async def test_a_program_below_init_is_accepted_and_its_number_is_the_kernels() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        assert fake.command.pid == fake.program
        assert fake.command.stage == stages.RUNNING


Forgery = Callable[[Fake], list[int]]

FORGERIES: dict[str, Forgery] = {
    "the host": lambda fake: [os.pidfd_open(os.getpid())],
    "the parent of the host": lambda fake: [os.pidfd_open(os.getppid())],
    "init": lambda fake: [os.pidfd_open(fake.init.pid)],
    "a file": lambda fake: [os.open("/dev/null", os.O_RDONLY)],
    "a folder of /proc": lambda fake: [os.open(f"/proc/{fake.program}", os.O_RDONLY)],
    "two": lambda fake: [os.pidfd_open(fake.program) for _ in range(2)],
    "many": lambda fake: [os.pidfd_open(fake.program) for _ in range(30)],
    "none": lambda fake: [],
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_descriptor_is_refused(name: str) -> None:
    async with fake_leader() as fake:
        fds = FORGERIES[name](fake)
        parcel.send(fake.sock, protocol.pack(protocol.STARTED), fds)
        parcel.close_all(fds)
        await fake.until_lost()
        assert (fake.command.pid, fake.command.pidfd) == (-1, -1)
        assert fake.command.is_breach
        assert fake.abandoned == 1
        fake.command.signal(signal.SIGKILL)
        assert is_alive(fake.init.pid)
        fake.command.orphaned(0, "init ended it")
        assert fake.command.gone.is_set()
        assert str(fake.command.note).startswith("its leader was not to be trusted: ")


async def test_a_process_that_was_reaped_is_a_start_that_nobody_can_tell_of() -> None:
    async with fake_leader() as fake:
        pidfd = os.pidfd_open(fake.program)
        await fake.ends_program(signal.SIGKILL)
        while kernel.pid_of(pidfd) != -1:
            await trio.lowlevel.checkpoint()
        parcel.send(fake.sock, protocol.pack(protocol.STARTED), [pidfd])
        os.close(pidfd)
        await fake.until_lost()
        assert (fake.command.pidfd, fake.command.is_breach) == (-1, False)
        assert (fake.command.note, fake.abandoned) == ("its leader was killed", 1)


# ------------------------------------------------------------------ ends
async def test_an_end_that_did_not_happen_is_not_believed() -> None:
    for kind, values in ((protocol.EXIT, (0, 1)), (protocol.GONE, (0, 0, 0))):
        async with fake_leader() as fake:
            await fake.starts()
            fake.says(kind, *values)
            await fake.until_lost()
            assert not fake.command.ended.is_set()
            assert fake.command.is_breach
            fake.command.orphaned(0, "")  # a lie as well: then the host itself kills what it knows
            await ended(fake.program)


async def test_the_kernels_word_on_a_status_counts_more() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        await fake.ends_program(signal.SIGUSR1)
        while kernel.pid_of(fake.command.pidfd) != -1:
            await trio.lowlevel.checkpoint()
        if kernel.exit_status(fake.command.pidfd) is None:
            pytest.skip("this kernel keeps no status of a reaped process")
        fake.says(protocol.EXIT, 5 << 8, 1)
        await fake.command.gone.wait()
        assert fake.command.status == signal.SIGUSR1


async def test_a_leaders_word_is_taken_where_the_kernel_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "exit_status", lambda pidfd: None)
    async with fake_leader() as fake:
        await fake.starts()
        await fake.ends_program(signal.SIGKILL)
        fake.says(protocol.EXIT, 5 << 8, 0)
        await fake.command.ended.wait()
        assert not fake.command.gone.is_set()
        fake.says(protocol.GONE, 0, 1, 6 << 8)
        await fake.command.gone.wait()
        assert (fake.command.status, fake.command.oldest_status) == (5 << 8, 6 << 8)


async def test_an_unknown_status_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "exit_status", lambda pidfd: None)
    async with fake_leader() as fake:
        await fake.starts()
        fake.sock.close()
        await fake.until_lost()
        await fake.ends_program(signal.SIGKILL)
        fake.command.orphaned(0, "its leader was killed (signal 9)")
        assert (fake.command.status, fake.command.note) == (None, "its leader was killed")


async def test_what_became_another_users_is_counted() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        fake.says(protocol.GONE, 2, 0, 0)
        await fake.command.gone.wait()
        assert (fake.command.left, fake.command.status) == (2, None)
        assert fake.command.note == "how it ended is not known"


@pytest.mark.parametrize("is_program_over", [True, False])
async def test_a_leader_that_says_nothing_is_stepped_over(
    is_program_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_module, "SILENCE_SECONDS", 0.02)
    async with fake_leader() as fake, trio.open_nursery() as nursery:
        await fake.starts()
        if is_program_over:
            await fake.ends_program(signal.SIGTERM)
        else:
            nursery.start_soon(fake.command.stop, 0)
        await fake.until_lost()
        assert (fake.command.note, fake.abandoned) == ("its leader did not answer", 1)
        fake.command.orphaned(0, "init ended it")
        await fake.command.stop(0)


async def test_an_end_is_not_told_before_that_of_the_machine() -> None:
    for kind, values in ((protocol.EXIT, (0, 1)), (protocol.GONE, (0, 0, 0))):
        async with fake_leader() as fake:
            await fake.starts()
            fake.is_init_dead = True
            await fake.ends_program(signal.SIGKILL)
            fake.says(kind, *values)
            await fake.command.ended.wait()
            assert fake.lost.is_set()


# ------------------------------------------------------------------ garbage
@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"garbage that is longer than a head",
        protocol.pack(protocol.READY),
        protocol.pack(protocol.MACHINE),
        protocol.pack_text(protocol.BROKEN, b"text"),
        protocol.pack(protocol.EXIT, 0, 0, 1)[:-1],
        protocol.pack(protocol.SURVIVOR),
        protocol.pack(protocol.NOBODY),
        protocol.pack(protocol.FAILED, 0, 2, 0),
        protocol.pack(protocol.STARTED),
        bytes(protocol.PACKET_BYTES + 1),
    ],
)
async def test_garbage_from_a_leader_ends_its_command(data: bytes) -> None:
    async with fake_leader() as fake:
        await fake.starts()
        parcel.send(fake.sock, data)
        await fake.until_lost()
        assert fake.command.is_breach
        assert fake.abandoned == 1


async def test_descriptors_that_nobody_asked_for_are_closed() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        fake.says(protocol.BUSY, pids=(os.getpid(),))
        await fake.until_lost()
        assert fake.command.is_breach


async def test_busy_without_an_end() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        for _ in range(protocol.HUNT_SECONDS.__ceil__() * 100):
            if fake.command.stage != stages.LOST:
                fake.says(protocol.BUSY)
                await trio.testing.wait_all_tasks_blocked()
        assert fake.command.is_breach


# ------------------------------------------------------------------ survivors
async def answering(fake: Fake, answer: Callable[[], None]) -> object:
    async def leader() -> None:
        assert await fake.hears() == protocol.SURVIVORS
        answer()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader)
        return await fake.command.survivors()
    raise AssertionError


async def lost_while_asked(fake: Fake, lose: Callable[[], None]) -> object:
    """What `survivors` gives, or the code that it raises, when `lose` ends the talk meanwhile."""
    found: list[object] = []

    async def ask() -> None:
        try:
            found.append(await fake.command.survivors())
        except HostError as error:
            found.append(error.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        assert await fake.hears() == protocol.SURVIVORS
        lose()
        await fake.until_lost()
        await trio.testing.wait_all_tasks_blocked()
        assert found == []  # what it knows of is not ended yet
        await fake.ends_program(signal.SIGKILL)
        fake.command.orphaned(0, "")
    return found[0]


async def test_a_forged_survivor_is_refused() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        forge = lambda: fake.says(protocol.SURVIVOR, pids=(os.getpid(),))  # noqa: E731
        assert await lost_while_asked(fake, forge) == "custody_breach"


async def test_survivors_of_a_leader_that_dies() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        assert await lost_while_asked(fake, fake.sock.close) is None


async def test_survivors_of_a_machine_that_dies() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        fake.is_init_dead = True
        assert await lost_while_asked(fake, fake.sock.close) == "session_lost"


async def test_an_answer_to_a_cancelled_question_is_no_breach() -> None:
    async with fake_leader() as fake:
        await fake.starts()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fake.command.survivors)
            assert await fake.hears() == protocol.SURVIVORS
            nursery.cancel_scope.cancel()
        fake.says(protocol.NOBODY)
        assert await answering(fake, lambda: fake.says(protocol.NOBODY)) is None
        await trio.testing.wait_all_tasks_blocked()
        assert fake.command.stage == stages.RUNNING


# ------------------------------------------------------------------ init
class FakeInit:
    """Init's end of the socket; the process in its place does nothing."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "600"])
        self.watch = Watch()
        self.lost: list[str] = []
        ours, self.sock = parcel.pair()
        self.machine = Machine(
            "",
            socket.socket(fileno=ours.detach()),
            os.pidfd_open(self.process.pid),
            self.watch,
            open_files=100,
            give_up=self.lost.append,
            forget=lambda: None,
        )

    async def hears(self) -> tuple[int, int, list[int]]:
        await trio.lowlevel.wait_readable(self.sock.fileno())
        data, fds, _ = parcel.receive(self.sock)
        kind, id, _ = protocol.unpack(data)
        return kind, id, fds

    def says(self, kind: int, id: int, *values: int) -> None:
        parcel.send(self.sock, protocol.pack(kind, id, *values))

    async def dies(self) -> None:
        """As the warden would see it."""
        await ended(self.process.pid)
        self.machine.finish(0, self.process.wait() and signal.SIGKILL)


@asynccontextmanager
async def fake_init() -> AsyncIterator[FakeInit]:
    fake = FakeInit()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fake.watch.run)
            yield fake
            nursery.cancel_scope.cancel()
    finally:
        fake.machine.finish(0)
        fake.machine.release()
        fake.watch.close()
        fake.sock.close()
        fake.process.kill()
        fake.process.wait()


async def spawning(
    fake: FakeInit, serve: Callable[[], Awaitable[None]], code: str | None
) -> BaseException:
    """The exception of a spawn while `serve` plays init."""
    caught: list[BaseException] = []

    async def spawn() -> None:
        try:
            await fake.machine.spawn(["true"], env=ENV, cwd="/", fds=())
        except (HostError, OSError) as error:
            caught.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(spawn)
        nursery.start_soon(serve)
    assert getattr(caught[0], "code", None) == code
    return caught[0]


async def test_a_forged_descriptor_is_a_failed_start() -> None:
    async with fake_init() as fake:

        async def serve() -> None:
            kind, id, fds = await fake.hears()
            assert kind == protocol.SPAWN
            with socket.socket(fileno=fds[0]) as leader:
                own = os.pidfd_open(os.getpid())
                parcel.send(leader, protocol.pack(protocol.STARTED), [own])
                os.close(own)
                assert (await fake.hears())[:2] == (protocol.KILL, id)
            fake.says(protocol.LOST, id, signal.SIGKILL, 0)

        await spawning(fake, serve, "custody_breach")
        assert not fake.machine.lost.is_set()


async def test_a_fork_that_fails_is_an_os_error() -> None:
    async with fake_init() as fake:

        async def serve() -> None:
            _, id, fds = await fake.hears()
            parcel.close_all(fds)
            fake.says(protocol.NOFORK, id, 11)
            while (await fake.hears())[0] != protocol.KILL:
                pass

        error = await spawning(fake, serve, None)
        assert isinstance(error, BlockingIOError)


async def test_a_leader_that_dies_with_the_request_is_not_asked_again() -> None:
    async with fake_init() as fake:

        async def serve() -> None:
            _, id, fds = await fake.hears()
            with socket.socket(fileno=fds[0]) as leader:
                assert parcel.receive(leader)[0]
            assert await fake.hears() == (protocol.KILL, id, [])
            fake.says(protocol.LOST, id, signal.SIGKILL, 0)

        error = await spawning(fake, serve, "leader_lost")
        assert "its leader was killed, so whether it ran is not known" in str(error)


async def test_a_request_that_no_leader_read_is_made_again() -> None:
    async with fake_init() as fake:
        asked: list[int] = []

        async def serve() -> None:
            while len(asked) < 3:
                kind, id, fds = await fake.hears()
                parcel.close_all(fds)
                if kind == protocol.SPAWN:
                    asked.append(id)
                else:
                    fake.says(protocol.LOST, id, 0, 0)
            assert (await fake.hears())[:2] == (protocol.KILL, asked[-1])
            fake.says(protocol.LOST, asked[-1], 0, 0)

        error = await spawning(fake, serve, "leader_lost")
        assert "nothing was started" in str(error)
        assert len(set(asked)) == 3


async def test_an_init_that_does_not_end_a_command_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_module, "SILENCE_SECONDS", 0.02)
    async with fake_init() as fake:

        async def serve() -> None:
            _, _, fds = await fake.hears()
            parcel.close_all(fds)
            await fake.dies()

        error = await spawning(fake, serve, "session_lost")
        assert "init did not end a command" in str(error)
        assert fake.machine.lost.is_set()


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"garbage that is longer than a head",
        protocol.pack(protocol.STARTED),
        protocol.pack(protocol.UP),
        protocol.pack(protocol.LOST, 1, 0, 0)[:-1],
        bytes(protocol.PACKET_BYTES + 1),
    ],
)
async def test_garbage_from_init_is_the_end_of_the_machine(data: bytes) -> None:
    async with fake_init() as fake:
        parcel.send(fake.sock, data)
        await fake.dies()
        assert fake.machine.lost.is_set()
        assert str(fake.machine.reason).startswith("its init was not to be trusted: ")
        assert fake.lost == []


async def test_a_flood_from_init_is_the_end_of_the_machine() -> None:
    async with fake_init() as fake:
        packet = protocol.pack(protocol.LOST, 9, 0, 0)
        with trio.fail_after(5):
            while not fake.machine.reason:
                try:
                    parcel.send(fake.sock, packet)
                except BlockingIOError:
                    await trio.testing.wait_all_tasks_blocked()
                except OSError:
                    break
        await fake.dies()
        assert "flood" in str(fake.machine.reason)


async def test_descriptors_from_init_are_the_end_of_the_machine() -> None:
    async with fake_init() as fake:
        fake.says(protocol.READY, 0)
        parcel.send(fake.sock, protocol.pack(protocol.BUSY), [0, 1, 2])
        await fake.dies()
        assert fake.machine.is_ready
        assert "descriptors" in str(fake.machine.reason)

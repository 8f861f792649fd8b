"""Workers: what the zygote gives them, and how they end."""

from __future__ import annotations

import ast
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from awaitbox.host.custody import custody as custody_module
from awaitbox.host.custody import kernel
from awaitbox.host.custody.custody import Custody
from awaitbox.host.custody.worker import WorkerProcess
from awaitbox.host.errors import HostError
from awaitbox.host.folder import RunFolder
from tests.custody_rig import ended, is_alive, opened, running


class Worker:
    """A worker of the test's own kind, and its three ends."""

    def __init__(self, process: WorkerProcess, sock: trio.SocketStream, out: int) -> None:
        self.process = process
        self.sock = sock
        self.out = out

    async def ask(self, question: str) -> Any:
        await self.sock.send_all(question.encode())
        return ast.literal_eval((await self.sock.receive_some(1 << 20)).decode())


@asynccontextmanager
async def one_worker(custody: Custody) -> AsyncIterator[Worker]:
    machine = await custody.machine("")
    ours, theirs = socket.socketpair()
    out, write = os.pipe2(os.O_CLOEXEC)
    async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as sock:
        try:
            try:
                process = await custody.worker(machine, theirs, write, write)
            finally:
                theirs.close()
                os.close(write)
            try:
                yield Worker(process, sock, out)
            finally:
                await process.kill()
                process.close()
        finally:
            os.close(out)


def about(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


async def test_descriptors_of_a_worker() -> None:
    async with opened() as custody, one_worker(custody) as worker:
        four, others = await worker.ask("fds")
        assert four[0] == "/dev/null"
        assert four[1] == four[2]
        assert four[1].startswith("pipe:")
        assert four[3].startswith("socket:")
        assert others == []
        await worker.ask("print")
        assert os.read(worker.out, 100) == b"to stdoutto stderr"


async def test_a_worker_starts_as_any_python_in_a_session_of_its_own() -> None:
    async with opened() as custody, one_worker(custody) as worker:
        caught, blocked = await worker.ask("signals")
        assert caught == [signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ]
        assert blocked == []
        pid, session, _, threads, folder = await worker.ask("self")
        assert (pid, session, threads, folder) == (worker.process.pid, pid, 1, "/")
        found = kernel.stat(pid)
        assert found is not None
        assert kernel.descends_from(pid, custody.pid)
        assert about(pid, "comm") == b"worker\n"
        assert about(pid, "cmdline").strip(b"\0") == b"worker"


async def test_none_of_ours_bears_a_name_that_a_command_aims_at() -> None:
    """`pkill python` and `pkill -f python` in a command."""
    async with (
        opened() as custody,
        one_worker(custody) as worker,
        running_sleep(custody) as sleeper,
    ):
        await worker.ask("self")  # a fork has its parent's name at first
        ours = [pid for pid, _ in kernel.descendants(custody.pid) if pid != sleeper]
        names = {about(pid, "comm").strip() for pid in (custody.pid, *ours)}
        lines = {about(pid, "cmdline").strip(b"\0") for pid in (custody.pid, *ours)}
        assert names == lines
        assert names == {b"warden", b"zygote", b"worker", b"session-init", b"leader"}


async def test_no_variable_of_the_host_passes_through_the_zygote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_TOKEN", "hidden-from-all-workers")
    async with opened() as custody, one_worker(custody) as worker:
        environ = await worker.ask("environ")
        assert set(environ) <= {"LC_CTYPE", "LD_LIBRARY_PATH"}
        assert b"hidden-from" not in about(worker.process.pid, "environ")
        zygote = (await worker.ask("self"))[2]
        assert b"hidden-from" not in about(zygote, "environ")


async def test_a_worker_finds_the_hosts_packages_but_not_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend("relative")
    async with opened() as custody, one_worker(custody) as worker:
        path, _, modules = await worker.ask("path")
        assert {"", "relative", str(tmp_path)} & set(path) == set()
        assert str(Path(trio.__file__).parents[1]) in path
        assert "site" not in modules


async def test_a_workers_end_is_seen_and_its_status_known() -> None:
    async with opened() as custody, one_worker(custody) as worker:
        await worker.sock.send_all(b"exit 7")
        await worker.process.ended.wait()
        found = kernel.stat(worker.process.pid)
        while found is not None:  # until the zygote has reaped it
            await trio.lowlevel.checkpoint()
            found = kernel.stat(worker.process.pid)
        assert worker.process.status in (7 << 8, None)
        worker.process.signal(signal.SIGINT)
        await worker.process.kill()


async def test_a_busy_worker_is_killed() -> None:
    async with opened() as custody, one_worker(custody) as worker:
        worker.process.signal(signal.SIGSTOP)
        await worker.process.kill()
        assert not is_alive(worker.process.pid)


async def test_workers_die_with_their_zygote_and_the_next_has_a_new_one() -> None:
    async with opened() as custody:
        async with one_worker(custody) as worker, running_sleep(custody) as sleeper:
            zygote = (await worker.ask("self"))[2]
            os.kill(zygote, signal.SIGKILL)
            await worker.process.ended.wait()
            await ended(worker.process.pid)
            async with one_worker(custody) as other:
                assert (await other.ask("self"))[2] != zygote
                assert (await other.ask("fds"))[1] == []
                caught, blocked = await other.ask("signals")
                assert (caught, blocked) == ([signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ], [])
            assert is_alive(sleeper)


@asynccontextmanager
async def running_sleep(custody: Custody) -> AsyncIterator[int]:
    machine = await custody.machine("")
    async with running(machine, ["sleep", "600"]) as (command, _):
        yield command.pid


async def test_a_zygote_that_says_nothing_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as custody:
        async with one_worker(custody) as worker:
            zygote = (await worker.ask("self"))[2]
        os.kill(zygote, signal.SIGSTOP)
        monkeypatch.setattr(custody_module, "READY_SECONDS", 0.2)
        async with one_worker(custody) as worker:
            assert (await worker.ask("self"))[2] != zygote
        assert not is_alive(zygote)


async def test_a_zygote_that_can_not_warm_says_why(tmp_path: Path) -> None:
    async with (
        RunFolder.open() as folder,
        Custody.open(folder, worker_module="no_such_module") as custody,
    ):
        machine = await custody.machine("")
        with pytest.raises(HostError, match="no_such_module") as caught:
            with socket.socket() as sock:
                await custody.worker(machine, sock, 1, 2)
        assert caught.value.code == "machine_failed"
        assert not custody.lost.is_set()


async def test_no_worker_for_a_machine_that_is_over() -> None:
    async with opened() as custody:
        machine = await custody.machine("")
        await machine.aclose()
        with socket.socket() as sock, pytest.raises(HostError) as caught:
            await custody.worker(machine, sock, 1, 2)
        assert caught.value.code == "session_lost"


async def test_a_cancelled_fork_leaves_no_worker() -> None:
    async with opened() as custody:
        machine = await custody.machine("")
        async with one_worker(custody) as worker:
            zygote = (await worker.ask("self"))[2]
            ours, theirs = socket.socketpair()
            os.kill(zygote, signal.SIGSTOP)
            with ours, theirs:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(custody.worker, machine, theirs, 1, 2)
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.cancel_scope.cancel()
            os.kill(zygote, signal.SIGCONT)
            async with one_worker(custody):
                while len(kernel.children(zygote)) > 2:
                    await trio.lowlevel.checkpoint()
            await worker.ask("self")

"""Commands: how they start, what they find, how they are refused."""

from __future__ import annotations

import ast
import errno
import os
import resource
import signal
import stat
import sys
from pathlib import Path

import pytest
import trio

from awaitbox.host.custody import kernel
from awaitbox.host.custody.machine import Machine
from awaitbox.host.errors import HostError
from tests.custody_rig import ENV, ended, leader_of, line, one_machine, output, running

PYTHON = sys.executable


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


# ------------------------------------------------------------------ statuses
async def test_statuses_are_the_kernels() -> None:
    async with one_machine() as machine:
        for text, status in (
            ("exit 3", 3 << 8),
            ("kill -9 $$", signal.SIGKILL),
            ("exit 137", 137 << 8),
            ("kill -TERM $$", signal.SIGTERM),
            ("true", 0),
        ):
            assert (await output(machine, text))[0] == status, text


async def test_a_command_that_leaves_nothing_is_ended_and_gone_at_once() -> None:
    async with one_machine() as machine, running(machine, ["true"]) as (command, _):
        await command.ended.wait()
        assert command.gone.is_set()
        assert (command.status, command.left, command.note) == (0, 0, None)
        assert await command.survivors() is None
        command.signal(signal.SIGKILL)  # over: no error
        await command.stop(0)


# ------------------------------------------------------------------ what it finds
async def test_environment_and_folder_are_exact(tmp_path: Path) -> None:
    async with one_machine() as machine:
        env = {"A": "1", "B_": "x y", "Ü": "\udcff=", "EMPTY": ""}
        show = [PYTHON, "-S", "-c", "import os; print(ascii(dict(os.environ)))"]
        assert await output(machine, ["env"], env={"PATH": "/bin"}) == (0, "PATH=/bin\n")
        assert await output(machine, ["/usr/bin/env"], env={}) == (0, "")
        _, text = await output(machine, show, env=env)
        assert text == ascii(env | {"LC_CTYPE": "C.UTF-8"}) + "\n"  # python's own addition
        assert await output(machine, ["pwd"], cwd=str(tmp_path)) == (0, f"{tmp_path}\n")


async def test_signals_are_at_their_defaults_in_a_session_of_its_own() -> None:
    async with one_machine() as machine:
        _, text = await output(machine, "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status")
        masks = dict(entry.split(":\t") for entry in text.splitlines())
        libc = 1 << 31 | 1 << 32  # glibc keeps 32 and 33 to itself
        assert int(masks["SigBlk"], 16) == 0
        assert int(masks["SigIgn"], 16) & ~libc == 0
        _, text = await output(
            machine, [PYTHON, "-S", "-c", "import os; print(os.getsid(0) == os.getpid())"]
        )
        assert text == "True\n"


async def test_descriptors_are_those_given(tmp_path: Path) -> None:
    listing = "import os; print({n: os.readlink(f'/proc/self/fd/{n}') for n in range(%d)})"
    nine = "import os; print([n for n in os.listdir('/proc/self/fd') if int(n) > 7])"
    read, write = os.pipe2(os.O_CLOEXEC)
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    files = [os.open(tmp_path / f"f{n}", flags) for n in range(8)]

    async def show(code: str, fds: list[int]) -> object:
        argv = [PYTHON, "-S", "-c", code]
        command = await machine.spawn(argv, env=ENV, cwd="/", fds=fds)
        await command.gone.wait()
        command.close()
        return ast.literal_eval(os.read(read, 1 << 16).decode())

    try:
        async with one_machine() as machine:
            found = await show(listing % 8, [files[0], write, *files[2:]])
            assert isinstance(found, dict)
            assert {n: f"{tmp_path}/f{n}" for n in range(8)} == found | {1: f"{tmp_path}/f1"}
            assert await show(nine, [files[0], write, *files[2:]]) == ["8"]  # of the listing itself
            found = await show(f"import os; os.dup2(0, 1); {listing % 3}", [write])
            assert isinstance(found, dict)
            assert found[2] == "/dev/null"
    finally:
        for fd in (read, write, *files):
            os.close(fd)


async def test_pipes_end_with_the_command_and_not_with_its_leader() -> None:
    async with one_machine() as machine:
        async with running(machine, "exec >&- 2>&-; read -t 600 < <(sleep 600)") as (_, stream):
            assert await stream.receive_some() == b""  # neither host, init nor leader holds an end


async def test_the_soft_limit_on_open_files_is_the_hosts_first() -> None:
    async with one_machine() as machine:
        first = kernel.open_files()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert await output(machine, "ulimit -Sn; ulimit -Hn") == (0, f"{first}\n{hard}\n")


@pytest.mark.skipif(os.getuid() != 0, reason="looks into processes that can't be looked into")
async def test_a_folder_is_not_kept_busy(tmp_path: Path) -> None:
    async with one_machine() as machine:
        async with running(machine, "cd /; echo; sleep 600", cwd=str(tmp_path)) as (
            command,
            stream,
        ):
            await line(stream)
            holders = [pid for pid in (*kernel.children(machine.pid), machine.pid, command.pid)]
            assert all(os.readlink(f"/proc/{pid}/cwd") == "/" for pid in holders)


# ------------------------------------------------------------------ argv
async def test_a_megabyte_and_a_half_of_arguments() -> None:
    async with one_machine() as machine:
        argv = [PYTHON, "-S", "-c", "import sys; print(sum(map(len, sys.argv[1:])))"]
        assert await output(machine, [*argv, *["x" * 100_000] * 15]) == (0, "1500000\n")
        status, text = await output(
            machine, ["/usr/bin/env"], env={f"V{n}": "e" * 100_000 for n in range(10)}
        )
        assert (status, len(text)) == (0, 10 * 100_004)


async def test_too_many_arguments() -> None:
    async with one_machine() as machine:
        for argv in (
            ["true", "x" * 200_000],
            ["true", *["x" * 100_000] * 30],
            ["true", "x" * (9 << 20)],
        ):
            with pytest.raises(OSError, match="Argument list too long") as caught:
                await output(machine, argv)
            assert (caught.value.errno, caught.value.filename) == (errno.E2BIG, "true")
        assert await output(machine, ["true"]) == (0, "")


async def test_impossible_requests_start_nothing() -> None:
    async with one_machine() as machine:
        for argv, env, message in (
            (["a\0b"], ENV, "null byte"),
            ([], ENV, "empty"),
            (["true"], {"A=B": "1"}, "environment variable name"),
            (["true"], {"": "1"}, "environment variable name"),
            (["true"], {"A": "\0"}, "null byte"),
        ):
            with pytest.raises(ValueError, match=message):
                await output(machine, argv, env=env)
        with pytest.raises(ValueError, match="descriptors"):
            await machine.spawn(["true"], env=ENV, cwd="/", fds=[0] * 9)
        with pytest.raises(OSError, match="Bad file descriptor"):
            await machine.spawn(["true"], env=ENV, cwd="/", fds=[1 << 20])
        assert await output(machine, ["true"]) == (0, "")


# ------------------------------------------------------------------ refusals
async def refused(
    machine: Machine, argv: list[str], *, cwd: str = "/", path: str = ""
) -> tuple[type, object]:
    env = ENV | {"PATH": path} if path else ENV
    with pytest.raises(OSError) as caught:
        await output(machine, argv, cwd=cwd, env=env)
    return type(caught.value), caught.value.filename


async def test_what_is_missing_is_told_apart(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    text = script(tmp_path, "text", "hello\n")
    locked = script(tmp_path, "locked", "#!/bin/sh\n", mode=0o644)
    orphan = script(tmp_path, "orphan", "#!/no/such/interpreter\n")
    async with one_machine() as machine:
        assert await refused(machine, ["no-such-program"]) == (FileNotFoundError, "no-such-program")
        assert await refused(machine, [gone]) == (FileNotFoundError, gone)
        assert await refused(machine, ["true"], cwd=gone) == (FileNotFoundError, gone)
        assert await refused(machine, ["true"], cwd=text) == (NotADirectoryError, text)
        assert await refused(machine, [locked]) == (PermissionError, locked)
        assert await refused(machine, [str(tmp_path)]) == (PermissionError, str(tmp_path))
        assert await refused(machine, [orphan]) == (FileNotFoundError, orphan)
        with pytest.raises(OSError, match="Exec format error") as caught:
            await output(machine, [text])
        assert caught.value.errno == errno.ENOEXEC


async def test_the_commands_own_path_is_searched(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    script(tmp_path / "one", "tool", "#!/bin/sh\necho one\n", mode=0o644)
    script(tmp_path / "two", "tool", "#!/bin/sh\necho two $0\n")
    both = f"{tmp_path}/one:{tmp_path}/none:{tmp_path}/two"
    async with one_machine() as machine:
        _, text = await output(machine, ["tool"], env={"PATH": both})
        assert text == f"two {tmp_path}/two/tool\n"
        first = f"{tmp_path}/one:{tmp_path}/none"
        assert await refused(machine, ["tool"], path=first) == (PermissionError, "tool")
        _, text = await output(machine, ["./tool"], cwd=str(tmp_path / "two"), env={})
        assert text == "two ./tool\n"
        read, write = os.pipe2(os.O_CLOEXEC)
        command = await machine.spawn(
            ["another name", "-c", "echo $0"], executable="sh", env=ENV, cwd="/", fds=[write, write]
        )
        await command.gone.wait()
        command.close()
        assert os.read(read, 100) == b"another name\n"
        os.close(read)
        os.close(write)


async def test_nothing_of_the_hosts_folder_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("trio", "sitecustomize", "usercustomize", "socket", "ctypes", "custody_worker"):
        (tmp_path / f"{name}.py").write_text("open('loaded', 'w').close(); raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend("")
    async with one_machine() as machine:
        assert await output(machine, ["true"], cwd=str(tmp_path)) == (0, "")
    assert not (tmp_path / "loaded").exists()


# ------------------------------------------------------------------ terminals
async def test_a_terminal_is_the_commands_own() -> None:
    async with one_machine() as machine:
        master, slave = os.openpty()
        path = os.ttyname(slave)
        os.close(slave)
        os.set_blocking(master, False)
        try:
            command = await machine.spawn(
                ["bash", "-c", "tty; stty size; echo $$ >/dev/tty; exec sleep 600"],
                env=ENV,
                cwd="/",
                fds=(),
                tty=path,
            )
            rows: list[bytes] = []
            text = b""
            while text.count(b"\n") < 3:
                await trio.lowlevel.wait_readable(master)
                text += os.read(master, 4096)
            rows = text.split(b"\r\n")
            assert rows[:3] == [path.encode(), b"0 0", b"%d" % command.pid]
            assert os.tcgetpgrp(master) == command.pid
            assert stat.S_ISCHR(os.stat(path).st_mode)
            leader = leader_of(command)
            await command.stop(0)
            await ended(leader)
            with pytest.raises(OSError, match="Input/output error"):
                os.read(master, 100)  # only now: the leader had kept the slave open
            command.close()
        finally:
            os.close(master)


async def test_no_byte_of_a_terminal_is_lost_at_the_end() -> None:
    async with one_machine() as machine:
        for _ in range(10):
            master, slave = os.openpty()
            path = os.ttyname(slave)
            os.close(slave)
            os.set_blocking(master, False)
            command = await machine.spawn(
                ["bash", "-c", "printf '%2000s' x; sleep 0.01 & exit 4"],
                env=ENV,
                cwd="/",
                fds=(),
                tty=path,
            )
            await command.ended.wait()
            assert _all_of(master) == b" " * 1999 + b"x"
            assert command.status == 4 << 8
            await command.stop(0)
            command.close()
            os.close(master)


def _all_of(master: int) -> bytes:
    """To EAGAIN, or EIO after a hang-up: what is still on its way through the kernel is waited for
    by a read that finds nothing, and by no other."""
    text = b""
    while True:
        try:
            text += os.read(master, 1 << 16)
        except OSError as error:
            assert error.errno in (errno.EAGAIN, errno.EIO)
            return text


async def test_a_terminal_that_is_not_there() -> None:
    async with one_machine() as machine:
        with pytest.raises(FileNotFoundError) as caught:
            await machine.spawn(["true"], env=ENV, cwd="/", fds=(), tty="/dev/pts/none")
        assert caught.value.filename == "/dev/pts/none"


# ------------------------------------------------------------------ cancels
async def test_a_cancelled_start_leaves_nothing() -> None:
    async with one_machine() as machine:
        for _ in range(5):
            with trio.CancelScope() as scope:
                scope.cancel()
                await machine.spawn(["sleep", "600"], env=ENV, cwd="/", fds=())
            assert scope.cancelled_caught
            assert _programs_of(machine) == []
        assert await output(machine, ["true"]) == (0, "")


def _programs_of(machine: Machine) -> list[int]:
    return [pid for pid, parent in kernel.descendants(machine.pid) if parent != machine.pid]


async def test_a_closed_machine_starts_nothing() -> None:
    async with one_machine() as machine:
        command = await machine.spawn(["sleep", "600"], env=ENV, cwd="/", fds=())
        await machine.aclose()
        assert command.gone.is_set()
        assert command.status == signal.SIGKILL
        assert command.note == "its session ended: it was closed"
        assert not machine.lost.is_set()
        with pytest.raises(HostError) as caught:
            await machine.spawn(["true"], env=ENV, cwd="/", fds=())
        assert caught.value.code == "session_lost"
        await machine.aclose()

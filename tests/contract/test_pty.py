"""The terminal on real kernels and real programs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from awaitbox.host.limits import CANONICAL_LINE_BYTES
from awaitbox.host.process.pty import Pty, TerminalFull


@pytest.fixture
def pty() -> Iterator[Pty]:
    pty = Pty.open(100, 30)
    yield pty
    pty.close()


@pytest.fixture
def slave(pty: Pty) -> Iterator[int]:
    """The other end, held open, so that nothing that is typed is lost."""
    fd = os.open(pty.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    yield fd
    os.close(fd)


class Screen:
    """A program on the terminal, and what it has printed."""

    def __init__(self, pty: Pty) -> None:
        self.pty = pty
        self.text = b""

    async def shows(self, what: bytes) -> None:
        while what not in self.text:
            await trio.lowlevel.wait_readable(self.pty.master)
            self.text += os.read(self.pty.master, 4_096)


@pytest.fixture
def screen(pty: Pty, slave: int) -> Screen:
    return Screen(pty)


@contextmanager
def running(pty: Pty, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` with the terminal as its controlling one; its end is waited for."""
    take = ["/bin/sh", "-c", 'exec <"$0" >"$0" 2>&1 && exec "$@"', pty.path]
    with subprocess.Popen([*take, *argv], start_new_session=True) as program:
        try:
            yield program
        except BaseException:
            program.kill()
            raise


def drained(fd: int) -> bytes:
    """What a terminal holds: it may come in pieces, but EAGAIN means that nothing is left."""
    data = b""
    while True:
        try:
            data += os.read(fd, 100)
        except BlockingIOError:
            return data


def python(source: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", source]


def test_what_is_opened(pty: Pty) -> None:
    assert not os.get_blocking(pty.master)
    assert not os.get_inheritable(pty.master)
    assert pty.size == (100, 30)
    assert os.stat(pty.path).st_rdev
    pty.resize(80, 24)
    assert pty.size == (80, 24)


def test_close_twice(pty: Pty) -> None:
    pty.close()
    pty.close()
    assert pty.master == -1


@pytest.mark.parametrize(("is_log", "shown"), [(True, b"a\nb"), (False, b"a\r\nb")])
def test_post_processing(is_log: bool, shown: bytes) -> None:
    pty = Pty.open(80, 24, is_log=is_log)
    slave = os.open(pty.path, os.O_RDWR | os.O_NOCTTY)
    os.write(slave, b"a\nb")
    assert drained(pty.master) == shown
    os.close(slave)
    pty.close()


def test_in_a_devpts_that_is_given() -> None:
    folder = os.open("/dev/pts", os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            pty = Pty.open(80, 24, devpts=folder)
        except PermissionError:
            pytest.skip("the machine's own /dev/pts/ptmx is for root alone")
        slave = os.open(pty.path, os.O_RDWR | os.O_NOCTTY)
        os.close(slave)
        pty.close()
    finally:
        os.close(folder)


def test_settings_are_known_before_and_after_anyone_has_it_open(pty: Pty) -> None:
    assert pty.is_echo
    assert pty.is_canonical
    with running(pty, "stty", "-echo", "-icanon") as program:
        assert program.wait() == 0
    assert not pty.is_echo
    assert not pty.is_canonical
    assert pty.size == (100, 30)
    assert pty.foreground is None


async def test_typing_with_enter(screen: Screen, pty: Pty) -> None:
    with running(pty, "/bin/sh", "-c", "printf 'name? '; read n; echo hi $n") as program:
        await screen.shows(b"name? ")
        await pty.write(b"Bob", is_enter=True)
        await screen.shows(b"hi Bob")
        assert program.wait() == 0


async def test_a_hidden_prompt(screen: Screen, pty: Pty) -> None:
    source = "stty -echo; printf 'password: '; read p; stty echo; echo; echo ${#p}"
    with running(pty, "/bin/sh", "-c", source):
        await screen.shows(b"password: ")
        assert not pty.is_echo
        await pty.write(b"secret", is_enter=True)
        await screen.shows(b"6")
    assert b"secret" not in screen.text
    assert pty.is_echo


async def test_the_longest_line_arrives_whole(screen: Screen, pty: Pty) -> None:
    with running(pty, *python("print('up'); print('got', len(input()), flush=True)")):
        await screen.shows(b"up")
        await pty.write(b"x" * CANONICAL_LINE_BYTES, is_enter=True)
        await screen.shows(f"got {CANONICAL_LINE_BYTES}".encode())


async def test_a_longer_line_is_refused_before_anything_is_typed(pty: Pty, slave: int) -> None:
    long = b"x" * (CANONICAL_LINE_BYTES + 1)
    for data in (long, b"a\n" + long + b"\nb", b"a\r" + long):
        with pytest.raises(ValueError, match="4,096 bytes: the terminal takes 4,095"):
            await pty.write(data, is_enter=True)
    await pty.write(b"\n")
    assert os.read(slave, 10) == b"\n"


async def test_what_was_typed_before_counts(pty: Pty, slave: int) -> None:
    half = b"x" * 2_500
    await pty.write(half)
    with pytest.raises(ValueError, match="5,000 bytes"):
        await pty.write(half)
    await pty.write(b"y" * (CANONICAL_LINE_BYTES - len(half)))
    with pytest.raises(ValueError, match="4,096 bytes"):
        await pty.write(b"z")
    await pty.write(b"\x15" + half)  # Ctrl-U takes the line back
    await pty.write(b"", is_enter=True)
    assert os.read(slave, 5_000) == half + b"\n"
    await pty.write(half)


async def test_a_raw_terminal_takes_long_lines(screen: Screen, pty: Pty) -> None:
    source = (
        "import sys, termios, tty; tty.setraw(0); print('up', flush=True); n = 0\n"
        "while n < 100_000: n += len(sys.stdin.buffer.raw.read(4096))\n"
        "print('got', n, flush=True)"
    )
    with running(pty, *python(source)):
        await screen.shows(b"up")
        assert not pty.is_canonical
        await pty.write(b"x" * 100_000)
        await screen.shows(b"got 100000")


async def test_nobody_reads(pty: Pty, slave: int, autojump_clock: trio.testing.MockClock) -> None:
    data = b"y\n" * 40_000
    with pytest.raises(TerminalFull, match=r"of 80,001 bytes went in within 5 s") as caught:
        await pty.write(data, is_enter=True)
    assert caught.value.code == "terminal_full"
    assert 4_000 < caught.value.written < 80_000


async def test_two_writes_never_mix(screen: Screen, pty: Pty) -> None:
    """The first has to wait for its reader; the second waits for the first."""
    source = (
        "import sys, tty; tty.setraw(0); print('up', flush=True); data = b''\n"
        "while len(data) < 60_000: data += sys.stdin.buffer.raw.read(4096)\n"
        "print(data == b'a' * 30_000 + b'b' * 30_000, flush=True)"
    )
    with running(pty, *python(source)):
        await screen.shows(b"up")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pty.write, b"a" * 30_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(pty.write, b"b" * 30_000)
        await screen.shows(b"True")


async def test_a_cancel_leaves_what_went_in(pty: Pty, slave: int) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pty.write, b"y\n" * 40_000)
            await trio.testing.wait_all_tasks_blocked(0.001)
            scope.cancel()
    assert os.read(slave, 10) == b"y\n"


async def test_closed_while_a_write_waits(pty: Pty, slave: int) -> None:
    async def typed(what: bytes) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await pty.write(what)

    async with trio.open_nursery() as nursery:
        for what in (b"y\n" * 40_000, b"n\n"):
            nursery.start_soon(typed, what)
            await trio.testing.wait_all_tasks_blocked(0.001)
        pty.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
async def test_a_signal_for_the_foreground(
    screen: Screen, pty: Pty, number: signal.Signals
) -> None:
    source = (
        f"import signal, tty; tty.setraw(0); number = {int(number)}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [number]); print('up', flush=True)\n"
        "print('got', int(signal.sigwait([number])), flush=True)"
    )
    with running(pty, *python(source)) as program:
        await screen.shows(b"up")
        assert pty.foreground == program.pid
        pty.signal_foreground(number)
        await screen.shows(f"got {int(number)}".encode())


def test_a_signal_for_nobody(pty: Pty) -> None:
    with pytest.raises(ProcessLookupError):
        pty.signal_foreground(signal.SIGINT)


def test_closing_hangs_up(pty: Pty) -> None:
    source = "import signal; print('up', flush=True); signal.pause()"
    with running(pty, *python(source)) as program:
        os.set_blocking(pty.master, True)
        while os.read(pty.master, 10)[-1:] != b"\n":
            continue
        pty.close()
        assert program.wait() == -signal.SIGHUP


def test_no_descriptor_is_left_when_opening_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(pty: Pty, columns: int, rows: int) -> None:
        raise OSError(errno.EIO, "broken")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(Pty, "resize", broken)
    with pytest.raises(OSError, match="broken"):
        Pty.open(80, 24)
    assert os.listdir("/proc/self/fd") == before

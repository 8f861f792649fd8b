"""Links whose `process.*` verbs run real programs of the test process.

`Programs` keeps the table in `awaitbox.shims.posix` and nothing more. `DirectLink` calls it in the
same thread; `WiredLink` is the worker's own link, with `Programs` behind the other end of a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import psutil
import pytest
import sniffio
import trio
from trio_asyncio._base import BaseTrioEventLoop

from awaitbox.shims import posix, wire
from awaitbox.shims.critical import Critical
from awaitbox.shims.link import Link

_CPYTHON_POPEN = subprocess.Popen  # taken before any test installs the shim


class StartFailure(OSError):
    """As a link makes it of a `Raise`: a message and a code, no errno."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Refusal(PermissionError):
    code = "toggled_off"


class Programs:
    """`calls` is every call so far; `refusal`, if set, is what a start raises."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refusal: Exception | None = None
        self._by_handle: dict[int, subprocess.Popen[bytes]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def answer(
        self, verb: str, args: dict[str, Any], fds: Sequence[int], timeout: float | None = None
    ) -> dict[str, Any]:
        self.calls.append((verb, args))
        if verb == "process.start":
            return self._start(fds=fds, **args)
        program = self._by_handle[args["handle"]]
        match verb:
            case "process.wait":
                self._wait(program, timeout)
                return {"status": self._look(program)}
            case "process.poll":
                return {"status": self._look(program)}
            case "process.signal":
                program.send_signal(args["signal"])
                return {}
            case "process.kill_tree":
                _kill_tree(program)
                return {}
        raise AssertionError(verb)

    def pidfd(self, handle: int) -> int:
        """The caller's, to be closed; of a program whose end was not asked for yet."""
        return os.pidfd_open(self._by_handle[handle].pid)

    def close(self) -> None:
        """End what still runs."""
        for program in self._by_handle.values():
            _kill_tree(program)
            program.wait()

    def _start(
        self, *, argv: Any, executable: Any, env: Any, cwd: Any, fds: Sequence[int]
    ) -> dict[str, int]:
        if self.refusal is not None:
            raise self.refusal
        assert len(fds) == 3
        folder = os.fsencode(cwd)
        try:
            program = _CPYTHON_POPEN(
                [os.fsencode(word) for word in argv],
                executable=None if executable is None else os.fsencode(executable),
                env={os.fsencode(name): os.fsencode(value) for name, value in env.items()},
                cwd=folder,
                stdin=fds[0],
                stdout=fds[1],
                stderr=fds[2],
                start_new_session=True,
            )
        except OSError as error:
            which = "cwd" if error.filename == folder else "argv0"
            raise StartFailure(f"{error}", f"errno:{error.errno}:{which}") from None
        handle = next(self._ids)
        self._by_handle[handle] = program
        return {"handle": handle, "pid": program.pid}

    def _look(self, program: subprocess.Popen[bytes]) -> int | None:
        with self._lock:
            code = program.poll()
        return None if code is None else code << 8 if code >= 0 else -code

    def _wait(self, program: subprocess.Popen[bytes], timeout: float | None) -> None:
        # Not by waitpid, beside which a poll by another thread would see nothing.
        with self._lock:
            if program.poll() is not None:
                return
            pidfd = os.pidfd_open(program.pid)
        try:
            if not _is_over(pidfd, timeout):
                raise TimeoutError
        finally:
            os.close(pidfd)


class DirectLink:
    """Interrupts the next call of the verb in `interrupt_next`."""

    def __init__(self, programs: Programs) -> None:
        self.interrupt_next: str | None = None
        self._programs = programs

    def call_sync(
        self,
        verb: str,
        args: dict[str, Any],
        *,
        fds: Sequence[int] = (),
        timeout: float | None = None,
    ) -> Any:
        if self.interrupt_next == verb:
            self.interrupt_next = None
            raise KeyboardInterrupt
        return self._programs.answer(verb, args, fds, timeout)

    async def call(self, verb: str, args: dict[str, Any]) -> Any:
        assert verb == "process.wait"
        pidfd = self._programs.pidfd(args["handle"])
        try:
            if sniffio.current_async_library() == "trio":
                await trio.lowlevel.wait_readable(pidfd)
            else:
                loop = asyncio.get_running_loop()
                is_over = asyncio.Event()
                loop.add_reader(pidfd, is_over.set)
                try:
                    await is_over.wait()
                finally:
                    loop.remove_reader(pidfd)
        finally:
            os.close(pidfd)
        return self.call_sync(verb, args)

    def close(self) -> None:
        self._programs.close()


class WiredLink(Link):
    """A thread reads the other end, and each call is answered by one more."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._here, self._there = socket.socketpair()
        super().__init__(self._here, Critical())
        self._threads_of_calls: list[threading.Thread] = []
        self._sending = threading.Lock()
        self._host = threading.Thread(target=self._read_calls)
        self._host.start()

    def close(self) -> None:
        self._programs.close()
        self._here.close()
        self._host.join()
        for thread in self._threads_of_calls:
            thread.join()
        self._there.close()
        self._threads = threading.local()  # with it goes the eventfd of this thread

    def _read_calls(self) -> None:
        receiver = wire.Receiver(self._there, of_worker=True)
        with contextlib.suppress(ConnectionResetError):
            while (frames := receiver.read()) is not None:
                for frame in frames:
                    if isinstance(frame, wire.Call):
                        call = (frame, receiver.claim(frame.fds))
                        thread = threading.Thread(target=self._answer, args=call)
                        self._threads_of_calls.append(thread)
                        thread.start()
                    elif isinstance(frame, wire.Cancel):  # a host answers those, too
                        with self._sending:
                            refusal = wire.Raise(frame.id, "RuntimeError", "cancelled", "")
                            self._there.sendall(wire.pack(refusal))

    def _answer(self, call: wire.Call, fds: list[int]) -> None:
        answer: wire.Return | wire.Raise
        try:
            answer = wire.Return(call.id, self._programs.answer(call.verb, call.args, fds))
        except Exception as error:
            builtin = type(error).__mro__[1].__name__
            answer = wire.Raise(call.id, builtin, getattr(error, "code", ""), str(error))
        for fd in fds:
            os.close(fd)
        with self._sending, contextlib.suppress(BrokenPipeError):  # nobody waited for it
            self._there.sendall(wire.pack(answer))


def _kill_tree(program: subprocess.Popen[bytes]) -> None:
    while members := list(_session(program.pid)):
        for pidfd in members:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            assert _is_over(pidfd, 10)
            os.close(pidfd)


def _is_over(pidfd: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _session(leader: int) -> Iterator[int]:
    """A pidfd of every living process in a session."""
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == leader and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield os.pidfd_open(pid)


def processes(command: str) -> list[int]:
    """The living processes whose command line is this."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if " ".join(process.cmdline()) == command:
                found.append(process.pid)
    return found


@contextlib.contextmanager
def installed(link: Any, flush: Any = lambda: None) -> Iterator[None]:
    """The shim in this process, and CPython's own doors back at the end."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("Popen", "run", "call"):
            patch.setattr(subprocess, name, getattr(subprocess, name))
        patch.setattr(os, "system", os.system)
        for loop in (asyncio.SelectorEventLoop, BaseTrioEventLoop):
            name = "_make_subprocess_transport"
            patch.setattr(loop, name, getattr(loop, name))
        posix.install(link, flush)
        yield

"""A real worker process without a host around it: forked from the test, driven over a socketpair.

`Driver` is a blocking host: it answers the worker's calls by a dict of functions, one thread reading
its output meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from awaitbox.shims import wire, worker

_BOUND_SECONDS = 20.0

Answer = Callable[..., Any]


class Later:
    """What a verb returns that is not answered until `Driver.answer(id, ...)`, or at all."""


class Failing(Exception):
    """What a verb raises to be answered by a `wire.Raise`."""

    def __init__(self, type: str, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.type, self.message, self.code = type, message, code


def parameter(name: str, *default: Any, kind: str = "positional") -> wire.Parameter:
    return wire.Parameter(name, kind, not default, default[0] if default else None)


SPECS = [
    wire.VerbSpec("echo", [parameter("x")], "echo(x): gives x back."),
    wire.VerbSpec(
        "shell_run",
        [parameter("commands"), parameter("cwd", None, kind="keyword")],
        "shell_run(commands, *, cwd=None): runs commands.",
    ),
    wire.VerbSpec("sleep", [parameter("seconds")], "sleep(seconds): waits."),
    wire.VerbSpec("copy", [parameter("src"), parameter("dest")], "copy(src, dest): copies."),
    wire.VerbSpec("fail", [parameter("type"), parameter("message")], "fail: fails."),
    wire.VerbSpec("never", [], "never(): is never answered."),
]


def _fail(type: str, message: str) -> None:
    raise Failing(type, message)


def usual_verbs() -> dict[str, Answer]:
    return {
        "echo": lambda x: x,
        "shell_run": lambda commands, cwd: {
            "cwd": cwd,
            "commands": [{"command": commands, "exit": 0}],
            "exit": 0,
        },
        "sleep": lambda seconds: Later() if seconds > 5 else {"seconds": seconds},
        "copy": lambda src, dest: {"src": src, "dest": dest},
        "fail": _fail,
        "never": lambda: Later(),
        "session.state": lambda: {"id": "s1", "mode": "full-access", "resources": {}},
    }


class Driver:
    """One worker. `calls`, `cancelled`, `notices` and `output` tell what it did so far."""

    def __init__(
        self,
        workspace: Path,
        verbs: Mapping[str, Answer] | None = None,
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.verbs = {**usual_verbs(), **(verbs or {})}
        self.calls: list[wire.Call] = []
        self.cancelled: list[int] = []
        self.fds: list[int] = []
        self.output = {"stdout": bytearray(), "stderr": bytearray()}
        self.is_reading = threading.Event()  # cleared: its output is left in the pipes
        self.is_reading.set()
        self._done: dict[int, wire.Done] = {}
        self._inspected: dict[int, wire.Inspected] = {}
        self._next_id = 0
        self._decoder_error: Exception | None = None
        self.sock, theirs = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            _become_worker(theirs, [write for _, write in pipes])
        self.pidfd = os.pidfd_open(self.pid)
        theirs.close()
        for _, write in pipes:
            os.close(write)
        self.sock.setblocking(False)
        self._receiver = wire.Receiver(self.sock, of_worker=True)
        self._outbox = wire.Outbox()
        self._readers = [
            threading.Thread(target=self._read, args=(name, read))
            for name, (read, _) in zip(self.output, pipes, strict=True)
        ]
        for reader in self._readers:
            reader.start()
        self._is_ready = False
        self.until(lambda: self._is_ready)
        self.send(
            wire.Hello(
                {"id": "s1"}, SPECS, str(workspace), _pairs(env or {"PATH": "/usr/bin:/bin"})
            )
        )

    # --- life
    def close(self) -> None:
        """A host that goes: the worker must end by itself."""
        self.sock.close()
        if not select.select([self.pidfd], [], [], _BOUND_SECONDS)[0]:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        for reader in self._readers:
            reader.join()
        for fd in self.fds:
            os.close(fd)

    def _read(self, name: str, fd: int) -> None:
        while self.is_reading.wait() and (data := os.read(fd, 1 << 16)):
            self.output[name] += data
        os.close(fd)

    # --- frames
    def send(self, frame: Any) -> None:
        wire.send(self.sock, self._outbox, wire.pack(frame))

    def until(self, is_so: Callable[[], bool], seconds: float = _BOUND_SECONDS) -> None:
        """Serve the worker until something is so."""
        deadline = time.monotonic() + seconds
        while not is_so():
            left = deadline - time.monotonic()
            assert left > 0, f"not within {seconds} s; it printed {self.output}"
            writing = [self.sock] if self._outbox.size else []
            readable, writable, _ = select.select([self.sock], writing, [], min(left, 1))
            if writable:
                self._outbox.flush(self.sock)
            if readable:
                frames = self._receiver.read()
                assert frames is not None, f"the worker died; it printed {self.output}"
                for frame in frames:
                    self._take(frame)

    def _take(self, frame: Any) -> None:
        if isinstance(frame, wire.Call):
            self.calls.append(frame)
            self.fds += self._receiver.claim(frame.fds)
            self._answer(frame)
        elif isinstance(frame, wire.Cancel):
            self.cancelled.append(frame.id)
            self.send(wire.Raise(frame.id, "RuntimeError", "cancelled", "cancelled"))
        elif isinstance(frame, wire.Done):
            self._done[frame.id] = frame
        elif isinstance(frame, wire.Inspected):
            self._inspected[frame.id] = frame
        else:
            assert isinstance(frame, wire.Ready)
            self._is_ready = True

    def _answer(self, call: wire.Call) -> None:
        try:
            value = self.verbs[call.verb](**call.args)
        except Failing as error:
            self.send(wire.Raise(call.id, error.type, error.code, error.message))
            return
        if not isinstance(value, Later):
            self.send(wire.Return(call.id, value))

    # --- cells
    def start(self, code: str) -> int:
        self._next_id += 1
        self.send(wire.Exec(self._next_id, code))
        return self._next_id

    def result(self, id: int, seconds: float = _BOUND_SECONDS) -> wire.Done:
        self.until(lambda: id in self._done, seconds)
        return self._done.pop(id)

    def run(self, code: str) -> wire.Done:
        return self.result(self.start(code))

    def ok(self, code: str) -> str | None:
        """Run a cell that must not fail; its value."""
        done = self.run(code)
        assert done.status == "ok", (done.error.traceback if done.error else done, code)
        return done.value

    def error(self, code: str) -> wire.Failure:
        """Run a cell that must fail."""
        done = self.run(code)
        assert done.status == "error" and done.error is not None, done
        return done.error

    def variables(self) -> dict[str, wire.Variable]:
        self._next_id += 1
        id = self._next_id
        self.send(wire.Inspect(id))
        self.until(lambda: id in self._inspected)
        return {item.name: item for item in self._inspected.pop(id).variables}

    def interrupt(self) -> None:
        signal.pidfd_send_signal(self.pidfd, signal.SIGINT)

    def stopped(self, id: int, *, within: float = 2.0) -> wire.Done:
        """Interrupt a running cell as a host does: again and again until it is over."""
        began = time.monotonic()
        while id not in self._done:
            assert time.monotonic() - began < within, "the interrupt does not stop it"
            self.interrupt()
            with contextlib.suppress(AssertionError):
                self.until(lambda: id in self._done, 0.4)
        return self._done.pop(id)

    def is_parked(self) -> bool:
        """Whether its main thread sleeps in a system call."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def printed(self, text: str, stream: str = "stdout") -> None:
        """Wait until it printed that; the readers are threads of their own."""
        self.until_true(lambda: text.encode() in self.output[stream])

    def until_true(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _BOUND_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, self.output
            with contextlib.suppress(AssertionError):
                self.until(is_so, 0.01)


def _become_worker(sock: socket.socket, outputs: list[int]) -> None:
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        importlib.reload(warnings)  # those of the test run are errors, or recorded
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, fd in enumerate(outputs, 1):
            os.dup2(fd, number)
        fd = sock.detach()
        if fd != 3:
            os.dup2(fd, 3)
        os.closerange(4, 4096)
        worker.main(3)
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(70)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """A worker in an empty workspace."""
    with opened(tmp_path) as driver:
        yield driver


@contextlib.contextmanager
def opened(workspace: Path, verbs: Mapping[str, Answer] | None = None) -> Iterator[Driver]:
    driver = Driver(workspace, verbs)
    try:
        yield driver
    finally:
        driver.close()


def _pairs(env: Mapping[str, str]) -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in env.items()]

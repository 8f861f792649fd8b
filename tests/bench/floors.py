"""The bench's ends of the two floor programs, `forked.py` and `echo.py`.

All calls block the thread, and so the loop of the host beside them: nothing else shall run while a
floor is measured, and the product has nothing to do then.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from awaitbox.shims import wire

_HERE = Path(__file__).parent
_READ_BYTES = 1 << 16


class Forked:
    """A process with the image of the zygote."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ask(None)  # it is warm

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Forked]:
        argv = [sys.executable, "-I", "-S", str(_HERE / "forked.py"), "awaitbox.shims.worker"]
        with subprocess.Popen(
            [*argv, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            yield cls(process)
            assert process.stdin is not None
            process.stdin.close()

    def _ask(self, line: str | None) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        if line is not None:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the floor of the session start ended; its stderr says why")
        return answer

    def fork(self) -> tuple[float, float]:
        """Seconds until the child's byte was read, and until it was reaped."""
        answered, reaped = self._ask("fork").split()
        return float(answered), float(reaped)

    @contextmanager
    def held(self) -> Iterator[int]:
        """The pid of a bare child that waits."""
        yield int(self._ask("hold"))
        self._ask("drop")


class Echo:
    """A process where a worker would be, and a loop where the host would be."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._decode = msgspec.msgpack.Decoder(wire.FromWorker).decode

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Echo]:
        ours, theirs = socket.socketpair()
        argv = [sys.executable, "-P", str(_HERE / "echo.py"), str(theirs.fileno())]
        with subprocess.Popen(argv, pass_fds=[theirs.fileno()]), ours:
            theirs.close()
            yield cls(ours)

    def cell(self, code: str, count: int) -> float:
        """Seconds that one of `count` cells takes."""
        began = time.perf_counter()
        for id in range(count):
            self._sock.send(wire.pack(wire.Exec(id, code)))
            done = self._decode(self._sock.recv(_READ_BYTES)[4:])
        assert type(done) is wire.Done
        return (time.perf_counter() - began) / count

    def call(self, verb: str, args: dict[str, Any], value: Any, count: int) -> float:
        """Seconds that one of `count` calls takes, as its caller measures it; each is answered
        with `value`."""
        asked = json.dumps({"verb": verb, "args": args, "count": count})
        self._sock.send(wire.pack(wire.Exec(0, f"calls {asked}")))
        while True:
            frame = self._decode(self._sock.recv(_READ_BYTES)[4:])
            if type(frame) is wire.Done:
                assert frame.value is not None
                return float(frame.value)
            self._sock.send(wire.pack(wire.Return(frame.id, value)))

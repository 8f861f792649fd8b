"""The floor of cells and calls: the same frames over a socket pair, by blocking calls.

Run by path, `python echo.py DESCRIPTOR`, it stands where a worker stands: it answers an `Exec` by
evaluating its code. One that says `CALLS`, a number and the arguments of a call makes it send so
many calls, one after the other, and the value of its `Done` is the seconds that one took. No event
loop, no thread, no signal handler, no descriptors beside frames, no check of anything.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import Any

import msgspec

from awaitbox.shims import wire

CALLS = "calls "
_READ_BYTES = 1 << 16  # every frame here is far smaller and comes in one read
_from_host = msgspec.msgpack.Decoder(wire.FromHost)


def main() -> None:
    sock = socket.socket(fileno=int(sys.argv[1]))
    while data := sock.recv(_READ_BYTES):
        frame = _from_host.decode(data[4:])
        if frame.code.startswith(CALLS):
            value = make_calls(sock, **json.loads(frame.code.removeprefix(CALLS)))
        else:
            value = eval(frame.code)
        sock.send(wire.pack(wire.Done(frame.id, "ok", repr(value), None, 0, [])))


def make_calls(sock: socket.socket, verb: str, args: dict[str, Any], count: int) -> float:
    began = time.perf_counter()
    for id in range(count):
        sock.send(wire.pack(wire.Call(id, verb, args)))
        _from_host.decode(sock.recv(_READ_BYTES)[4:])
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    main()

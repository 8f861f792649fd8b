"""The packets of custody, defined once for both ends. Sans-I/O, and standard library only.

Every connection is a SEQPACKET socket pair, so a packet is whole or not there. A packet is one
octet for the kind, four for an id (0 where there is only one thing to talk about) and a fixed body
that `_BODIES` gives, or text. Descriptors travel beside it by SCM_RIGHTS.

| from the host | to | body, descriptors |
| --- | --- | --- |
| MACHINE | warden | fork an init; [its socket] |
| ZYGOTE | warden | replace the zygote; [its socket] |
| END | warden | end everything and leave; the host removes the folders |
| SPAWN | init | hand to a leader; [its socket, descriptor 0, 1, ... of the program] |
| KILL | init | kill the leader `id` and all that it led; answered by LOST |
| ACK | leader | STARTED was checked: it may reap the program now |
| STOP | leader | end the tree after so many milliseconds of grace |
| SURVIVORS | leader | answered by SURVIVOR or NOBODY |
| SETUP | zygote | NUL-separated: module, prefix, exec_prefix, then sys.path |
| WORKER | zygote | fork a worker; [its socket, stdout, stderr] |

| to the host | from | body, descriptors |
| --- | --- | --- |
| UP | warden, zygote | it serves |
| FORKED | warden, zygote | [pidfd of the child] |
| NOFORK | warden, zygote, init | errno |
| ENDED | warden | raw status of an init, and how many processes below it could not be ended |
| READY | init | it serves |
| LOST | init | raw status of a leader that is gone, processes that could not be ended |
| BUSY | init, leader | still ending processes: silence would mean that it hangs |
| BROKEN | any but a leader | text: it could not start, and leaves |
| STARTED | leader | [pidfd of the program] |
| FAILED | leader | errno, and which step (`AT_...`) |
| EXIT | leader | raw status of the program, 1 if it left no process at all (then no GONE follows) |
| GONE | leader | processes that could not be ended, 1 and status of the survivor if known |
| SURVIVOR | leader | [pidfd of the oldest living process of the tree] |
| NOBODY | leader | none lives |

And one from a leader to init: IDLE, its command left nothing and it waits for the next SPAWN.

To change a packet, change its line in `_BODIES`; both ends use `pack` and `unpack` only.
The bounds of custody stand here and not in `host/limits.py`, because the warden, which loads
neither dataclasses nor any of our errors, keeps to them too.
"""

from __future__ import annotations

import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PACKET_BYTES = 64 << 10  # one packet: a third of the kernel's default socket buffer
REQUEST_BYTES = 8 << 20  # argv and environment; the kernel itself takes 2 MiB (a quarter of 8)
PROGRAM_DESCRIPTORS = 8  # 0 to 7 of a program
PACKET_DESCRIPTORS = 1 + PROGRAM_DESCRIPTORS
HUNT_SECONDS = 5.0  # after the grace: a process that is still there is named and left
BUSY_SECONDS = 0.25  # a fourth of the silence that the host takes for a hang
REMOVE_SECONDS = 5.0  # what a warden without a host spends on the folders; the next host sweeps

_KINDS = (
    "MACHINE ZYGOTE END SPAWN KILL ACK STOP SURVIVORS SETUP WORKER "
    "UP FORKED NOFORK ENDED READY LOST BUSY BROKEN STARTED FAILED EXIT GONE SURVIVOR NOBODY IDLE"
).split()
(MACHINE, ZYGOTE, END, SPAWN, KILL, ACK, STOP, SURVIVORS, SETUP, WORKER) = range(1, 11)
(UP, FORKED, NOFORK, ENDED, READY, LOST, BUSY, BROKEN) = range(11, 19)
(STARTED, FAILED, EXIT, GONE, SURVIVOR, NOBODY, IDLE) = range(19, 26)

AT_PROGRAM, AT_FOLDER, AT_TERMINAL, AT_REQUEST = range(4)

_HEAD = struct.Struct("!BI")
_TEXT = frozenset((SETUP, BROKEN))
_BODIES = {
    STOP: struct.Struct("!I"),
    NOFORK: struct.Struct("!i"),
    ENDED: struct.Struct("!iI"),
    LOST: struct.Struct("!iI"),
    FAILED: struct.Struct("!iB"),
    EXIT: struct.Struct("!iB"),
    GONE: struct.Struct("!IBi"),
}


class ProtocolError(Exception):
    """The peer sent something that is no packet of this protocol."""


def name_of(kind: int) -> str:
    return _KINDS[kind - 1]


def pack(kind: int, id: int = 0, *values: int) -> bytes:
    head = _HEAD.pack(kind, id)
    return head + _BODIES[kind].pack(*values) if values else head


def pack_text(kind: int, text: bytes) -> bytes:
    return _HEAD.pack(kind, 0) + text[: PACKET_BYTES - _HEAD.size]


def unpack(data: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Kind, id, values of a packet without text. Raises `ProtocolError`, and nothing else."""
    if len(data) < _HEAD.size:
        raise ProtocolError(f"a packet of {len(data)} bytes")
    kind, id = _HEAD.unpack_from(data)
    if not 1 <= kind <= len(_KINDS):
        raise ProtocolError(f"a packet of kind {kind}")
    if kind in _TEXT:
        return kind, id, ()
    body = _BODIES.get(kind)
    if len(data) - _HEAD.size != (body.size if body else 0):
        raise ProtocolError(f"{name_of(kind)} with {len(data) - _HEAD.size} bytes")
    return kind, id, body.unpack_from(data, _HEAD.size) if body else ()


def text_of(data: bytes) -> bytes:
    return data[_HEAD.size :]


# ------------------------------------------------------------------ what a leader is to start
class Request:
    """One program. Paths and texts as bytes; `terminal` and `executable` may be empty."""

    __slots__ = ("argv", "cwd", "env", "executable", "open_files", "terminal")

    def __init__(
        self,
        argv: Sequence[bytes],
        env: Mapping[bytes, bytes],
        cwd: bytes,
        *,
        open_files: int,
        terminal: bytes = b"",
        executable: bytes = b"",
    ) -> None:
        self.argv = list(argv)
        self.env = dict(env)
        self.cwd = cwd
        self.open_files = open_files
        self.terminal = terminal
        self.executable = executable


def pack_request(request: Request) -> Iterator[bytes]:
    """The packets of a request, each at most `PACKET_BYTES`.

    Raises `ValueError` (a NUL, an impossible variable name, no argv) and `OSError` (E2BIG).
    """
    if not request.argv:
        raise ValueError("argv is empty")
    for name in request.env:
        if not name or b"=" in name:
            raise ValueError(f"illegal environment variable name: {os.fsdecode(name)!r}")
    fields = [
        request.cwd,
        request.terminal,
        request.executable,
        b"%d" % request.open_files,
        b"%d" % len(request.argv),
        *request.argv,
        *(name + b"=" + value for name, value in request.env.items()),
    ]
    if any(b"\0" in field for field in fields):
        raise ValueError("embedded null byte")
    body = b"\0".join(fields)
    if len(body) > REQUEST_BYTES:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), os.fsdecode(request.argv[0]))
    whole = struct.pack("!I", len(body)) + body
    return (whole[at : at + PACKET_BYTES] for at in range(0, len(whole), PACKET_BYTES))


class RequestReader:
    """Collects the packets of a request. `feed` returns it when it is whole, else None."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, packet: bytes) -> Request | None:
        """Raises `ProtocolError`."""
        self._buffer += packet
        if len(self._buffer) < 4:
            raise ProtocolError("a request without its length")
        size = int.from_bytes(self._buffer[:4], "big")
        if size > REQUEST_BYTES or len(self._buffer) - 4 > size:
            raise ProtocolError("a request of the wrong length")
        return _parse(bytes(self._buffer[4:])) if len(self._buffer) - 4 == size else None


def _parse(body: bytes) -> Request:
    try:
        cwd, terminal, executable, open_files, count, *rest = body.split(b"\0")
        argc = int(count)
        if not 1 <= argc <= len(rest):
            raise ValueError("argc")
        env = dict(entry.split(b"=", 1) for entry in rest[argc:])
        return Request(
            rest[:argc],
            env,
            cwd,
            open_files=int(open_files),
            terminal=terminal,
            executable=executable,
        )
    except ValueError as error:
        raise ProtocolError(f"a request that does not parse: {error}") from None

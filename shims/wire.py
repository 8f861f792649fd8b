"""The frames between a host and a worker, defined once for both sides. Sans-I/O but for `send`.

A frame is a 4-byte big-endian length and one msgpack message. The worker's first frame is `Ready`,
the host's first one `Hello`. The host reads frames of a worker with `WORKER_FRAME_BYTES` as the
bound and treats every one as hostile; whatever is wrong with one is a `WireError` and nothing else.
Descriptors travel beside a frame by SCM_RIGHTS: `Call.fds` says how many of those received so far,
oldest first, belong to it.

| from the host | meaning |
| --- | --- |
| Hello | facts of the session and the signatures of its verbs, as data; once |
| Exec | run a cell; answered by `Done` with the same id |
| Inspect | list the namespace; answered by `Inspected` |
| Return, Raise | how a `Call` ended |

| from the worker | meaning |
| --- | --- |
| Ready | it lives, and what is sent waits for its loop |
| Call | run a verb; answered by `Return` or `Raise` |
| Cancel | nobody waits for that call any more; it is still answered |
| Done, Inspected | answers |
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from typing import Any

import msgspec

WORKER_FRAME_BYTES = 64 << 20  # largest frame that a host takes from a worker
HOST_FRAME_BYTES = (1 << 32) - 1  # a worker trusts its host; the length field is the bound
FRAME_DESCRIPTORS = 3  # stdin, stdout and stderr of a program of the posix shim
PENDING_DESCRIPTORS = 16  # received, but not yet claimed by a frame
RECEIVE_BYTES = 1 << 18  # one read; a cell's usual frame is far smaller
VALUE_CHARS = 16 << 20  # a cell's value, as sent; the host clips it further for the result


class WireError(Exception):
    """The peer sent something that is not a frame of this protocol."""


class _Frame(msgspec.Struct, tag_field="frame", tag=True, forbid_unknown_fields=True, gc=False):
    """Base of all frames: tagged by class name, unknown fields refused."""


class Parameter(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One parameter of a verb. `kind` is `positional` or `keyword`."""

    name: str
    kind: str
    is_required: bool
    default: Any = None


class VerbSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a stub is made from: `help` is the text that `help(verb)` prints."""

    name: str
    parameters: list[Parameter]
    help: str


class Failure(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An exception of a cell; `line` counts in that cell."""

    type: str
    message: str
    traceback: str
    line: int | None


class Hello(_Frame):
    """`env` is the environment as `NAME=value`; bytes, for not all of it need be UTF-8."""

    session: dict[str, Any]
    verbs: list[VerbSpec]
    workspace: str
    env: list[bytes]


class Exec(_Frame):
    id: int
    code: str


class Inspect(_Frame):
    id: int


class Return(_Frame):
    id: int
    value: Any


class Raise(_Frame):
    """`type` is the builtin that the exception must also be (`ValueError`); a worker that does not
    know it uses `RuntimeError`."""

    id: int
    type: str
    code: str
    message: str


class Ready(_Frame):
    pid: int


class Call(_Frame):
    id: int
    verb: str
    args: dict[str, Any]
    fds: int = 0


class Cancel(_Frame):
    id: int


class Done(_Frame):
    """`status` is `ok`, `error` or `interrupted`; `value` a repr; `missing` the characters that
    were cut out of its middle; `notices` are texts about tasks that failed in the background."""

    id: int
    status: str
    value: str | None
    error: Failure | None
    missing: int
    notices: list[str]


class Variable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    type: str
    repr: str


class Inspected(_Frame):
    id: int
    variables: list[Variable]


FromHost = Hello | Exec | Inspect | Return | Raise
FromWorker = Ready | Call | Cancel | Done | Inspected

_encoder = msgspec.msgpack.Encoder()
_from_host: msgspec.msgpack.Decoder[FromHost] = msgspec.msgpack.Decoder(FromHost)
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def pack(frame: _Frame) -> bytes:
    """Encode one frame with its length. Raises `WireError` if it is over what a peer can take."""
    body = _encoder.encode(frame)
    if len(body) > HOST_FRAME_BYTES:
        raise WireError(
            f"a frame of {len(body):,} bytes is over the {HOST_FRAME_BYTES:,} of the wire"
        )
    return len(body).to_bytes(4, "big") + body


class Outbox:
    """Bytes that wait for a non-blocking stream socket. `size` is how many."""

    __slots__ = ("_queue", "size")

    def __init__(self) -> None:
        self._queue: deque[memoryview] = deque()
        self.size = 0

    def put(self, data: bytes) -> None:
        self._queue.append(memoryview(data))
        self.size += len(data)

    def flush(self, sock: socket.socket) -> None:
        """Send what the socket takes now; returns at once. Raises OSError if the peer is gone."""
        queue = self._queue
        while queue:
            try:
                sent = sock.sendmsg([queue[i] for i in range(min(len(queue), 64))])
            except BlockingIOError:
                return
            self.size -= sent
            while queue and sent >= len(queue[0]):
                sent -= len(queue.popleft())
            if sent:
                queue[0] = queue[0][sent:]


def send(sock: socket.socket, outbox: Outbox, data: bytes) -> None:
    """Send packed frames behind those that wait; the usual one is small and goes out at once."""
    if not outbox.size:
        try:
            sent = sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return
        data = data[sent:]
    outbox.put(data)
    outbox.flush(sock)


class Decoder:
    """Bytes in, frames out. `feed` may be given any split of the stream."""

    __slots__ = ("_buffer", "_decode", "_limit", "_want")

    def __init__(self, *, of_worker: bool) -> None:
        self._decode = (_from_worker if of_worker else _from_host).decode
        self._limit = WORKER_FRAME_BYTES if of_worker else HOST_FRAME_BYTES
        self._buffer = bytearray()
        self._want = 4  # do not look again before that many bytes are there

    def feed(self, data: memoryview) -> list[Any]:
        """All frames that `data` completes. Raises `WireError`; then this decoder is done."""
        size = len(data) - 4
        if not self._buffer and size >= 0 and int.from_bytes(data[:4], "big") == size:
            return [self._one(data[4:])]  # the usual read is one whole small frame: no copy
        self._buffer += data
        if len(self._buffer) < self._want:
            return []
        return self._split()

    def _split(self) -> list[Any]:
        frames: list[Any] = []
        at, end = 0, len(self._buffer)
        self._want = 4
        with memoryview(self._buffer) as view:
            while end - at >= 4:
                size = int.from_bytes(view[at : at + 4], "big")
                if size > self._limit:
                    raise WireError(f"a frame of {size:,} bytes, over the bound of {self._limit:,}")
                if end - at - 4 < size:
                    self._want = 4 + size
                    break
                frames.append(self._one(view[at + 4 : at + 4 + size]))
                at += 4 + size
        del self._buffer[:at]
        return frames

    def _one(self, body: memoryview) -> Any:
        try:
            return self._decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
            raise WireError(f"not a frame: {type(error).__name__}: {error}") from None


class Receiver:
    """A decoder on a non-blocking stream socket, with the descriptors that came beside frames."""

    __slots__ = ("_buffer", "_decoder", "_sock", "_view", "_was_cut", "descriptors")

    def __init__(
        self, sock: socket.socket, *, of_worker: bool, buffer: bytearray | None = None
    ) -> None:
        self._sock = sock
        self._decoder = Decoder(of_worker=of_worker)
        self._buffer = bytearray(RECEIVE_BYTES) if buffer is None else buffer  # may be shared
        self._view = memoryview(self._buffer)
        self._was_cut = False  # descriptors were sent that could not be taken
        self.descriptors: deque[int] = deque()

    def read(self) -> list[Any] | None:
        """One read: its frames, or None at the end of the stream. Raises BlockingIOError when
        nothing waits, `WireError` for garbage, OSError when the connection broke."""
        size, ancillary, flags, _ = self._sock.recvmsg_into(
            [self._buffer], _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
        )
        if ancillary or flags & _TRUNCATED:
            self._take_descriptors(ancillary, flags)
        if not size:
            return None
        return self._decoder.feed(self._view[:size])

    def claim(self, count: int) -> list[int] | None:
        """The oldest `count` descriptors received; the caller owns them. None if they could not be
        taken, because this process has no room for more. Raises `WireError`."""
        if self._was_cut and 0 < count <= FRAME_DESCRIPTORS:
            self._was_cut = False  # a read ends at the frame that carries descriptors: it is that
            return None
        if not 0 <= count <= FRAME_DESCRIPTORS or count > len(self.descriptors):
            raise WireError(f"a frame claims {count} descriptors, {len(self.descriptors)} came")
        return [self.descriptors.popleft() for _ in range(count)]

    def _take_descriptors(self, ancillary: list[tuple[int, int, bytes]], flags: int) -> None:
        before = len(self.descriptors)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) // numbers.itemsize * numbers.itemsize])
                self.descriptors.extend(numbers)
        came = len(self.descriptors) - before
        is_cut = bool(flags & _TRUNCATED)
        if len(self.descriptors) > PENDING_DESCRIPTORS or (is_cut and came >= FRAME_DESCRIPTORS):
            raise WireError("more descriptors than a frame may carry")
        if is_cut:  # there was no room for them in this process
            self._was_cut = True
            for _ in range(came):
                os.close(self.descriptors.pop())


_ANCILLARY_BYTES = socket.CMSG_SPACE(FRAME_DESCRIPTORS * 4)
_TRUNCATED = int(socket.MSG_CTRUNC)  # as an enum member it costs each read 2 µs

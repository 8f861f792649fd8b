"""A socket to one that forks on request: the warden or the zygote."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from awaitbox.host.custody import parcel, protocol
from awaitbox.host.custody.endpoint import Endpoint

if TYPE_CHECKING:
    from awaitbox.host.custody.watch import Watch


class LineClosed(Exception):
    """The other side is dead, or broke the protocol."""


class _Reply:
    def __init__(self) -> None:
        self.came = trio.Event()
        self.pidfd = -1
        self.number = 0
        self.is_awaited = True


class Line:
    """`up` is set when the other side serves, `closed` when it never will (again).

    `why` is then its own last words, if it had any.
    """

    def __init__(
        self,
        sock: socket.socket,
        watch: Watch,
        *,
        on_ended: Callable[[int, int, int], None] | None = None,
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        """`on_ended(id, status, left)` for an ENDED, `on_closed()` once at the end."""
        self.up = trio.Event()
        self.closed = trio.Event()
        self.why = ""
        self._end = Endpoint(sock, watch, self._on_packet)
        self._on_ended = on_ended
        self._on_closed = on_closed
        self._replies: dict[int, _Reply] = {}
        self._last_id = 0

    async def ask(self, kind: int, fds: Sequence[int]) -> tuple[int, int]:
        """Ask for a fork; return the request's id and the child's pidfd, the caller's to close.

        Raises `OSError` if the fork failed, `LineClosed`. After a cancel the child, if there is
        one by then, is killed.
        """
        if not self._end.is_open:
            raise LineClosed(self.why)
        self._last_id += 1
        id, reply = self._last_id, _Reply()
        self._replies[id] = reply
        try:
            await self._end.send(protocol.pack(kind, id), fds)
            await reply.came.wait()
        except BaseException:
            reply.is_awaited = False
            if reply.pidfd >= 0:
                _end(reply.pidfd)
                os.close(reply.pidfd)
            raise
        if reply.pidfd >= 0:
            return id, reply.pidfd
        if reply.number:
            raise OSError(reply.number, os.strerror(reply.number))
        raise LineClosed(self.why)

    async def send(self, data: bytes) -> None:
        """As `Endpoint.send` does it: a dead other side is no error, see `closed`."""
        await self._end.send(data)

    def close(self) -> None:
        """Idempotent; whoever waits for a reply gets `LineClosed`."""
        if not self._end.is_open:
            return
        self._end.close()
        self.closed.set()
        for reply in self._replies.values():
            reply.came.set()
        self._replies.clear()
        if self._on_closed is not None:
            self._on_closed()

    def _on_packet(self) -> None:
        packet = self._end.receive()
        if packet is None:
            return
        data, fds, _ = packet
        try:
            if not data or not self._take(data, fds):
                self.close()
        except protocol.ProtocolError as error:
            self.why = str(error)
            self.close()
        finally:
            parcel.close_all(fds)

    def _take(self, data: bytes, fds: list[int]) -> bool:
        """Whether the line stays open. Takes out of `fds` what is handed on."""
        kind, id, values = protocol.unpack(data)
        if kind == protocol.UP:
            self.up.set()
        elif kind == protocol.BROKEN:
            self.why = protocol.text_of(data).decode(errors="replace")
            return False
        elif kind == protocol.ENDED and self._on_ended is not None:
            self._on_ended(id, *values)
        elif kind in (protocol.FORKED, protocol.NOFORK):
            reply = self._replies.pop(id, None)
            if reply is None:
                raise protocol.ProtocolError("an answer that nobody asked for")
            if kind == protocol.NOFORK:
                reply.number = values[0]
            elif reply.is_awaited and fds:
                reply.pidfd = fds.pop()
            elif fds:
                _end(fds[0])
            reply.came.set()
        else:
            raise protocol.ProtocolError(f"an unexpected {protocol.name_of(kind)}")
        return True


def _end(pidfd: int) -> None:
    """Nobody waits for this child any more."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass

"""The host's end of a socket to one process of custody."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from awaitbox.host.custody import parcel, protocol

if TYPE_CHECKING:
    from awaitbox.host.custody.watch import Watch

_IN_FLIGHT_SECONDS = 0.002  # until other processes have taken their descriptors: no event tells


class Endpoint:
    """Whatever is said after `close`, or to a dead peer, is lost: its end is seen by other ways."""

    def __init__(self, sock: socket.socket, watch: Watch, on_packet: Callable[[], None]) -> None:
        """`on_packet` is called when there may be something to `receive`."""
        self._sock: socket.socket | None = sock
        self._watch = watch
        watch.add(sock.fileno(), on_packet)

    @property
    def is_open(self) -> bool:
        return self._sock is not None

    async def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """One packet. Checkpoints only if the other side is behind.

        Raises `OSError` for a descriptor that is none.
        """
        while self._sock is not None:
            try:
                parcel.send(self._sock, data, fds)
                return
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_writable(self._sock)
                except trio.ClosedResourceError:
                    return
            except OSError as error:
                if error.errno in parcel.DEAD:
                    return
                if error.errno != errno.ETOOMANYREFS:
                    raise
                await trio.sleep(_IN_FLIGHT_SECONDS)

    def tell(self, kind: int, id: int = 0, *values: int) -> None:
        """The same without a wait: one that takes nothing is found by its silence."""
        if self._sock is not None:
            try:
                parcel.send(self._sock, protocol.pack(kind, id, *values))
            except OSError:
                pass

    def finish(self) -> None:
        """The peer reads an end, and is still heard."""
        if self._sock is not None:
            try:
                self._sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def receive(self, most: int = protocol.PACKET_DESCRIPTORS) -> parcel.Packet | None:
        """As `parcel.receive` does it. None if nothing is there, or this end is closed."""
        if self._sock is not None:
            try:
                return parcel.receive(self._sock, most=most)
            except BlockingIOError:
                pass
        return None

    def is_unread(self) -> bool:
        """As `parcel.is_unread` says it."""
        return self._sock is not None and parcel.is_unread(self._sock)

    def close(self) -> None:
        """Idempotent."""
        if self._sock is not None:
            self._watch.remove(self._sock.fileno())
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
            self._sock = None

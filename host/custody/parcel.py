"""Packets with descriptors over a SEQPACKET socket, and a box for those that cannot leave yet."""

from __future__ import annotations

import _socket
import errno
import os
import struct

from awaitbox.host.custody import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Packet = tuple[bytes, list[int], bool]  # its descriptors, and whether anything was cut off

_FD_BYTES = struct.calcsize("i")
_BOX_PACKETS = 100_000  # a host that reads nothing for so long has no use for the rest
_LATER = frozenset((errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS))
DEAD = frozenset((errno.EPIPE, errno.ECONNRESET, errno.ECONNREFUSED, errno.ENOTCONN))


def pair() -> tuple[_socket.socket, _socket.socket]:
    """Two connected ends, close-on-exec, blocking."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)


def send(sock: _socket.socket, data: bytes, fds: Sequence[int] = ()) -> None:
    """Send one packet without waiting. Raises `OSError`, `BlockingIOError` among them.

    ETOOMANYREFS means that this user has more descriptors in flight, in all processes together,
    than the soft limit on open files of the sender.
    """
    rights = (
        [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    )
    sock.sendmsg([data], rights, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)


def receive(
    sock: _socket.socket, *, is_waiting: bool = False, most: int = protocol.PACKET_DESCRIPTORS
) -> Packet:
    """One packet, its descriptors (close-on-exec, the caller's), and whether anything was cut off.

    Empty bytes are the end. Raises `BlockingIOError` if nothing is there, unless `is_waiting`.
    """
    flags = _socket.MSG_CMSG_CLOEXEC | (0 if is_waiting else _socket.MSG_DONTWAIT)
    room = _socket.CMSG_SPACE(_FD_BYTES * most)
    try:
        try:
            data, ancillary, got, _ = sock.recvmsg(protocol.PACKET_BYTES, room, flags)
        except ConnectionResetError:  # it died with unread packets: said once, ahead of its own
            data, ancillary, got, _ = sock.recvmsg(protocol.PACKET_BYTES, room, flags)
    except BlockingIOError:
        raise
    except OSError:
        return b"", [], False
    fds: list[int] = []
    for level, kind, rights in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            count = len(rights) // _FD_BYTES
            fds += struct.unpack(f"{count}i", rights[: count * _FD_BYTES])
    return data, fds, bool(got & (_socket.MSG_CTRUNC | _socket.MSG_TRUNC))


def is_unread(sock: _socket.socket) -> bool:
    """Whether the peer is gone without having read all that was sent. The kernel says so once."""
    return sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR) == errno.ECONNRESET


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def last_words(sock: _socket.socket, error: BaseException) -> None:
    """BROKEN with what happened and where; raises nothing."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""
    text = f"{type(error).__name__}: {error}{where}".encode(errors="backslashreplace")
    Outbox(sock).send(protocol.pack_text(protocol.BROKEN, text))


class Outbox:
    """Sends in order and never waits: what the peer does not take yet is kept, bounded.

    Descriptors of a kept packet are duplicated. A dead peer is nobody's error here: whoever reads
    the socket sees its end.
    """

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._kept: list[tuple[bytes, list[int]]] = []

    @property
    def is_waiting(self) -> bool:
        return bool(self._kept)

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        if not self._kept and self._try(data, fds):
            return
        if len(self._kept) < _BOX_PACKETS:
            self._kept.append((data, [os.dup(fd) for fd in fds]))

    def flush(self) -> None:
        while self._kept and self._try(*self._kept[0]):
            close_all(self._kept.pop(0)[1])

    def _try(self, data: bytes, fds: Sequence[int]) -> bool:
        try:
            send(self._sock, data, fds)
        except OSError as error:
            return error.errno not in _LATER
        return True

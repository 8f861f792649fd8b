"""From what a caller wants started to the packets of a request, and from a failure to its error."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping, Sequence

import trio

from awaitbox.host.custody import parcel, protocol

_IN_FLIGHT_SECONDS = 0.002  # until other processes have taken their descriptors: no event tells


def packets(
    argv: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: str,
    *,
    open_files: int,
    tty: str | None,
    executable: str | bytes | None,
) -> list[bytes]:
    """Raises `ValueError`, `OSError` (E2BIG)."""
    request = protocol.Request(
        [os.fsencode(part) for part in argv],
        {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        os.fsencode(cwd),
        open_files=open_files,
        terminal=os.fsencode(tty or ""),
        executable=os.fsencode(executable or ""),
    )
    return list(protocol.pack_request(request))


def failure(number: int, at: int, program: str | bytes, cwd: str, tty: str | None) -> OSError:
    """As CPython raises it; the class follows from the number."""
    names = {protocol.AT_FOLDER: cwd, protocol.AT_TERMINAL: tty}
    return OSError(number, os.strerror(number), names.get(at, program))


async def deliver(sock: socket.socket, data: bytes, fds: Sequence[int] = ()) -> None:
    """Send one packet; checkpoints only if the other side is behind.

    A dead one, or an end of ours that was closed meanwhile, is no error: somebody else sees that.
    Raises `OSError` for a descriptor that is none.
    """
    while sock.fileno() >= 0:
        try:
            parcel.send(sock, data, fds)
            return
        except BlockingIOError:
            try:
                await trio.lowlevel.wait_writable(sock)
            except trio.ClosedResourceError:
                return
        except OSError as error:
            if error.errno in parcel.DEAD:
                return
            if error.errno != errno.ETOOMANYREFS:
                raise
            await trio.sleep(_IN_FLIGHT_SECONDS)

"""A leader: starts one program and knows its end and that of its whole tree.

It is forked by init ahead of need, without an exec, and gets one SPAWN. All else passes over a
socket of its own, so neither argv nor environment ever enter init. States:

    waiting   for a SPAWN; the end of `spare` is init's end
    starting  collects the request, starts the program, tells STARTED or FAILED
    leading   until neither the program nor anything it left is alive; then EXIT, GONE
    hunting   after STOP, the host's end or init's end; then GONE

The program is not reaped before the host has acknowledged STARTED: the host reads the pid behind
the pidfd from the kernel, and for a reaped one, as a quick `true` would be, there is none.
"""

from __future__ import annotations

import _socket
import errno
import fcntl
import os
import select
import time

from awaitbox.host.custody import hunt, kernel, parcel, program, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_HIGH = 64  # above all numbers that a program's descriptors take
_RETRY_MS = 2  # a packet that could not leave
_SURVIVOR_LOOKS = 20  # at a tree that forks and exits without end nobody stays to be named


def main(spare: int, lifeline: int) -> NoReturn:
    """`spare` brings the SPAWN; `lifeline` is the read end of a pipe that init alone writes."""
    kernel.become_subreaper()
    kernel.rename(b"leader")
    alarm = kernel.child_alarm()
    with _socket_of(spare) as init:
        data, fds, is_cut = parcel.receive(init, is_waiting=True)
    if not data or not fds:
        os._exit(0)
    ctl = _socket.socket(fileno=fds[0])
    # off the targets of the program's descriptors, and without the originals: a pipe's end that
    # lived on in here would keep the host from seeing end of file
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in fds[1:]]
    parcel.close_all(fds[1:])
    try:
        request = _read_request(ctl)
        if is_cut:
            raise program.StartError(errno.EMFILE, protocol.AT_REQUEST)
        slave = _open_terminal(request)
        pid = program.start(request, high)
    except program.StartError as error:
        parcel.Outbox(ctl).send(protocol.pack(protocol.FAILED, 0, error.number, error.at))
        os._exit(0)
    except protocol.ProtocolError:
        failed = protocol.pack(protocol.FAILED, 0, errno.EINVAL, protocol.AT_REQUEST)
        parcel.Outbox(ctl).send(failed)
        os._exit(0)
    parcel.close_all(high)
    del request
    Leader(ctl, pid, alarm, lifeline).run()
    if slave is not None:
        os.close(slave)
    os._exit(0)


class _socket_of:
    """A context manager: `_socket.socket` is none itself."""

    def __init__(self, fd: int) -> None:
        self._sock = _socket.socket(fileno=fd)

    def __enter__(self) -> _socket.socket:
        return self._sock

    def __exit__(self, *reason: object) -> None:
        self._sock.close()


def _read_request(ctl: _socket.socket) -> protocol.Request:
    reader = protocol.RequestReader()
    while True:
        data, fds, _ = parcel.receive(ctl, is_waiting=True)
        parcel.close_all(fds)
        if not data:
            os._exit(0)  # nothing was started yet, and nobody waits for it
        if (request := reader.feed(data)) is not None:
            return request


def _open_terminal(request: protocol.Request) -> int | None:
    """One slave descriptor, kept to the end: without one the host's reads could fail with EIO."""
    if not request.terminal:
        return None
    try:
        return os.open(request.terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise program.StartError(error.errno or errno.EIO, protocol.AT_TERMINAL) from None


class Leader:
    """The states `leading` and `hunting`."""

    def __init__(self, ctl: _socket.socket, pid: int, alarm: int, lifeline: int) -> None:
        self._ctl = ctl
        self._pid = pid
        self._alarm = alarm
        self._lifeline = lifeline
        self._outbox = parcel.Outbox(ctl)
        self._may_reap = False
        self._is_alone = False
        self._has_told_all = False
        self._survivor: int | None = None
        self._survivor_status: int | None = None
        self._hunt: hunt.Hunt | None = None
        self._busy_at = 0.0
        self._poller = select.poll()
        for fd in (ctl.fileno(), alarm, lifeline):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Returns when nothing is left, or nothing that could be ended."""
        pidfd = os.pidfd_open(self._pid)
        self._outbox.send(protocol.pack(protocol.STARTED), [pidfd])
        os.close(pidfd)
        while not self._is_alone:
            for fd, _ in self._poller.poll(self._timeout_ms()):
                if fd == self._alarm:
                    kernel.quiet(self._alarm)
                    self._reap()
                elif fd == self._lifeline:
                    self._poller.unregister(fd)
                    self._stop(0)
                else:
                    self._hear()
            self._outbox.flush()
            if self._hunt is not None and not self._is_alone and self._step(self._hunt):
                break
        self._tell_gone()
        while self._outbox.is_waiting:  # the host is behind; if it is dead, a send drops the packet
            time.sleep(_RETRY_MS / 1000)
            self._outbox.flush()

    def _timeout_ms(self) -> int | None:
        if self._outbox.is_waiting:
            return _RETRY_MS
        return self._hunt.rest_ms() if self._hunt is not None else None

    def _step(self, hunting: hunt.Hunt) -> bool:
        if hunting.step():
            return True
        if (now := time.monotonic()) > self._busy_at:
            self._busy_at = now + protocol.BUSY_SECONDS
            self._outbox.send(protocol.pack(protocol.BUSY))
        return False

    def _hear(self) -> None:
        try:
            data, fds, _ = parcel.receive(self._ctl)
        except BlockingIOError:
            return
        parcel.close_all(fds)
        if not data:
            self._poller.unregister(self._ctl.fileno())
            self._may_reap = True
            self._stop(0)
            return
        try:
            kind, _, values = protocol.unpack(data)
        except protocol.ProtocolError:
            return
        if kind == protocol.ACK:
            self._may_reap = True
            self._reap()
        elif kind == protocol.STOP:
            self._stop(values[0] / 1000)
        elif kind == protocol.SURVIVORS:
            self._name_survivor()

    def _stop(self, grace_seconds: float) -> None:
        if self._hunt is None:
            self._hunt = hunt.Hunt(self._reap, grace_seconds)
        else:
            self._hunt.shorten(grace_seconds)

    def _reap(self) -> bool:
        """Reap what has ended. Whether no child at all is left."""
        if not self._may_reap or self._is_alone:
            return self._is_alone
        status: int | None = None
        while not self._is_alone:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_alone = True
                break
            if pid == 0:
                break
            if pid == self._pid:
                status = raw
                self._pid = -1  # the number is free again
            elif pid == self._survivor:
                self._survivor_status = raw
        if status is not None:
            self._outbox.send(protocol.pack(protocol.EXIT, 0, status, self._is_alone))
            self._has_told_all = self._is_alone
        return self._is_alone

    def _name_survivor(self) -> None:
        """Answer with the oldest living process of the tree."""
        for _ in range(_SURVIVOR_LOOKS):
            ages = [
                (found.start, pid)
                for pid, _ in kernel.descendants(os.getpid())
                if (found := kernel.stat(pid)) is not None and found.is_living
            ]
            if not ages:
                break
            start, pid = min(ages)
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue  # it ended meanwhile
            try:
                found = kernel.stat(pid)
                if found is not None and found.start == start:
                    if pid != self._survivor:
                        self._survivor, self._survivor_status = pid, None
                    self._outbox.send(protocol.pack(protocol.SURVIVOR), [pidfd])
                    return
            finally:
                os.close(pidfd)
        self._outbox.send(protocol.pack(protocol.NOBODY))

    def _tell_gone(self) -> None:
        if self._has_told_all:
            return
        status = self._survivor_status
        left = self._hunt.left if self._hunt is not None else 0
        gone = protocol.pack(protocol.GONE, 0, left, status is not None, status or 0)
        self._outbox.send(gone)

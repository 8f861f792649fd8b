"""A leader: starts one program and knows its end and that of its whole tree.

It is forked by init ahead of need, without an exec, and gets a SPAWN. All else passes over a socket
of the command's own, so neither argv nor environment ever enter init. States:

    waiting   for a SPAWN; the end of `spare` is init's end, or it is not needed any more
    starting  collects the request, starts the program, tells STARTED or FAILED
    leading   until neither the program nor anything it left is alive; then EXIT, GONE
    hunting   after STOP, the host's end or init's end; then GONE

The program is not reaped before the host has acknowledged STARTED: the host reads the pid behind
the pidfd from the kernel, and for a reaped one, as a quick `true` would be, there is none.

A program that leaves no process at its end leaves nothing in here: when `wait` says ECHILD nobody
has this process as a parent, and nobody can get it as one before its next command. Then it tells
init that it waits again, before it tells the host the end, so that it is known as one that waits
when the next SPAWN comes. Whatever else happened (a terminal, a hunt, a failed start, a large
request) ends it with its command. One that was changed from outside meanwhile, in what its programs
would inherit, leaves without reading the request; the host sees that and asks again.
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
    from collections.abc import Callable
    from typing import NoReturn

_HIGH = 64  # above all numbers that a program's descriptors take
_RETRY_MS = 2  # a packet that could not leave
_SURVIVOR_LOOKS = 20  # at a tree that forks and exits without end nobody stays to be named
_PATIENCE = 10  # added to the nice value: 50 trees that end at once made a start wait 18 to 50 ms
_COMMANDS = 100  # then a fresh one is cheaper than to prove that nothing piles up in here


def main(spare: int, lifeline: int) -> NoReturn:
    """`spare` brings SPAWNs; `lifeline` is the read end of a pipe that init alone writes."""
    kernel.become_subreaper()
    kernel.rename(b"leader")
    alarm = kernel.child_alarm()
    init = _socket.socket(fileno=spare)
    heritage = program.heritage()

    def wait_again() -> bool:
        try:
            parcel.send(init, protocol.pack(protocol.IDLE))
        except OSError:
            return False
        return True

    for number in range(1, _COMMANDS + 1):
        ctl, pid, is_plain = _start(init, heritage)
        last = not is_plain or number == _COMMANDS
        leader = Leader(ctl, pid, alarm, lifeline, None if last else wait_again)
        leader.run()
        if not leader.waits_again:
            break
        ctl.close()
    os._exit(0)


def _start(init: _socket.socket, heritage: object) -> tuple[_socket.socket, int, bool]:
    """Wait for a SPAWN and start its program; returns the socket to the host, the pid, and whether
    there is nothing special about it. Where nothing is started this process ends."""
    data, fds, is_cut = parcel.receive(init, is_waiting=True)
    if not data or not fds or program.heritage() != heritage:
        os._exit(0)
    ctl = _socket.socket(fileno=fds[0])
    # off the targets of the program's descriptors, and without the originals: a pipe's end that
    # lived on in here would keep the host from seeing end of file
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in fds[1:]]
    parcel.close_all(fds[1:])
    try:
        request, size = _read_request(ctl)
        if is_cut:
            raise program.StartError(errno.EMFILE, protocol.AT_REQUEST)
        _hold_terminal(request)
        pid = program.start(request, high)
    except program.StartError as error:
        parcel.Outbox(ctl).send(protocol.pack(protocol.FAILED, 0, error.number, error.at))
        os._exit(0)
    except protocol.ProtocolError:
        failed = protocol.pack(protocol.FAILED, 0, errno.EINVAL, protocol.AT_REQUEST)
        parcel.Outbox(ctl).send(failed)
        os._exit(0)
    parcel.close_all(high)
    return ctl, pid, not request.terminal and size <= protocol.PACKET_BYTES


def _read_request(ctl: _socket.socket) -> tuple[protocol.Request, int]:
    """And its size in bytes."""
    reader = protocol.RequestReader()
    while True:
        data, fds, _ = parcel.receive(ctl, is_waiting=True)
        parcel.close_all(fds)
        if not data:
            os._exit(0)  # nothing was started yet, and nobody waits for it
        if (request := reader.feed(data)) is not None:
            return request, len(reader)


def _hold_terminal(request: protocol.Request) -> None:
    """A slave descriptor that stays open: without one the host's reads could fail with EIO."""
    if request.terminal:
        try:
            os.open(request.terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise program.StartError(error.errno or errno.EIO, protocol.AT_TERMINAL) from None


class Leader:
    """The states `leading` and `hunting`."""

    def __init__(
        self,
        ctl: _socket.socket,
        pid: int,
        alarm: int,
        lifeline: int,
        wait_again: Callable[[], bool] | None,
    ) -> None:
        """`wait_again` is called when the program has ended and left nothing."""
        self.waits_again = False
        self._wait_again = wait_again
        self._ctl = ctl
        self._pid = pid
        self._alarm = alarm
        self._lifeline = lifeline
        self._outbox = parcel.Outbox(ctl)
        self._may_reap = False
        self._is_alone = False
        self._is_orphan = False  # init is dead
        self._has_told_all = False
        self._survivor: int | None = None
        self._survivor_status: int | None = None
        self._hunt: hunt.Hunt | None = None
        self._busy_at = 0.0
        self._is_patient = False
        self._poller = select.poll()
        for fd in (ctl.fileno(), alarm, lifeline):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Returns when nothing is left, or nothing that could be ended."""
        pidfd = os.pidfd_open(self._pid)
        self._outbox.send(protocol.pack(protocol.STARTED), [pidfd])
        os.close(pidfd)
        while not self._is_alone:
            ready = [fd for fd, _ in self._poller.poll(self._timeout_ms())]
            if self._lifeline in ready:  # first: from then on no end is told
                self._poller.unregister(self._lifeline)
                self._is_orphan = True
                self._stop(0)
            if self._alarm in ready:
                kernel.quiet(self._alarm)
                self._reap()
            if self._ctl.fileno() in ready:
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
        if not (self._is_patient or hunting.has_many):  # no one is patient with a fork bomb
            self._is_patient = True
            nice = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, min(19, nice + _PATIENCE))
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
        if status is not None and not self._is_orphan:
            if self._is_alone and self._hunt is None and self._wait_again is not None:
                self.waits_again = self._wait_again()
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
        if self._has_told_all or self._is_orphan:
            return  # those above tell the end of a machine, and before that of its commands
        status = self._survivor_status
        left = self._hunt.left if self._hunt is not None else 0
        gone = protocol.pack(protocol.GONE, 0, left, status is not None, status or 0)
        self._outbox.send(gone)

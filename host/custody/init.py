"""A session's init: has leaders start commands, and ends what they leave when one is killed.

It takes five octets and descriptors per command, never argv or environment, and never waits. One
leader is always ready; where none is, one is forked in a quiet moment. Without a process table of
its own a killed init could not clean up, so ends of pipes run from the warden to each init and from
each init to its leaders: whoever survives ends what is below it.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import time

from awaitbox.host.custody import hunt, kernel, parcel, protocol
from awaitbox.host.custody.leaders import Leaders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_FIRST_QUIET_MS = 15  # before the first leader: a session that starts has better things to do
_QUIET_MS = 5  # without a packet: then a leader is forked; a short command's is back before that
_FULL_MS = 50  # the same while the machine has no process left
_RETRY_MS = 5
_BROKEN_STATUS = 70


def main(sock: int, lifeline: int) -> NoReturn:
    """Runs in the warden's child. `lifeline`: read end of a pipe that the warden alone writes.

    As in the warden all signals are ignored: `kill -TERM -1` must not cost a session its init.
    """
    host = _socket.socket(fileno=sock)
    try:
        os.setsid()
        kernel.close_all_but((0, 1, 2, sock, lifeline))
        kernel.rename(b"session-init")
        kernel.become_subreaper()
        # A machine with a view of its own makes and confines it here, before the first leader:
        # all that init forks inherits it.
        kernel.allow_tracing(False)
        Init(host, lifeline).run()
    except BaseException as error:
        parcel.last_words(host, error)
        os._exit(_BROKEN_STATUS)
    os._exit(0)


class Init:
    """The loop of an init."""

    def __init__(self, host: _socket.socket, lifeline: int) -> None:
        self._host = host
        self._lifeline = lifeline
        self._outbox = parcel.Outbox(host)
        life_read, self._life_write = os.pipe2(os.O_CLOEXEC)
        self._condemned: set[int] = set()  # ids that a KILL named: reported however they end
        self._lost: list[tuple[int, int]] = []  # id, status of those to report after the hunt
        self._hunt: hunt.Hunt | None = None
        self._busy_at = 0.0
        self._is_ending = False
        self._quiet_ms = _FIRST_QUIET_MS
        self._alarm = kernel.child_alarm()
        self._poller = select.poll()
        self._leaders = Leaders(self._poller, life_read)
        for fd in (host.fileno(), lifeline, self._alarm):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Returns when the host or the warden is gone and nothing is left below."""
        self._outbox.send(protocol.pack(protocol.READY))
        while True:
            ready = [fd for fd, _ in self._poller.poll(self._timeout_ms())]
            for fd in ready:
                if fd == self._alarm:
                    kernel.quiet(fd)
                    self._reap()
                elif fd == self._lifeline:
                    self._end()
                elif fd != self._host.fileno():
                    self._leaders.hear(fd)
            if self._host.fileno() in ready:  # last: a leader that is idle now may be asked for
                self._hear()
            if not ready and self._is_one_wanted:
                self._refill()
            self._outbox.flush()
            if self._step() and self._is_ending:
                return

    @property
    def _is_one_wanted(self) -> bool:
        return not (self._leaders.is_one_ready or self._is_ending)

    def _timeout_ms(self) -> int | None:
        if self._hunt is not None:
            return self._hunt.rest_ms()
        if self._outbox.is_waiting:
            return _RETRY_MS
        return self._quiet_ms if self._is_one_wanted else None

    # -------------------------------------------------------------- requests
    def _hear(self) -> None:
        try:
            data, fds, is_cut = parcel.receive(self._host)
        except BlockingIOError:
            return
        if not data:
            parcel.close_all(fds)
            self._end()
            return
        try:
            kind, id, _ = protocol.unpack(data)
        except protocol.ProtocolError:
            parcel.close_all(fds)
            return
        if kind == protocol.SPAWN and not self._is_ending:
            # cut off: this process is out of descriptors, and what came is not what was meant
            number = errno.EMFILE if is_cut or not fds else self._leaders.lead(id, data, fds)
            if number:
                self._outbox.send(protocol.pack(protocol.NOFORK, id, number))
        elif kind == protocol.KILL:
            self._kill(id)
        parcel.close_all(fds)

    def _kill(self, id: int) -> None:
        if self._leaders.kill(id):
            self._condemned.add(id)
        else:
            self._lost.append((id, 0))
            self._hunt_orphans()

    def _refill(self) -> None:
        try:
            self._leaders.fork_ahead()
            self._quiet_ms = _QUIET_MS
        except OSError:
            self._quiet_ms = _FULL_MS

    # -------------------------------------------------------------- ends
    def _reap(self) -> bool:
        """Reap what has ended. Whether no child at all is left."""
        quiet: list[tuple[int, int]] = []  # id, status of leaders that left by themselves
        is_alone = False
        while not is_alone:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                is_alone = True
                break
            if pid == 0:
                break
            if pid not in self._leaders:
                continue
            if os.WIFSTOPPED(status):
                if not self._is_ending:  # else it is our own hunt that stopped it
                    self._leaders.stopped(pid)
                continue
            id = self._leaders.ended(pid)
            ends = self._lost if status or id in self._condemned else quiet
            self._condemned.discard(id or 0)
            ends.append((id or 0, status))
        if quiet and kernel.descendants(os.getpid(), self._leaders):
            self._lost += quiet  # one of them lied
        if self._lost:
            self._hunt_orphans()
        return is_alone

    def _hunt_orphans(self) -> None:
        self._hunt = self._hunt or hunt.Hunt(self._reap, 0, self._leaders)

    def _step(self) -> bool:
        """Whether no hunt is under way (any more)."""
        if self._hunt is None:
            return True
        if self._hunt.step():
            if self._is_ending:
                return True  # the warden reports this end, and with it that of all commands
            for id, status in self._lost:
                if id:  # else it waited
                    self._outbox.send(protocol.pack(protocol.LOST, id, status, self._hunt.left))
            self._lost.clear()
            self._hunt = None
            return True
        if (now := time.monotonic()) > self._busy_at:
            self._busy_at = now + protocol.BUSY_SECONDS
            self._outbox.send(protocol.pack(protocol.BUSY))
        return False

    def _end(self) -> None:
        """The host closed the session, or host or warden died: end everything below."""
        if self._is_ending:
            return
        self._is_ending = True
        for fd in (self._host.fileno(), self._lifeline):
            self._poller.unregister(fd)
        self._hunt = hunt.Hunt(self._reap, 0)

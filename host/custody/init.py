"""A session's init: forks leaders, and ends what they leave when one is killed.

It takes five octets and descriptors per command, never argv or environment, and never waits. One
leader is always forked ahead; the next one is forked in a quiet moment. Without a process table of
its own a killed init could not clean up, so ends of pipes run from the warden to each init and from
each init to its leaders: whoever survives ends what is below it.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import signal
import time

from awaitbox.host.custody import hunt, kernel, leader, parcel, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_QUIET_MS = 1  # without a packet: then the next leader is forked, off the path of any command
_FULL_MS = 50  # the same while the machine has no process left
_RETRY_MS = 5
_BROKEN_STATUS = 70


def main(sock: int, lifeline: int) -> NoReturn:
    """Runs in the warden's child. `lifeline`: read end of a pipe that the warden alone writes."""
    host = _socket.socket(fileno=sock)
    try:
        os.setsid()
        kernel.close_all_but((0, 1, 2, sock, lifeline))
        kernel.ignore_signals()  # `kill -TERM -1` and `pkill -HUP` must not cost a session its init
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
        self._life_read, self._life_write = os.pipe2(os.O_CLOEXEC)
        self._leaders: dict[int, int] = {}  # pid: id
        self._condemned: set[int] = set()  # ids that a KILL named: reported however they end
        self._lost: list[tuple[int, int]] = []  # id, status of those to report after the hunt
        self._spare: tuple[int, _socket.socket] | None = None
        self._hunt: hunt.Hunt | None = None
        self._busy_at = 0.0
        self._is_ending = False
        self._quiet_ms = _QUIET_MS
        self._alarm = kernel.child_alarm()
        self._poller = select.poll()
        for fd in (host.fileno(), lifeline, self._alarm):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Returns when the host or the warden is gone and nothing is left below."""
        self._outbox.send(protocol.pack(protocol.READY))
        while True:
            ready = self._poller.poll(self._timeout_ms())
            for fd, _ in ready:
                if fd == self._alarm:
                    kernel.quiet(fd)
                    self._reap()
                elif fd == self._lifeline:
                    self._end()
                else:
                    self._hear()
            if not ready and self._spare is None and not self._is_ending:
                self._refill()
            self._outbox.flush()
            if self._step() and self._is_ending:
                return

    def __contains__(self, pid: object) -> bool:
        """Spared by a hunt for orphans: leaders at work, and the one that waits."""
        return pid in self._leaders or (self._spare is not None and pid == self._spare[0])

    def _timeout_ms(self) -> int | None:
        if self._hunt is not None:
            return self._hunt.rest_ms()
        if self._outbox.is_waiting:
            return _RETRY_MS
        return self._quiet_ms if self._spare is None else None

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
            number = errno.EMFILE if is_cut or not fds else self._lead(id, data, fds)
            if number:
                self._outbox.send(protocol.pack(protocol.NOFORK, id, number))
        elif kind == protocol.KILL:
            self._kill(id)
        parcel.close_all(fds)

    def _lead(self, id: int, data: bytes, fds: list[int]) -> int:
        """Hand a command to the waiting leader, else to a new one. Returns an errno, or 0."""
        number = 0
        for _ in range(2):
            try:
                pid, sock = self._spare or self._fork_ahead()
            except OSError as error:
                return error.errno or errno.EAGAIN
            self._spare = None
            try:
                parcel.send(sock, data, fds)
                self._leaders[pid] = id
                return 0
            except OSError as error:
                number = error.errno or errno.EPIPE
            finally:
                sock.close()  # a leader that was not told anything sees this as its end
        return number

    def _kill(self, id: int) -> None:
        for pid, known in self._leaders.items():
            if known == id:
                self._condemned.add(id)
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
                return
        self._lost.append((id, 0))
        self._hunt = self._hunt or hunt.Hunt(self._reap, 0, self)

    # -------------------------------------------------------------- leaders
    def _refill(self) -> None:
        try:
            self._spare = self._fork_ahead()
            self._quiet_ms = _QUIET_MS
        except OSError:
            self._quiet_ms = _FULL_MS

    def _fork_ahead(self) -> tuple[int, _socket.socket]:
        ours, theirs = parcel.pair()
        try:
            pid = fork_leader(theirs.fileno(), self._life_read)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return pid, ours

    def _reap(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if self._spare is not None and pid == self._spare[0]:
                self._spare[1].close()
                self._spare = None
            id = self._leaders.pop(pid, None)
            if id is None:
                continue
            if status or id in self._condemned or kernel.descendants(os.getpid(), self):
                # it was killed, or lied: its orphans are ours now
                self._condemned.discard(id)
                self._lost.append((id, status))
                self._hunt = self._hunt or hunt.Hunt(self._reap, 0, self)

    def _step(self) -> bool:
        """Whether no hunt is under way (any more)."""
        if self._hunt is None:
            return True
        if self._hunt.step():
            if self._is_ending:
                return True  # the warden reports this end, and with it that of all commands
            for id, status in self._lost:
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


def fork_leader(spare: int, lifeline: int) -> int:
    """Returns the leader's pid to init; in the leader it never returns. Raises `OSError`."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            kernel.close_all_but((0, 1, 2, spare, lifeline))
            leader.main(spare, lifeline)
        finally:
            os._exit(_BROKEN_STATUS)
    return pid

"""An init's leaders: those that wait for a command, and those that lead one.

A leader whose command left nothing waits again, so that commands one after another cost no fork. It
is trusted only as far as its parent can see: with a child it is sent away, and so is one that was
stopped meanwhile, for somebody tampers with it.
"""

from __future__ import annotations

import _socket
import errno
import os
import select

from awaitbox.host.custody import kernel, leader, parcel, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
else:
    import _signal as signal

_MOST_WAITING = 3  # 0.7 to 1.1 MB of its own each; more commands side by side are rare
_BROKEN_STATUS = 70


class _Lead:
    """A leader that leads the command `id`. `sock` is None once it will not wait again."""

    __slots__ = ("id", "sock", "was_stopped")

    def __init__(self, id: int, sock: _socket.socket) -> None:
        self.id = id
        self.sock: _socket.socket | None = sock
        self.was_stopped = False


class Leaders:
    """All of them by pid. The sockets of those at work are in `poller`, for `hear`."""

    def __init__(self, poller: select.poll, lifeline: int) -> None:
        """`lifeline`: the read end of a pipe that every leader watches, and only init writes."""
        self._poller = poller
        self._lifeline = lifeline
        self._waiting: dict[int, _socket.socket] = {}
        self._leading: dict[int, _Lead] = {}
        self._pids: dict[int, int] = {}  # descriptor of a leading one's socket: its pid

    def __contains__(self, pid: object) -> bool:
        """Spared by a hunt for orphans."""
        return pid in self._leading or pid in self._waiting

    @property
    def is_one_ready(self) -> bool:
        return bool(self._waiting)

    def fork_ahead(self) -> None:
        """Raises `OSError`."""
        ours, theirs = parcel.pair()
        try:
            pid = fork_leader(theirs.fileno(), self._lifeline)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._waiting[pid] = ours

    def lead(self, id: int, data: bytes, fds: Sequence[int]) -> int:
        """Hand a command to one that waits, else to a new one. Returns an errno, or 0."""
        number = 0
        for _ in range(_MOST_WAITING + 2):  # those that wait may all have been killed just now
            try:
                if not self._waiting:
                    self.fork_ahead()
            except OSError as error:
                return error.errno or errno.EAGAIN
            pid, sock = self._waiting.popitem()
            try:
                parcel.send(sock, data, fds)
            except OSError as error:
                number = error.errno or errno.EPIPE
                sock.close()  # a leader that was not told anything sees this as its end
                continue
            self._leading[pid] = _Lead(id, sock)
            self._pids[sock.fileno()] = pid
            self._poller.register(sock.fileno(), select.POLLIN)
            return 0
        return number

    def hear(self, fd: int) -> bool:
        """Take what a leader says, if that is a leader's socket: IDLE, or its end."""
        pid = self._pids.get(fd)
        if pid is None:
            return False
        lead = self._leading[pid]
        assert lead.sock is not None
        try:
            data, fds, _ = parcel.receive(lead.sock, most=1)
        except BlockingIOError:
            return True
        parcel.close_all(fds)
        is_kept = (
            data == protocol.pack(protocol.IDLE)
            and len(self._waiting) < _MOST_WAITING
            and not (lead.was_stopped or kernel.has_child(pid))
        )
        sock = self._unwatched(lead)
        if is_kept and sock is not None:
            del self._leading[pid]
            self._waiting[pid] = sock
        elif sock is not None:
            sock.close()
        return True

    def kill(self, id: int) -> bool:
        """SIGKILL to the one that leads `id`. Whether there is one."""
        for pid, lead in self._leading.items():
            if lead.id == id:
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
                return True
        return False

    def stopped(self, pid: int) -> None:
        """One of them was stopped: it goes on, to be used no more; a second time it is killed."""
        lead = self._leading.get(pid)
        if lead is not None and not lead.was_stopped:
            lead.was_stopped = True
            os.kill(pid, signal.SIGCONT)
        elif pid in self:
            self._forget_waiting(pid)
            os.kill(pid, signal.SIGKILL)

    def ended(self, pid: int) -> int | None:
        """One was reaped. The id of the command that it led, if it led any."""
        self._forget_waiting(pid)
        lead = self._leading.pop(pid, None)
        if lead is None:
            return None
        sock = self._unwatched(lead)
        if sock is not None:
            sock.close()
        return lead.id

    def _forget_waiting(self, pid: int) -> None:
        sock = self._waiting.pop(pid, None)
        if sock is not None:
            sock.close()

    def _unwatched(self, lead: _Lead) -> _socket.socket | None:
        sock, lead.sock = lead.sock, None
        if sock is not None:
            self._poller.unregister(sock.fileno())
            del self._pids[sock.fileno()]
        return sock


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

"""The warden: parent of everything that a host has started, and outlives it to end all of it.

Standard library only, one thread. It never waits for anything but its poll: not for a host that
does not read, nor for a process that does not die. It leaves when the host says END, when the
host's end of the socket closes (EOF, or ECONNRESET with packets unread), or when the host's pidfd
fires, for an embedder that forked keeps the socket open.
"""

from __future__ import annotations

import _socket
import errno
import gc
import os
import select

from awaitbox.host.custody import hunt, init, kernel, parcel, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import NoReturn
else:
    import _signal as signal

_RETRY_MS = 5
_BROKEN_STATUS = 70


def main(
    host_pid: int, control: int, folder: str, zygote: int, fork_zygote: Callable[[int], int]
) -> NoReturn:
    """`folder` is removed if the host dies. `zygote` is the pid of the first one."""
    sock = _socket.socket(fileno=control)
    try:
        _serve(sock, host_pid, folder, zygote, fork_zygote)
    except BaseException as error:
        parcel.last_words(sock, error)
    finally:
        os._exit(_BROKEN_STATUS)


def _serve(
    sock: _socket.socket,
    host_pid: int,
    folder: str,
    zygote: int,
    fork_zygote: Callable[[int], int],
) -> NoReturn:
    kernel.ignore_signals()
    kernel.rename(b"warden")
    kernel.become_subreaper()
    kernel.allow_tracing(False)
    kernel.raise_open_files()
    try:
        host = os.pidfd_open(host_pid)
    except OSError:
        os._exit(0)
    if os.getppid() != host_pid:  # it died first: the pidfd may be another process's
        os._exit(0)
    gc.collect()
    gc.freeze()  # or the first collection in each fork would copy every page
    gc.disable()
    Warden(sock, host, folder, zygote, fork_zygote).run()


class Warden:
    """The loop of the warden."""

    def __init__(
        self,
        sock: _socket.socket,
        host: int,
        folder: str,
        zygote: int,
        fork_zygote: Callable[[int], int],
    ) -> None:
        self._sock = sock
        self._host = host
        self._folder = folder
        self._fork_zygote = fork_zygote
        self._outbox = parcel.Outbox(sock)
        self._life_read, self._life_write = os.pipe2(os.O_CLOEXEC)
        self._inits: dict[int, int] = {}  # pid: id
        self._zygote = zygote
        self._ended: list[tuple[int, int]] = []  # id, status of inits to report after the hunt
        self._hunt: hunt.Hunt | None = None
        self._alarm = kernel.child_alarm()
        self._poller = select.poll()
        for fd in (sock.fileno(), host, self._alarm):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> NoReturn:
        self._outbox.send(protocol.pack(protocol.UP))
        self._reap()
        while True:
            for fd, _ in self._poller.poll(self._timeout_ms()):
                if fd == self._alarm:
                    kernel.quiet(fd)
                    self._reap()
                elif fd == self._host:
                    self._leave(is_host_gone=True)
                else:
                    self._hear()
            self._step()
            self._outbox.flush()

    def __contains__(self, pid: object) -> bool:
        """Spared by a hunt for what dead inits and workers left."""
        return pid in self._inits or pid == self._zygote

    def _timeout_ms(self) -> int | None:
        if self._hunt is not None:
            return self._hunt.rest_ms()
        return _RETRY_MS if self._outbox.is_waiting else None

    # -------------------------------------------------------------- requests
    def _hear(self) -> None:
        try:
            data, fds, _ = parcel.receive(self._sock)
        except BlockingIOError:
            return
        if not data:
            self._leave(is_host_gone=True)
        kind, id, _ = protocol.unpack(data)
        if kind == protocol.END:
            self._leave(is_host_gone=False)
        elif not fds:  # out of descriptors
            self._outbox.send(protocol.pack(protocol.NOFORK, id, errno.EMFILE))
        elif kind == protocol.MACHINE:
            self._fork(id, lambda: fork_init(fds[0], self._life_read))
        elif kind == protocol.ZYGOTE:
            if self._zygote:
                os.kill(self._zygote, signal.SIGKILL)  # unreaped, so the number is its own
            self._fork(id, lambda: self._fork_zygote(fds[0]), is_zygote=True)
        parcel.close_all(fds)

    def _fork(self, id: int, branch: Callable[[], int], *, is_zygote: bool = False) -> None:
        try:
            pid = branch()
        except OSError as error:
            number = error.errno or 0
            self._outbox.send(protocol.pack(protocol.NOFORK, id, number))
            return
        if is_zygote:
            self._zygote = pid
        else:
            self._inits[pid] = id
        pidfd = os.pidfd_open(pid)
        self._outbox.send(protocol.pack(protocol.FORKED, id), [pidfd])
        os.close(pidfd)

    # -------------------------------------------------------------- ends
    def _reap(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._zygote:
                self._zygote = 0
            id = self._inits.pop(pid, None)
            if id is not None:
                self._ended.append((id, status))

    def _step(self) -> None:
        """Nothing but inits and the zygote belongs directly below us: what else is there goes."""
        if self._hunt is None:
            if not self._ended:
                return
            self._hunt = hunt.Hunt(self._reap, 0, self)
        if not self._hunt.step():
            return
        for id, status in self._ended:
            self._outbox.send(protocol.pack(protocol.ENDED, id, status, self._hunt.left))
        self._ended.clear()
        self._hunt = None

    def _leave(self, *, is_host_gone: bool) -> NoReturn:
        hunting = hunt.Hunt(self._reap, 0)
        waiter = select.poll()
        waiter.register(self._alarm, select.POLLIN)
        while not hunting.step():
            if waiter.poll(hunting.rest_ms()):
                kernel.quiet(self._alarm)
        if is_host_gone:
            from awaitbox.host.custody import removal

            removal.remove_tree(self._folder, protocol.REMOVE_SECONDS)
        os._exit(0)


def fork_init(sock: int, lifeline: int) -> int:
    """Returns init's pid to the warden; in init it never returns. Raises `OSError`.

    A machine with namespaces of its own is born here by one raw `clone`, so that its pid 1 is the
    warden's child.
    """
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            init.main(sock, lifeline)
        finally:
            os._exit(_BROKEN_STATUS)
    return pid

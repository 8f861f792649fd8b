"""The zygote: everything that a worker imports, warmed once, and a fork of it per worker.

No thread and no secret: what passes through it can be read in every later worker, so neither
environments nor commands do. It ends with the warden, and its workers with it.
"""

from __future__ import annotations

import _socket
import fcntl
import gc
import os
import select
import sys
from importlib import import_module

from awaitbox.host.custody import kernel, parcel, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import ModuleType
    from typing import NoReturn
else:
    import _signal as signal

_BROKEN_STATUS = 70
_HIGH = 64  # off the numbers that a worker's descriptors take
_WORKER_DESCRIPTOR = 3  # 0 is /dev/null, 1 and 2 are read by the host


def main(sock: int, warden: int) -> NoReturn:
    """Runs in the warden's child. The first packet is SETUP."""
    host = _socket.socket(fileno=sock)
    outbox = parcel.Outbox(host)
    try:
        signal.set_wakeup_fd(-1)  # a zygote that replaces another is forked from a running warden
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel.allow_tracing(True)
        kernel.die_with_parent(warden)
        kernel.ignore_signals()
        kernel.rename(b"zygote")
        data, fds, _ = parcel.receive(host, is_waiting=True)
        parcel.close_all(fds)
        if not data:
            os._exit(0)
        worker = _warm(protocol.text_of(data))
    except BaseException as error:
        parcel.last_words(host, error)
        os._exit(_BROKEN_STATUS)
    outbox.send(protocol.pack(protocol.UP))
    _serve(host, outbox, worker)


def _warm(setup: bytes) -> ModuleType:
    module, prefix, exec_prefix, *path = os.fsdecode(setup).split("\0")
    sys.prefix, sys.exec_prefix = prefix, exec_prefix  # -S leaves those of the base interpreter
    sys.path[:] = path
    gc.enable()
    worker = import_module(module)
    worker.warm()
    gc.collect()
    gc.freeze()  # or an idle worker grows from 4.3 to 10.3 MB at its first collection
    return worker


def _serve(host: _socket.socket, outbox: parcel.Outbox, worker: ModuleType) -> NoReturn:
    poller = select.poll()
    poller.register(host.fileno(), select.POLLIN)
    workers: set[int] = set()  # pidfds
    while True:
        for fd, _ in poller.poll():
            if fd in workers:
                poller.unregister(fd)
                workers.discard(fd)
                os.waitid(os.P_PIDFD, fd, os.WEXITED)
                os.close(fd)
                continue
            data, fds, is_cut = parcel.receive(host, is_waiting=True)
            if not data:
                os._exit(0)
            kind, id, _ = protocol.unpack(data)
            if kind == protocol.WORKER and len(fds) == 3 and not is_cut:
                if (pidfd := _fork(id, outbox, fds, worker)) is not None:
                    poller.register(pidfd, select.POLLIN)
                    workers.add(pidfd)
            parcel.close_all(fds)


def _fork(id: int, outbox: parcel.Outbox, fds: list[int], worker: ModuleType) -> int | None:
    try:
        pid = fork_worker(fds, worker)
    except OSError as error:
        number = error.errno or 0
        outbox.send(protocol.pack(protocol.NOFORK, id, number))
        return None
    pidfd = os.pidfd_open(pid)
    outbox.send(protocol.pack(protocol.FORKED, id), [pidfd])
    return pidfd


def fork_worker(fds: list[int], worker: ModuleType) -> int:
    """Returns the pid to the zygote; in the worker it never returns. Raises `OSError`."""
    zygote = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become_worker(zygote, fds)
            worker.main(_WORKER_DESCRIPTOR)
        except BaseException:
            sys.excepthook(*sys.exc_info())  # to fd 2, which the host shows
        finally:
            os._exit(_BROKEN_STATUS)
    return pid


def _become_worker(zygote: int, fds: list[int]) -> None:
    kernel.die_with_parent(zygote)
    os.setsid()
    kernel.rename(b"worker")
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in fds]
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(high[1], 1)
    os.dup2(high[2], 2)
    os.dup2(high[0], _WORKER_DESCRIPTOR, inheritable=False)
    kernel.close_all_but((0, 1, 2, _WORKER_DESCRIPTOR))
    for number in kernel.CATCHABLE:
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)  # as in any Python
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A worker's view and confinement are joined here, before any line of a model runs.

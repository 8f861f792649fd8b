"""The one program that a host starts itself: the interpreter of warden and zygote."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from awaitbox.host.custody import kernel, protocol

_START = Path(__file__).with_name("start.py")
_PACKAGE_PARENT = Path(__file__).parents[3]
_HIGH = 64  # off the numbers that start.py's descriptors take
_KEPT = ("LD_LIBRARY_PATH",)  # without it some interpreters do not start


def start_warden(warden: int, zygote: int, lock: int, folder: str) -> int:
    """Start it with their sockets and the lock of the run folder. Returns the warden's pid.

    Raises `OSError`. It has no environment: what passes through the zygote can be read in every
    worker.
    """
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in (warden, zygote, lock)]
    try:
        return os.posix_spawn(
            sys.executable,
            [
                *(sys.executable, "-I", "-S", "-X", "utf8", str(_START)),
                *(str(os.getpid()), str(_PACKAGE_PARENT), folder),
            ],
            {name: os.environ[name] for name in _KEPT if name in os.environ},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                *((os.POSIX_SPAWN_DUP2, 0, number) for number in (1, 2)),
                *((os.POSIX_SPAWN_DUP2, fd, 3 + number) for number, fd in enumerate(high)),
            ],
            setsid=True,  # a terminal's SIGINT and SIGHUP are the embedder's business
            setsigmask=(),
            setsigdef=kernel.CATCHABLE,
        )
    finally:
        for fd in high:
            os.close(fd)


def setup(worker_module: str) -> bytes:
    """SETUP. Nothing loads from the folder that the host runs in: it may be a model's."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed: nothing can load from it
        here = ""
    path = [entry for entry in sys.path if os.path.isabs(entry) and entry != here]
    if str(_PACKAGE_PARENT) not in path:
        path.append(str(_PACKAGE_PARENT))
    fields = [worker_module, sys.prefix, sys.exec_prefix, *path]
    return protocol.pack_text(protocol.SETUP, os.fsencode("\0".join(fields)))

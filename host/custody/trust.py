"""What the host takes over from init and leaders, which run under the uid of the model's programs.

A compromised leader can hand the host any pidfd, the host's own among them. So a pidfd is accepted
only if the kernel says that its process stands below the init of that machine, and the pid is read
from the kernel too. A check that passes for a number that was given away meanwhile does no harm:
the pidfd is then that of a dead process.
"""

from __future__ import annotations

import errno
import os

from awaitbox.host.custody import kernel


class Breach(Exception):
    """Init or a leader said something that the kernel denies."""


class NoRoom(Exception):
    """This process has no descriptor left to take, or to check, what it was given."""


def single(fds: list[int], is_cut: bool) -> int:
    """The one descriptor that a packet must bring. Closes all and raises `Breach` otherwise,
    `NoRoom` if the kernel could not put it into this process."""
    if len(fds) == 1 and not is_cut:
        return fds[0]
    _close(fds)
    if is_cut and not fds:
        raise NoRoom
    raise Breach(f"{len(fds)} descriptors{' and more' if is_cut else ''} instead of one")


def none(fds: list[int], is_cut: bool) -> None:
    """Closes what a packet should not bring, and raises `Breach` if there was any."""
    _close(fds)
    if fds or is_cut:
        raise Breach("descriptors beside a packet that has none")


def checked(pidfd: int, ancestor: int) -> int:
    """The pid behind a pidfd, or -1 if it was reaped. Closes it and raises `Breach` if foreign,
    `NoRoom` if that can't be looked at."""
    try:
        pid = kernel.pid_of(pidfd)
    except OSError as error:
        os.close(pidfd)
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise NoRoom from None
        raise Breach(f"its descriptor could not be looked at: {error}") from None
    if pid == -1 or (pid is not None and kernel.descends_from(pid, ancestor)):
        return pid
    if pid is not None and kernel.is_over(pidfd):
        return -1  # it ended between the two looks
    os.close(pidfd)
    raise Breach("a descriptor of a process outside the session" if pid else "not a process")


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)

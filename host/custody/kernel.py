"""Calls to the kernel that the standard library lacks, and what /proc says about processes.

Standard library only; used on both sides. Every function is one short, non-blocking look.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Container, Iterable
else:
    import _signal as signal  # without `enum`, of which each call would touch many pages

_libc = ctypes.CDLL(None, use_errno=True)

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

# linux/pidfd.h: _IOWR(0xFF, 11, struct pidfd_info), whose first published form has 64 octets
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_INFO = struct.Struct("=QQ11Ii")

# asm/unistd.h: keyctl, ioprio_get; linux/keyctl.h, linux/ioprio.h
_SYSCALLS = {"x86_64": (250, 252), "aarch64": (219, 31)}
_KEYCTL, _IOPRIO_GET = _SYSCALLS.get(os.uname().machine, (-1, -1))  # -1 gives ENOSYS
_KEYCTL_GET_KEYRING_ID = 0
_KEY_SPEC_SESSION_KEYRING = -3
_IOPRIO_WHO_PROCESS = 1

_CHAIN_LENGTH = 64  # of parents; init, leader and program are three
_KEPT_BY_LIBC = (32, 33)  # glibc's own real-time signals
CATCHABLE = tuple(
    number
    for number in range(1, signal.NSIG)
    if number not in (signal.SIGKILL, signal.SIGSTOP, *_KEPT_BY_LIBC)
)


def _prctl(option: int, value: object) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def become_subreaper() -> None:
    """Orphans below this process become its children. Not inherited by a fork."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """SIGKILL when the *thread* that forked us ends. Ends this process if that is so already."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(0)


def allow_tracing(is_allowed: bool) -> None:
    """Without it no process of the same user reads our memory or descriptors, until an exec."""
    _prctl(_PR_SET_DUMPABLE, int(is_allowed))


_arguments: tuple[int, int] | None = None


def rename(text: bytes) -> None:
    """Change what `ps`, `pkill` and `killall` see: a command's `pkill python` aims by name."""
    global _arguments
    _prctl(_PR_SET_NAME, ctypes.c_char_p(text[:15]))
    if _arguments is None:  # forks have theirs at the same place
        with open("/proc/self/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        _arguments = int(fields[45]), int(fields[46])  # arg_start, arg_end; 0 where it is hidden
    start, end = _arguments
    if end > start > 0:
        ctypes.memmove(start, text[: end - start - 1].ljust(end - start, b"\0"), end - start)


def ignore_signals() -> None:
    """Ignore all that can be ignored but SIGCHLD and SIGCONT; forks inherit it."""
    for number in CATCHABLE:
        if number not in (signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, signal.SIG_IGN)


def session_keyring() -> int:
    """Its number, -1 if there is none. A child can give its parent another one."""
    return int(_libc.syscall(_KEYCTL, _KEYCTL_GET_KEYRING_ID, _KEY_SPEC_SESSION_KEYRING, 0))


def io_priority() -> int:
    """As `ionice` sets it, -1 if it can't be known."""
    return int(_libc.syscall(_IOPRIO_GET, _IOPRIO_WHO_PROCESS, 0))


def child_alarm() -> int:
    """The read end of a pipe that gets a byte at each SIGCHLD; replaces an inherited one."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return read


def quiet(alarm: int) -> None:
    """Empty the pipe of `child_alarm`."""
    try:
        os.read(alarm, 4096)
    except BlockingIOError:
        pass


def close_all_but(keep: Iterable[int]) -> None:
    """An inherited end of a socket that a child holds would hide the other side's death."""
    at = 0
    for fd in sorted(set(keep)):
        if at < fd:  # closerange(0, 0) closes everything
            os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, max(at, 1 << 20))


_first_soft: int | None = None


def open_files() -> int:
    """This process's soft limit on open files, as it was before `raise_open_files`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if _first_soft is None else _first_soft


def raise_open_files() -> None:
    """Raise this process's soft limit on open files to the hard one.

    Descriptors in flight count against the sender's soft limit, those of all processes of a user
    together, so one with 1,024 would lose packets to ETOOMANYREFS. For processes of ours alone: an
    embedder's limits are its own.
    """
    global _first_soft
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _first_soft is None:
        _first_soft = soft
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# ------------------------------------------------------------------ pidfds
def is_over(pidfd: int) -> bool:
    """Whether the process has ended, reaped or not."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def pid_of(pidfd: int) -> int | None:
    """The number behind a pidfd as this process sees it: -1 if reaped; None if `pidfd` is none."""
    with open(f"/proc/self/fdinfo/{pidfd}", "rb", buffering=0) as file:
        for line in file.read(4096).splitlines():
            if line.startswith(b"Pid:"):
                return int(line[4:])
    return None


def exit_status(pidfd: int) -> int | None:
    """The raw wait status of a reaped process, from the kernel (6.15 and later), else None."""
    buffer = bytearray(_INFO.size)
    buffer[:8] = struct.pack("=Q", _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(buffer)
    return int(status) if mask & _PIDFD_INFO_EXIT else None


# ------------------------------------------------------------------ /proc
class Stat:
    """What one look at /proc/<pid>/stat says. `start` is in clock ticks since boot."""

    __slots__ = ("parent", "start", "state")

    def __init__(self, state: str, parent: int, start: int) -> None:
        self.state, self.parent, self.start = state, parent, start

    @property
    def is_living(self) -> bool:
        return self.state not in "ZX"


def stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        return Stat(fields[0].decode(), int(fields[1]), int(fields[19]))
    except (OSError, IndexError):
        return None


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether the chain of parents of a process, zombies included, comes to `ancestor`."""
    at = pid
    for _ in range(_CHAIN_LENGTH):
        found = stat(at)
        if found is not None and found.parent == ancestor:
            return True
        if found is None and at != pid:
            at = pid  # a parent ended between two looks: the process below it has another by now
        elif found is None or found.parent <= 1:
            return False
        else:
            at = found.parent
    return False


def children(pid: int) -> list[int]:
    """Children of all threads of a process; [] if it is gone. A moving tree may hide one."""
    found = bytearray()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                while part := file.read(1 << 16):
                    found += part
    except OSError:
        return [] if _has_children_files else _children_by_parent(pid)
    return [int(number) for number in found.split()]


def has_child(pid: int) -> bool:
    """Whether a process of one thread has a child. False if it is gone."""
    if not _has_children_files:
        return bool(_children_by_parent(pid))
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
            return bool(file.read(1))
    except OSError:
        return False


def _children_by_parent(pid: int) -> list[int]:
    """The same from a kernel without CONFIG_PROC_CHILDREN."""
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [n for n in numbers if (found := stat(n)) is not None and found.parent == pid]


_has_children_files = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def descendants(pid: int, spared: Container[int] = ()) -> list[tuple[int, int]]:
    """(pid, parent) of all below a process, parents first, without the subtrees in `spared`."""
    out: list[tuple[int, int]] = []
    todo = [pid]
    while todo:
        parent = todo.pop(0)
        for child in children(parent):
            if child not in spared:
                out.append((child, parent))
                todo.append(child)
    return out

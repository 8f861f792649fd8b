"""The one place that starts programs: a leader's `posix_spawn`."""

from __future__ import annotations

import errno
import os
import resource

from awaitbox.host.custody import kernel, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class StartError(Exception):
    """Nothing was started. `at` is one of `protocol.AT_...`."""

    def __init__(self, number: int, at: int) -> None:
        super().__init__(number, at)
        self.number = number
        self.at = at


_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


def heritage() -> tuple[object, ...]:
    """What a program inherits from this process, and any other of the same user can change.

    Not what takes root for one that is not dumpable: the OOM score, the control group.
    """
    limits = [resource.getrlimit(number) for number in _LIMITS]
    scheduling = os.sched_getscheduler(0), os.sched_getaffinity(0), os.getpriority(0, 0)
    return (*limits, *scheduling, kernel.session_keyring(), kernel.io_priority())


def start(request: protocol.Request, fds: Sequence[int]) -> int:
    """Start a program in a session of its own; return its pid.

    `fds` become 0, 1, ... of it; they must lie above `PROGRAM_DESCRIPTORS`. With a terminal its
    path is opened as 0, 1 and 2 instead, after setsid, which makes it the controlling terminal.
    All signals are at their defaults and none is blocked. Raises `StartError`.
    """
    try:
        os.chdir(request.cwd)
    except OSError as error:
        raise StartError(error.errno or errno.EIO, protocol.AT_FOLDER) from None
    try:
        return _with_open_files(request, _actions(request, fds))
    except OSError as error:
        raise StartError(error.errno or errno.EIO, protocol.AT_PROGRAM) from None
    finally:
        os.chdir("/")  # or the leader would keep the folder's file system busy


def _actions(request: protocol.Request, fds: Sequence[int]) -> list[tuple[int, ...]]:
    actions: list[tuple[int, ...]]
    if request.terminal:
        opened = (os.POSIX_SPAWN_OPEN, 0, request.terminal, os.O_RDWR, 0)
        actions = [opened]  # type: ignore[list-item]
        return [*actions, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    return [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]


def _with_open_files(request: protocol.Request, actions: list[tuple[int, ...]]) -> int:
    """The program gets the soft limit that the host had; ours is raised, and again afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = request.open_files if hard < 0 else min(request.open_files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        return _first_that_starts(request, actions)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _first_that_starts(request: protocol.Request, actions: list[tuple[int, ...]]) -> int:
    """Search as CPython's subprocess does: the first real obstacle counts more than ENOENT."""
    obstacle: OSError | None = None
    for path in _candidates(request):
        try:
            os.stat(path)  # a failed spawn costs a pid and 0.3 ms
            return os.posix_spawn(
                path,
                request.argv,
                request.env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=kernel.CATCHABLE,  # python ignores SIGPIPE and SIGXFSZ, a leader all
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            obstacle = obstacle or error
    raise obstacle or missing


def _candidates(request: protocol.Request) -> Iterator[bytes]:
    """`posix_spawnp` would search the leader's own PATH, not the command's."""
    program = request.executable or request.argv[0]
    if b"/" in program:
        yield program
        return
    for folder in request.env.get(b"PATH", os.defpath.encode()).split(b":"):
        yield os.path.join(folder, program)

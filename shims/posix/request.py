"""One `process.start`, made from what CPython hands to the start of a child.

What the forked child would do itself (search PATH, chdir, dup2) is left to whoever starts the
program; what cannot be done there is refused here, by name.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from typing import Any

# The positional arguments of `Popen._execute_child` on POSIX, the same from CPython 3.11 to 3.13.
CHILD_ARGUMENTS = (
    *("args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env"),
    *("startupinfo", "creationflags", "shell"),
    *("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"),
    *("restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)
PIPE_ENDS = CHILD_ARGUMENTS[10:16]

# Linux, fs/exec.c: argv and environment take at most three quarters of the default stack. Said
# here, for a frame of that size would be refused by the host as a breach of the protocol.
ARGUMENT_BYTES = 6 << 20
UNLISTED_DESCRIPTORS = 1024  # looked at where /proc cannot list them; the usual soft limit

_USER = "programs run as the session's own user; leave it out"
_ONLY_THREE = (
    "only stdin, stdout and stderr travel to a program; hand data over by one of them or by a file"
)
_REFUSED = (
    (
        "preexec_fn",
        lambda given: given["preexec_fn"] is not None,
        "programs are started by the host and not by a fork of this process; "
        "write the preparation into the command, as in ['sh', '-c', 'ulimit -n 64; exec prog']",
    ),
    ("pass_fds", lambda given: bool(given["pass_fds"]), _ONLY_THREE),
    (
        # As everywhere this changes nothing, unless somebody made a descriptor inheritable.
        "close_fds=False beside an inheritable descriptor",
        lambda given: not given["close_fds"] and inheritable_descriptors() != [],
        _ONLY_THREE,
    ),
    (
        "restore_signals=False",
        lambda given: not given["restore_signals"],
        "programs start with the default signals; leave it out",
    ),
    ("group", lambda given: given["gid"] is not None, _USER),
    ("extra_groups", lambda given: given["gids"] is not None, _USER),
    ("user", lambda given: given["uid"] is not None, _USER),
    (
        "umask",
        lambda given: given["umask"] >= 0,
        "write it into the command, as in ['sh', '-c', 'umask 077; exec prog']",
    ),
    (
        "process_group",
        lambda given: given["process_group"] > 0,  # 0, a group of its own, every program has
        "every program leads a session and a group of its own; leave it out",
    ),
)


def inheritable_descriptors() -> list[int]:
    """Those beside the three that a fork and an exec would hand on."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = list(range(UNLISTED_DESCRIPTORS))  # its process table is not this process's
    found = []
    for number in numbers:
        with contextlib.suppress(OSError):  # not open, or that of the listing itself
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """`args` of the verb, the three descriptors beside it (still the caller's), and the program and
    the folder as the caller wrote them, for its errors."""

    args: dict[str, Any]
    fds: tuple[int, int, int]
    program: Any
    folder: Any

    def native(self, failure: Exception) -> OSError | None:
        """What CPython raises for this failure of a start, None if it is not the system's."""
        kind, _, rest = str(getattr(failure, "code", "")).partition(":")
        number, _, which = rest.partition(":")
        if kind != "errno" or not number.isdecimal():
            return None
        return _os_error(int(number), self.folder if which == "cwd" else self.program)


def make_request(given: dict[str, Any]) -> Request:
    """Raises what CPython raises for the same arguments, ValueError for one not honoured."""
    for name, is_given, mend in _REFUSED:
        if is_given(given):
            raise ValueError(f"{name} cannot be honoured here: {mend}")
    argv, executable = _command(given["args"], given["executable"], bool(given["shell"]))
    program = argv[0] if executable is None else executable  # none at all: CPython's IndexError
    words = [_text(word) for word in argv]
    env = _environment(given["env"])
    folder = given["cwd"]
    args = {
        "argv": words,
        "executable": None if executable is None else _text(executable),
        "env": env,
        "cwd": _absolute(folder),
    }
    if sum(map(len, (*words, *env, *env.values()))) > ARGUMENT_BYTES:
        raise _os_error(errno.E2BIG, program)
    return Request(args, _descriptors(given), program, folder)


def _command(args: Any, executable: Any, is_shell: bool) -> tuple[list[Any], Any]:
    if isinstance(args, os.PathLike) and is_shell:
        raise TypeError("path-like args is not allowed when shell is true")
    argv = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    if is_shell:
        argv = [executable or "/bin/sh", "-c", *argv]
    return argv, executable


def _environment(env: Any) -> dict[str | bytes, str | bytes]:
    # With None a forked child has the environment as this process has changed it since.
    made: dict[str | bytes, str | bytes] = {}
    for name, value in (os.environ if env is None else env).items():
        if b"=" in os.fsencode(name):
            raise ValueError("illegal environment variable name")
        made[_text(name)] = _text(value)
    return made


def _absolute(folder: Any) -> str | bytes:
    if folder is None:
        return _text(os.getcwd())
    path = os.fsdecode(folder)
    if not path:
        raise _os_error(errno.ENOENT, folder)
    return _text(os.path.join(os.getcwd(), path))


def _descriptors(given: dict[str, Any]) -> tuple[int, int, int]:
    ends = (given["p2cread"], given["c2pwrite"], given["errwrite"])
    # Negative: not redirected, so the program has this process's own.
    stdin, stdout, stderr = (end if end >= 0 else own for own, end in enumerate(ends))
    for fd in (stdin, stdout, stderr):
        os.fstat(fd)  # a closed one is the caller's mistake and must not fail on the wire
    return stdin, stdout, stderr


def _text(value: Any) -> str | bytes:
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise ValueError("embedded null byte")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw  # msgpack has no string for it


def _os_error(number: int, filename: Any) -> OSError:
    return OSError(number, os.strerror(number), filename)  # Python picks the class: ENOENT, EACCES

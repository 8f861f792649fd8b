"""Closes the ways to start a program from Python that no host sees.

`subprocess`, `os.system`, `os.popen` and `asyncio.create_subprocess_*` stay: the posix shim makes
them calls of the host. Everything else says which verb to use. This gives clear errors; what can't
be reached at all is the operating system's to enforce.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

_USE = (
    "use `await shell_run([...])` for a command that ends, "
    "`await shell_background([...])` for one that stays, or subprocess"
)
_OS = (
    "fork",
    "forkpty",
    "execl",
    "execle",
    "execlp",
    "execlpe",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "spawnl",
    "spawnle",
    "spawnlp",
    "spawnlpe",
    "spawnv",
    "spawnve",
    "spawnvp",
    "spawnvpe",
    "posix_spawn",
    "posix_spawnp",
)
MODULES = ("ctypes", "_ctypes", "_posixsubprocess")  # never importable


def refusal(name: str) -> PermissionError:
    """What a closed door raises."""
    return PermissionError(f"{name} is closed in a cell: {_USE}")


def _closed(name: str) -> Callable[..., NoReturn]:
    def closed(*args: Any, **options: Any) -> NoReturn:
        raise refusal(name)

    closed.__name__ = closed.__qualname__ = name.rpartition(".")[2]
    return closed


def close() -> None:
    """In place and for good."""
    import _posixsubprocess
    import posix
    import subprocess
    import sys

    for name in _OS:
        for module in (os, posix):
            if hasattr(module, name):
                setattr(module, name, _closed(f"os.{name}"))
    # multiprocessing, pty and ProcessPoolExecutor end in one of these, or in os.fork.
    for name in [name for name in sys.modules if name.partition(".")[0] in MODULES]:
        del sys.modules[name]  # what the zygote needed of them; a cell would find them loaded
    for holder, name in ((_posixsubprocess, "fork_exec"), (subprocess, "_fork_exec")):
        if hasattr(holder, name):
            setattr(holder, name, _closed("_posixsubprocess.fork_exec"))

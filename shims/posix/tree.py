"""`run`, `call` and `os.system`: whatever ends these early ends the program's whole tree.

`run` and `call` are CPython's own code with one global name exchanged: the Popen they make is one
whose `kill` reaches the tree. A user's `Popen.kill` reaches the process alone, as everywhere.
"""

from __future__ import annotations

import os
import subprocess
from types import FunctionType
from typing import Any, cast

from awaitbox.shims.posix.popen import Popen


class TreePopen(Popen):
    __module__ = "subprocess"

    def kill(self) -> None:
        """Returns when nothing of the tree is left, also if its first process ended before."""
        self._ask("process.kill_tree")


TreePopen.__name__ = TreePopen.__qualname__ = "Popen"


def system(command: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> int:
    """Execute the command in a subshell. Returns its wait status."""
    # As libc's system(): the shell calls itself "sh" in its messages.
    program = TreePopen(["sh", "-c", os.fsencode(command)], executable="/bin/sh")
    try:
        program.wait()
    except BaseException:
        program.kill()
        raise
    assert program._wait_status is not None
    return program._wait_status


def _make_popen(*args: Any, **options: Any) -> subprocess.Popen[Any]:
    # Whoever put a class of their own in its place (a test's recorder) meets it here as elsewhere.
    kind = TreePopen if subprocess.Popen is Popen else subprocess.Popen
    return kind(*args, **options)


def _with_trees(function: Any) -> Any:
    original = cast(FunctionType, function)
    rebuilt = FunctionType(
        original.__code__,
        {**original.__globals__, "Popen": _make_popen},
        original.__name__,
        original.__defaults__,
        original.__closure__,
    )
    rebuilt.__kwdefaults__ = original.__kwdefaults__
    rebuilt.__doc__ = original.__doc__
    return rebuilt


run = _with_trees(subprocess.run)
call = _with_trees(subprocess.call)

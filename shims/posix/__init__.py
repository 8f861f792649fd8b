"""`subprocess`, `os.system`, `os.popen` and `asyncio.create_subprocess_*`, asked of the host.

The code that a cell runs is CPython's own. Only the steps that touch a child process (start, wait,
poll, signal) are replaced, by these internal verbs, whose names no source can spell:

| verb | args | answer |
| --- | --- | --- |
| process.start | argv, executable, env, cwd; stdin, stdout, stderr beside the frame | handle, pid |
| process.wait | handle | status when it ended, None if that is lost |
| process.poll | handle | status, or None while it runs |
| process.signal | handle, signal | that process alone has it |
| process.kill_tree | handle | the whole tree is gone |

A status is the kernel's wait status. A handle is asked for only while no status of it has come,
but by several threads at once, and by `process.kill_tree` also later. Text is `str`, or `bytes`
where it is not UTF-8. A start that failed in the system is told by the code
`errno:<number>:<cwd|argv0>` and becomes the exception that CPython raises.
"""

from __future__ import annotations

import os
import subprocess
from asyncio.unix_events import _UnixSelectorEventLoop
from collections.abc import Callable

from trio_asyncio._base import BaseTrioEventLoop

from awaitbox.shims.posix.aio import make_subprocess_transport
from awaitbox.shims.posix.popen import Door, Link, Popen
from awaitbox.shims.posix.request import inheritable_descriptors
from awaitbox.shims.posix.tree import call, run, system


def install(link: Link, flush: Callable[[], None]) -> None:
    """Replace the doors of this process, in place and for good.

    To be called before the facades are made. `flush` writes out what the cell has printed so far;
    it is called before each start, so that a program's output comes behind it.
    """
    Popen._door = Door(link, flush)
    for fd in inheritable_descriptors():
        os.set_inheritable(fd, False)  # the worker's own: no program would ever be given them
    # Modules that hold these by name have them from `subprocess`; check_call, check_output,
    # getoutput, getstatusoutput and os.popen are CPython's and find them there.
    replaced = {"Popen": Popen, "run": run, "call": call}
    for name, value in replaced.items():
        setattr(subprocess, name, value)
    os.system = system
    for loop in (_UnixSelectorEventLoop, BaseTrioEventLoop):
        setattr(loop, "_make_subprocess_transport", make_subprocess_transport)  # noqa: B010

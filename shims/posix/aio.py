"""Programs of an asyncio loop: asyncio's own transport, protocol and streams over our `Popen`.

CPython waits for a child by its pid, which is no child here, so the transport waits by the link.
Works on asyncio's loop (`asyncio.run` in a cell) and on trio-asyncio's.
"""

from __future__ import annotations

import asyncio
import subprocess
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.log import logger
from typing import Any

from trio_asyncio._base import BaseTrioEventLoop

from awaitbox.shims.posix.popen import Popen

UNKNOWN_RETURNCODE = 255  # what asyncio reports when the true one is lost


class SubprocessTransport(BaseSubprocessTransport):
    _program: Popen
    _watcher: asyncio.Task[None]

    def _start(self, *, args: Any, bufsize: int, **given: Any) -> None:  # type: ignore[override]
        # Blocks the loop for one call, as a fork does.
        made: Any = subprocess.Popen(args, bufsize, universal_newlines=False, **given)
        self._proc = self._program = made

    def watch(self) -> None:
        """Report the end to the protocol when it comes."""
        if isinstance(self._loop, BaseTrioEventLoop):
            # In the loop's own nursery, where the cancel of a cell's tasks does not reach it.
            self._loop.run_trio_task(self._watch)
        else:
            self._watcher = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        program = self._program
        try:
            ended = await program._door.link.call("process.wait", {"handle": program._handle})
            program._settle(ended["status"])
            returncode = UNKNOWN_RETURNCODE if program.returncode is None else program.returncode
        except Exception as error:
            logger.warning("process %s: its return code is lost: %r", program.pid, error)
            returncode = UNKNOWN_RETURNCODE
        self._process_exited(returncode)

    # CPython 3.13 signals by the pid; `terminate` and `kill` come here or go to the Popen.
    def send_signal(self, signal: int) -> None:
        self._check_proc()
        self._program.send_signal(signal)

    def __del__(self) -> None:
        """No kill: a collector's call on the link could meet this very thread inside it."""


async def make_subprocess_transport(
    loop: Any,
    protocol: asyncio.SubprocessProtocol,
    args: Any,
    shell: bool,
    stdin: Any,
    stdout: Any,
    stderr: Any,
    bufsize: int,
    extra: Any = None,
    **kwargs: Any,
) -> SubprocessTransport:
    """A loop's `_make_subprocess_transport`. A cancel meanwhile kills the process."""
    waiter = loop.create_future()
    transport = SubprocessTransport(
        loop, protocol, args, shell, stdin, stdout, stderr, bufsize, waiter, extra, **kwargs
    )
    transport.watch()
    try:
        await waiter
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        transport.close()
        await transport._wait()
        raise
    return transport

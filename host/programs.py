"""Programs that the posix shim starts: the host's end of `subprocess` in a cell.

They pass the same toggle, confinement and trace as `shell_run`, under whose name they are recorded.
Their stdin, stdout and stderr are the descriptors that the cell sent; the host only passes them on.
"""

from __future__ import annotations

import os
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import trio

from awaitbox.host.custody.command import Command
from awaitbox.host.custody.machine import Machine
from awaitbox.host.errors import VerbArguments, VerbUnknownId
from awaitbox.host.limits import LINGER_QUIET_SECONDS, PROGRAMS_KEPT
from awaitbox.host.process.foreground import Leftover
from awaitbox.host.trace import Trace
from awaitbox.shims.wire import Raise

PREFIX = "process."
_UNKNOWN = 255 << 8


@dataclass(frozen=True)
class Start:
    """Arguments of `process.start`; `executable` runs in place of `argv[0]`."""

    argv: list[str]
    executable: str | None
    env: dict[str, str]
    cwd: str

    @classmethod
    def of(cls, args: Mapping[str, Any]) -> Start:
        """Check what a worker sent: text, or bytes where it is not UTF-8. Raises
        `VerbArguments`."""
        try:
            executable = args["executable"]
            start = cls(
                [os.fsdecode(word) for word in args["argv"]],
                None if executable is None else os.fsdecode(executable),
                {os.fsdecode(name): os.fsdecode(value) for name, value in args["env"].items()},
                os.fsdecode(args["cwd"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise VerbArguments(f"process.start: {error}") from None
        if len(args) != len(fields(cls)) or not start.argv:
            raise VerbArguments("process.start takes an argv, an executable, an env and a cwd")
        return start

    @property
    def line(self) -> str:
        """What runs, as a shell would write it."""
        return shlex.join([self.executable or self.argv[0], *self.argv[1:]])


class Program:
    """One of them; its handle is all that the worker knows of it."""

    def __init__(self, command: Command, line: str, cwd: str) -> None:
        self.command = command
        self.line = line
        self.cwd = cwd
        self.is_told = False  # the worker knows how it ended

    def told_status(self) -> dict[str, Any]:
        """Its wait status as the worker is told it; an end that nobody could observe reads as
        exit 255, for a status of None means that it runs."""
        if not self.command.ended.is_set():
            return {"status": None}
        self.is_told = True
        return {"status": _UNKNOWN if self.command.status is None else self.command.status}


class Programs:
    """The programs of one session by handle; each is watched in a task of the session."""

    def __init__(
        self,
        machine: Machine,
        trace: Trace,
        watch_in: trio.Nursery,
        adopt: Callable[[Leftover, str, str], Any],
    ) -> None:
        self._machine = machine
        self._trace = trace
        self._nursery = watch_in
        self._adopt = adopt
        self._by_handle: OrderedDict[int, Program] = OrderedDict()
        self._by_call: OrderedDict[int, Program] = OrderedDict()
        self._last = 0

    def started_by(self, call: int) -> Command | None:
        """The program that a call of the present worker started, if it still runs: its cancel and
        its answer may cross."""
        program = self._by_call.get(call)
        return None if program is None or program.command.gone.is_set() else program.command

    def forget_calls(self) -> None:
        """A new worker counts its calls anew."""
        self._by_call.clear()

    async def answer(
        self, call: int, name: str, args: Mapping[str, Any], fds: list[int]
    ) -> dict[str, Any]:
        """Run one `process.*` call; the descriptors stay the caller's. Raises OSError as the start
        of a program does."""
        if name == "process.start":
            return await self._start(call, args, fds)
        program = self._find(args)
        if name == "process.wait":
            await program.command.ended.wait()
            return program.told_status()
        if name == "process.poll":
            return program.told_status()
        if name == "process.signal":
            number = args.get("signal")
            if type(number) is not int or not 0 <= number <= 64:
                raise VerbArguments("process.signal takes a signal number")
            program.command.signal(number)
            return {}
        if name == "process.kill_tree":
            await program.command.stop(0)
            return {}
        raise VerbArguments(f"no call {name!r}")

    def _find(self, args: Mapping[str, Any]) -> Program:
        handle = args.get("handle")
        program = self._by_handle.get(handle) if type(handle) is int else None
        if program is None:
            raise VerbUnknownId(f"no program with handle {handle!r}")
        return program

    async def _start(self, call: int, args: Mapping[str, Any], fds: list[int]) -> dict[str, Any]:
        start = Start.of(args)
        if len(fds) != 3:
            raise VerbArguments("process.start takes three descriptors")
        entry = self._trace.begin("shell_run", {"commands": [start.line], "cwd": start.cwd})
        try:
            command = await self._machine.spawn(
                start.argv,
                env=start.env,
                cwd=start.cwd,
                fds=fds,
                executable=start.executable,
            )
        except BaseException as error:
            outcome = "error" if isinstance(error, Exception) else "cancelled"
            self._trace.end(entry, outcome, str(error))
            raise
        self._trace.end(entry)
        self._last += 1
        program = Program(command, start.line, start.cwd)
        self._by_handle[self._last] = program
        self._by_call[call] = program
        if len(self._by_call) > PROGRAMS_KEPT:
            self._by_call.popitem(last=False)
        self._nursery.start_soon(self._watch, program)
        self._forget_the_oldest()
        return {"handle": self._last, "pid": command.pid}

    def _forget_the_oldest(self) -> None:
        over = len(self._by_handle) - PROGRAMS_KEPT
        if over > 0:
            for handle, program in list(self._by_handle.items())[:over]:
                if program.is_told:
                    del self._by_handle[handle]

    async def _watch(self, program: Program) -> None:
        """What it leaves running becomes a background of the session."""
        command: Command | None = program.command
        assert command is not None
        try:
            await command.ended.wait()
            if not command.gone.is_set():
                with trio.move_on_after(LINGER_QUIET_SECONDS):
                    await command.gone.wait()
            survivor = None if command.gone.is_set() else await command.survivors()
            if survivor is not None:
                leftover, command = Leftover(command, survivor), None
                self._adopt(leftover, program.line, program.cwd)
        finally:
            if command is not None:
                command.close()


def raised_os_error(call: int, error: OSError, cwd: object) -> Raise:
    """An OSError of a start, so that the shim can build CPython's own from it."""
    where = "cwd" if error.filename == cwd else "argv0"
    kind = type(error).__name__
    return Raise(call, kind, f"errno:{error.errno}:{where}", error.strerror or str(error))

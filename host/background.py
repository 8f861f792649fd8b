"""A background: something that runs under an id, and its log.

It is a script on a terminal (`Background.start`), or what a command left running (`adopt`): that
has no keyboard and ends when the last survivor does.

| state | event | then |
| --- | --- | --- |
| starting | started | running |
| starting | failed | exited |
| running | ended | exited |
| running | stop | stopping |
| stopping | ended | stopped |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import trio

from awaitbox.host.custody.command import Command, Survivor
from awaitbox.host.custody.machine import Machine
from awaitbox.host.limits import (
    LINGER_QUIET_SECONDS,
    STOP_GRACE_SECONDS,
    TERMINAL_COLUMNS,
    TERMINAL_ROWS,
)
from awaitbox.host.process.foreground import Leftover
from awaitbox.host.process.linelog import LineLog
from awaitbox.host.process.pty import Pty
from awaitbox.host.process.pump import Pump

MOVES = {
    ("starting", "started"): "running",
    ("starting", "failed"): "exited",
    ("running", "ended"): "exited",
    ("running", "stop"): "stopping",
    ("stopping", "ended"): "stopped",
}
_SHOWN = {"starting": "running", "stopping": "running"}


def exit_code(status: int | None) -> int | None:
    """A wait status as a shell gives it: death by a signal is 128 + its number."""
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class Background:
    """One id. Whoever makes it runs `watch()` in a nursery of the session."""

    kind: ClassVar[str] = "background"

    def __init__(self, id: str, commands: list[str], cwd: str, pump: Pump) -> None:
        self.id = id
        self.commands = commands
        self.cwd = cwd
        self.log = LineLog()
        self.pid: int | None = None
        self.exit: int | None = None
        self.note: str | None = None
        self.started = trio.Event()  # it runs, or could not be started
        self.finished = trio.Event()  # all output is taken in
        self._pump = pump
        self._state = "starting"
        self._began = self._ended = trio.current_time()
        self._command: Command | None = None
        self._pty: Pty | None = None
        self._pipes: list[int] = []
        self._is_adopted = False

    # --- what it is now
    @property
    def status(self) -> str:
        return _SHOWN.get(self._state, self._state)

    @property
    def has_keyboard(self) -> bool:
        return self._pty is not None and not self._is_adopted

    @property
    def pty(self) -> Pty | None:
        return self._pty

    @property
    def uptime_ms(self) -> int:
        end = trio.current_time() if self._state in ("running", "stopping") else self._ended
        return int((end - self._began) * 1000)

    @property
    def is_adopted(self) -> bool:
        return self._is_adopted

    def detail(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "status": self.status,
            "pid": self.pid,
            "exit": self.exit,
            "detail": "\n".join(self.commands),
        }

    def refresh(self) -> None:
        """Take in what has been printed by now, so that a read is not up to a pump's rest old."""
        for fd in self._sources():
            self._pump.refresh(fd)

    def _sources(self) -> list[int]:
        return [*([self._pty.master] if self._pty else []), *self._pipes]

    def _move(self, event: str) -> None:
        if (self._state, event) not in MOVES:
            raise RuntimeError(f"background {self.id!r}: {event} while {self._state}")
        self._state = MOVES[self._state, event]

    # --- a script on a terminal
    async def start(self, machine: Machine, argv: list[str], env: Mapping[str, str]) -> None:
        """Start it. On any error or cancel nothing runs and it counts as exited."""
        try:
            pty = Pty.open(TERMINAL_COLUMNS, TERMINAL_ROWS)
            try:
                self._command = await machine.spawn(
                    argv, env=env, cwd=self.cwd, fds=(), tty=pty.path
                )
            except BaseException:
                pty.close()
                raise
            self._pty = pty
            self.pid = self._command.pid
            self._pump.add(pty.master, self.log.feed)
            self._move("started")
        except BaseException:
            self._move("failed")
            self.finished.set()
            raise
        finally:
            self.started.set()

    async def watch(self, adopt: Callable[[Leftover, Background], None]) -> None:
        """Wait for the end, take the rest of the output in, hand survivors to `adopt`. A cancel
        closes what it holds; the machine's end is the end of its processes."""
        try:
            if self._is_adopted:
                await self._until_gone()
            else:
                await self._until_ended(adopt)
        finally:
            self._close()

    async def _until_gone(self) -> None:
        command = self._command
        assert command is not None
        await command.gone.wait()
        self._finish(exit_code(command.oldest_status), command)

    async def _until_ended(self, adopt: Callable[[Leftover, Background], None]) -> None:
        command = self._command
        assert command is not None
        await command.ended.wait()
        self.refresh()
        if not command.gone.is_set() and self._state == "running":
            with trio.move_on_after(LINGER_QUIET_SECONDS):  # the kernel hangs up the script's group
                await command.gone.wait()
        survivor = None
        if self._state == "stopping":
            await command.gone.wait()
        elif not command.gone.is_set():
            survivor = await command.survivors()
            if self._state == "stopping":  # meanwhile: what survived is being ended, not adopted
                await command.gone.wait()
                survivor = None
        if survivor is None:
            self._finish(exit_code(command.status), command)
            return
        self.refresh()
        self._command = None
        adopt(Leftover(command, survivor), self)
        self._finish(exit_code(command.status), None)

    def hand_over(self) -> tuple[Pty | None, list[int]]:
        """Give the terminal away, to the background that what survived here becomes."""
        for fd in self._sources():
            self._pump.remove(fd)
        pty, pipes = self._pty, self._pipes
        self._pty, self._pipes = None, []
        return pty, pipes

    def _finish(self, exit: int | None, command: Command | None) -> None:
        for fd in self._sources():
            self._pump.drain(fd)
        self.log.feed(b"", final=True)
        self._ended = trio.current_time()
        self.exit = exit
        if command is not None:
            self.note = command.note
            if command.left:
                self.note = f"{command.left} processes of another user could not be ended"
        self._move("ended")
        self._close()
        self.finished.set()

    def _close(self) -> None:
        for fd in self._sources():
            self._pump.remove(fd)
        if self._pty is not None:
            self._pty.close()
        for fd in self._pipes:
            os.close(fd)
        if self._command is not None:
            self._command.close()
        self._pty, self._pipes, self._command = None, [], None

    async def stop(self) -> None:
        """SIGTERM to the tree, grace, SIGKILL; returns when it is gone and the log is complete.
        A cancel does not cut it short."""
        await self.started.wait()
        if self._state == "running" and self._command is not None:
            self._move("stop")
            with trio.CancelScope(shield=True):
                await self._command.stop(STOP_GRACE_SECONDS)
        if self._state in ("running", "stopping"):
            with trio.CancelScope(shield=True):
                await self.finished.wait()

    # --- what a command left running
    def adopt(
        self, command: Command, survivor: Survivor, pty: Pty | None, pipes: list[int]
    ) -> None:
        """Become the background of a tree that outlived its command."""
        self._is_adopted = True
        self._command = command
        self.pid = survivor.pid
        self._pty, self._pipes = pty, pipes
        for fd in self._sources():
            self._pump.add(fd, self.log.feed)
        if not self._sources():
            self.log.feed(b"[its output stays where the cell sent it; nothing of it comes here]\n")
        self._move("started")
        self.started.set()

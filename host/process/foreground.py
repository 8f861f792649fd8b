"""One command on pipes, from its start to its end and what it leaves behind."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio

from awaitbox.host.custody.command import Command, Survivor
from awaitbox.host.custody.machine import Machine
from awaitbox.host.errors import HostError
from awaitbox.host.limits import (
    KILL_GRACE_SECONDS,
    LINGER_QUIET_SECONDS,
    LINGER_SECONDS,
    PIPE_BYTES,
    SURVIVOR_SECONDS,
)
from awaitbox.host.process.capture import Capture, drain


@dataclass
class Leftover:
    """A tree that outlives its command: whoever takes this owns the command and the descriptors."""

    command: Command
    survivor: Survivor
    fds: list[int] = field(default_factory=list)

    async def end(self) -> None:
        """Nobody took it: end the tree. Not cut short by a cancel."""
        with trio.CancelScope(shield=True):
            await self.command.stop(KILL_GRACE_SECONDS)
        self.command.close()
        for fd in self.fds:
            os.close(fd)


class Foreground:
    """A command whose stdout and stderr are captured; stdin is `/dev/null`.

    `run` may be cancelled: then the tree is gone, and the captures hold what had been printed.
    """

    def __init__(self, machine: Machine, spill_folder: str) -> None:
        self._machine = machine
        self.stdout = Capture("stdout", spill_folder)
        self.stderr = Capture("stderr", spill_folder)
        self.command: Command | None = None
        self.leftover: Leftover | None = None

    @property
    def status(self) -> int | None:
        return None if self.command is None else self.command.status

    async def run(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str) -> None:
        """Start it, take its output in, and return when it is over: its own process has ended, and
        its streams are at their end or quiet.

        Raises OSError if it can't be started, HostError (`leader_lost`: whether it ran is not
        known, but what it printed is in the captures; `session_lost`)."""
        fds, theirs = _pipes()
        try:
            try:
                command = await self._machine.spawn(argv, env=env, cwd=cwd, fds=theirs)
            except HostError:
                await self._take_rest(fds)
                raise
            finally:
                for fd in set(theirs):
                    os.close(fd)
            self.command = command
            try:
                await self._until_over(command, fds)
                survivor = await self._survivor(command)
                if self._machine.lost.is_set():
                    raise self._machine.lost_error()
            except BaseException:
                await self._end(command, fds)
                await trio.lowlevel.checkpoint_if_cancelled()  # bare, not the nursery's group
                raise
            if survivor is not None:
                self.leftover, fds = Leftover(command, survivor, fds), []
            else:
                command.close()
        finally:
            for fd in fds:
                os.close(fd)

    async def _take_rest(self, fds: list[int]) -> None:
        """What lies in the pipes, of whose other ends nothing more comes."""
        for fd, capture in zip(fds, (self.stdout, self.stderr), strict=True):
            capture.take(fd, PIPE_BYTES)
            await capture.finish()

    async def _until_over(self, command: Command, fds: list[int]) -> None:
        async with trio.open_nursery() as nursery:
            at_end = trio.Event()

            async def take(fd: int, capture: Capture) -> None:
                await drain(fd, capture)
                if self.stdout.is_ended and self.stderr.is_ended:
                    at_end.set()

            nursery.start_soon(take, fds[0], self.stdout)
            nursery.start_soon(take, fds[1], self.stderr)
            await command.ended.wait()
            if not at_end.is_set():
                await self._linger(at_end)
            nursery.cancel_scope.cancel()
        await self.stdout.finish()
        await self.stderr.finish()

    async def _linger(self, at_end: trio.Event) -> None:
        """Children may still print: until the end of both streams, or so long without a byte."""
        began = trio.current_time()
        while not at_end.is_set():
            last = max(began, self.stdout.last_byte_at, self.stderr.last_byte_at)
            until = min(last + LINGER_QUIET_SECONDS, began + LINGER_SECONDS)
            if until <= trio.current_time():
                return
            with trio.move_on_at(until):
                await at_end.wait()

    async def _survivor(self, command: Command) -> Survivor | None:
        if not command.gone.is_set():
            with trio.move_on_after(SURVIVOR_SECONDS):
                await command.gone.wait()
        return None if command.gone.is_set() else await command.survivors()

    async def _end(self, command: Command, fds: list[int]) -> None:
        """Kill the tree, then take in what it had printed."""
        with trio.CancelScope(shield=True):
            await command.stop(KILL_GRACE_SECONDS)
            for fd, capture in zip(fds, (self.stdout, self.stderr), strict=True):
                with trio.move_on_after(LINGER_QUIET_SECONDS):
                    await drain(fd, capture)
                await capture.finish()
        command.close()


def _pipes() -> tuple[list[int], list[int]]:
    """-> [our read ends], [the command's stdin, stdout, stderr]; close those after the start."""
    opened: list[int] = []
    try:
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        opened.append(null)
        ends = []
        for _ in range(2):
            pair = os.pipe2(os.O_CLOEXEC)
            opened.extend(pair)
            os.set_blocking(pair[0], False)
            ends.append(pair)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return [r for r, _ in ends], [null, *(w for _, w in ends)]

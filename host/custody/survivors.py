"""Asking a leader which processes of its tree still live."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import trio

from awaitbox.host.custody import kernel, trust

_ASKS = 10  # the oldest may end between the leader's look and ours


@dataclass(frozen=True)
class Survivor:
    """The oldest living process of a command's tree. `pidfd` belongs to the `Command`."""

    pid: int
    pidfd: int
    argv0: str


class Survivors:
    """The question, its answers, and the pidfds that came with them."""

    def __init__(self, init: int, ask: Callable[[], bool]) -> None:
        """`ask` sends the question; False if there is no leader to answer."""
        self._init = init
        self._ask = ask
        self._lock = trio.Lock()
        self._open = 0  # questions without an answer yet; more than one after a cancelled one
        self._came = trio.Event()
        self._answer: Survivor | None = None
        self._is_stale = False  # what was named had ended meanwhile
        self._known: list[Survivor] = []

    async def oldest(self) -> Survivor | None:
        """None if there is none, or none that stays long enough to be named."""
        async with self._lock:
            for _ in range(_ASKS):
                self._answer, self._is_stale = None, False
                self._came = trio.Event()
                if not self._ask():
                    break
                self._open += 1
                await self._came.wait()
                if not self._is_stale:
                    break
            return self._answer

    def named(self, pidfd: int) -> None:
        """SURVIVOR came. Takes the descriptor; raises `trust.Breach`."""
        pid = trust.checked(pidfd, self._init)
        if pid < 0:
            os.close(pidfd)
            self._is_stale = True
            self.answered(None)
            return
        for known in self._known:
            if known.pid == pid and not kernel.is_over(known.pidfd):
                os.close(pidfd)
                self.answered(known)
                return
        survivor = Survivor(pid, pidfd, _argv0(pid))
        self._known.append(survivor)
        self.answered(survivor)

    def answered(self, survivor: Survivor | None) -> None:
        """Any answer came. Raises `trust.Breach`."""
        if self._open == 0:
            raise trust.Breach("an answer that nobody asked for")
        self._open -= 1
        self._answer = survivor
        self._came.set()

    def end(self) -> int | None:
        """No answer comes any more. The kernel's word on how the one named last ended, or None."""
        self._answer, self._is_stale = None, False
        self._came.set()
        return kernel.exit_status(self._known[-1].pidfd) if self._known else None

    def close(self) -> None:
        for survivor in self._known:
            os.close(survivor.pidfd)
        self._known.clear()


def _argv0(pid: int) -> str:
    """A process's own claim, cut to a path's length; "" if it has none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            return os.fsdecode(file.read(4096).partition(b"\0")[0])
    except OSError:
        return ""

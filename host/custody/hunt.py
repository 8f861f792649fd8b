"""Ending a tree of processes, and knowing that it ended.

A subreaper's word is exact: when `wait` says ECHILD, nothing is left below it, whatever called
setsid, forked twice or ignored signals. The steps: SIGTERM and SIGCONT once to each, the grace,
then SIGKILL to all; what still shows after that is forking, so it gets SIGSTOP until nothing new
comes (a stopped process forks no more, which converges even on a fork bomb), SIGKILL, and again.
"""

from __future__ import annotations

import os
import time

from awaitbox.host.custody import kernel, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Container
else:
    import _signal as signal

_FEW = 8  # are killed without being stopped first: half the work where many trees end at once
_FREEZE_ROUNDS = 50
_FIRST_REST_SECONDS = 0.002
_LAST_REST_SECONDS = 0.064  # a member's child may end without a SIGCHLD for us

_STRUCK, _OVER, _MOVED, _REFUSED = range(4)


def _strike(pid: int, parent: int, *signals: int) -> int:
    """Signal a process if it is still that parent's child, or was just handed up to us.

    A number alone may have a new owner by now, and a signal to that one hits a stranger.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return _OVER
    try:
        found = kernel.stat(pid)
        if found is None or not found.is_living:
            return _OVER
        if found.parent not in (parent, os.getpid()):
            return _MOVED
        for number in signals:
            signal.pidfd_send_signal(pidfd, number)
        return _STRUCK
    except PermissionError:
        return _REFUSED
    except OSError:
        return _OVER
    finally:
        os.close(pidfd)


def _lives(pid: int) -> bool:
    found = kernel.stat(pid)
    return found is not None and found.is_living


class Hunt:
    """Ends all below this process but the subtrees in `spared`. The caller polls and calls `step`.

    `reap` reaps what has ended and says whether this process has no child at all any more.
    After the end `left` counts what another user owns (sudo), or the kernel would not let go.
    `has_many` says whether more than a few were there at the last look.
    """

    def __init__(
        self, reap: Callable[[], bool], grace_seconds: float, spared: Container[int] = ()
    ) -> None:
        self._reap = reap
        self._spared = spared
        self._me = os.getpid()
        self._told: set[int] = set()
        self._rest = _FIRST_REST_SECONDS
        self._kill_at = time.monotonic() + grace_seconds
        self._has_killed = False
        self.left = 0
        self.has_many = False

    def shorten(self, grace_seconds: float) -> None:
        """A harder stop came during the grace."""
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)
        self._rest = _FIRST_REST_SECONDS

    def rest_ms(self) -> int:
        """How long to poll for SIGCHLD and requests before the next `step`."""
        now, rest = time.monotonic(), self._rest
        if now < self._kill_at:
            rest = min(rest, self._kill_at - now)
        self._rest = min(self._rest * 2, _LAST_REST_SECONDS)
        return max(1, round(rest * 1000))

    def step(self) -> bool:
        """Look once and signal what is there. True when it is over."""
        if self._reap():
            return True
        members = kernel.descendants(self._me, self._spared)
        if not members:
            return True
        self.has_many = len(members) > _FEW
        now = time.monotonic()
        if now < self._kill_at:
            self._ask(members)
            return False
        if now > self._kill_at + protocol.HUNT_SECONDS:
            self.left = sum(_lives(pid) for pid, _ in members)
            return True
        return self._kill(members)

    def _ask(self, members: list[tuple[int, int]]) -> None:
        for pid, parent in members:
            if pid not in self._told:
                self._told.add(pid)
                _strike(pid, parent, signal.SIGTERM, signal.SIGCONT)

    def _kill(self, members: list[tuple[int, int]]) -> bool:
        if self._has_killed or self.has_many:
            members = self._freeze(members)
        self._has_killed = True
        struck = [_strike(pid, parent, signal.SIGKILL) for pid, parent in members]
        if _REFUSED in struck and _STRUCK not in struck and _MOVED not in struck:
            self.left = struck.count(_REFUSED)  # ours to name, not to kill
            return True
        return False

    def _freeze(self, members: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Stop all; return those that were there at the end."""
        stopped: set[int] = set()
        for _ in range(_FREEZE_ROUNDS):
            new = [member for member in members if member[0] not in stopped]
            if not new:
                break
            for pid, parent in new:
                stopped.add(pid)
                _strike(pid, parent, signal.SIGSTOP)
            members = kernel.descendants(self._me, self._spared)
        return members

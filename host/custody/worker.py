"""The host's side of a worker's process; what it says is the channel's business."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from awaitbox.host.custody import kernel

if TYPE_CHECKING:
    from awaitbox.host.custody.watch import Watch


class WorkerProcess:
    """One worker. Made by `Custody.worker`. Its death is seen by the kernel's word alone."""

    def __init__(self, pidfd: int, watch: Watch, forget: Callable[[WorkerProcess], None]) -> None:
        self.pid = kernel.pid_of(pidfd) or -1
        self.pidfd = pidfd
        self.ended = trio.Event()
        self._status: int | None = None
        self._watch = watch
        self._forget = forget
        watch.add(pidfd, self._on_end)

    @property
    def status(self) -> int | None:
        """Its raw wait status, where the kernel keeps it and the zygote has reaped it."""
        if self._status is None and self.pidfd >= 0:
            self._status = kernel.exit_status(self.pidfd)
        return self._status

    def signal(self, number: int) -> None:
        """No error if it is over."""
        if self.pidfd >= 0:
            try:
                signal.pidfd_send_signal(self.pidfd, number)
            except ProcessLookupError:
                pass

    async def kill(self) -> None:
        """SIGKILL, and wait for its end. Shielded: a cancel takes effect after that."""
        self.signal(signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await self.ended.wait()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the pidfd, after killing the process if it lives. Idempotent."""
        if self.pidfd < 0:
            return
        self.signal(signal.SIGKILL)
        self._status = self.status
        self._watch.remove(self.pidfd)
        os.close(self.pidfd)
        self.pidfd = -1
        self.ended.set()
        self._forget(self)

    def _on_end(self) -> None:
        if self.pidfd >= 0 and kernel.is_over(self.pidfd):
            self._watch.remove(self.pidfd)
            self.ended.set()

"""A rig: all that a session needs to run, made in one go so that it can be made ahead of need.

It is the session folder, the machine with its init (which forks a leader ahead a moment later), the
output pipes, and a worker that is ready but belongs to nobody yet. The spare of a host is one of
these.
"""

from __future__ import annotations

import socket

import trio

from awaitbox.host.custody.custody import Custody
from awaitbox.host.custody.machine import Machine
from awaitbox.host.errors import HostError
from awaitbox.host.folder import RunFolder
from awaitbox.host.limits import READY_SECONDS
from awaitbox.host.streams import CellStreams
from awaitbox.host.worker import Worker


class Rig:
    """Owned by a session, or by the host while it is spare. `run` must run in a task."""

    def __init__(
        self, custody: Custody, machine: Machine, run_folder: RunFolder, buffer: bytearray
    ) -> None:
        self._custody = custody
        self._run_folder = run_folder
        self.machine = machine
        self.folder = machine.folder
        self.streams = CellStreams()
        self.worker: Worker | None = None
        self.workers_made = 0
        self._buffer = buffer  # one receive buffer a host: its reader is one thread
        self._nursery: trio.Nursery | None = None
        self.is_closing = False
        self.closed = trio.Event()

    @classmethod
    async def make(
        cls, custody: Custody, run_folder: RunFolder, buffer: bytearray, nursery: trio.Nursery
    ) -> Rig:
        """Make one and start its tasks in `nursery`. Raises `HostError`; a cancel or an error
        leaves nothing behind."""
        folder = run_folder.session()
        try:
            machine = await custody.begin_machine(folder)
        except BaseException:
            with trio.CancelScope(shield=True):
                await run_folder.remove(folder)
            raise
        rig = cls(custody, machine, run_folder, buffer)
        await nursery.start(rig.run)
        try:
            # Side by side, for no worker needs the machine yet; one that joins its view must
            # come after `until_ready`.
            await rig.new_worker()
            await machine.until_ready()
        except BaseException:
            await rig.aclose()
            raise
        return rig

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Its tasks, until it is closed or cancelled; then nothing of it is left."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self.streams.run)
                nursery.start_soon(self._end_with_machine)
                task_status.started()
                await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await self.machine.aclose()
                await self._run_folder.remove(self.folder)
            self.streams.close()
            self.closed.set()

    async def _end_with_machine(self) -> None:
        """A worker stands outside its machine's process table; it must not outlive it either."""
        await self.machine.lost.wait()
        if self.worker is not None:
            await self.worker.kill()

    @property
    def is_fresh(self) -> bool:
        """Whether a session can still be given this rig, which may have waited for long."""
        is_alive = self.worker is not None and self.worker.state == "idle"
        return is_alive and not self.machine.lost.is_set()

    async def new_worker(self) -> Worker:
        """Fork a worker into the machine and wait until it is ready. Raises `HostError`."""
        assert self._nursery is not None
        ours, theirs = socket.socketpair()
        try:
            ends = self.streams.write_ends
            process = await self._custody.worker(
                self.machine, theirs, ends["stdout"], ends["stderr"]
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = Worker(process, ours, self._buffer)
        self._nursery.start_soon(worker.run)
        with trio.move_on_after(READY_SECONDS):
            await worker.ready.wait()
        if worker.state != "idle":
            await worker.kill()
            why = worker.why or "it ended before it was ready"
            raise HostError(f"no worker could be started: {why}", code="worker_failed")
        self.worker = worker
        self.workers_made += 1
        return worker

    async def aclose(self) -> None:
        """End the worker, everything in the machine, and the folder. Shielded."""
        self.is_closing = True
        with trio.CancelScope(shield=True):
            if self.worker is not None:
                await self.worker.kill()
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()
                await self.closed.wait()

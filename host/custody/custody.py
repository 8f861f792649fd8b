"""The host's side of the warden and the zygote: all processes of a host, from start to end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from awaitbox.host.custody import kernel, protocol
from awaitbox.host.custody.launch import setup, start_warden
from awaitbox.host.custody.line import Line, LineClosed
from awaitbox.host.custody.machine import Machine
from awaitbox.host.custody.watch import Watch
from awaitbox.host.custody.worker import WorkerProcess
from awaitbox.host.errors import HostError
from awaitbox.host.limits import READY_SECONDS, SILENCE_SECONDS

if TYPE_CHECKING:
    from awaitbox.host.folder import RunFolder

_WORKER_MODULE = "awaitbox.shims.worker"
_END_SECONDS = protocol.HUNT_SECONDS + SILENCE_SECONDS


class Custody:
    """All that one host has started. `lost` is set when its warden died: everything is over.

    `reason` then says how. `pid` is the warden's.
    """

    def __init__(self, run_folder: RunFolder, worker_module: str) -> None:
        """Starts the warden and the zygote. Raises `HostError` (`machine_failed`)."""
        self.lost = trio.Event()
        self.reason = ""
        self._setup = setup(worker_module)
        self._open_files = kernel.open_files()
        self._watch = Watch()
        self._reading = trio.CancelScope(shield=True)
        self._machines: dict[int, Machine] = {}
        self._workers: set[WorkerProcess] = set()
        self._zygote_lock = trio.Lock()
        self._is_closing = False
        self._over = trio.Event()
        wardens, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        zygotes, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, its:
                self.pid = start_warden(
                    theirs.fileno(), its.fileno(), run_folder.lock, run_folder.path
                )
        except OSError as error:
            wardens.close()
            zygotes.close()
            self._watch.close()
            raise HostError(f"{sys.executable}: {error}", code="machine_failed") from None
        self._pidfd = os.pidfd_open(self.pid)
        self._watch.add(self._pidfd, self._on_death)
        self._warden = Line(
            wardens, self._watch, on_ended=self._on_ended, on_closed=self._kill_warden
        )
        self._zygote = Line(zygotes, self._watch)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, run_folder: RunFolder, *, worker_module: str = _WORKER_MODULE
    ) -> AsyncIterator[Custody]:
        """Start the warden; yields when it serves, while the zygote still warms.

        At the exit everything that was started is ended, and that is certain, or the warden is
        killed too. Raises `HostError` (`machine_failed`); an exception of the body passes as it is.
        """
        custody = cls(run_folder, worker_module)
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(custody._read)
            try:
                await custody._until_up()
                yield custody
            except BaseException as error:
                failure = error  # raised again below: in here the nursery would wrap it
            finally:
                await custody._close()
        if failure is not None:
            raise failure

    async def machine(self, folder: str) -> Machine:
        """Fork an init and wait until it serves. `folder` is the session's; nothing is made in it.

        Raises `HostError` (`machine_failed`, `custody_lost`). After a cancel nothing is left.
        """
        machine = await self.begin_machine(folder)
        await machine.until_ready()
        return machine

    async def begin_machine(self, folder: str) -> Machine:
        """The same without the wait, for who has other things to do: `Machine.until_ready`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                id, pidfd = await self._warden.ask(protocol.MACHINE, [theirs.fileno()])
        except BaseException as error:
            ours.close()
            raise self._explain(error) from None
        machine = self._machines[id] = Machine(
            folder,
            ours,
            pidfd,
            self._watch,
            open_files=self._open_files,
            give_up=self._lose,
            forget=lambda: self._forget_machine(id),
        )
        return machine

    async def worker(
        self, machine: Machine, sock: socket.socket, stdout: int, stderr: int
    ) -> WorkerProcess:
        """Fork a worker for a machine from the zygote, as soon as that is warm.

        In it 0 is /dev/null, 1 and 2 are `stdout` and `stderr`, 3 is `sock`, and all else is
        closed. The descriptors given stay the caller's. A dead or silent zygote is replaced once.
        Raises `HostError` (`machine_failed`, `custody_lost`, `session_lost`). After a cancel
        nothing is left.
        """
        if machine.lost.is_set() or machine.over.is_set():
            raise HostError(f"no worker: {machine.reason or 'it is closed'}", code="session_lost")
        fds = [sock.fileno(), stdout, stderr]
        pidfd = await self._fork_worker(fds)
        if pidfd is None:
            pidfd = await self._fork_worker(fds)
        if pidfd is None:
            raise HostError(
                f"no worker could be made: {self._zygote.why or 'the zygote died'}",
                code="custody_lost" if self.lost.is_set() else "machine_failed",
            )
        worker = WorkerProcess(pidfd, self._watch, self._workers.discard)
        self._workers.add(worker)
        return worker

    # ---------------------------------------------------------------- zygote
    async def _fork_worker(self, fds: list[int]) -> int | None:
        """None if the zygote died or said nothing; it is replaced at the next call."""
        zygote = await self._warm_zygote()
        try:
            with trio.fail_after(READY_SECONDS):
                _, pidfd = await zygote.ask(protocol.WORKER, fds)
            return pidfd
        except trio.TooSlowError:
            zygote.close()
        except LineClosed:
            pass
        except OSError as error:
            raise self._explain(error) from None
        return None

    async def _warm_zygote(self) -> Line:
        async with self._zygote_lock:
            if self._zygote.closed.is_set():
                await self._replace_zygote()
            with trio.move_on_after(READY_SECONDS):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_first, self._zygote.up, nursery.cancel_scope)
                    nursery.start_soon(_first, self._zygote.closed, nursery.cancel_scope)
            if not self._zygote.up.is_set():
                self._zygote.close()
            return self._zygote

    async def _replace_zygote(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._zygote = Line(ours, self._watch)
        try:
            with theirs:
                _, pidfd = await self._warden.ask(protocol.ZYGOTE, [theirs.fileno()])
        except BaseException as error:
            self._zygote.close()
            raise self._explain(error) from None
        os.close(pidfd)
        await self._zygote.send(self._setup)

    # ---------------------------------------------------------------- start and end
    async def _read(self) -> None:
        with self._reading:
            await self._watch.run()

    async def _until_up(self) -> None:
        await self._zygote.send(self._setup)
        with trio.move_on_after(READY_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_first, self._warden.up, nursery.cancel_scope)
                nursery.start_soon(_first, self._over, nursery.cancel_scope)
        if not self._warden.up.is_set():
            why = self._warden.why or f"the warden did not start ({sys.executable})"
            raise HostError(why, code="machine_failed")

    async def _close(self) -> None:
        """Every wait is bounded: an error in this class must not become a hang."""
        self._is_closing = True
        for machine in list(self._machines.values()):
            machine.close()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_END_SECONDS):
                await self._warden.send(protocol.pack(protocol.END))
                await self._over.wait()
            self._kill_warden()
            with trio.move_on_after(_END_SECONDS):
                await self._over.wait()
            for machine in list(self._machines.values()):
                if self.lost.is_set():  # else the warden left, so nothing was left
                    with trio.move_on_after(2 * _END_SECONDS):
                        await machine.over.wait()
                machine.finish(0)
                machine.release()
        for worker in list(self._workers):
            worker.close()
        self._zygote.close()
        self._warden.close()
        os.close(self._pidfd)
        self._reading.cancel()
        self._watch.close()

    def _on_ended(self, id: int, status: int, left: int) -> None:
        if (machine := self._machines.get(id)) is not None:
            machine.finish(left, status)

    def _on_death(self) -> None:
        if self._over.is_set() or not kernel.is_over(self._pidfd):
            return
        self._watch.remove(self._pidfd)
        status = None
        try:
            status = os.waitpid(self.pid, os.WNOHANG)[1]
        except ChildProcessError:
            pass  # an embedder that ignores SIGCHLD, or waits for everything
        self._over.set()
        if not self._is_closing or status:
            self._lose("the warden of this host died")
        self._warden.close()

    def _kill_warden(self) -> None:
        if not self._over.is_set():
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _lose(self, reason: str) -> None:
        """Without a warden: inits see its end and end their trees; the rest is killed here."""
        if self.lost.is_set():
            return
        self.reason = reason
        self.lost.set()
        self._kill_warden()
        for worker in list(self._workers):
            worker.signal(signal.SIGKILL)
        for machine in list(self._machines.values()):
            machine.orphan()

    def _forget_machine(self, id: int) -> None:
        self._machines.pop(id, None)

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, LineClosed):
            why = self.reason or str(error) or "the warden of this host died"
            return HostError(f"{why}; open a new host", code="custody_lost")
        if isinstance(error, OSError):
            return HostError(f"no process could be made: {error.strerror}", code="machine_failed")
        return error


async def _first(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()

"""The host's side of one worker: its socket, its state, its calls in flight.

A worker is distrusted: every frame is checked against the table below, sizes and counts are
bounded, and a peer that breaks the protocol is killed. The short way is kept short: one read a
wake-up, verbs that cannot wait answered in that step, all answers of a step in one send.

| state | event | then |
| --- | --- | --- |
| starting | ready | idle |
| idle | exec | running |
| running | done | idle |
| any | over | over |
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from typing import Any, Protocol

import trio

from awaitbox.host.custody.command import Command
from awaitbox.host.custody.worker import WorkerProcess
from awaitbox.host.errors import HostError
from awaitbox.host.limits import (
    BACKLOG_BYTES,
    CALLS_IN_FLIGHT,
    INTERRUPT_AGAIN_SECONDS,
    INTERRUPT_SECONDS,
    KILL_GRACE_SECONDS,
)
from awaitbox.shims import wire

MOVES = {
    ("starting", "ready"): "idle",
    ("idle", "exec"): "running",
    ("running", "done"): "idle",
}


class Answerer(Protocol):
    """Who runs a worker's calls: the session."""

    def answer(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise | None:
        """Answer at once, or None: then `answer_later` is started as a task. Owns `fds`."""

    async def answer_later(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise: ...

    def cancelled_late(self, call: int) -> Command | None:
        """The program that runs though its caller gave it up while the answer was on the way."""


class CellRun:
    """A cell that runs: `done` is set when it ended, with `frame`, or None if the worker died."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.done = trio.Event()
        self.frame: wire.Done | None = None


class Worker:
    """One worker process. `run` must run in a task; it returns when the worker is over."""

    def __init__(self, process: WorkerProcess, sock: socket.socket, buffer: bytearray) -> None:
        sock.setblocking(False)
        self.process = process
        self.ready = trio.Event()
        self.over = trio.Event()
        self.why: str | None = None  # what it did wrong, if that is why it is over
        self.state = "starting"
        self.cell: CellRun | None = None
        self._sock = sock
        self._receiver = wire.Receiver(sock, of_worker=True, buffer=buffer)
        self._outbox = wire.Outbox()
        self._reading = trio.CancelScope()
        self._drained = trio.Event()
        self._drained.set()
        self._answers: list[bytes] = []
        self._scopes: dict[int, trio.CancelScope] = {}
        self._cancelled: set[int] = set()  # calls that are being ended
        self._quiet = trio.Event()
        self._asked: dict[int, tuple[trio.Event, list[wire.Inspected]]] = {}
        self._last_cell = 0  # shows in tracebacks: `<cell 3>`
        self._last_question = 0
        self._session: Answerer | None = None
        self._nursery: trio.Nursery | None = None

    def _move(self, event: str) -> None:
        if (self.state, event) not in MOVES:
            raise wire.WireError(f"{event} while {self.state}")
        self.state = MOVES[self.state, event]

    # --- life
    async def run(self) -> None:
        """Read until the end. On any end, also a cancel: the process is dead, its calls in flight
        are cancelled and their trees gone, whoever waits for a cell is woken."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._stop_reading_at_its_end)
                with self._reading:
                    await self._read()
                if self._reading.cancelled_caught:
                    while self._step():  # its last words lie in the socket
                        pass
                nursery.cancel_scope.cancel()
        finally:
            self.state = "over"
            with trio.CancelScope(shield=True):
                await self.process.kill()
            self._close()

    def _close(self) -> None:
        self.process.close()
        self._sock.close()
        for fd in self._receiver.descriptors:
            os.close(fd)
        self._receiver.descriptors.clear()
        if self.cell is not None:
            self.cell.done.set()
        for event, _ in self._asked.values():
            event.set()
        self.ready.set()
        self._quiet.set()
        self.over.set()

    async def kill(self) -> None:
        """End it now; returns when `run` has cleaned up. Shielded."""
        with trio.CancelScope(shield=True):
            await self.process.kill()
            await self.over.wait()

    # --- what comes in
    async def _stop_reading_at_its_end(self) -> None:
        """A program may hold the worker's end of the socket: then no end of the stream comes."""
        await self.process.ended.wait()
        self._reading.cancel()

    async def _read(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            if self._step() is None:
                return
            if self._outbox.size > BACKLOG_BYTES:
                await self._drained.wait()  # it reads while it waits to write, so this ends

    def _step(self) -> bool | None:
        """Take in what one read gives: False if nothing waits, None at the end."""
        try:
            frames = self._receiver.read()
            if frames is None:
                return None
            for frame in frames:
                self._take(frame)
        except BlockingIOError:
            return False
        except wire.WireError as error:
            self.why = f"it broke the protocol: {error}"
            return None
        except OSError:
            return None
        if self._answers:
            data = self._answers[0] if len(self._answers) == 1 else b"".join(self._answers)
            self._answers.clear()
            self._send(data)
        return True

    def _take(self, frame: Any) -> None:
        kind = type(frame)
        if kind is wire.Call:
            self._call(frame)
        elif kind is wire.Cancel:
            scope = self._scopes.get(frame.id)
            if scope is not None:
                scope.cancel()
                self._cancelled.add(frame.id)
            else:
                self._cancel_late(frame.id)
        elif kind is wire.Done:
            if self.cell is None or frame.id != self.cell.id:
                raise wire.WireError("the end of a cell that does not run")
            self._move("done")
            cell, self.cell = self.cell, None
            cell.frame = frame
            cell.done.set()
        elif kind is wire.Ready:
            self._move("ready")
            self.ready.set()
        else:
            self._inspected(frame)

    def _call(self, call: wire.Call) -> None:
        fds = self._receiver.claim(call.fds) if call.fds else []
        if fds is None:
            text = "no file descriptors left in the host; end what you no longer need"
            refusal = wire.Raise(call.id, "OSError", f"errno:{errno.EMFILE}:argv0", text)
            self._answers.append(_packed(refusal))
            return
        if self._session is None or call.id in self._scopes:
            for fd in fds:
                os.close(fd)
            raise wire.WireError("a call before the session, or twice")
        answer = self._session.answer(call, fds)
        if answer is not None:
            self._answers.append(_packed(answer))
        elif len(self._scopes) >= CALLS_IN_FLIGHT:
            for fd in fds:
                os.close(fd)
            text = f"{CALLS_IN_FLIGHT:,} calls are in flight already; await some of them first"
            self._answers.append(_packed(wire.Raise(call.id, "RuntimeError", "too_many", text)))
        else:
            assert self._nursery is not None
            self._scopes[call.id] = trio.CancelScope()
            self._nursery.start_soon(self._answer_later, call, fds)

    async def _answer_later(self, call: wire.Call, fds: list[int]) -> None:
        assert self._session is not None
        answer: wire.Return | wire.Raise | None = None
        with self._scopes[call.id]:
            answer = await self._session.answer_later(call, fds)
        del self._scopes[call.id]
        self._is_ended(call.id)
        if answer is None:
            answer = wire.Raise(call.id, "RuntimeError", "cancelled", "this call was cancelled")
        self._send(_packed(answer))

    def _cancel_late(self, call: int) -> None:
        """The cancel and the answer crossed: end what nobody knows of."""
        command = None if self._session is None else self._session.cancelled_late(call)
        if command is not None and self._nursery is not None:
            self._cancelled.add(call)
            self._nursery.start_soon(self._end_late, call, command)

    async def _end_late(self, call: int, command: Command) -> None:
        await command.stop(KILL_GRACE_SECONDS)
        self._is_ended(call)

    def _is_ended(self, call: int) -> None:
        self._cancelled.discard(call)
        if not self._cancelled:
            self._quiet.set()

    def _inspected(self, frame: wire.Inspected) -> None:
        event, box = self._asked.pop(frame.id, (None, None))
        if event is None or box is None:
            raise wire.WireError("an answer to no question")
        box.append(frame)
        event.set()

    # --- what goes out
    def _send(self, data: bytes) -> None:
        if self.state == "over":
            return
        try:
            wire.send(self._sock, self._outbox, data)
        except OSError:
            return  # it is gone; the reader sees that and ends everything
        if self._outbox.size and self._drained.is_set() and self._nursery is not None:
            self._drained = trio.Event()
            self._nursery.start_soon(self._drain)

    async def _drain(self) -> None:
        """Send the backlog as the worker reads it; one task at a time."""
        try:
            while self._outbox.size:
                await trio.lowlevel.wait_writable(self._sock)
                self._outbox.flush(self._sock)
        except OSError:
            pass  # it is gone; the reader sees that and ends everything
        finally:
            self._drained.set()

    def greet(self, session: Answerer, hello: wire.Hello) -> None:
        """Give it to a session; from here on it may call verbs."""
        self._session = session
        self._send(wire.pack(hello))

    def execute(self, code: str) -> CellRun:
        """Start a cell; only while idle. Raises `HostError` (`worker_lost`)."""
        if self.state == "over":
            raise HostError("the worker has ended", code="worker_lost")
        frame = wire.pack(wire.Exec(self._last_cell + 1, code))
        self._move("exec")
        self._last_cell += 1
        self.cell = CellRun(self._last_cell)
        self._send(frame)
        return self.cell

    async def quiet(self) -> None:
        """Return when every call that was cancelled has ended what it had started."""
        while self._cancelled and self.state != "over":
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def inspect(self) -> list[wire.Variable]:
        """The namespace, as soon as no cell runs; empty if the worker died meanwhile."""
        self._last_question += 1
        event, box = trio.Event(), list[wire.Inspected]()
        self._asked[self._last_question] = event, box
        self._send(wire.pack(wire.Inspect(self._last_question)))
        await event.wait()
        return box[0].variables if box else []

    async def interrupt(self, cell: CellRun) -> bool:
        """Stop `cell`: the signal, again and again, and after INTERRUPT_SECONDS the worker's end.

        -> True if the worker had to be killed. Returns when the cell is over; a cancel does not cut
        it short."""
        give_up = trio.current_time() + INTERRUPT_SECONDS
        with trio.CancelScope(shield=True):
            while not cell.done.is_set():
                self.process.signal(signal.SIGINT)
                until = min(give_up, trio.current_time() + INTERRUPT_AGAIN_SECONDS)
                with trio.move_on_at(until):
                    await cell.done.wait()
                if not cell.done.is_set() and trio.current_time() >= give_up:
                    await self.kill()
                    return True
        return False


def _packed(answer: wire.Return | wire.Raise) -> bytes:
    try:
        return wire.pack(answer)
    except (wire.WireError, TypeError, ValueError, RecursionError) as error:
        text = f"the result can't be sent to the cell: {error}"
        return wire.pack(wire.Raise(answer.id, "ValueError", "result_too_large", text))

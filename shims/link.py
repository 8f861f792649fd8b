"""The worker's end of the socket: calls of verbs, from any thread, blocking or awaited.

One socket and three kinds of waiter: the trio loop, the blocked main thread, any other thread.
Whoever waits polls the socket, and whoever gets the lock reads for all, so no waiter depends on the
progress of another. A send that has to wait reads meanwhile, or a host that is not read from and
therefore reads nothing would hang with us.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import select
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import sniffio
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT

from awaitbox.shims import wire
from awaitbox.shims.critical import Critical
from awaitbox.shims.failure import failure
from awaitbox.shims.result import as_result
from awaitbox.shims.waiting import Sleeper, Slot, Waiter


class Link:
    """Calls to the host. Requests of the host wait in `requests`; `arrived` is called when some
    were read by a thread that waited for something else."""

    def __init__(self, sock: socket.socket, critical: Critical) -> None:
        sock.setblocking(False)
        self.fd = sock.fileno()
        self.requests: deque[wire.Hello | wire.Exec | wire.Inspect] = deque()
        self.arrived: Callable[[], None] = lambda: None
        self.home_loop: asyncio.AbstractEventLoop | None = None  # the one that the reader serves
        self.home_runner: Any = None
        self.refusal: Callable[[], BaseException] | None = None  # what foreign threads get
        self._sock = sock
        self._critical = critical
        self._receiver = wire.Receiver(sock, of_worker=False)
        self._outbox = wire.Outbox()
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._slots: dict[int, Slot] = {}
        self._next_id = itertools.count(1).__next__
        self._threads = threading.local()
        self._read_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._read_runners: weakref.WeakSet[Any] = weakref.WeakSet()

    # --- frames
    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send a packed frame. An interrupt while it waits leaves the rest to the next send."""
        if fds:
            self._drain()
            self._send_with(data, fds)
        else:
            self._put(data)
        if self._outbox.size:
            self._drain()

    def _put(self, data: bytes) -> None:
        with self._critical, self._writing:
            try:
                wire.send(self._sock, self._outbox, data)
            except OSError:
                _host_is_gone()

    def _send_with(self, data: bytes, fds: Sequence[int]) -> None:
        while True:
            with self._critical, self._writing:
                try:
                    if not self._outbox.size:
                        self._outbox.put(data[socket.send_fds(self._sock, [data], list(fds)) :])
                        return
                except BlockingIOError:
                    pass
                except OSError as error:
                    if error.errno in _GONE:
                        _host_is_gone()
                    raise
            self._wait_to_write()

    def _drain(self) -> None:
        while self._outbox.size:
            self._wait_to_write()
            with self._critical, self._writing:
                try:
                    self._outbox.flush(self._sock)
                except OSError:
                    _host_is_gone()

    def _wait_to_write(self) -> None:
        poll = select.poll()
        poll.register(self.fd, select.POLLIN | select.POLLOUT)
        poll.poll()
        self.pump()

    def pump(self) -> None:
        """Read what is there, for all who wait; returns at once, also if another thread does it."""
        self.read()
        if self.requests:
            self.arrived()

    def read(self) -> None:
        """The same, for the reader of `requests`, who needs no call."""
        with self._critical:
            if not self._reading.acquire(blocking=False):
                return
            try:
                self._read_once()
            finally:
                self._reading.release()

    def _read_once(self) -> None:
        try:
            frames = self._receiver.read()
        except BlockingIOError:
            return
        except (OSError, wire.WireError):
            _host_is_gone()
        if frames is None:
            _host_is_gone()
        for frame in frames:
            if isinstance(frame, (wire.Return, wire.Raise)):
                slot = self._slots.pop(frame.id, None)
                if slot is not None:
                    slot.answer = frame
                    slot.wake()
            else:
                self.requests.append(frame)

    # --- calls
    def _request(self, verb: str, args: dict[str, Any], wake: Callable[[], None]) -> Slot:
        slot = Slot(self._next_id(), wake)
        self._slots[slot.id] = slot
        return slot

    def _post(self, slot: Slot, verb: str, args: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            data = wire.pack(wire.Call(slot.id, verb, args, len(fds)))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            del self._slots[slot.id]
            slot.refusal = error
            kinds = (OverflowError, TypeError, RecursionError, ValueError)
            kind = next(kind for kind in kinds if isinstance(error, kind))
            raise kind(f"{verb}: an argument can't be sent: {error}") from None
        if len(data) > wire.WORKER_FRAME_BYTES:
            del self._slots[slot.id]
            slot.refusal = ValueError(
                f"{verb}: arguments of {len(data):,} bytes are over the "
                f"{wire.WORKER_FRAME_BYTES:,} of one call; write them to a file"
            )
            raise slot.refusal
        self.send(data, fds)

    @trio.lowlevel.enable_ki_protection  # or the host would go on with it
    def _give_up(self, slot: Slot) -> None:
        """Ask the host to end the call; its answer is still to come."""
        if slot.answer is None and slot.refusal is None:
            self._put(wire.pack(wire.Cancel(slot.id)))

    @trio.lowlevel.enable_ki_protection  # or the host would go on with it
    def _abandon(self, slot: Slot) -> None:
        """Nobody waits for it any more; the host ends what it started for it."""
        if slot.answer is None and slot.refusal is None:
            self._slots.pop(slot.id, None)
            self._put(wire.pack(wire.Cancel(slot.id)))

    @trio.lowlevel.enable_ki_protection  # or the host would go on with it
    def _retract(self, slot: Slot) -> None:
        """The same, also if the answer came and an interrupt keeps the caller from seeing it."""
        self._slots.pop(slot.id, None)
        if slot.refusal is None:
            self._put(wire.pack(wire.Cancel(slot.id)))

    def call_sync(
        self,
        verb: str,
        args: dict[str, Any],
        *,
        fds: Sequence[int] = (),
        timeout: float | None = None,
    ) -> Any:
        """Call and block this thread, any thread; the other calls in flight go on.

        Raises the verb's failure, or TimeoutError when `timeout` seconds are over. Then, and after
        an interrupt, the call has been cancelled and its effects are the host's to end. `fds` stay
        the caller's.
        """
        try:
            waiter: Waiter = self._threads.waiter
        except AttributeError:
            waiter = self._threads.waiter = Waiter(self.fd)
        slot = self._request(verb, args, waiter.wake)
        slot.is_foreign = waiter.is_foreign
        if slot.is_foreign and self.refusal is not None:
            slot.refusal = self.refusal()
        try:
            if slot.refusal is None:
                self._post(slot, verb, args, fds)
                waiter.wait(slot, self.pump, timeout)
        except BaseException:
            self._retract(slot)
            raise
        return _outcome(slot)

    async def call(self, verb: str, args: dict[str, Any]) -> Any:
        """Call and wait, under trio or asyncio. A cancel is raised when the host has ended what the
        call had started; an interrupt, or in asyncio a second cancel, at once."""
        if sniffio.current_async_library() == "asyncio":
            return await self._call_in_asyncio(verb, args)
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        runner = task._runner
        if runner is not self.home_runner:
            self._read_in_runner(runner)
        sleeper = Sleeper(runner)
        slot = self._request(verb, args, sleeper.wake)
        try:
            self._post(slot, verb, args)
            if slot.answer is None:  # a send that waits also reads
                sleeper.task = task
                await trio.lowlevel.wait_task_rescheduled(sleeper.abort)
        except (trio.Cancelled, asyncio.CancelledError):  # a cell's own task knows both
            self._give_up(slot)
            with trio.CancelScope(shield=True):
                if slot.answer is None:
                    sleeper.task = task
                    await trio.lowlevel.wait_task_rescheduled(sleeper.abort)
            raise
        finally:
            sleeper.task = None
            self._abandon(slot)
        return _outcome(slot)

    async def _call_in_asyncio(self, verb: str, args: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        if loop is self.home_loop:
            runner = self.home_runner

            def wake() -> None:
                if getattr(GLOBAL_RUN_CONTEXT, "runner", None) is runner:
                    settle()
                else:
                    runner.trio_token.run_sync_soon(settle)
        else:
            if loop not in self._read_loops:
                self._read_loops.add(loop)
                loop.add_reader(self.fd, self.pump)

            def wake() -> None:
                try:
                    loop.call_soon_threadsafe(settle)
                except RuntimeError:
                    pass  # that loop was closed with the call in flight: nobody waits

        slot = self._request(verb, args, wake)
        try:
            self._post(slot, verb, args)
            await future
        except asyncio.CancelledError:
            self._give_up(slot)
            if slot.answer is None:
                future = loop.create_future()
                await future
            raise
        finally:
            self._abandon(slot)
        return _outcome(slot)

    def _read_in_runner(self, runner: Any) -> None:
        """A `trio.run` in a cell or in a thread: the home reader may be blocked behind it."""
        if runner in self._read_runners:
            return
        self._read_runners.add(runner)
        trio.lowlevel.current_trio_token()  # made at its first use; `wake` needs it

        async def read_on() -> None:
            while True:
                await trio.lowlevel.wait_readable(self.fd)
                self.pump()

        trio.lowlevel.spawn_system_task(read_on)

    def release_threads(self, refusal: Callable[[], BaseException]) -> None:
        """End the waits of all threads but the main one: no signal reaches them there."""
        for slot in list(self._slots.values()):
            if slot.is_foreign and slot.answer is None:
                self._slots.pop(slot.id, None)
                slot.refusal = refusal()
                slot.wake()
                self._put(wire.pack(wire.Cancel(slot.id)))


def _outcome(slot: Slot) -> Any:
    answer = slot.answer
    if type(answer) is wire.Return:
        return as_result(answer.value)
    if answer is None:
        assert slot.refusal is not None
        raise slot.refusal
    raise failure(answer)  # type: ignore[arg-type]


def _host_is_gone() -> NoReturn:
    os._exit(0)


_GONE = frozenset((errno.EPIPE, errno.ECONNRESET))

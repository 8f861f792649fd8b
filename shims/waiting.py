"""What a call leaves behind while its answer is on the way, and where a thread or a task waits."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import trio
from trio._core._run import GLOBAL_RUN_CONTEXT

from awaitbox.shims import wire


class Slot:
    """A call that waits for its answer. `wake` is called once, by whichever thread read it."""

    __slots__ = ("answer", "id", "is_foreign", "refusal", "wake")

    def __init__(self, id: int, wake: Callable[[], None]) -> None:
        self.id = id
        self.wake: Callable[[], None] = wake
        self.answer: wire.Return | wire.Raise | None = None
        self.refusal: BaseException | None = None  # instead of an answer
        self.is_foreign = False  # waits in a thread that no signal reaches


class Waiter:
    """Where one thread blocks: the socket, and an eventfd for answers that another thread read."""

    def __init__(self, sock: int) -> None:
        self._thread = threading.get_ident()
        self.is_foreign = threading.current_thread() is not threading.main_thread()
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(self._event, select.POLLIN)

    def wake(self) -> None:
        if threading.get_ident() != self._thread:
            os.eventfd_write(self._event, 1)

    def wait(self, slot: Slot, pump: Callable[[], None], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        left: float | None = None
        while slot.answer is None and slot.refusal is None:
            if deadline is not None:
                left = max(0.0, deadline - time.monotonic()) * 1e3
            ready = self._poll.poll(left)
            if not ready and deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"no answer within {timeout:g} s")
            for fd, _ in ready:
                if fd == self._event:
                    os.eventfd_read(fd)
                else:
                    pump()

    def __del__(self) -> None:
        os.close(self._event)


class Sleeper:
    """A trio task that waits for an answer, in whichever run it lives."""

    __slots__ = ("runner", "task")

    def __init__(self, runner: Any) -> None:
        self.task: trio.lowlevel.Task | None = None  # while it is parked
        self.runner = runner

    def wake(self) -> None:
        task = self.task
        if task is None:
            return  # not yet, or it was cancelled meanwhile
        if getattr(GLOBAL_RUN_CONTEXT, "runner", None) is self.runner:
            self.task = None
            trio.lowlevel.reschedule(task)
            return
        try:
            self.runner.trio_token.run_sync_soon(self.wake)
        except trio.RunFinishedError:
            pass  # that run is over: nobody waits

    def abort(self, raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

"""Driving a coroutine that awaits trio and asyncio things alike.

Every awaitable ends in a yield. A future is waited for in the asyncio loop; anything else is a trap
of trio and handed on to it. `asyncio.current_task()` is a facade meanwhile, so that timeouts, task
groups and `wait_for` work.
"""

from __future__ import annotations

import asyncio
import types
from asyncio import tasks as asyncio_tasks
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn

import outcome
import trio


@trio.lowlevel.disable_ki_protection
def step(function: Callable[..., Any], *args: Any) -> Any:
    """Everything of a cell runs below this frame: there an interrupt may raise, see `interrupt`."""
    return function(*args)


class CellTask(asyncio.Future[Any]):
    """What `asyncio.current_task()` is while trio runs the coroutine: identity and cancelling."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str = "cell") -> None:
        super().__init__(loop=loop)
        self._name = name
        self._requests = 0
        self._must_cancel = False
        self._message: object = None
        self._carrier: trio.lowlevel.Task | None = None
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self.give_up: Callable[[BaseException], None] = _keep_waiting
        self.waits_for_future = False

    def cancel(self, msg: object = None) -> bool:
        """Raise CancelledError where it waits, or where it waits next."""
        if self.done():
            return False
        self._requests += 1
        self._message = msg
        self._must_cancel = True
        carrier = self._carrier
        if carrier is not None and carrier._abort_func is not None:
            carrier._attempt_abort(self._raise_cancelled)
        return True

    def over(self) -> None:
        """The coroutine has ended: a task group of it may still try to cancel it."""
        self._carrier = None
        if not self.done():
            self.set_result(None)

    def _raise_cancelled(self) -> NoReturn:
        self._must_cancel = False
        raise asyncio.CancelledError(*([] if self._message is None else [self._message]))

    def cancelling(self) -> int:
        return self._requests

    def uncancel(self) -> int:
        self._requests = max(0, self._requests - 1)
        if not self._requests:
            self._must_cancel = False
        return self._requests

    def get_name(self) -> str:
        return self._name

    def set_name(self, value: object) -> None:
        self._name = str(value)

    def get_coro(self) -> Coroutine[Any, Any, Any] | None:
        return self._coroutine

    def get_context(self) -> Context | None:
        return None if self._carrier is None else self._carrier.context

    def get_stack(self, *, limit: int | None = None) -> list[types.FrameType]:
        return []

    def print_stack(self, *, limit: int | None = None, file: Any = None) -> None:
        pass


def _keep_waiting(error: BaseException) -> None:
    """What waits is no future: trio ends it in its own time."""


@types.coroutine
def drive(
    coroutine: Coroutine[Any, Any, Any], task: CellTask, loop: asyncio.AbstractEventLoop
) -> Generator[Any, Any, Any]:
    """Await it as the current trio task. Returns its value or raises what it raises."""
    task._carrier = trio.lowlevel.current_task()
    task._coroutine = coroutine
    resume: Callable[[Any], Any] = coroutine.send
    sent: Any = None
    try:
        while True:
            asyncio_tasks._enter_task(loop, task)  # type: ignore[arg-type]
            try:
                trap = step(resume, sent)
            except StopIteration as stop:
                return stop.value
            finally:
                asyncio_tasks._leave_task(loop, task)  # type: ignore[arg-type]
            try:
                if trap is None or hasattr(trap, "_asyncio_future_blocking"):
                    sent = yield from _wait(trap, task, loop)
                elif task._must_cancel:
                    trio.lowlevel.current_trio_token().run_sync_soon(_cancel_parked, task)
                    sent = yield trap
                else:
                    sent = yield trap  # an outcome comes back; it is unwrapped in the coroutine
            except BaseException as error:
                resume, sent = coroutine.throw, error
            else:
                resume = coroutine.send
    finally:
        task.over()


def _cancel_parked(task: CellTask) -> None:
    carrier = task._carrier
    if task._must_cancel and carrier is not None and carrier._abort_func is not None:
        carrier._attempt_abort(task._raise_cancelled)


def _wait(trap: Any, task: CellTask, loop: asyncio.AbstractEventLoop) -> Generator[Any, Any, Any]:
    """Wait for a future of asyncio; None is `asyncio.sleep(0)`: one pass of the loop."""
    if trap is None:
        trap = loop.create_future()
        loop.call_soon(_settle, trap)
    else:
        trap._asyncio_future_blocking = False
        if trap.get_loop() is not loop:
            raise RuntimeError(f"{trap!r} is attached to a different loop")
    if task._must_cancel and trap.cancel(msg=task._message):
        task._must_cancel = False
    yield from wait_future(trap, task).__await__()
    return None


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def wait_future(future: asyncio.Future[Any], task: CellTask | None = None) -> None:
    """Wait until it is done, in trio; whoever awaits the future then takes its result.

    A cancel of trio, or of `task`, cancels the future and waits for it to end, as asyncio does, and
    raises trio's exception if it ended as cancelled. `task.give_up` ends the wait even for a future
    that does not end.
    """
    carrier = trio.lowlevel.current_task()
    raising: Callable[[], NoReturn] | None = None
    is_given_up = False

    def wake(_: asyncio.Future[Any]) -> None:
        if not is_given_up:
            trio.lowlevel.reschedule(carrier)

    def abort(raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
        nonlocal raising
        raising = raise_cancel
        future.cancel(msg=None if task is None else task._message)
        return trio.lowlevel.Abort.FAILED

    def give_up(error: BaseException) -> None:
        nonlocal is_given_up
        if carrier._next_send_fn is None:
            is_given_up = True  # `wake` may be queued already, so it can't just be removed
            trio.lowlevel.reschedule(carrier, outcome.Error(error))

    future.add_done_callback(wake)
    if task is not None:
        task.give_up, task.waits_for_future = give_up, True
    await trio.lowlevel.wait_task_rescheduled(abort)
    if task is not None:
        task.give_up, task.waits_for_future = _keep_waiting, False
    if raising is not None:
        if future.cancelled():
            raising()
        if task is not None and raising == task._raise_cancelled:
            task._must_cancel = False  # it ended otherwise: as with asyncio, the cancel is spent

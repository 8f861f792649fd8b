"""asyncio tasks that await trio, and child tasks of trio that await asyncio.

A child task of a nursery is driven like a cell (`driver`). An asyncio task stays a real one, run by
asyncio in asyncio's order; its coroutine is stepped with a trio task of its own beside it, the
shadow, which trio then sees as the current task: it carries cancel scopes and nurseries, and when
the coroutine yields a trap of trio, the shadow waits in trio and the asyncio task for the shadow.
It uses trio's private task; a test pins what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn

import outcome
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT, Runner, Task
from trio._core._traps import CancelShieldedCheckpoint, WaitTaskRescheduled
from trio._util import coroutine_or_error

from awaitbox.shims.driver import CellTask, drive
from awaitbox.shims.loop import CellLoop


def _never(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


class _ShadowCoroutine:
    """What trio resumes when the wait of a shadow is over."""

    cr_frame = None
    cr_await = None

    def __init__(self) -> None:
        self.waiting: _Trap | None = None

    def send(self, result: outcome.Outcome[Any]) -> WaitTaskRescheduled:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(result)
        return WaitTaskRescheduled(_never)


class _Trap(asyncio.Future[Any]):
    """What the asyncio task waits for while its shadow waits in trio. Its result is an outcome."""

    def __init__(self, loop: CellLoop, shadow: Task) -> None:
        super().__init__(loop=loop)
        self._shadow = shadow
        self._asyncio_future_blocking = True

    def cancel(self, msg: object = None) -> bool:
        """Abort the wait in trio; the outcome then raises. False if it is over already."""
        if self.done() or self._shadow._next_send_fn is not None:
            return False
        if self._shadow._abort_func is not None:
            self._shadow._attempt_abort(_raise_cancelled)
        return True


def _raise_cancelled() -> NoReturn:
    raise asyncio.CancelledError


class MixedCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine as asyncio's task steps it."""

    __slots__ = ("__weakref__", "_coroutine", "_loop", "_raising", "_shadow", "_trap")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: CellLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._shadow: Task | None = None
        self._trap: _Trap | None = None
        self._raising: Callable[[], NoReturn] | None = None  # a scope's cancel, on its way

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        if self._trap is not None:
            value, self._trap = self._trap.result(), None
        return self._step(self._coroutine.send, value)

    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> Any:
        raising, self._trap = self._raising, None
        if raising is not None and isinstance(error, asyncio.CancelledError):
            error = outcome.capture(raising).error
        return self._step(self._coroutine.throw, error)

    def close(self) -> None:
        self._leave()
        self._coroutine.close()

    def __del__(self) -> None:
        self._leave()

    @trio.lowlevel.disable_ki_protection
    def _step(self, resume: Callable[[Any], Any], value: Any) -> Any:
        shadow = self._shadow or self._make_shadow()
        shadow._abort_func = self._raising = None
        before = GLOBAL_RUN_CONTEXT.task
        GLOBAL_RUN_CONTEXT.task = shadow
        try:
            yielded = resume(value)
        except BaseException:
            self._leave()
            raise
        finally:
            GLOBAL_RUN_CONTEXT.task = before
        if yielded is None:
            return None
        if hasattr(yielded, "_asyncio_future_blocking"):
            if shadow._cancel_status is not self._loop.root_status:
                self._watch(shadow, yielded)
            return yielded
        return self._park(shadow, yielded)

    def _watch(self, shadow: Task, future: asyncio.Future[Any]) -> None:
        """A cancel scope of trio is open round a wait for asyncio."""

        def abort(raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
            self._raising = raise_cancel
            future.cancel()
            return trio.lowlevel.Abort.FAILED

        shadow._abort_func = abort
        if shadow._cancel_status.effectively_cancelled:
            # Not at once: the task waits for the future only when this step has returned.
            self._loop.call_soon(shadow._attempt_delivery_of_any_pending_cancel)

    def _park(self, shadow: Task, trap: Any) -> _Trap:
        if trap is not CancelShieldedCheckpoint and not isinstance(trap, WaitTaskRescheduled):
            raise TypeError(f"{trap!r} can't be awaited in an asyncio task")
        self._trap = waiting = _Trap(self._loop, shadow)
        shadow.coro.waiting = waiting  # type: ignore[attr-defined]
        if isinstance(trap, WaitTaskRescheduled):
            shadow._abort_func = trap.abort_func
            shadow._attempt_delivery_of_any_pending_cancel()
        else:
            trio.lowlevel.reschedule(shadow)
        return waiting

    def _make_shadow(self) -> Task:
        main = self._loop.main_task
        assert main is not None
        self._shadow = shadow = Task._create(
            coro=_ShadowCoroutine(),
            parent_nursery=main.parent_nursery,
            runner=main._runner,
            name="asyncio task",
            context=main.context,
            ki_protected=False,
        )
        shadow._activate_cancel_status(self._loop.root_status)
        return shadow

    def _leave(self) -> None:
        shadow, self._shadow = self._shadow, None
        if shadow is not None:
            shadow._activate_cancel_status(None)


def install(loop: CellLoop) -> None:
    """Mix in the tasks of this loop and of the run that it lives in, for good."""
    main = loop.main_task
    assert main is not None and main.parent_nursery is not None
    loop.root_status = main.parent_nursery._cancel_status
    loop.set_task_factory(_make_task)
    # An interrupt in its middle would leave a child that never runs, and its nursery waiting.
    spawn = trio.lowlevel.enable_ki_protection(Runner.spawn_impl)
    runner = main._runner

    @trio.lowlevel.enable_ki_protection
    def spawn_mixed(
        self: Runner,
        async_fn: Callable[..., Any],
        args: tuple[Any, ...],
        nursery: Any,
        name: object,
        *,
        system_task: bool = False,
        context: Context | None = None,
    ) -> Task:
        options: Any = {"system_task": system_task, "context": context}
        if system_task or self is not runner:
            return spawn(self, async_fn, args, nursery, name, **options)

        def start(*args: Any) -> Coroutine[Any, Any, Any]:
            return _driven(coroutine_or_error(async_fn, *args), loop)

        return spawn(self, start, args, nursery, async_fn if name is None else name, **options)

    Runner.spawn_impl = spawn_mixed  # type: ignore[method-assign]


async def _driven(coroutine: Coroutine[Any, Any, Any], loop: CellLoop) -> Any:
    return await drive(coroutine, CellTask(loop, "trio task"), loop)


def _make_task(
    loop: CellLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    code = getattr(coroutine, "cr_code", None)
    if code is None or not code.co_filename.startswith("<verb "):  # a verb awaits asyncio only
        coroutine = MixedCoroutine(coroutine, loop)
    return asyncio.Task(coroutine, loop=loop, **options)

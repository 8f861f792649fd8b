"""The asyncio loop of cells, on top of trio.

trio-asyncio runs one queued callback per pass of trio; this one runs all that are queued, which is
what asyncio does, and a thousand gathered calls need it. It replaces two private methods of
trio-asyncio; a test pins them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import heapq
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

import trio
import trio_asyncio
from sniffio import thread_local as sniffio_library
from trio_asyncio import _loop as trio_asyncio_loop
from trio_asyncio._base import TrioAsyncioExit
from trio_asyncio._handles import AsyncHandle

_TIMERS_SWEPT = 100  # cancelled ones, before the heap is swept

Failed = Callable[[str, BaseException | None], None]


class CellLoop(trio_asyncio.TrioEventLoop):  # type: ignore[misc]
    """`on_failure(message, error)` is told of tasks and callbacks whose failure nobody has seen.

    `nested` runs a coroutine to its end in a loop of its own: what `run_until_complete` does here,
    where the loop itself already runs.
    """

    on_failure: Failed = staticmethod(lambda message, error: None)
    nested: Callable[[Any], Any] | None = None

    def __init__(self, queue_len: int | None = None) -> None:
        super().__init__(queue_len)
        self._handles: deque[asyncio.Handle] = deque()
        self._idle: trio.lowlevel.Task | None = None  # the loop's task, while it waits for handles
        self.main_task: trio.lowlevel.Task | None = None  # runs all callbacks
        self.root_status: Any = None  # trio's cancel status outside all scopes of cells
        self._cancelled_timers = 0
        self._is_leaving = False
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        self.set_exception_handler(_report)

    @trio.lowlevel.enable_ki_protection
    def _queue_handle(self, handle: asyncio.Handle) -> asyncio.Handle:
        # Protected: an interrupt between the two steps would leave the loop asleep for good.
        self._check_closed()
        if type(handle) is asyncio.TimerHandle:
            heapq.heappush(self._timers, handle)
        else:
            self._handles.append(handle)
        if self._idle is not None:
            task, self._idle = self._idle, None
            # Not trio.lowlevel: in a nested run, where a future may be collected, trio is hidden.
            task._runner.reschedule(task)
        return handle

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        # The base also looks whether it is a coroutine function, which asyncio does in debug mode
        # only: half the time of this call.
        return self._queue_handle(asyncio.Handle(callback, args, self, context))

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, **context: Any
    ) -> asyncio.Handle:
        self._check_callback(callback, "call_soon_threadsafe")
        self._check_closed()
        handle = asyncio.Handle(callback, args, self, **context)
        self._token.run_sync_soon(self._queue_handle, handle)
        return handle

    def _handle_sig(self, signum: int, frame: object) -> None:
        self._token.run_sync_soon(self._queue_handle, self._signal_handlers[signum])

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, **context: Any
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, **context)  # type: ignore[no-any-return]

    async def _main_loop_one(self, no_wait: bool = False) -> None:
        """Run what is queued now; callbacks that those queue have their turn in the next pass."""
        if self._handles or self._is_due():
            if not no_wait:
                await trio.lowlevel.cancel_shielded_checkpoint()  # or callbacks would starve trio
        elif no_wait:
            raise trio.WouldBlock
        else:
            await self._wait()
        while self._is_due():
            self._handles.append(heapq.heappop(self._timers))
        for _ in range(len(self._handles)):
            handle = self._handles.popleft()
            if isinstance(handle, AsyncHandle):
                handle._context.run(self._nursery.start_soon, handle._run, name=handle._callback)
                await handle._started.wait()
            elif not handle._cancelled:
                self._run_handle(handle)

    def _run_handle(self, handle: asyncio.Handle) -> None:
        before, sniffio_library.name = sniffio_library.name, "asyncio"
        try:
            handle._run()
        except TrioAsyncioExit:
            raise
        except (SystemExit, KeyboardInterrupt):
            pass  # of a task, which keeps it for whoever awaits it; the loop goes on
        finally:
            sniffio_library.name = before

    def _is_due(self) -> bool:
        return bool(self._timers) and self._timers[0]._when <= self.time()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_TIMERS_SWEPT, len(self._timers) // 2):
            self._timers[:] = [timer for timer in self._timers if not timer._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    async def _wait(self) -> None:
        deadline = self._timers[0]._when if self._timers else math.inf

        def abort(_: object) -> trio.lowlevel.Abort:
            self._idle = None
            return trio.lowlevel.Abort.SUCCEEDED

        with trio.CancelScope(deadline=deadline):
            self._idle = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(abort)

    # --- threads
    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """As asyncio does it: a cancelled wait does not wait for the thread."""
        self._check_callback(func, "run_in_executor")
        self._check_closed()
        if executor is None or isinstance(executor, trio_asyncio.TrioExecutor):
            if self._threads is None:
                self._threads = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="asyncio")
            executor = self._threads
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def set_default_executor(self, executor: Any) -> None:
        if not isinstance(executor, concurrent.futures.ThreadPoolExecutor):
            raise TypeError("executor must be ThreadPoolExecutor instance")
        self._threads = executor

    # --- running
    def run_until_complete(self, future: Any) -> Any:
        """In a cell this loop runs already; a coroutine runs to its end in a loop of its own."""
        if asyncio.iscoroutine(future) and self.nested is not None:
            return self.nested(future)
        raise RuntimeError("this loop runs already; await the future instead")

    def run_forever(self) -> None:
        raise RuntimeError("this loop runs already; `await` what you want to wait for")

    def stop(self, waiter: Any = None) -> Any:
        """Ending the cells' loop is the worker's business; scripts do it at their end."""
        return super().stop(waiter) if self._is_leaving else None

    def close(self) -> None:
        """The same."""
        if not self.is_running():
            super().close()

    async def _main_loop(self, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        self.main_task = trio.lowlevel.current_task()
        await super()._main_loop(task_status)

    async def _main_loop_exit(self) -> None:
        self._is_leaving = True
        await super()._main_loop_exit()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, CellLoop)
    task, message = context.get("task"), str(context.get("message", ""))
    if isinstance(task, asyncio.Task):
        message = f"{task.get_name()}: {message}"
    loop.on_failure(message, context.get("exception"))


@asynccontextmanager
async def open_cell_loop() -> AsyncIterator[CellLoop]:
    """Like `trio_asyncio.open_loop`, which names its class itself."""
    before = trio_asyncio_loop.TrioEventLoop
    trio_asyncio_loop.TrioEventLoop = CellLoop
    try:
        async with trio_asyncio.open_loop() as loop:
            trio_asyncio_loop.TrioEventLoop = before
            yield loop
    finally:
        trio_asyncio_loop.TrioEventLoop = before

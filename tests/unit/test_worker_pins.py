"""What the worker takes from the private parts of trio and trio-asyncio, so that a release that
changes them fails here and not in a cell."""

from __future__ import annotations

import asyncio
import inspect

import pytest
import trio
import trio_asyncio
from trio._core import _run, _traps
from trio_asyncio._async import TrioEventLoop
from trio_asyncio._base import BaseTrioEventLoop

from awaitbox.shims.driver import CellTask, drive
from awaitbox.shims.loop import CellLoop, open_cell_loop


def test_trio() -> None:
    assert list(inspect.signature(_run.Runner.spawn_impl).parameters) == [
        "self", "async_fn", "args", "nursery", "name", "system_task", "context"
    ]  # fmt: skip
    for name in ("_abort_func", "_next_send_fn", "_cancel_status", "_runner", "_child_nurseries"):
        assert name in {field.name for field in _run.Task.__attrs_attrs__}
    for name in ("_attempt_abort", "_attempt_delivery_of_any_pending_cancel"):
        assert callable(getattr(_run.Task, name))
    assert list(inspect.signature(_run.Task._activate_cancel_status).parameters) == [
        "self", "cancel_status"
    ]  # fmt: skip
    assert callable(_run.Runner.deliver_ki) and callable(_run.Runner.reschedule)
    assert isinstance(_run.unrolled_run.__code__, type(test_trio.__code__))
    assert _traps.WaitTaskRescheduled(print).abort_func is print
    assert inspect.isclass(_traps.CancelShieldedCheckpoint)


async def test_trio_keeps_the_current_task_where_we_swap_it() -> None:
    assert _run.GLOBAL_RUN_CONTEXT.task is trio.lowlevel.current_task()
    assert _run.GLOBAL_RUN_CONTEXT.runner is trio.lowlevel.current_task()._runner


def test_trio_asyncio() -> None:
    assert inspect.iscoroutinefunction(BaseTrioEventLoop._main_loop_one)
    assert list(inspect.signature(BaseTrioEventLoop._main_loop_one).parameters) == [
        "self", "no_wait"
    ]  # fmt: skip
    assert inspect.iscoroutinefunction(BaseTrioEventLoop._main_loop)
    assert inspect.iscoroutinefunction(BaseTrioEventLoop._main_loop_exit)
    assert callable(TrioEventLoop._queue_handle)
    source = inspect.getsource(trio_asyncio._loop.open_loop)
    assert "loop = TrioEventLoop(queue_len=queue_len)" in source


async def test_all_queued_callbacks_run_in_one_pass() -> None:
    async with open_cell_loop() as loop:
        assert type(loop) is CellLoop
        order: list[int] = []
        for i in range(100):
            loop.call_soon(order.append, i)
        loop.call_later(0, order.append, 100)
        await trio.testing.wait_all_tasks_blocked()
        assert order == list(range(101))


async def test_a_pass_lets_trio_run() -> None:
    async with open_cell_loop() as loop:
        count, goes_on = 0, True

        def again() -> None:
            nonlocal count
            count += 1
            if goes_on:
                loop.call_soon(again)

        again()
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        goes_on = False  # or the loop's exit waits for its queue to be empty for ever
        assert 2 < count < 50


async def test_cancelled_timers_are_swept() -> None:
    async with open_cell_loop() as loop:
        for _ in range(1_000):
            loop.call_later(1_000, print).cancel()
        assert len(loop._timers) < 300


async def test_the_loop_can_be_left() -> None:
    async with open_cell_loop() as loop:
        loop.stop()
        loop.close()
        task = loop.create_task(asyncio.sleep(1_000))
        await trio.lowlevel.checkpoint()
    assert task.cancelled() and loop.is_closed()


async def test_driving_is_not_left_open() -> None:
    async def cell() -> int:
        await asyncio.sleep(0)
        await trio.lowlevel.checkpoint()
        return 3

    async with open_cell_loop() as loop:
        task = CellTask(loop)
        assert await drive(cell(), task, loop) == 3
        assert task.done() and not task.cancel()
        with pytest.raises(RuntimeError, match="different loop"):
            other = asyncio.SelectorEventLoop()
            try:
                await drive(_wait(other.create_future()), CellTask(loop), loop)
            finally:
                other.close()


async def _wait(future: asyncio.Future[None]) -> None:
    await future

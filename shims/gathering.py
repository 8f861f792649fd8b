"""`gather`: run awaitables side by side and wait for all, under trio and under asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import trio


async def gather(*awaitables: Awaitable[Any], return_exceptions: bool = False) -> list[Any]:
    """Wait for all at once; the results come in the order of the arguments.

    The first failure is raised as it is, after the others were cancelled and have ended; so it is
    with a cancel. With `return_exceptions` failures stand among the results instead.
    """
    for item in awaitables:
        if not hasattr(item, "__await__"):
            _close(awaitables)
            hint = "; call it" if callable(item) else ""
            raise TypeError(f"gather() takes awaitables, not {type(item).__name__}{hint}")
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await _in_trio(awaitables, return_exceptions)
    return await _in_asyncio(loop, awaitables, return_exceptions)


async def _in_asyncio(
    loop: asyncio.AbstractEventLoop, awaitables: tuple[Awaitable[Any], ...], is_quiet: bool
) -> list[Any]:
    futures: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(item, loop=loop) for item in awaitables
    ]
    if not futures:
        return []
    done = loop.create_future()
    left = len(set(futures))

    def ended(future: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        is_failed = future.cancelled() or future.exception() is not None
        if not done.done() and (left == 0 or (is_failed and not is_quiet)):
            done.set_result(future)

    for future in set(futures):
        future.add_done_callback(ended)
    try:
        first = await done
    except BaseException:
        await _end(futures)
        raise
    if left:
        await _end(futures)
    if not is_quiet and (first.cancelled() or first.exception() is not None):
        return [first.result()]
    return [_told(future) if is_quiet else future.result() for future in futures]


async def _end(futures: list[asyncio.Future[Any]]) -> None:
    """Cancel what still runs, and wait for it even if this wait is cancelled."""
    running = {future for future in futures if not future.done()}
    for future in running:
        future.cancel()
    again: BaseException | None = None
    while running:
        waiter = asyncio.ensure_future(asyncio.wait(running))
        try:
            await waiter
        except (asyncio.CancelledError, trio.Cancelled) as error:
            again = error
            for future in running:
                future.cancel()
        running = {future for future in running if not future.done()}
    for future in futures:
        if future.done() and not future.cancelled():
            future.exception()  # looked at, so that nothing is said of it again
    if again is not None:
        raise again


def _told(future: asyncio.Future[Any]) -> Any:
    if future.cancelled():
        return asyncio.CancelledError()
    return future.exception() or future.result()


async def _in_trio(awaitables: tuple[Awaitable[Any], ...], is_quiet: bool) -> list[Any]:
    """In a `trio.run` of the user, where there is no asyncio."""
    results: list[Any] = [None] * len(awaitables)
    failure: list[BaseException] = []

    async def run(index: int, item: Awaitable[Any]) -> None:
        try:
            results[index] = await item
        except Exception as error:
            if is_quiet:
                results[index] = error
            elif not failure:
                failure.append(error)
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for index, item in enumerate(awaitables):
            nursery.start_soon(run, index, item)
    if failure:
        raise failure[0]
    return results


def _close(awaitables: tuple[Any, ...]) -> None:
    for item in awaitables:
        if asyncio.iscoroutine(item):
            item.close()

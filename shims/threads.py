"""`trio.to_thread.run_sync` in cells: an interrupt leaves the thread behind instead of waiting.

trio waits for a thread that may not be abandoned, whatever happens; so a blocking call in one would
hold a cell past every interrupt. Here it may be abandoned and is shielded from cancels until then,
which comes to the same unless an interrupt takes the shield away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
import trio._threads
import trio.to_thread

_run_sync = trio.to_thread.run_sync
_shields: set[trio.CancelScope] = set()


async def run_sync(
    sync_fn: Callable[..., Any],
    *args: Any,
    thread_name: str | None = None,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> Any:
    """As trio has it. After an interrupt of the cell a cancel does not wait for the thread."""

    async def run() -> Any:
        return await _run_sync(
            sync_fn,
            *args,
            thread_name=thread_name,
            abandon_on_cancel=True,
            limiter=limiter,
        )

    if abandon_on_cancel:
        return await run()
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True) as scope:
        _shields.add(scope)
        try:
            return await run()
        finally:
            _shields.discard(scope)


def install() -> None:
    """For this process and for good."""
    trio.to_thread.run_sync = run_sync  # type: ignore[assignment]


def abandon() -> None:
    """In the loop: from here on, cancels and interrupts reach what waits for a thread."""
    for scope in list(_shields):
        scope.shield = False

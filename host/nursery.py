"""A nursery for a context manager's own tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def own_tasks() -> AsyncIterator[trio.Nursery]:
    """Like `trio.open_nursery`, but its tasks are cancelled when the body ends, and what the body
    raised comes out as it is: an embedder's ValueError is not wrapped in a group because our pump
    ran beside it."""
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except BaseException as error:  # a Cancelled too: it is raised again below
            raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised

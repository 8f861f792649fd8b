"""Cancel scopes and nurseries of trio that a cell has opened and not closed.

They live on in the task that runs the cells, as a variable does, and a later cell may close them.
But one that is cancelled would cancel every later cell, so that one is taken off.
"""

from __future__ import annotations

from typing import Any

import trio

from awaitbox.shims.tracebacks import one_line

_PATIENCE_SECONDS = 1.0  # for children that were cancelled


class Leftovers:
    """Of one task. It must have none open when this is made."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self._root = task._cancel_status

    @property
    def are_cancelled(self) -> bool:
        status = self._task._cancel_status
        return status is not self._root and status.effectively_cancelled

    async def take_off(self) -> list[str]:
        """Call it in that task. Ends the children of abandoned nurseries; -> notices."""
        texts = ["a trio cancel scope or nursery that an earlier cell left open was cancelled"]
        nurseries: list[Any] = list(self._task._child_nurseries)
        with trio.move_on_after(_PATIENCE_SECONDS, shield=True):
            while any(nursery._children for nursery in nurseries):
                for nursery in nurseries:
                    nursery.cancel_scope.cancel()
                await trio.sleep(0.001)
        for nursery in reversed(nurseries):
            errors = [e for e in nursery._pending_excs if not isinstance(e, trio.Cancelled)]
            texts += [f"its child task failed: {one_line(error)}" for error in errors]
            nursery._closed = True
        self._task._child_nurseries.clear()
        self._task._activate_cancel_status(self._root)
        return texts

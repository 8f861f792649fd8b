"""Tasks that failed in the background: each is told once, with the result of a cell."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import tasks as asyncio_tasks
from collections.abc import Sequence
from typing import Any

from awaitbox.shims.bounds import NOTICE_CHARS, NOTICES
from awaitbox.shims.loop import CellLoop
from awaitbox.shims.tracebacks import clip, one_line


class FailedTasks:
    """Finds them without a hook in each task: a task that nobody holds reports itself when it is
    collected, and those that somebody holds are looked at when a cell ends."""

    def __init__(self, loop: CellLoop) -> None:
        self._loop = loop
        self.texts: list[str] = []
        self._left_out = 0
        loop.on_failure = self._note

    def take(self) -> list[str]:
        """The notices so far. The tasks they are about say nothing any more."""
        for task in _held_tasks():
            if task.done() and getattr(task, "_log_traceback", False):
                with contextlib.suppress(AttributeError):
                    task._log_traceback = False
                if not task.cancelled():
                    self._note(f"task {task.get_name()}", task.exception())
        texts, self.texts = self.texts, []
        if self._left_out:
            texts.append(f"and {self._left_out} more failures in the background")
            self._left_out = 0
        return texts

    def _note(self, message: str, error: BaseException | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            return  # the user's own interrupt
        if len(self.texts) >= NOTICES - 1:
            self._left_out += 1
            return
        what = message if error is None else f"{message}: {one_line(error)}"
        self.texts.append(clip(f"failed in the background: {what}", NOTICE_CHARS))


# asyncio's own register of tasks that live, finished ones that somebody holds among them.
_register: Any = getattr(asyncio_tasks, "_scheduled_tasks", None)
if _register is None:
    _register = asyncio_tasks._all_tasks  # type: ignore[attr-defined]


def _held_tasks() -> Sequence[asyncio.Task[Any]]:
    return list(_register) if _register.data else ()

"""SIGINT: what it stops, and how.

| where the main thread is | what the signal does |
| --- | --- |
| no cell runs | nothing: a late one can't hit the next cell |
| in a critical section, or in code that trio protects | it is noted, or goes the last way |
| in the cell's own code | KeyboardInterrupt, right there |
| in a `trio.run` of the cell | the same, or that run delivers it |
| in a child task of trio that is busy | KeyboardInterrupt, right there; the nursery ends |
| in a busy asyncio task or callback | CancelledError, right there: the loop must go on |
| in the loop, which waits | the cell's own wait is aborted with KeyboardInterrupt |

Threads that wait for a verb are released, for no signal reaches them. From the second signal on,
code that swallows everything (`except BaseException: continue`) is traced, and the exception is
raised once more inside its handler.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

import outcome
import sniffio
import trio
import trio_asyncio
from trio._core._run import GLOBAL_RUN_CONTEXT, unrolled_run

from awaitbox.shims.cell import Cell
from awaitbox.shims.critical import Critical
from awaitbox.shims.driver import CellTask, step
from awaitbox.shims.link import Link

_LIBRARIES = tuple(
    os.path.dirname(os.path.abspath(str(file))) + os.sep
    for file in (*(m.__file__ for m in (trio, trio_asyncio, outcome, sniffio, asyncio)), __file__)
)
_STEP = step.__code__


def is_library(filename: str) -> bool:
    """Whether code of that file is ours or an event loop's, and not the user's."""
    return filename.startswith(_LIBRARIES) or filename.startswith("<verb ")


class Interrupts:
    """The handler of SIGINT. The worker tells it what runs: `cell`, `task` and `loop_task`."""

    def __init__(self, critical: Critical, link: Link) -> None:
        self.cell: Cell | None = None
        self.task: CellTask | None = None  # of the running cell, while it is driven
        self.loop_task: trio.lowlevel.Task | None = None  # runs asyncio's callbacks
        self.token: trio.lowlevel.TrioToken | None = None
        self.before_raise: Callable[[], None] = lambda: None
        self._critical = critical
        self._link = link
        critical.deliver = self.deliver

    def install(self) -> None:
        signal.signal(signal.SIGINT, self.handle)

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if self.cell is not None and frame is not None and not self._critical.note():
            self.deliver(frame)

    def deliver(self, frame: FrameType) -> None:
        """Stop what runs at `frame`. Usually raises."""
        cell = self.cell
        if cell is None:
            return
        cell.interrupts += 1
        self._link.release_threads(_interrupted)
        self._link.refusal = _interrupted
        self.before_raise()
        is_own, is_user = _place(frame)
        runner = getattr(GLOBAL_RUN_CONTEXT, "runner", None)
        if trio.lowlevel.currently_ki_protected():
            is_own = is_user = False
        if is_own:
            self._throw(frame, cell, KeyboardInterrupt)
        if runner is not None and runner is not self._link.home_runner:
            if is_user:
                self._throw(frame, cell, KeyboardInterrupt)
            runner.deliver_ki()
            return
        if is_user:
            current = getattr(GLOBAL_RUN_CONTEXT, "task", None)
            is_callback = current is self.loop_task
            kind = asyncio.CancelledError if is_callback else KeyboardInterrupt
            self._throw(frame, cell, kind)
        assert self.token is not None
        self.token.run_sync_soon(self._abort, cell, idempotent=False)

    def _throw(self, frame: FrameType, cell: Cell, kind: type[BaseException]) -> NoReturn:
        if cell.interrupts > 1:
            _trace(list(_stack(frame)), kind)
        raise kind

    def _abort(self, cell: Cell) -> None:
        """In the loop: end the wait of the cell itself. Nothing if it is over."""
        task = self.task
        if cell is not self.cell:
            return
        carrier = None if task is None else task._carrier
        if task is None or carrier is None or carrier._next_send_fn is not None:
            assert self.token is not None
            self.token.run_sync_soon(self._abort, cell)  # about to run: after its next step
            return
        if cell.interrupts > 1:
            _trace(list(_awaited(task.get_coro())), KeyboardInterrupt)
        if carrier._abort_func is not None:
            raising = _Raise(is_final=cell.interrupts > 1)
            carrier._attempt_abort(raising)

    def over(self) -> None:
        """The cell is over: nothing of its interrupts may reach the next one."""
        self.cell = None
        self.task = None
        self._link.refusal = None
        if sys.gettrace() is not None and isinstance(sys.gettrace(), _Tracer):
            sys.settrace(None)


class _Raise:
    """As trio calls it to abort a wait. A final one does not let the wait go on."""

    def __init__(self, *, is_final: bool) -> None:
        self.is_final = is_final

    def __call__(self) -> NoReturn:
        raise KeyboardInterrupt


def _interrupted() -> BaseException:
    return KeyboardInterrupt("the cell was interrupted")


def _place(frame: FrameType) -> tuple[bool, bool]:
    """-> (whether the cell's own code runs here, whether code of the user runs in this loop).

    A signal that came in `step` itself hits nobody: the coroutine under it has just yielded, and
    an exception here would lose what it waits for.
    """
    if frame.f_code is _STEP:
        return False, False
    is_user = False
    at: FrameType | None = frame
    is_inner = True  # within the innermost loop
    while at is not None:
        code = at.f_code
        if code is _STEP:
            return True, True
        if code is _UNROLLED:
            is_inner = False
        elif is_inner and not is_user:
            is_user = not is_library(code.co_filename)
        at = at.f_back
    return False, is_user


_UNROLLED = unrolled_run.__code__


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None and frame.f_code is not _STEP and frame.f_code is not _UNROLLED:
        yield frame
        frame = frame.f_back


def _awaited(coroutine: Any) -> Iterator[FrameType]:
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            yield frame
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)


class _Tracer:
    """Raises once more at the first line that runs in a frame after the interrupt passed it: that
    line lies in an `except` or a `finally`, so the same `try` can't catch it again."""

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind
        self._passed: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        return None  # frames that are entered from now on are not traced

    def local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and issubclass(arg[0], (self._kind, KeyboardInterrupt)):
            self._passed.add(frame)
        elif event == "line" and frame in self._passed:
            raise self._kind
        return self.local


def _trace(frames: list[FrameType], kind: type[BaseException]) -> None:
    tracer = _Tracer(kind)
    for frame in frames:
        if not is_library(frame.f_code.co_filename):
            frame.f_trace = tracer.local
    sys.settrace(tracer)


def is_interrupt(error: BaseException) -> bool:
    """Whether it is one of a signal, or a group with one in it."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_interrupt(item) for item in error.exceptions)
    return isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))

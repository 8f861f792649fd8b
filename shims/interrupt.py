"""SIGINT: what it stops, and how.

| where the main thread is | what the signal does |
| --- | --- |
| no cell runs | nothing: a late one can't hit the next cell |
| in a critical section, or in code that trio protects | it is noted, or goes the last way |
| in the cell's own code | KeyboardInterrupt, right there |
| in a `trio.run` of the cell | the same, or that run delivers it |
| in a busy task of trio or asyncio, or a callback | KeyboardInterrupt, right there: that one ends |
| in the loop, which waits | the wait of the cell itself ends |

A wait for asyncio ends with CancelledError the first time, as in `asyncio.run`, for only so do task
groups end their tasks; any other and any later one with KeyboardInterrupt. Threads that wait for a
verb are released, for no signal reaches them. From the second signal on, code that swallows
everything (`except BaseException: continue`) is traced, and the exception is raised once more in
its handler.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import outcome
import sniffio
import trio
import trio_asyncio
from trio._core._run import GLOBAL_RUN_CONTEXT, unrolled_run

from awaitbox.shims import threads
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
    """The handler of SIGINT. The worker tells it what runs."""

    def __init__(self, critical: Critical, link: Link) -> None:
        self.cell: Cell | None = None
        self.task: CellTask | None = None  # of the running cell, while it is driven
        self.token: trio.lowlevel.TrioToken | None = None
        self.workspace = os.sep  # below it lie the user's modules
        self._critical = critical
        self._link = link
        critical.deliver = self.deliver
        collections: list[Any] = [WeakSet(), WeakKeyDictionary(), WeakValueDictionary()]
        for collection in collections:
            # Called by the collector, which would print an exception and go on.
            trio.lowlevel.enable_ki_protection(collection._remove)

    def install(self) -> None:
        """Take the signal, also back from code that has put a handler of its own in place."""
        if signal.getsignal(signal.SIGINT) != self.handle:
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
        is_own, is_user = self._place(frame)
        runner = getattr(GLOBAL_RUN_CONTEXT, "runner", None)
        current = getattr(GLOBAL_RUN_CONTEXT, "task", None)
        is_nested = runner is not None and runner is not self._link.home_runner
        is_between = is_nested and current is None  # an exception would tear that run, not end it
        if (is_own or is_user) and not is_between and not trio.lowlevel.currently_ki_protected():
            if cell.interrupts > 1:
                _trace(list(_stack(frame)))
            raise KeyboardInterrupt
        if runner is not None and is_nested:
            runner.deliver_ki()
            return
        cell.is_due = True
        if is_own:
            _trace(list(_stack(frame)), cell)
        assert self.token is not None
        self.token.run_sync_soon(self._abort, cell)

    def _place(self, frame: FrameType) -> tuple[bool, bool]:
        """-> (whether the cell's own code runs here, whether code of the user runs beside it).

        A signal that came in `step` itself hits nobody: the coroutine under it has just yielded,
        and an exception here would lose what it waits for.
        """
        if frame.f_code is _STEP:
            return False, False
        is_user = False
        is_inner = True  # within the innermost loop
        at: FrameType | None = frame
        while at is not None:
            code = at.f_code
            if code is _STEP:
                return True, is_user
            if code is _UNROLLED:
                is_inner = False
            elif is_inner and not is_user:
                name = code.co_filename
                is_user = name.startswith(("<cell ", self.workspace)) and not is_library(name)
            at = at.f_back
        return False, is_user

    def _abort(self, cell: Cell) -> None:
        """In the loop: end the wait of the cell itself. Nothing if it is over."""
        task = self.task
        if cell is not self.cell or not cell.is_due:
            return
        threads.abandon()
        carrier = None if task is None else task._carrier
        if task is None or carrier is None or carrier._next_send_fn is not None:
            assert self.token is not None
            self.token.run_sync_soon(self._abort, cell)  # about to run: after its next step
            return
        cell.is_due = False
        sys.settrace(None)
        if cell.interrupts > 1:
            _trace(list(_awaited(task.get_coro())))
        if cell.interrupts == 1 and task.waits_for_future:
            task.cancel()  # as asyncio.run does: only so do task groups end their tasks
        elif carrier._abort_func is not None:
            carrier._attempt_abort(_raise)
        elif cell.interrupts > 1:
            task.give_up(KeyboardInterrupt())

    def over(self) -> None:
        """The cell is over: nothing of its interrupts may reach the next one."""
        self.cell = None
        self.task = None
        self._link.refusal = None
        if sys.gettrace() is not None and isinstance(sys.gettrace(), _Tracer):
            sys.settrace(None)


def _raise() -> NoReturn:
    raise KeyboardInterrupt


def _interrupted() -> BaseException:
    return KeyboardInterrupt("the cell was interrupted")


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
    """Raises at a line of the traced frames: the first that comes, if an interrupt is `due`; else
    the first that runs in a frame after the interrupt passed it: that one lies in an `except` or a
    `finally`, so the same `try` can't catch it again."""

    def __init__(self, due: Cell | None) -> None:
        self._due = due
        self._passed: dict[FrameType, int] = {}  # and the line where it did

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        """For frames that are entered from now on: they are not traced."""
        if self._due is not None and frame.f_code is _STEP:
            # What was to be interrupted has yielded. The loop does it; at a line of an outer frame
            # now, the exception would lose the inner ones, which wait.
            sys.settrace(None)
        return None

    def local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and issubclass(arg[0], KeyboardInterrupt):
            self._passed[frame] = frame.f_lineno
        elif event == "line" and self._due is not None:
            if self._due.is_due and not trio.lowlevel.currently_ki_protected():
                self._due.is_due = False
                raise KeyboardInterrupt
        elif event == "line" and self._passed.get(frame, frame.f_lineno) != frame.f_lineno:
            raise KeyboardInterrupt
        return self.local


def _trace(frames: list[FrameType], due: Cell | None = None) -> None:
    tracer = _Tracer(due)
    for frame in frames:
        if not is_library(frame.f_code.co_filename):
            frame.f_trace = tracer.local
    sys.settrace(tracer)

"""Verbs that were called and never awaited: nothing else would say so.

A stub's coroutine is entered here when it is made and leaves when it starts. What is still here at
the end of a cell has done nothing.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from types import CodeType, CoroutineType
from typing import Any, NamedTuple

import trio

from awaitbox.shims.wire import Failure

_HELD_BY_US = 3  # the entry, the loop's variable and the argument of getrefcount

Verb = Callable[[dict[str, Any], int], "CoroutineType[Any, Any, Any]"]


class Entry(NamedTuple):
    coroutine: CoroutineType[Any, Any, Any]
    code: CodeType  # of whoever called
    lasti: int
    is_own: bool  # called by the cell itself, not by a task or a thread beside it
    is_excused: bool = False  # an interrupt came in between


class Lost(NamedTuple):
    """One that was never awaited; `filename` and `line` are the call's place."""

    verb: str
    filename: str
    line: int | None
    function: str
    is_dropped: bool  # nobody holds it


class Ledger:
    """`is_own` tells whether the running code is the cell itself."""

    def __init__(self, is_own: Callable[[], bool]) -> None:
        self.entries: dict[int, Entry] = {}
        self._is_own = is_own
        self._next_key = itertools.count().__next__

    @trio.lowlevel.enable_ki_protection  # an interrupt in between would lose the coroutine
    def enter(self, run: Verb, args: dict[str, Any]) -> CoroutineType[Any, Any, Any]:
        """The coroutine of a call. The caller's caller is where the call is."""
        key = self._next_key()
        coroutine = run(args, key)
        frame = sys._getframe(2)
        self.entries[key] = Entry(coroutine, frame.f_code, frame.f_lasti, self._is_own())
        return coroutine

    def started(self, key: int) -> None:
        self.entries.pop(key, None)

    def take_lost(self) -> list[Lost]:
        """Those that nobody will await, closed, so that CPython does not warn of them, too.

        A cell's own one is lost at its end in any case; one that a task made is lost when nobody
        holds it any more.
        """
        lost: list[Lost] = []
        for key, entry in list(self.entries.items()):
            coroutine = entry.coroutine
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
                del self.entries[key]
                continue
            is_dropped = sys.getrefcount(coroutine) <= _HELD_BY_US
            if not entry.is_own and not is_dropped:
                continue
            del self.entries[key]
            coroutine.close()
            if not entry.is_excused:
                line = _line(entry.code, entry.lasti)
                place = entry.code.co_filename, line, entry.code.co_name
                lost.append(Lost(coroutine.__name__, *place, is_dropped))
        return lost

    def excuse(self) -> None:
        """Say nothing of those that are left, now or later: an interrupt tore their code."""
        for key, entry in list(self.entries.items()):
            self.entries[key] = entry._replace(is_excused=True)

    @staticmethod
    def causes(lost: list[Lost], failure: Failure) -> list[Lost]:
        """Those worth a word beside an error: all if it is about a coroutine, else those that were
        dropped elsewhere. What the failing line was about to await is the error's doing."""
        if "coroutine" in failure.message:
            return lost
        return [item for item in lost if item.is_dropped and item.line != failure.line]

    @staticmethod
    def message(lost: list[Lost]) -> str:
        """`write: await shell_run(...)`, for each verb once."""
        verbs = list(dict.fromkeys(item.verb for item in lost))
        names = ", ".join(verbs)
        calls = "; ".join(f"await {verb}(...)" for verb in verbs)
        was = "was" if len(lost) == 1 else "were"
        return f"{names} {was} called but never awaited, so nothing happened; write: {calls}"


def _line(code: CodeType, lasti: int) -> int | None:
    for begin, end, line in code.co_lines():
        if begin <= lasti < end:
            return line
    return None

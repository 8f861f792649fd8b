"""Sections of the main thread in which an interrupt is noted and raised at their end.

A frame that is half sent, a lock that nobody gives back, an event loop that was not put back: an
exception out of a signal handler may come at any bytecode, so the handler asks here first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class Critical:
    """Enter it *before* taking a lock: between the two an interrupt would orphan the lock.

    Re-entrant. In other threads it does nothing, for signals are handled in the main one alone.
    `deliver` is what a noted interrupt calls; it may raise.
    """

    __slots__ = ("_depth", "_is_late", "_main", "deliver")

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self._depth = 0
        self._is_late = False
        self.deliver: Callable[[FrameType], None] = lambda frame: None

    def note(self) -> bool:
        """Called by the signal handler: whether the main thread is inside, and it was noted."""
        if self._depth:
            self._is_late = True
            return True
        self._is_late = False  # it came at the very end of a section: one delivery for both
        return False

    def __enter__(self) -> None:
        if threading.get_ident() == self._main:
            self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if threading.get_ident() == self._main:
            self._depth -= 1
            if self._is_late and not self._depth:
                self._is_late = False
                self.deliver(sys._getframe(1))

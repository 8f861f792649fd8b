"""A deadline that stands still while a person is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Deadline:
    """A cancel scope of so many seconds from now; time inside `paused()` does not count."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._pauses = 0
        self.scope = trio.CancelScope(deadline=trio.current_time() + seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock; may nest and overlap."""
        if not self._pauses:
            self._left = self.scope.deadline - trio.current_time()
            self.scope.deadline = float("inf")
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self.scope.deadline = trio.current_time() + self._left

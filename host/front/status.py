"""The status line: what a cell that takes long is doing, drawn with rich below all output."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.live import Live


class StatusLine:
    """One line on stderr. All methods block as a terminal does: call them in a thread."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._spinner: Any = None
        self._lock = threading.Lock()  # `erase` may come while an abandoned thread still draws

    @property
    def is_drawn(self) -> bool:
        return self._live is not None

    def draw(self, text: str | None) -> None:
        """Show `text`, cut to the width of the terminal; None takes the line away."""
        if text is None:
            self.erase()
            return
        with self._lock:
            live = self._live or self._start()
            if live is not None:
                live.update(self._rendered(live, text), refresh=True)

    def _start(self) -> Live | None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(stderr=True)
        if not console.is_terminal or console.is_dumb_terminal:
            return None
        self._spinner = self._spinner or Spinner("dots")
        live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        self._live = live
        return live

    def _rendered(self, live: Live, text: str) -> Any:
        from rich.text import Text

        line = Text(text, no_wrap=True)
        line.truncate(live.console.width - 3, overflow="ellipsis")
        self._spinner.update(text=line)
        return self._spinner

    def erase(self) -> None:
        with self._lock:
            live, self._live = self._live, None
            if live is not None:
                live.stop()

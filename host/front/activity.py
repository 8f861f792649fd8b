"""What a session is doing, told from its events: for the status line and for `--trace`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from awaitbox.host.front.screen import plain
from awaitbox.host.limits import SHOWN_CALL_CHARS, STATUS_AFTER_SECONDS


@dataclass(eq=False)
class _Call:
    verb: str
    arguments: Mapping[str, Any]
    began: float = field(default_factory=time.monotonic)
    is_told: bool = False

    def __str__(self) -> str:
        return shown_call(self.verb, self.arguments)


class Activity:
    """Fed with the events of one session (`open_host(on_event=...)`).

    `tell`, if given, gets a line for each call as it ends, and one for a call that runs longer than
    STATUS_AFTER_SECONDS while it still runs.
    """

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self.label = "cell"
        self._tell = tell
        self._calls: list[_Call] = []
        self._cell_began: float | None = None

    def on_event(self, event: Mapping[str, Any]) -> None:
        kind = event["kind"]
        if kind == "cell_started":
            self._cell_began = time.monotonic()
        elif kind == "cell_ended":
            self._cell_began = None
        elif kind == "call_started":
            self._calls.append(_Call(event["verb"], event["arguments"]))
        elif kind == "call_ended":
            self._ended(event)

    def _ended(self, event: Mapping[str, Any]) -> None:
        """Events carry no number, so equal calls are taken to end in the order of their start."""
        for call in self._calls:
            if call.verb == event["verb"] and call.arguments == event["arguments"]:
                self._calls.remove(call)
                break
        if self._tell is not None:
            error = f": {event['error']}" if event["error"] else ""
            shown = shown_call(event["verb"], event["arguments"])
            self._tell(f"{shown}  {event['outcome']}, {spent(event['duration_ms'])}{error}")

    def tell_slow_calls(self) -> None:
        now = time.monotonic()
        for call in self._calls:
            if not call.is_told and now - call.began > STATUS_AFTER_SECONDS:
                call.is_told = True
                if self._tell is not None:
                    self._tell(f"{call}  ...")

    def status(self, live: Sequence[str]) -> str | None:
        """The status line, or None while there is nothing to say; `live` are the ids that run."""
        began = min([call.began for call in self._calls], default=None)
        began = began if self._cell_began is None else self._cell_began
        now = time.monotonic()
        if began is None or now - began < STATUS_AFTER_SECONDS:
            return None
        parts = []
        if self._cell_began is not None:
            parts += [self.label, spent((now - self._cell_began) * 1000)]
        if self._calls:
            newest = self._calls[-1]
            more = f" and {len(self._calls) - 1} more" if len(self._calls) > 1 else ""
            parts.append(f"{newest}{more} {spent((now - newest.began) * 1000)}")
        if live:
            parts.append(f"live: {', '.join(live)}")
        return plain(" · ".join(parts))


def shown_call(verb: str, arguments: Mapping[str, Any]) -> str:
    """A call on one bounded line; an argument that is None was as good as not given."""
    given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
    text = plain(", ".join(given))
    if len(text) > SHOWN_CALL_CHARS:
        text = f"{text[:SHOWN_CALL_CHARS]} ..."
    return f"{plain(verb)}({text})"


def spent(milliseconds: float) -> str:
    """A duration as a person reads it."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:.0f} s"

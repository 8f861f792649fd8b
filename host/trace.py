"""What a session did: one record a call, gathered for the cell's result and told as events.

An event is a dict: `{kind, session, at, ...}` with kind `cell_started` (code), `cell_ended`
(status, duration_ms), `call_started` (verb, arguments) and `call_ended` (verb, arguments, outcome,
duration_ms, error).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from awaitbox.host.limits import CALLS_KEPT, TRACE_ARGUMENT_CHARS
from awaitbox.host.result import CallRecord

_log = logging.getLogger("awaitbox")

OnEvent = Callable[[dict[str, Any]], None]


class Entry:
    """A call under way. `record` is what the cell's result will show."""

    __slots__ = ("_began", "record")

    def __init__(self, verb: str, arguments: Mapping[str, Any]) -> None:
        self._began = time.perf_counter()
        self.record: CallRecord = {
            "verb": verb,
            "arguments": {name: _short(value) for name, value in arguments.items()},
            "duration_ms": 0.0,
            "outcome": "ok",
        }

    def close(self, outcome: str) -> None:
        self.record["outcome"] = outcome
        self.record["duration_ms"] = round((time.perf_counter() - self._began) * 1e3, 3)


class Trace:
    """The calls of one session. A call is recorded in the cell in which it ended."""

    def __init__(self, session: str, on_event: OnEvent | None) -> None:
        self._session = session
        self._on_event = on_event
        self._records: list[CallRecord] = []
        self.left_out = 0  # calls of this cell beyond CALLS_KEPT

    def begin(self, verb: str, arguments: Mapping[str, Any]) -> Entry:
        entry = Entry(verb, arguments)
        if self._on_event is not None:
            record = entry.record
            self.event("call_started", verb=verb, arguments=record["arguments"])
        return entry

    def end(self, entry: Entry, outcome: str = "ok", error: str | None = None) -> None:
        """Close an entry and keep it, at most CALLS_KEPT a cell."""
        entry.close(outcome)
        if len(self._records) < CALLS_KEPT:
            self._records.append(entry.record)
        else:
            self.left_out += 1
        if self._on_event is not None:
            self.event("call_ended", **entry.record, error=error)

    def event(self, kind: str, **facts: Any) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event({"kind": kind, "session": self._session, "at": time.time(), **facts})
        except Exception:  # the embedder's: no call and no cell fails for it
            self._on_event = None
            _log.exception("on_event raised, and is called no more in session %s", self._session)

    def take(self) -> list[CallRecord]:
        """The records since the last take."""
        records, self._records, self.left_out = self._records, [], 0
        return records


def _short(value: Any) -> Any:
    """An argument as a reader wants it: long texts clipped, so that a trace stays bounded."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        if len(value) <= TRACE_ARGUMENT_CHARS:
            return value
        return f"{value[:TRACE_ARGUMENT_CHARS]} ... ({len(value):,} characters)"
    if isinstance(value, list) and len(value) <= 100 and all(isinstance(x, str) for x in value):
        return [_short(item) for item in value]
    return _short(repr(value))

"""What a verb is given beside its arguments: its session, and what that may reach."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from awaitbox.host.background import Background
from awaitbox.host.custody.machine import Machine
from awaitbox.host.limits import Limits
from awaitbox.host.paths import Roots
from awaitbox.host.process.foreground import Leftover
from awaitbox.host.process.pump import Pump
from awaitbox.host.resources import Resources


class Acting(Protocol):
    """What a verb may ask of its session."""

    id: str
    resources: Resources

    @property
    def pump(self) -> Pump: ...
    @property
    def scratch(self) -> str: ...
    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]: ...
    def watch(self, background: Background) -> None: ...
    def adopt(self, leftover: Leftover, line: str, cwd: str) -> Background: ...
    def waiting_for_a_person(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Context:
    """One per session; a verb takes it as its first parameter, named `ctx`."""

    session: Acting
    machine: Machine
    roots: Roots
    limits: Limits = field(default_factory=Limits)

"""What a verb is given beside its arguments: its session, and what that may reach."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from awaitbox.host.backgrounds import Backgrounds
from awaitbox.host.custody.machine import Machine
from awaitbox.host.limits import Limits
from awaitbox.host.paths import Roots


class Acting(Protocol):
    """What a verb may ask of its session."""

    id: str

    @property
    def scratch(self) -> str: ...
    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]: ...
    def waiting_for_a_person(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Context:
    """One per session; a verb takes it as its first parameter, named `ctx`."""

    session: Acting
    backgrounds: Backgrounds
    machine: Machine
    roots: Roots
    limits: Limits = field(default_factory=Limits)

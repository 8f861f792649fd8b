"""What a verb is given beside its arguments: the session it acts in and what that session may reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from awaitbox.host.limits import Limits
from awaitbox.host.paths import Roots


@dataclass(frozen=True, slots=True)
class Context:
    """One per session; a verb takes it as its first parameter, named `ctx`."""

    session: Any
    host: Any
    roots: Roots
    machine: Any = None
    limits: Limits = field(default_factory=Limits)

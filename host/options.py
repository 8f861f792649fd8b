"""What a host is opened with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from awaitbox.host.approval import Approver
from awaitbox.host.limits import Limits
from awaitbox.host.trace import OnEvent


@dataclass(frozen=True)
class Options:
    """What `open_host` was given, checked."""

    mode: str = "full-access"
    read_roots: Sequence[str] = ()
    write_roots: Sequence[str] = ()
    approve: Approver | None = None
    toggles: Mapping[str, bool] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    imports: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    on_event: OnEvent | None = None
    has_spare: bool = True

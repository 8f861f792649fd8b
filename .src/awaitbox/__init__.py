"""awaitbox: a host that runs model-written Python, cell by cell, beside bare async verbs.

The public names are imported when they are first asked for, so that the warden, which may not
load third-party code, can import `awaitbox.host.custody` without paying for trio.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer than all that the warden imports otherwise
if TYPE_CHECKING:
    from awaitbox.host.approval import Request
    from awaitbox.host.errors import HostError, VerbError
    from awaitbox.host.front.open import open_host
    from awaitbox.host.result import CellResult, Notice, Output
    from awaitbox.host.verb import verb

__version__ = "0.1.0"

_HOMES = {
    "CellResult": "awaitbox.host.result",
    "HostError": "awaitbox.host.errors",
    "Notice": "awaitbox.host.result",
    "Output": "awaitbox.host.result",
    "Request": "awaitbox.host.approval",
    "VerbError": "awaitbox.host.errors",
    "open_host": "awaitbox.host.front.open",
    "verb": "awaitbox.host.verb",
}

__all__ = [
    "CellResult",
    "HostError",
    "Notice",
    "Output",
    "Request",
    "VerbError",
    "open_host",
    "verb",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'awaitbox' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

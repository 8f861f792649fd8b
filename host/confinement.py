"""What holds a session, said as it is.

This release builds no confinement: sessions run in `full-access` and say so. The other modes are
refused and not imitated.
"""

from __future__ import annotations

from typing import Any

from awaitbox.host.errors import HostError

MODES = ("read-only", "workspace-write", "full-access")


def check_mode(mode: str) -> str:
    """The mode, if this release can hold it. Raises `HostError` (`invalid_option`,
    `mode_unavailable`)."""
    if mode not in MODES:
        raise HostError(f"no mode {mode!r}; there are: {', '.join(MODES)}", code="invalid_option")
    if mode != "full-access":
        raise HostError(
            f"mode {mode!r} needs a confinement that this release does not build. "
            'open_host(mode="full-access") runs everything as your own user, unconfined',
            code="mode_unavailable",
        )
    return mode


def report(mode: str) -> dict[str, Any]:
    """`session["confinement"]`: rung, what is enforced, what is not, why, and the mend."""
    return {
        "rung": "none",
        "mode": mode,
        "enforced": [],
        "not_enforced": [
            "files: all that this user may read or write can be read or written",
            "network: open",
            "processes: those of this user can be seen and signalled",
            "memory, processes and disk: no ceilings",
        ],
        "why": ["full-access applies no confinement, and this release has no other mode"],
        "fix": ["run the host as a user, or in a container, that may lose what it can reach"],
    }

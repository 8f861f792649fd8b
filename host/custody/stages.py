"""The course of a command as its host sees it: states and events as a table.

An event that the table does not have in a state is a leader that does not keep to the protocol;
the command is then ended by init. What the table does not say: EXIT with its flag set is EXIT and
then GONE, and STARTED, EXIT, GONE are believed only as far as the kernel bears them out.
"""

from __future__ import annotations

from awaitbox.host.custody import protocol
from awaitbox.host.custody.protocol import BUSY, EXIT, FAILED, GONE, NOBODY, STARTED, SURVIVOR

ASKED = "asked"  # the request is on its way
RUNNING = "running"
ENDED = "ended"  # the program is over, something of its tree may live
LOST = "lost"  # the leader is not listened to any more; init ends the tree
OVER = "over"  # nothing is left, or nothing that could be ended

CLOSED = "CLOSED"  # the socket to the leader: it died, was silent, or is not believed
ORPHANED = "ORPHANED"  # init has ended what the leader left; or init itself is over

STATES = (ASKED, RUNNING, ENDED, LOST, OVER)
EVENTS = (STARTED, FAILED, EXIT, GONE, SURVIVOR, NOBODY, BUSY, CLOSED, ORPHANED)

_NEXT: dict[tuple[str, int | str], str] = {
    (ASKED, STARTED): RUNNING,
    (ASKED, FAILED): OVER,
    (ASKED, CLOSED): LOST,
    (ASKED, ORPHANED): OVER,
    (RUNNING, EXIT): ENDED,
    (RUNNING, GONE): OVER,  # the program itself became another user's and could not be ended
    (RUNNING, SURVIVOR): RUNNING,
    (RUNNING, NOBODY): RUNNING,
    (RUNNING, BUSY): RUNNING,
    (RUNNING, CLOSED): LOST,
    (RUNNING, ORPHANED): OVER,
    (ENDED, GONE): OVER,
    (ENDED, SURVIVOR): ENDED,
    (ENDED, NOBODY): ENDED,
    (ENDED, BUSY): ENDED,
    (ENDED, CLOSED): LOST,
    (ENDED, ORPHANED): OVER,
    (LOST, ORPHANED): OVER,
    (OVER, ORPHANED): OVER,
}


class IllegalEvent(Exception):
    """A leader said what it can't say in this state."""


def after(state: str, event: int | str) -> str:
    """The next state. Raises `IllegalEvent`."""
    try:
        return _NEXT[state, event]
    except KeyError:
        name = protocol.name_of(event) if isinstance(event, int) else event
        raise IllegalEvent(f"{name} while {state}") from None

"""Every bound of the host in one place; those of the wire stand in `shims/wire.py`.

The unit is in the name. What an embedder may set (`open_host(limits={...})`) is a field of `Limits`;
the rest are constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from awaitbox.host.errors import HostError

MIB = 1 << 20

# Output of a command on pipes
CAPTURE_BYTES = 16 * MIB  # whole up to here, a stream
CAPTURE_HEAD_BYTES = 8 * MIB  # beyond it: the first and the last so many
CAPTURE_TAIL_BYTES = 8 * MIB
SPILL_BYTES = 1024 * MIB  # what the file in $TMPDIR may take of one stream
LINGER_QUIET_SECONDS = 0.1  # after the end of a command: until so long without a byte,
LINGER_SECONDS = 1.0  # at most so long in all
SURVIVOR_SECONDS = 0.02  # streams closed, but something lives: a child that is about to end

# Output of a command on a terminal
LOG_LINES = 2_000
LOG_BYTES = 4 * MIB
LOG_LINE_CHARS = 16_000
SEQUENCE_BYTES = 64 << 10  # an unterminated escape string is held so long, then discarded
TERMINAL_COLUMNS = 120
TERMINAL_ROWS = 40
CANONICAL_LINE_BYTES = 4_095  # the kernel cuts a longer line without a word (N_TTY_BUF_SIZE - 1)
TYPE_SECONDS = 5.0  # a terminal takes 18 KB without a reader; then a write waits so long
PUMP_REST_SECONDS = 0.05  # 500 terminals at 10 lines a second cost 9 % of a core with it
PUMP_READ_BYTES = 128 << 10  # one terminal's share of a round

# Ending
STOP_GRACE_SECONDS = 1.0  # SIGTERM, then so long before SIGKILL
KILL_GRACE_SECONDS = 0.2  # the same where a bound or a cancel ends a tree
SILENCE_SECONDS = 1.0  # a leader or an init that does not answer is stepped over
FINISHED_KEPT = 16  # logs of finished backgrounds that stay readable

# Cells
CELL_TEXT_BYTES = 64 << 10  # stdout, stderr and value of a result, each
CELL_OUTPUT_BYTES = 32 * MIB  # what is held of a running cell's stream before it is clipped
INTERRUPT_SECONDS = 2.5  # no end of the cell so long after an interrupt: the worker is replaced
INTERRUPT_AGAIN_SECONDS = 0.4  # until then the signal is sent again at this pace
CELL_CODE_BYTES = 8 * MIB

# A worker and its host
CALLS_IN_FLIGHT = 10_000  # of one worker; one more is an error
BACKLOG_BYTES = (
    32 * MIB
)  # of answers that a worker does not read: then the host reads no more of it
TRACE_ARGUMENT_CHARS = 2_000  # of one argument, in `calls` and events
CALLS_KEPT = 10_000  # entries of `CellResult.calls`
NOTICES_KEPT = 1_000

# Opening
LOGIN_SECONDS = 5.0
READY_SECONDS = 10.0  # a warden, an init or a worker that says nothing so long is given up
SPARE_DELAY_SECONDS = 0.015  # so that a fork does not run beside the first cell of a session


@dataclass(frozen=True)
class Limits:
    """What an embedder may set."""

    shell_run_seconds: float = 120.0
    cell_seconds: float = 600.0

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Limits:
        """Check names and values. Raises `HostError` (`invalid_option`)."""
        known = {field.name: field.default for field in fields(cls)}
        for name, value in (given or {}).items():
            if name not in known:
                raise HostError(
                    f"limits has no {name!r}; there are: {', '.join(known)}", code="invalid_option"
                )
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise HostError(f"limits[{name!r}] must be a number over 0", code="invalid_option")
        return cls(**{name: float(value) for name, value in (given or {}).items()})

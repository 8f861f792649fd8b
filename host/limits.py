"""Every bound of the host in one place; those of the wire stand in `shims/wire.py`.

The unit is in the name. What an embedder may set (`open_host(limits={...})`) is a field of
`Limits`; the rest are constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from awaitbox.host.errors import HostError

MIB = 1 << 20

# Output of a command on pipes
CAPTURE_BYTES = 16 * MIB  # whole up to here, a stream
CAPTURE_HEAD_BYTES = 8 * MIB  # beyond it: the first and the last so many
CAPTURE_TAIL_BYTES = 8 * MIB
SPILL_BYTES = 1024 * MIB  # what the file in $TMPDIR may take of one stream
SPILL_BLOCK_BYTES = 4 * MIB  # written to it at a time, by a thread
PIPE_BYTES = MIB  # the most that a pipe holds, unless root sets it up
CAPTURE_READ_BYTES = 256 << 10  # one stream's share before the other tasks get their turn
LINGER_QUIET_SECONDS = 0.1  # after the end of a command: until so long without a byte,
LINGER_SECONDS = 1.0  # at most so long in all
SURVIVOR_SECONDS = 0.02  # streams closed, but something lives: a child that is about to end

# Output of a command on a terminal
LOG_LINES = 2_000
LOG_BYTES = 4 * MIB
LOG_LINE_CHARS = 16_000
SEQUENCE_BYTES = 64 << 10  # a longer escape sequence is counted as lost output
TERMINAL_COLUMNS = 120
TERMINAL_ROWS = 40
CANONICAL_LINE_BYTES = 4_095  # the kernel cuts a longer line without a word (N_TTY_BUF_SIZE - 1)
TYPE_SECONDS = 5.0  # a terminal takes 18 KB without a reader; then a write waits so long
PUMP_REST_SECONDS = 0.05  # 500 terminals at 10 lines a second cost 9 % of a core with it
PUMP_READ_BYTES = 128 << 10  # one terminal's share of a round
PUMP_ROUND_SECONDS = 0.005  # then the other tasks get their turn
PUMP_STREAM_BYTES = 8 << 10  # one terminal that gave so much in a round streams: no rest after it
PUMP_DRAIN_BYTES = MIB  # more than a terminal can hold (64 KiB), and as much as a pipe

# Files
PATH_LINKS = 40  # on the way to one path; the kernel's own bound (MAXSYMLINKS)
COPY_BYTES = 8 * MIB  # of one file, between two looks for a cancel

# Arguments
SLEEP_MIN_SECONDS = 0.001
SLEEP_MAX_SECONDS = 300.0
SHOWN_CHARS = 80  # of a wrong value, in the message about it

# Ending
STOP_GRACE_SECONDS = 1.0  # SIGTERM, then so long before SIGKILL
KILL_GRACE_SECONDS = 0.2  # the same where a bound or a cancel ends a tree
SILENCE_SECONDS = 1.0  # a leader or an init that does not answer is stepped over
ID_CHARS = 100
PROGRAMS_KEPT = 1_000  # finished programs of the posix shim whose status can still be asked
FINISHED_KEPT = 16  # logs of finished backgrounds that stay readable

# Cells
CELL_TEXT_BYTES = 64 << 10  # stdout, stderr and value of a result, each
STREAM_PIPE_BYTES = 256 << 10  # four times the usual pipe: fewer wake-ups while a cell prints
STREAM_READ_BYTES = 64 << 10
INTERRUPT_SECONDS = 2.5  # no end of the cell so long after an interrupt: the worker is replaced
INTERRUPT_AGAIN_SECONDS = 0.4  # until then the signal is sent again at this pace
CELL_CODE_BYTES = 8 * MIB

# A worker and its host
CALLS_IN_FLIGHT = 10_000  # of one worker; one more is an error
BACKLOG_BYTES = 32 * MIB  # of answers that a worker leaves unread: then the host reads no more
TRACE_ARGUMENT_CHARS = 2_000  # of one argument, in `calls` and events
CALLS_KEPT = 10_000  # entries of `CellResult.calls`
NOTICES_KEPT = 1_000

# Opening
LOGIN_SECONDS = 5.0
READY_SECONDS = 10.0  # a warden, an init or a worker that says nothing so long is given up
SPARE_DELAY_SECONDS = 0.015  # so that a fork does not run beside the first cell of a session

# The command line
SCREEN_BACKLOG_BYTES = 64 * MIB  # of output that nobody reads; more is left out, and counted
STATUS_AFTER_SECONDS = 1.0  # a cell that runs longer shows what it is doing
STATUS_REST_SECONDS = 0.1
SHOWN_CALL_CHARS = 200
DOCTOR_SECONDS = 20.0  # of one thing that is tried


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

    def describe(self) -> dict[str, float]:
        """`session["limits"]`."""
        return asdict(self)

"""Bounds of the worker side that the wire does not know; those of the wire stand in `wire.py`."""

from __future__ import annotations

GATHER_CHARS = 16 << 10  # printed text is written at the latest when so much of it waits,
GATHER_SECONDS = 0.01  # or so long after the first of it (10 MB of short lines: 72 ms, not 700)
WRITE_BYTES = 64 << 10  # of one write to stdout or stderr; a usual pipe holds as much
SHARED_WRITE_BYTES = 4096  # PIPE_BUF: what a pipe that can take anything takes whole

MESSAGE_CHARS = 64 << 10  # of an exception, in an error
TRACEBACK_CHARS = 256 << 10
FRAMES_HEAD = 12  # of a traceback that is longer than both together
FRAMES_TAIL = 28
CHAIN_LINKS = 50  # causes, contexts and members of groups that are followed
NOTICES = 100  # of one cell; the last one counts the rest
NOTICE_CHARS = 2_000

VARIABLE_CHARS = 200  # of a repr, where variables are listed
VARIABLES = 10_000
CELLS_KEPT = 1_000  # whose source lines can still be shown in a traceback
SETTLE_PASSES = 3  # of the loop, for tasks that a cell has created to start
BROKEN_STATUS = 70  # a worker that fails itself; EX_SOFTWARE of sysexits.h

"""`shell_logs`: what a background has printed."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from awaitbox.host.background import Background
from awaitbox.host.context import Context
from awaitbox.host.limits import LOG_LINES
from awaitbox.host.verb import verb
from awaitbox.tools.shell.words import Id


class ShellLogs(TypedDict):
    id: str
    lines: list[str]
    partial_line: str
    total_lines: int
    dropped_lines: int
    status: str
    exit: int | None
    uptime_ms: int


@verb(kind="read", toggle="shell")
def shell_logs(
    ctx: Context,
    id: Id,
    *,
    n: Annotated[int, Meta(ge=1, le=LOG_LINES, description="Newest lines returned.")] = 200,
) -> ShellLogs:
    """The newest lines of a background, and how it stands, now.

    partial_line is the unfinished last line (a prompt). total_lines and dropped_lines only grow,
    so that a loop can tell what is new and what left the ring. status is running, exited (by
    itself) or stopped.
    """
    background = ctx.backgrounds.resources.get(id, Background)
    background.refresh()
    lines, partial = background.log.tail(n)
    return {
        "id": id,
        "lines": lines,
        "partial_line": partial,
        "total_lines": background.log.total,
        "dropped_lines": background.log.dropped,
        "status": background.status,
        "exit": background.exit,
        "uptime_ms": background.uptime_ms,
    }

"""`shell_stop`: the end of a background and of all it started."""

from __future__ import annotations

from typing import TypedDict

from awaitbox.host.background import Background
from awaitbox.host.context import Context
from awaitbox.host.verb import verb
from awaitbox.tools.shell.words import Id


class ShellStop(TypedDict):
    id: str
    status: str
    exit: int | None
    note: str | None


@verb(kind="read", toggle="shell")
async def shell_stop(ctx: Context, id: Id) -> ShellStop:
    """End a background with its whole tree: SIGTERM, then SIGKILL; gone, and its ports free, when
    this returns. Stopping a finished one is no error; its log stays readable."""
    background = ctx.backgrounds.resources.get(id, Background)
    was = background.status
    await background.stop()
    note = background.note
    if was != "running":
        note = f"it had {'ended by itself' if was == 'exited' else 'been stopped'} before"
    return {"id": id, "status": background.status, "exit": background.exit, "note": note}

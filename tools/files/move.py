"""`move`: a file or a whole tree under another path."""

from __future__ import annotations

from typing import TypedDict

import trio

from awaitbox.host import transfer
from awaitbox.host.context import Context
from awaitbox.host.verb import verb
from awaitbox.tools.files.words import Destination, Overwrite, Source


class Move(TypedDict):
    src: str
    dest: str


@verb(kind="mutation")
async def move(
    ctx: Context, src: Source, dest: Destination, *, is_overwrite: Overwrite = False
) -> Move:
    """Move or rename a file, a link or a whole tree to dest, which must not exist unless
    is_overwrite is true.

    Makes missing parents, and works across file systems. is_overwrite replaces dest as a whole,
    never merges. A call that fails or is cancelled leaves src where it was.
    """
    await trio.to_thread.run_sync(_move, ctx, src, dest, is_overwrite)
    return {"src": src, "dest": dest}


def _move(ctx: Context, src: str, dest: str, is_overwrite: bool) -> None:
    check = trio.from_thread.check_cancelled
    transfer.move(ctx.roots, src, dest, check, is_overwrite=is_overwrite)

"""`copy`: a file or a whole tree once more."""

from __future__ import annotations

from typing import TypedDict

import trio

from awaitbox.host import transfer
from awaitbox.host.context import Context
from awaitbox.host.verb import verb
from awaitbox.tools.files.words import Destination, Overwrite, Source


class Copy(TypedDict):
    src: str
    dest: str


@verb(kind="mutation")
async def copy(
    ctx: Context, src: Source, dest: Destination, *, is_overwrite: Overwrite = False
) -> Copy:
    """Copy a file or a whole tree to dest, which must not exist unless is_overwrite is true.

    Makes missing parents; keeps modes and times, and links inside a tree as links. is_overwrite
    replaces dest as a whole, never merges. A call that fails or is cancelled leaves no half copy.
    """
    await trio.to_thread.run_sync(_copy, ctx, src, dest, is_overwrite)
    return {"src": src, "dest": dest}


def _copy(ctx: Context, src: str, dest: str, is_overwrite: bool) -> None:
    check = trio.from_thread.check_cancelled
    transfer.copy(ctx.roots, src, dest, check, is_overwrite=is_overwrite)

"""`file_exists`: whether something is there."""

from __future__ import annotations

from typing import Annotated, TypedDict

import trio
from msgspec import Meta

from awaitbox.host.context import Context
from awaitbox.host.paths import Roots
from awaitbox.host.refusal import says_nothing_is_there
from awaitbox.host.verb import verb
from awaitbox.tools.files.words import Path


class Probed(TypedDict):
    path: str
    is_exists: bool


class FileExists(TypedDict):
    paths: list[Probed]


@verb(kind="read")
async def file_exists(
    ctx: Context,
    paths: Annotated[list[Path], Meta(min_length=1, description="Files or folders to look for.")],
) -> FileExists:
    """Whether files or directories exist. Content is never read; a link that leads nowhere does
    not exist."""
    return {"paths": await trio.to_thread.run_sync(_probe_all, ctx.roots, paths)}


def _probe_all(roots: Roots, paths: list[str]) -> list[Probed]:
    found: list[Probed] = []
    for path in paths:
        trio.from_thread.check_cancelled()
        found.append({"path": path, "is_exists": _is_there(roots, path)})
    return found


def _is_there(roots: Roots, path: str) -> bool:
    try:
        with roots.place(path, "read", follow_last=True) as place:
            return place.lstat() is not None
    except OSError as error:
        if not says_nothing_is_there(error):
            raise
        return False

"""`create_directory`: directories with their parents."""

from __future__ import annotations

import os
import stat
from typing import Annotated, TypedDict

import trio
from msgspec import Meta

from awaitbox.host.context import Context
from awaitbox.host.paths import Roots
from awaitbox.host.verb import verb
from awaitbox.tools.files.words import Path


class Created(TypedDict):
    path: str
    is_created: bool


class CreateDirectory(TypedDict):
    paths: list[Created]


@verb(kind="mutation")
async def create_directory(
    ctx: Context,
    paths: Annotated[list[Path], Meta(min_length=1, description="Folders to make, in order.")],
) -> CreateDirectory:
    """Make directories, with the parents they need; one that exists is is_created false.

    A file that stands there is an error. Those made before a failure or a cancel stay.
    """
    return {"paths": await trio.to_thread.run_sync(_create_all, ctx.roots, paths)}


def _create_all(roots: Roots, paths: list[str]) -> list[Created]:
    made: list[Created] = []
    for path in paths:
        trio.from_thread.check_cancelled()
        made.append({"path": path, "is_created": _create(roots, path)})
    return made


def _create(roots: Roots, path: str) -> bool:
    with roots.place(path, "write", follow_last=False, has_parents=False) as place:
        place.make_parents()
        try:
            os.mkdir(place.name, dir_fd=place.parent)
        except FileExistsError:
            if not _is_directory(roots, path):
                raise
            return False
    return True


def _is_directory(roots: Roots, path: str) -> bool:
    """Also of a link that leads to one below the roots."""
    with roots.place(path, "read", follow_last=True) as place:
        found = place.lstat()
        return found is not None and stat.S_ISDIR(found.st_mode)

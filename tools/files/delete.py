"""`delete`: files, links and whole trees, for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, TypedDict

import trio
from msgspec import Meta

from awaitbox.host import tree
from awaitbox.host.context import Context
from awaitbox.host.errors import VerbPermission
from awaitbox.host.paths import Place, Roots
from awaitbox.host.refusal import says_nothing_is_there, system_failure
from awaitbox.host.verb import verb
from awaitbox.tools.files.words import Path


class Deleted(TypedDict):
    path: str
    is_deleted: bool


class Delete(TypedDict):
    paths: list[Deleted]


def _asks(ctx: Context, arguments: dict[str, Any]) -> str | None:
    """Scratch is never asked about; what no verb may delete is refused before anyone is asked."""
    asked = [path for path in arguments["paths"] if not _is_in_scratch(ctx.roots, path)]
    return f"delete {', '.join(map(repr, asked))}" if asked else None


@verb(kind="destructive", asks=_asks)
async def delete(
    ctx: Context,
    paths: Annotated[
        list[Path], Meta(min_length=1, description="Files, links or whole trees to remove.")
    ],
) -> Delete:
    """Remove files, links and whole trees for good; one that is missing is is_deleted false.

    A link goes and its target stays, with a slash at its end too. All paths are checked before the
    first is removed; what was removed before a failure or a cancel is gone.
    """
    return {"paths": await trio.to_thread.run_sync(_delete_all, ctx.roots, paths)}


def _is_in_scratch(roots: Roots, path: str) -> bool:
    with _place(roots, path) as place:
        return place is not None and place.root is roots.scratch


def _delete_all(roots: Roots, paths: list[str]) -> list[Deleted]:
    for path in paths:
        trio.from_thread.check_cancelled()
        with _place(roots, path):
            pass
    done: list[Deleted] = []
    for path in paths:
        try:
            done.append({"path": path, "is_deleted": _delete(roots, path)})
        except OSError as error:
            count = sum(row["is_deleted"] for row in done)
            told = f"{error}; deleted before it: {count} of {len(paths)} paths"
            raise system_failure(error, told) from None
    return done


def _delete(roots: Roots, path: str) -> bool:
    with _place(roots, path) as place:
        if place is None or place.lstat() is None:
            return False
        try:
            tree.remove(place.parent, place.name, trio.from_thread.check_cancelled)
        except FileNotFoundError:
            return False  # another call was quicker
        return True


@contextmanager
def _place(roots: Roots, path: str) -> Iterator[Place | None]:
    """The place of a path that may be deleted; None if there is not even a way to it."""
    with ExitStack() as stack:
        try:
            place = stack.enter_context(roots.place(path, "write", follow_last=False))
        except OSError as error:
            if not says_nothing_is_there(error):
                raise
            yield None
            return
        if place.is_root:
            raise VerbPermission(f"{path!r} is a root of this session or holds one, and stays")
        yield place

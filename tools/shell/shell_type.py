"""`shell_type`: keystrokes for a background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import trio
from msgspec import Meta

from awaitbox.host.background import Background
from awaitbox.host.context import Context
from awaitbox.host.errors import VerbOSError, VerbPermission, VerbValue
from awaitbox.host.limits import TYPE_SECONDS
from awaitbox.host.verb import verb
from awaitbox.tools.shell.words import Id


class ShellType(TypedDict):
    id: str
    text: str | None
    is_enter: bool
    status: str


def _shown(ctx: Context, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as a trace may keep them: a password stays out."""
    id = given.get("id")
    background = ctx.backgrounds.resources.find(id) if isinstance(id, str) else None
    if isinstance(background, Background) and _is_hidden(background):
        return {**given, "text": None}
    return given


def _is_hidden(background: Background) -> bool:
    """Whether its terminal waits for a line and shows nothing of it."""
    pty = background.pty
    return pty is not None and pty.is_canonical and not pty.is_echo


@verb(kind="read", toggle="shell", shows=_shown)
async def shell_type(
    ctx: Context,
    id: Id,
    text: Annotated[str, Meta(description="Keystrokes, as they are.")],
    *,
    is_enter: Annotated[bool, Meta(description="Press Enter behind them.")] = True,
) -> ShellType:
    """Type at an interactive background, as a person at its terminal would.

    At a hidden prompt (a password) text comes back as None and is kept nowhere.
    """
    background = ctx.backgrounds.resources.get(id, Background)
    pty = background.pty
    if background.is_adopted:
        raise VerbPermission(
            f"{id!r} was left running by a command and has no keyboard", code="no_keyboard"
        )
    if pty is None or background.status != "running":
        raise VerbValue(f"{id!r} is {background.status}; nobody reads its terminal")
    is_hidden = _is_hidden(background)
    try:
        await pty.write(text.encode("utf-8", "surrogatepass"), TYPE_SECONDS, is_enter=is_enter)
    except ValueError as error:
        raise VerbValue(str(error)) from None
    except (OSError, trio.ClosedResourceError) as error:
        raise VerbOSError(f"{id!r} has hung up its terminal: {error}") from None
    return {
        "id": id,
        "text": None if is_hidden else text,
        "is_enter": is_enter,
        "status": background.status,
    }

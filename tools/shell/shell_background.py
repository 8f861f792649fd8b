"""`shell_background`: a script on a terminal of its own, under an id."""

from __future__ import annotations

from typing import Annotated, TypedDict, TypeGuard

from msgspec import Meta

from awaitbox.host.background import Background
from awaitbox.host.context import Context
from awaitbox.host.environment import ON_A_TERMINAL
from awaitbox.host.errors import VerbFileExists
from awaitbox.host.resources import Resource, check_id, derived_id
from awaitbox.host.verb import verb
from awaitbox.tools.shell.words import Commands, Folder

OwnId = Annotated[
    str,
    Meta(min_length=1, description="Handle for the other verbs; derived from the program's name."),
]


class ShellBackground(TypedDict):
    id: str
    cwd: str
    commands: list[str]
    pid: int | None
    status: str
    is_already_running: bool
    note: str | None


@verb(kind="mutation", toggle="shell")
async def shell_background(
    ctx: Context, commands: Commands, *, id: OwnId | None = None, cwd: Folder = None
) -> ShellBackground:
    """Start a bash script on a terminal and return at once; then poll shell_logs in a bounded loop.

    The lines are one script. Starting the same script again returns the live one with
    is_already_running. Servers, watchers, builds and interactive programs belong here.
    """
    folder = ctx.roots.directory(cwd)
    while True:
        live = _already_live(ctx, commands, id, folder)
        if live is None:
            break
        await live.started.wait()
        if live.status == "running":
            return _result(live, is_already_running=True)
    background = Background(
        check_id(id) if id else ctx.backgrounds.resources.free_id(derived_id("\n".join(commands))),
        commands,
        folder,
        ctx.backgrounds.pump,
    )
    ctx.backgrounds.resources.reserve(background)
    try:
        await background.start(
            ctx.machine,
            ["bash", "-c", "\n".join(commands)],
            ctx.session.environment(ON_A_TERMINAL),
        )
    except BaseException:
        ctx.backgrounds.resources.release(background)
        raise
    ctx.backgrounds.watch(background)
    return _result(background, is_already_running=False)


def _already_live(
    ctx: Context, commands: list[str], id: str | None, folder: str
) -> Background | None:
    """The live background that this call means. Raises `VerbFileExists` where another one has
    the id."""
    for other in ctx.backgrounds.resources.live():
        if id in (None, other.id) and _is_same(other, commands, folder):
            return other
        if other.id == id:
            raise VerbFileExists(
                f"{id!r} runs already: {other.detail()['detail']!r}. Stop it with "
                f"shell_stop({id!r}), or take another id",
                code="id_taken",
            )
    return None


def _is_same(other: Resource, commands: list[str], folder: str) -> TypeGuard[Background]:
    return (
        isinstance(other, Background)
        and not other.is_adopted
        and other.commands == commands
        and other.cwd == folder
    )


def _result(background: Background, *, is_already_running: bool) -> ShellBackground:
    return {
        "id": background.id,
        "cwd": background.cwd,
        "commands": background.commands,
        "pid": background.pid,
        "status": background.status,
        "is_already_running": is_already_running,
        "note": "full-access: nothing confines it",
    }

"""`shell_run`: bounded foreground commands."""

from __future__ import annotations

import time
from typing import TypedDict

import trio

from awaitbox.host.background import exit_code
from awaitbox.host.context import Context
from awaitbox.host.environment import ON_PIPES
from awaitbox.host.errors import HostError, VerbFileNotFound
from awaitbox.host.process.foreground import Foreground
from awaitbox.host.verb import verb
from awaitbox.tools.shell.words import Commands, Folder


class RanCommand(TypedDict):
    command: str
    stdout: str
    stderr: str
    exit: int | None
    duration_ms: int
    timed_out: bool
    note: str | None


class ShellRun(TypedDict):
    cwd: str
    commands: list[RanCommand]
    exit: int | None
    duration_ms: int
    timed_out: bool


@verb(kind="mutation", toggle="shell")
async def shell_run(ctx: Context, commands: Commands, *, cwd: Folder = None) -> ShellRun:
    """Run bash lines strictly in order and return their output. Long or interactive work goes to
    shell_background.

    Each command is its own `bash -c` on pipes with stdin at end of file: nothing carries over to
    the next, and a failing one does not stop the rest (use && inside one line for that). Drive it
    from Python: batch the commands, read r["commands"][i]["stdout"], print only what you need.
    """
    folder = ctx.roots.directory(cwd)
    began = time.monotonic()
    rows = [_row(command) for command in commands]
    bound = ctx.limits.shell_run_seconds
    with trio.move_on_after(bound) as scope:
        for row in rows:
            await _run_one(ctx, row, folder)
    timed_out = scope.cancelled_caught
    if timed_out:
        _explain(rows, bound)
    exits = [row["exit"] for row in rows]
    return {
        "cwd": folder,
        "commands": rows,
        "exit": next((code for code in exits if code != 0), 0),
        "duration_ms": _since(began),
        "timed_out": timed_out,
    }


def _row(command: str) -> RanCommand:
    return {
        "command": command,
        "stdout": "",
        "stderr": "",
        "exit": None,
        "duration_ms": 0,
        "timed_out": False,
        "note": None,
    }


async def _run_one(ctx: Context, row: RanCommand, folder: str) -> None:
    """Run one line and fill in its row, also when the bound fires in the middle of it."""
    began = time.monotonic()
    foreground = Foreground(ctx.machine, ctx.session.scratch)
    row["timed_out"] = True
    notes: list[str | None] = []
    try:
        await foreground.run(
            ["bash", "-c", row["command"]], env=ctx.session.environment(ON_PIPES), cwd=folder
        )
        row["timed_out"] = False
    except FileNotFoundError as error:
        row["timed_out"] = False
        if error.filename == folder:
            raise VerbFileNotFound(f"cwd {folder!r} is gone: {error}") from None
        raise VerbFileNotFound(
            "bash is in no folder of PATH; the login environment decides on that"
        ) from None
    except HostError as error:
        if error.code != "leader_lost":  # that one ends this command alone: those before it ran
            raise
        row["timed_out"] = False
        notes.append(error.message)
    finally:
        row["duration_ms"] = _since(began)
        row["stdout"], row["stderr"] = foreground.stdout.text(), foreground.stderr.text()
        row["exit"] = exit_code(foreground.status)
        notes += [foreground.stdout.note(), foreground.stderr.note()]
        if foreground.command is not None:
            notes.append(foreground.command.note)
        if foreground.leftover is not None:
            left = ctx.backgrounds.adopt(foreground.leftover, row["command"], folder)
            notes.append(
                f"left running: {left.id} (pid {left.pid}); its further output is in "
                f"shell_logs({left.id!r}), shell_stop({left.id!r}) ends it"
            )
        row["note"] = "; ".join(note for note in notes if note) or None


def _explain(rows: list[RanCommand], bound: float) -> None:
    """Say what the bound stopped, and what was not reached."""
    for row in rows:
        if row["timed_out"]:
            text = (
                f"stopped after {bound:g} s, the bound of one call; all it had started is ended. "
                "Longer work: shell_background([...]), then poll shell_logs in a bounded loop"
            )
            row["note"] = f"{text}; {row['note']}" if row["note"] else text
        elif row["exit"] is None and row["note"] is None:
            row["note"] = "not run: the bound of the call was reached before"


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)

"""`awaitbox repl`: cells, typed by a person."""

from __future__ import annotations

import builtins
import keyword
import os
from typing import TYPE_CHECKING, Any

import click

from awaitbox.host.errors import HostError
from awaitbox.host.front.options import Common, common_options

if TYPE_CHECKING:
    from awaitbox.host.front.program import Desk
    from awaitbox.host.front.prompt import Prompt

HELP = """\
Each input is a cell: Python with top-level await, the verbs are bare names (help(shell_run)).
!cmd         shell_run([cmd])           :help    this text
!&cmd        shell_background([cmd])    :vars    the names of the namespace
Tab          completes a name           :reset   a fresh namespace; what runs goes on
Alt-Enter    another line               Ctrl-C   stops what runs, or clears the input
                                        Ctrl-D   leaves
"""
_IN_EVERY_CELL = ("session", "help", "gather", "sleep")


@click.command(name="repl")
@common_options
@click.option("--trace", is_flag=True, help="Show each call of a verb on stderr.")
def command(common: Common, trace: bool) -> int:
    """Type cells at a prompt; one namespace, until Ctrl-D. `:help` says what else there is."""
    from awaitbox.host.front.program import run_program

    if not (os.isatty(0) and os.isatty(1)):
        raise HostError(
            "repl needs a terminal; without one: awaitbox exec - , or awaitbox run FILE.py",
            code="no_terminal",
        )
    return run_program(common, _repl, is_traced=trace, stays=True)


async def _repl(desk: Desk) -> int:
    from awaitbox.host.front.prompt import Prompt

    prompt = Prompt()
    desk.screen.say(f"workspace {desk.host.workspace}; :help helps, Ctrl-D leaves")
    while True:
        await _offer_names(desk, prompt)
        _show_notices(desk)
        await desk.screen.flush()
        text = await prompt.read()
        if text is None:
            return 0
        await _take(desk, text)
        desk.warn()


async def _offer_names(desk: Desk, prompt: Prompt) -> None:
    verbs, _ = desk.host.offered()
    variables = await desk.session.variables()
    prompt.completer.names = frozenset(
        [*verbs, *variables, *keyword.kwlist, *_IN_EVERY_CELL, *_public(dir(builtins))]
    )


def _public(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


async def _take(desk: Desk, text: str) -> None:
    """One input: a command for a shell, one for the REPL, or a cell."""
    line = text.strip()
    if line.startswith("!&"):
        await _bang(desk, "shell_background", line[2:].strip())
    elif line.startswith("!"):
        await _bang(desk, "shell_run", line[1:].strip())
    elif line.startswith(":"):
        await _command(desk, line[1:].strip())
    elif line:
        result = await desk.execute(text)
        desk.report(result, is_alone=True)
        desk.screen.end_line()


async def _command(desk: Desk, name: str) -> None:
    if name == "vars":
        for variable, facts in (await desk.session.variables()).items():
            desk.screen.out(f"{variable}: {facts['type']} = {facts['repr']}\n")
    elif name == "reset":
        await desk.session.reset()
        desk.screen.say("a fresh namespace; what runs beside it goes on")
    elif name in ("help", ""):
        desk.screen.out(HELP)
    else:
        desk.screen.say(f"no command :{name}; :help lists them")


async def _bang(desk: Desk, verb: str, line: str) -> None:
    """The same door as in a cell, and shown as a person wants it."""
    if not line:
        desk.screen.say("!cmd runs cmd, !&cmd runs it in the background")
        return
    with desk.stoppable() as scope:
        answer = await desk.host.call(desk.session, verb, {"commands": [line]})
    if scope.cancelled_caught:
        desk.screen.say("stopped, with all that it had started")
    elif "error" in answer:
        desk.screen.say(answer["error"]["message"])
    elif verb == "shell_run":
        _show_run(desk, answer["commands"][0])
    else:
        id, again = answer["id"], " already" if answer["is_already_running"] else ""
        desk.screen.say(
            f"{id} runs{again} (pid {answer['pid']}): shell_logs({id!r}), shell_stop({id!r})"
        )


def _show_run(desk: Desk, ran: dict[str, Any]) -> None:
    desk.screen.out(ran["stdout"])
    desk.screen.end_line()
    if ran["stderr"]:
        desk.screen.err(ran["stderr"].rstrip("\n") + "\n")
    if ran["exit"]:
        desk.screen.say(f"exit {ran['exit']}")
    if ran["note"]:
        desk.screen.say(ran["note"])


def _show_notices(desk: Desk) -> None:
    for notice in desk.session.notices.take():
        desk.screen.say(f"notice: {notice['text']}")

"""`awaitbox`, the command line: its sub-commands, imported one at a time, and how it exits.

Exit codes: 0; 1 if a cell failed; 2 if a command could not do its work (`HostError`, wrong
options); 130 after Ctrl-C, 141 if nobody reads what a cell prints, 128 + n after another signal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module

import click

import awaitbox
from awaitbox.host.errors import HostError

COMMANDS = {  # each is `command` in the module of that name
    "run": "Run a file of cells, in order, in one session.",
    "exec": "Run one cell; print its output and its value.",
    "repl": "Type cells at a prompt.",
    "describe": "Print what teaches a model the verbs.",
    "doctor": "Try what awaitbox needs on this machine.",
}


class _Lazy(click.Group):
    """Imports a sub-command when it is used, so that `awaitbox --help` loads no event loop."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found = import_module(f"awaitbox.host.front.{name}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(awaitbox.__version__, prog_name="awaitbox", message="%(prog)s %(version)s")
def group() -> None:
    """Run Python cells beside bare async verbs. Options stand after the command."""


def main() -> None:
    """The program `awaitbox`. Never returns."""
    _open_standard_streams()
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        from awaitbox.host.front.open import check_platform

        check_platform()
        code = group.main(prog_name="awaitbox", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except (HostError, BaseExceptionGroup) as error:
        found = list(_host_errors(error))
        if not found:
            raise
        for each in found:
            click.echo(f"awaitbox: {each.message}", err=True)
        return 2


def _host_errors(error: BaseException) -> Iterator[HostError]:
    """The leaves of `error` if all of them are ours; nothing if one of them is a bug."""
    if isinstance(error, HostError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        _, others = error.split(HostError)
        if others is None:
            for inner in error.exceptions:
                yield from _host_errors(inner)


def _open_standard_streams() -> None:
    """Put /dev/null where stdin, stdout or stderr is closed: else the next pipe or socket would get
    its number, and what we print would go into it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)

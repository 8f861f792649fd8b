"""`awaitbox exec CODE`: one cell."""

from __future__ import annotations

import sys

import click

from awaitbox.host.errors import HostError
from awaitbox.host.front.options import Common, common_options


@click.command(name="exec")
@click.argument("code")
@common_options
@click.option("--trace", is_flag=True, help="Show each call of a verb on stderr.")
def command(common: Common, code: str, trace: bool) -> int:
    """Run CODE as one cell and print its value behind its output; `-` reads stdin."""
    from awaitbox.host.front.program import Desk, run_program

    source = _stdin() if code == "-" else code

    async def body(desk: Desk) -> int:
        result = await desk.execute(source)
        desk.report(result, is_alone=True)
        return desk.code_of(result)

    return run_program(common, body, is_traced=trace)


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HostError(f"stdin is not UTF-8: {error}", code="unreadable_file") from None

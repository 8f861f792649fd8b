"""`awaitbox describe`: the verbs as prose, as tool definitions, or as the table of the README."""

from __future__ import annotations

import json

import click

FORMATS = ("text", "anthropic", "openai", "mcp", "table")


@click.command(name="describe")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def command(form: str) -> int:
    """Print what teaches a model the verbs, all derived from their signatures and docstrings."""
    from awaitbox.host.describe import describe, verb_table
    from awaitbox.host.schema import tools
    from awaitbox.tools import ALL

    verbs = list(ALL)
    if form == "text":
        text = describe(verbs)
    elif form == "table":
        text = verb_table(verbs)
    else:
        text = json.dumps(tools(verbs, form), indent=2, ensure_ascii=False)
    click.echo(text.rstrip("\n"))
    return 0

"""`awaitbox doctor`: tries what awaitbox needs on this machine, and shows what works."""

from __future__ import annotations

import dataclasses
import json
import resource

import click

from awaitbox.host.front.machine_facts import Check, facts


@click.command(name="doctor")
@click.option("--workspace", metavar="DIR", default=".", help="Its folder; here if not given.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object instead of the tables.")
def command(workspace: str, is_json: bool) -> int:
    """Try what awaitbox needs. Exit code 1 if something that it needs does not work."""
    from awaitbox.host.confinement import report
    from awaitbox.host.front.trial import try_all

    checks = facts(resource.getrlimit(resource.RLIMIT_NOFILE))
    tried, confinement = try_all(workspace)
    checks += tried
    confinement = confinement or report("full-access")
    is_well = all(check.state != "fails" for check in checks)
    if is_json:
        rows = [dataclasses.asdict(check) for check in checks]
        whole = {"is_well": is_well, "checks": rows, "confinement": confinement}
        click.echo(json.dumps(whole, indent=2))
    else:
        _show(checks, confinement)
    return 0 if is_well else 1


def _show(checks: list[Check], confinement: dict[str, object]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {"works": "green", "fails": "bold red", "warning": "yellow", "info": ""}
    table = Table(title="this machine", title_justify="left")
    for name in ("what", "state", "found"):
        table.add_column(name)
    for check in checks:
        found = check.found if check.fix is None else f"{check.found}\nfix: {check.fix}"
        table.add_row(check.what, Text(check.state, style=styles[check.state]), Text(found))
    held = Table(title="what holds a session", title_justify="left", show_header=False)
    for key, value in confinement.items():
        lines = value if isinstance(value, list) else [value]
        held.add_row(key, Text("\n".join(str(line) for line in lines) or "nothing"))
    console = Console()
    console.print(table)
    console.print(held)

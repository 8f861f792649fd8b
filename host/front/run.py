"""`awaitbox run FILE.py`: a file of cells, in order, in one session."""

from __future__ import annotations

import click

from awaitbox.host.front.cells_file import Cell, read_cells
from awaitbox.host.front.options import Common, common_options
from awaitbox.host.result import CellResult


@click.command(name="run")
@click.argument("file", metavar="FILE.py")
@common_options
@click.option("--trace", is_flag=True, help="Show each call of a verb on stderr.")
def command(common: Common, file: str, trace: bool) -> int:
    """Run the cells of FILE.py in order, in one session.

    A line that begins with `# %%` starts a cell; a file without one is one cell. The first cell
    that fails ends the run. Output streams as it comes.
    """
    cells = read_cells(file)
    from awaitbox.host.front.program import Desk, run_program

    async def body(desk: Desk) -> int:
        if not cells:
            desk.screen.say(f"{file} has no cell with code in it")
        for cell in cells:
            desk.activity.label = f"{cell.name} of {len(cells)}"
            result = await desk.execute(cell.code)
            if result.status != "ok" and not common.is_json:
                desk.screen.end_line()
                desk.screen.say(_where(file, cell, cells, result))
            desk.report(result, is_alone=False)
            desk.warn()
            if code := desk.code_of(result):
                return code
        return 0

    return run_program(common, body, is_traced=trace)


def _where(file: str, cell: Cell, cells: list[Cell], result: CellResult) -> str:
    """Which cell ended the run, and how the lines of its traceback are to be read."""
    text = f"{file}: {cell.name} of {len(cells)}: {result.status}"
    line = result.error["line"] if result.error is not None else None
    if line is None:
        return f"{text}; the cell begins in line {cell.first_line}"
    return (
        f"{text} in line {cell.first_line + line - 1} of the file "
        f"(the traceback counts lines in the cell, which begins in line {cell.first_line})"
    )

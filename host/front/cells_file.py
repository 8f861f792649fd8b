"""A file of cells: plain Python in which a line that begins with `# %%` starts a cell."""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from dataclasses import dataclass

from awaitbox.host.errors import HostError

_MARKER = re.compile(r"#\s*%%+(.*)")
_PROSE = re.compile(r"\s*\[(?:markdown|md|raw)\]")


@dataclass(frozen=True, slots=True)
class Cell:
    """`number` counts the cells that run, from 1; `first_line` is the line of the file on which
    line 1 of `code` stands."""

    number: int
    title: str
    first_line: int
    code: str

    @property
    def name(self) -> str:
        return f"cell {self.number} ({self.title})" if self.title else f"cell {self.number}"


def read_cells(path: str) -> list[Cell]:
    """The cells of a file. Honours a BOM and a coding line, as Python does.

    Raises `HostError` (`unreadable_file`).
    """
    try:
        with tokenize.open(path) as file:
            return split(file.read())
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HostError(f"can't read {path}: {reason}", code="unreadable_file") from None


def split(text: str) -> list[Cell]:
    """Split at the markers. Cells without code (blank, comments, a docstring by itself,
    `[markdown]`) are left out.

    Only newlines end a line, so that the numbers are those of an editor and of Python.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    starts = [(0, "")]
    for number, line in enumerate(lines, start=1):
        marker = _MARKER.match(line)
        if marker:
            starts.append((number, marker[1]))
    cells: list[Cell] = []
    ends = [start - 1 for start, _ in starts[1:]] + [len(lines)]
    for (start, rest), end in zip(starts, ends, strict=True):
        code = "\n".join(lines[start:end]).rstrip() + "\n"
        if not _PROSE.match(rest) and _has_code(code):
            cells.append(Cell(len(cells) + 1, " ".join(rest.split()), start + 1, code))
    return cells


def _has_code(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cell warns again when it runs
            body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # the worker says what is wrong with it
    return not all(_is_text(statement) for statement in body)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )

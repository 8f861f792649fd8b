"""What a cell may not spell: the ways into frames, code objects and the globals of others.

A static check: what passes compiles to exactly the code that plain CPython makes of it, so it runs
as fast and behaves the same. It gives clear errors at the right place; it is not the boundary.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

_FRAMES = "a frame or a code object; print a traceback with traceback.print_exc()"
_GLOBALS = "the globals of a function; use the names of your own cells"
_BUILTINS = "the table of builtins; they are in scope by their names"
_HINTS = {
    "__globals__": _GLOBALS,
    "__closure__": _GLOBALS,
    "cell_contents": _GLOBALS,
    "__code__": "code objects; use inspect.signature or inspect.getsource",
    "__builtins__": _BUILTINS,
    "__build_class__": _BUILTINS,
    "__loader__": "import machinery; write an import statement",
    "__spec__": "import machinery; write an import statement",
    "gi_suspended_frame": _FRAMES,
    "f_trace_opcodes": _FRAMES,
}
REFUSED = {name: _FRAMES for name in INSPECT_ATTRIBUTES - {"tb_next"}} | _HINTS
_NAMES = frozenset(("__builtins__", "__build_class__", "__loader__", "__spec__"))
_SUSPECT = re.compile("|".join(map(re.escape, sorted(REFUSED))))


class CellPolicy(RestrictingNodeTransformer):
    """Walks a tree without recursion, so depth costs no stack, and changes nothing in it."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[tuple[ast.AST, str]] = []

    def visit(self, node: ast.AST) -> ast.AST:
        for child in ast.walk(node):
            if isinstance(child, ast.Attribute):
                self._check(child, child.attr, REFUSED)
            elif isinstance(child, ast.Name):
                self._check(child, child.id, _NAMES)
            elif isinstance(child, ast.MatchClass):
                for name in child.kwd_attrs:
                    self._check(child, name, REFUSED)
            elif isinstance(child, ast.alias):
                self._check(child, child.asname or child.name, _NAMES)
        return node

    def _check(self, node: ast.AST, name: str, refused: Any) -> None:
        if name in refused:
            self.problems.append((node, f"{name} is not available here: it is {REFUSED[name]}"))


def is_suspect(source: str) -> bool:
    """Whether the text alone can't tell that nothing is refused. Python normalises identifiers, so
    only ASCII can be judged by its look."""
    return not source.isascii() or _SUSPECT.search(source) is not None


def check(tree: ast.AST, source: str, filename: str) -> None:
    """Raises SyntaxError at the first place that is refused; the message has the others, too."""
    if not is_suspect(source):
        return
    policy = CellPolicy()
    policy.visit(tree)
    if policy.problems:
        raise _refusal(policy.problems, source, filename)


def _refusal(problems: list[tuple[Any, str]], source: str, filename: str) -> SyntaxError:
    places = sorted(problems, key=lambda item: (item[0].lineno, item[0].col_offset))
    node, text = places[0]
    more = [f"line {node.lineno}: {text}" for node, text in places[1:]]
    lines = source.splitlines()
    where = (
        filename,
        node.lineno,
        _column(lines, node.lineno, node.col_offset),
        lines[node.lineno - 1] if node.lineno <= len(lines) else "",
        node.end_lineno,
        _column(lines, node.end_lineno, node.end_col_offset),
    )
    return SyntaxError("; ".join([text, *more]), where)


def _column(lines: list[str], line: int, offset: int) -> int:
    """Trees count bytes from 0, errors characters from 1."""
    if line > len(lines):
        return 1
    return len(lines[line - 1].encode()[:offset].decode("utf-8", "replace")) + 1

"""One cell: its source, compiled, and what its last expression is worth."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import deque
from types import CodeType
from typing import Any

from awaitbox.shims.bounds import CELLS_KEPT
from awaitbox.shims.policy import check, is_suspect

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
VALUE = "<value>"  # where the last expression goes; no source can spell it
_known: deque[str] = deque()


class Cell:
    """`interrupts` counts the signals that were meant for it; one that could not be raised where
    it came `is_due`."""

    __slots__ = ("code", "filename", "id", "interrupts", "is_due", "source")

    def __init__(self, id: int, source: str) -> None:
        self.id = id
        self.source = source
        self.filename = f"<cell {id}>"
        self.interrupts = 0
        self.is_due = False
        self.code: CodeType | None = None

    def compile(self) -> CodeType:
        """Raises SyntaxError (of the source, or of the policy), ValueError, MemoryError,
        RecursionError."""
        remember(self.filename, self.source)
        if _is_plain_line(self.source):
            try:  # the usual small cell is one expression: no tree is needed
                self.code = compile(self.source, self.filename, "eval", _FLAGS, dont_inherit=True)
                return self.code
            except SyntaxError:
                pass
        tree = ast.parse(self.source, self.filename)
        check(tree, self.source, self.filename)
        body = tree.body
        if body and isinstance(last := body[-1], ast.Expr):
            name = ast.copy_location(ast.Name(VALUE, ast.Store()), last)
            body[-1] = ast.copy_location(ast.Assign([name], last.value), last)
        self.code = compile(tree, self.filename, "exec", _FLAGS, dont_inherit=True)
        return self.code

    @property
    def is_async(self) -> bool:
        return self.code is not None and bool(self.code.co_flags & inspect.CO_COROUTINE)

    def value(self, result: Any, namespace: dict[str, Any]) -> Any:
        """The value, given what the code returned. It leaves the namespace."""
        return namespace.pop(VALUE, result)


def _is_plain_line(source: str) -> bool:
    return "\n" not in source and not source.startswith((" ", "\t")) and not is_suspect(source)


def remember(filename: str, source: str) -> None:
    """Let tracebacks and `inspect.getsource` find the lines of a cell."""
    # Without an end of line in the last line, too, the carets below it stand one place off.
    linecache.cache[filename] = (len(source), None, (source + "\n").splitlines(True), filename)
    _known.append(filename)
    if len(_known) > CELLS_KEPT:
        linecache.cache.pop(_known.popleft(), None)

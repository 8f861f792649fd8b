"""Small parts of the worker: critical sections, results, stubs, the policy, text that is sent."""

from __future__ import annotations

import ast
import json
import pickle
import signal
import threading
from pathlib import Path

import pytest

from awaitbox.shims import tracebacks
from awaitbox.shims.cell import VALUE, Cell
from awaitbox.shims.critical import Critical
from awaitbox.shims.failure import VerbError, failure
from awaitbox.shims.policy import check
from awaitbox.shims.result import Result, as_result
from awaitbox.shims.stubs import plain
from awaitbox.shims.verdict import clipped
from awaitbox.shims.wire import VALUE_CHARS, Raise


# --- critical sections
def test_an_interrupt_in_a_section_is_delivered_at_its_end() -> None:
    critical = Critical()
    delivered = []
    critical.deliver = lambda frame: delivered.append(frame.f_code.co_name)
    assert not critical.note()
    with critical:
        with critical:
            assert critical.note() and critical.note()
        assert delivered == []
    assert delivered == ["test_an_interrupt_in_a_section_is_delivered_at_its_end"]
    with critical:
        pass
    assert len(delivered) == 1


def test_what_is_delivered_may_raise() -> None:
    critical = Critical()

    def deliver(frame: object) -> None:
        raise KeyboardInterrupt

    critical.deliver = deliver
    with pytest.raises(KeyboardInterrupt), critical:
        critical.note()
    assert not critical.note()


def test_other_threads_do_not_enter() -> None:
    critical = Critical()
    inside = []

    def run() -> None:
        with critical:
            inside.append(critical.note())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert inside == [False]


def test_no_lock_is_orphaned_by_signals() -> None:
    """Signals as fast as they come, while a section takes and gives back a lock."""
    critical, lock, count = Critical(), threading.Lock(), 0

    def deliver(frame: object) -> None:
        raise KeyboardInterrupt

    def handle(signum: int, frame: object) -> None:
        if not critical.note():
            deliver(frame)

    critical.deliver = deliver
    before = signal.signal(signal.SIGVTALRM, handle)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005, 0.0005)
    try:
        while count < 50:
            try:
                while True:
                    with critical:
                        with lock:
                            pass
            except KeyboardInterrupt:
                count += 1
                assert not lock.locked()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# --- results and failures
def test_results_at_any_depth() -> None:
    result = as_result({"a": [{"b": 1}, [{"c": {}}]], "d": None})
    assert type(result) is Result and type(result["a"][0]) is Result
    assert type(result["a"][1][0]["c"]) is Result
    assert json.loads(json.dumps(result)) == result == pickle.loads(pickle.dumps(result))
    with pytest.raises(KeyError, match=r"^no key 'x' in this result; it has: a, d$"):
        result["x"]
    assert as_result([1, "a"]) == [1, "a"] and as_result("a") == "a"


def test_failures_are_both() -> None:
    error = failure(Raise(1, "FileNotFoundError", "not_found", "no such file: x"))
    assert isinstance(error, FileNotFoundError) and isinstance(error, VerbError)
    assert (str(error), error.code, type(error).__name__) == (
        "no such file: x",
        "not_found",
        "FileNotFoundError",
    )
    assert type(failure(Raise(1, "Nope", "c", "m"))).__name__ == "RuntimeError"


def test_arguments_as_the_wire_carries_them() -> None:
    assert plain(Path("a/b")) == "a/b"
    assert plain([Path("a"), ("b", {"c": Path("d")})]) == ["a", ["b", {"c": "d"}]]
    assert plain(None) is None and plain(1.5) == 1.5 and plain(b"x") == b"x"


# --- cells
@pytest.mark.parametrize(
    ("source", "is_async", "mode"),
    [
        ("1", False, "value"),
        ("await x", True, "value"),
        ("x = 1", False, "none"),
        ("x = 1\nx", False, "stored"),
        ("x = await y\nx", True, "stored"),
        (" 1", False, "error"),
        ("def f():\n    await x", False, "error"),
        ("", False, "none"),
    ],
)
def test_how_cells_are_compiled(source: str, is_async: bool, mode: str) -> None:
    cell = Cell(1, source)
    if mode == "error":
        with pytest.raises(SyntaxError):
            cell.compile()
        return
    code = cell.compile()
    assert cell.is_async is is_async
    assert (VALUE in code.co_names) is (mode == "stored")


@pytest.mark.parametrize(
    "source",
    [
        "async def f():\n    async with a as b:\n        return [x async for x in b]",
        "class P(Base, metaclass=M, x=1):\n    __slots__ = ('_x',)\n    def __enter__(self): ...",
        "match x:\n    case P(_y=1) | {'k': v, **rest}: pass",
        "x: int = 1\nd[k] += 1\n_x.__class__.__name__",
        "'{0.__class__}'.format(x)\nf'{x!r:>{w}}'",
        "e.__traceback__.tb_next\nx.__dict__\nx.__init__.__doc__",
        "global a\nlambda *a, **k: (yield)",
    ],
)
def test_the_policy_changes_nothing(source: str) -> None:
    tree = ast.parse(source)
    before = ast.dump(tree, include_attributes=True)
    check(tree, source, "<cell 1>")
    assert ast.dump(tree, include_attributes=True) == before


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("x.__globals__", 1, 1),
        ("x = 1\ny = 'é' + x.f_back", 2, 11),
        ("x = __builtins__", 1, 5),
        ("from a import b as __spec__", 1, 15),
        ("x.__code__ = 1", 1, 1),
        ("del x.__closure__", 1, 5),
        ("lambda: x.gi_frame", 1, 9),
        ("f'{x.cr_frame}'", 1, 4),
        ("x.__ｇlobals__", 1, 1),  # as Python reads it, that is the same name
    ],
)
def test_the_policy_refuses_at_the_place(source: str, line: int, column: int) -> None:
    with pytest.raises(SyntaxError) as caught:
        check(ast.parse(source), source, "<cell 1>")
    error = caught.value
    assert (error.filename, error.lineno) == ("<cell 1>", line)
    if "{" not in source:
        assert error.offset == column
    assert "is not available here" in str(error)


def test_a_very_deep_tree_costs_no_stack() -> None:
    tree: ast.AST = ast.Name("__builtins__", lineno=1, col_offset=0, end_lineno=1, end_col_offset=1)
    for _ in range(100_000):
        tree = ast.UnaryOp(ast.USub(), tree)
    with pytest.raises(SyntaxError):
        check(tree, "__builtins__", "<cell 1>")
    while isinstance(tree, ast.UnaryOp):  # or freeing it costs the stack
        tree = tree.operand


# --- text
def test_sendable_text() -> None:
    assert tracebacks.sendable("aé\U0001f600") == "aé\U0001f600"
    assert tracebacks.sendable("a\ud800b") == "a\ufffdb"
    text = tracebacks.clip("x" * 1_000, 100)
    assert len(text) < 150 and "900 characters" in text


def test_values_fit_a_frame() -> None:
    assert clipped("abc") == ("abc", 0)
    text, missing = clipped("x" * (VALUE_CHARS + 10))
    assert (len(text), missing) == (VALUE_CHARS, 10)
    text, missing = clipped("\U0001f600" * (VALUE_CHARS // 4 + 5))
    assert (len(text), missing) == (VALUE_CHARS // 4, 5) and len(text.encode()) <= VALUE_CHARS

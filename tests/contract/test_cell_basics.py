"""Cells as ordinary Python: one namespace, values, and the constructs that people write."""

from __future__ import annotations

import pytest

from tests.worker_driver import Driver


def test_namespace_persists_and_values_are_shown(driver: Driver) -> None:
    assert driver.ok("1 + 1") == "2"
    assert driver.ok("x = 5") is None
    assert driver.ok("x += 1\nx") == "6"
    assert driver.ok("None") is None
    assert driver.ok("'text'") == "'text'"
    assert driver.ok("") is None
    assert driver.ok("# nothing") is None
    assert driver.ok("__name__") == "'__main__'"
    assert driver.ok("x; x + 1") == "7"
    assert driver.ok("x;") == "6"


def test_underscore_is_the_last_value(driver: Driver) -> None:
    driver.ok("40 + 2")
    assert driver.ok("_") == "42"
    driver.ok("x = 1")
    driver.ok("None")
    assert driver.ok("_ + 1") == "43"
    assert driver.ok("a = 1\na + 1") == "2"
    assert driver.ok("_") == "2"


def test_no_trace_of_the_capture_is_left(driver: Driver) -> None:
    driver.ok("a = 1\na")
    assert driver.ok("sorted(n for n in globals() if n.startswith('<'))") == "[]"
    driver.error("b = 1\n1/0")
    assert driver.ok("sorted(n for n in globals() if n.startswith('<'))") == "[]"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nf(5)", "120"),
        ("class P:\n    def __init__(self, x):\n        self._x = x\nP(3)._x", "3"),
        ("x: int = 3\nx", "3"),
        ("match [1, 2]:\n    case [a, b]:\n        r = a + b\nr", "3"),
        (
            "class P:\n    __match_args__ = ('x',)\n    x = 4\nmatch P():\n    case P(v): pass\nv",
            "4",
        ),
        (
            "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n"
            "    return g\nf()()",
            "1",
        ),
        (
            "from __future__ import annotations\ndef f(x: Nope): ...\nf.__annotations__",
            "{'x': 'Nope'}",
        ),
        ("def g():\n    x = yield 1\n    yield x\ni = g()\nnext(i), i.send(2)", "(1, 2)"),
        ("from enum import Enum\nclass E(Enum):\n    A = 1\nE.A", "<E.A: 1>"),
        (
            "import functools\ndef d(f):\n    @functools.wraps(f)\n    def w(*a, **k): return f(*a, **k)\n"
            "    return w\n@d\ndef g(): return 1\ng(), g.__name__",
            "(1, 'g')",
        ),
        (
            "from contextlib import contextmanager\n@contextmanager\ndef c():\n    yield 3\n"
            "with c() as r: pass\nr",
            "3",
        ),
        (
            "try:\n    raise ExceptionGroup('g', [ValueError(1)])\nexcept* ValueError as e:\n    r = 1\nr",
            "1",
        ),
        ("d = {'a': 1}\nd['a'] += 1\nd", "{'a': 2}"),
        ("eval('1+1'), exec('y = 3'), y", "(2, None, 3)"),
        ("'{} {a}'.format(1, a=2)", "'1 2'"),
        ("f'{1.5:.2f} {3!r}'", "'1.50 3'"),
        ("import pickle\nclass P:\n    x = 1\npickle.loads(pickle.dumps(P())).x", "1"),
        ("import json\njson.dumps({'a': [1]})", "'{\"a\": [1]}'"),
        (
            "import typing\ndef f(x: 'int') -> 'str': ...\ntyping.get_type_hints(f)['x'].__name__",
            "'int'",
        ),
        (
            "import inspect\ndef f(a):\n    return a\ninspect.getsource(f)",
            "'def f(a):\\n    return a\\n'",
        ),
        ("globals()['z'] = 9\nz", "9"),
        ("import sys\nsys.modules['__main__'].__dict__ is globals()", "True"),
        ("import datetime\ndatetime.datetime.strptime('2024-01-02', '%Y-%m-%d').year", "2024"),
        ("len(str(10 ** 5000))", "5001"),
    ],
)
def test_ordinary_python(driver: Driver, code: str, value: str) -> None:
    assert driver.ok(code) == value


def test_dataclasses_across_cells(driver: Driver) -> None:
    driver.ok(
        "from dataclasses import dataclass, field\n@dataclass\nclass P:\n    x: int\n"
        "    y: list = field(default_factory=list)"
    )
    assert driver.ok("P(1)") == "P(x=1, y=[])"
    driver.ok("import pickle\nkept = pickle.dumps(P(2))")
    assert driver.ok("pickle.loads(kept)") == "P(x=2, y=[])"


def test_async_classes_generators_and_comprehensions(driver: Driver) -> None:
    driver.ok(
        "class A:\n    async def __aenter__(self): return 5\n"
        "    async def __aexit__(self, *a): return None\n"
        "    async def double(self, x): return 2 * await echo(x)\n"
        "async def g():\n    yield 1\n    yield 2"
    )
    assert driver.ok("async with A() as r:\n    pass\nr") == "5"
    assert driver.ok("await A().double(4)") == "8"
    assert driver.ok("[x async for x in g()]") == "[1, 2]"
    assert driver.ok("r = []\nasync for x in g():\n    r.append(x)\nr") == "[1, 2]"
    assert driver.ok("async with A() as r: r\n(await echo(1)) + 1") == "2"


def test_contexts_are_kept_across_cells(driver: Driver) -> None:
    driver.ok("import contextvars, decimal\nv = contextvars.ContextVar('v', default=0)")
    driver.ok("v.set(1)")
    assert driver.ok("v.get()") == "1"
    driver.ok("v.set(await echo(2))")
    assert driver.ok("v.get()") == "2"
    assert driver.ok("await echo(v.get())") == "2"
    driver.ok("decimal.getcontext().prec = 3")
    assert driver.ok("decimal.Decimal(1) / 3") == "Decimal('0.333')"
    assert driver.ok("await echo(1)\ndecimal.Decimal(1) / 3") == "Decimal('0.333')"


def test_recursion_and_thread_pools(driver: Driver) -> None:
    assert driver.ok("def f(n): return n and 1 + f(n - 1)\nf(700)") == "700"
    assert driver.error("def f(n): return f(n + 1)\nf(0)").type == "RecursionError"
    assert (
        driver.ok(
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(4) as e: r = list(e.map(lambda x: x * x, range(5)))\nr"
        )
        == "[0, 1, 4, 9, 16]"
    )


def test_sys_exit_ends_the_cell_only(driver: Driver) -> None:
    driver.ok("x = 5\nimport sys")
    driver.ok("sys.exit()")
    driver.ok("sys.exit(0)")
    driver.ok("exit()")
    driver.ok("await echo(1)\nquit(0)")
    error = driver.error("sys.exit(3)")
    assert (error.type, error.message) == ("SystemExit", "3")
    assert driver.error("await echo(1)\nsys.exit('bad input')").message == "bad input"
    assert driver.ok("x") == "5"


def test_input_and_breakpoint_say_what_to_do(driver: Driver) -> None:
    error = driver.error("input('name? ')")
    assert error.type == "EOFError" and "shell_type" in error.message
    assert "print" in driver.error("breakpoint()").message


def test_keyboard_interrupt_of_the_users_own(driver: Driver) -> None:
    assert driver.error("raise KeyboardInterrupt").type == "KeyboardInterrupt"
    assert driver.error("await echo(1)\nraise KeyboardInterrupt('x')").type == "KeyboardInterrupt"
    assert driver.error("import asyncio\nraise asyncio.CancelledError").type == "CancelledError"


def test_a_repr_that_fails_is_not_fatal(driver: Driver) -> None:
    value = driver.ok("class P:\n    def __repr__(self): return 1 / 0\nP()")
    assert value is not None and "P object at" in value and "ZeroDivisionError" in value
    value = driver.ok("class P:\n    def __repr__(self): return repr(self)\nP()")
    assert value is not None and "RecursionError" in value
    assert driver.ok("'\\ud800'") == "'\\ud800'"
    driver.ok("class P:\n    def __repr__(self): return '\\ud800'\nP()")


def test_a_deep_value_and_a_deep_program(driver: Driver) -> None:
    driver.ok("x = []\nfor _ in range(100_000): x = [x]")
    assert "RecursionError" in (driver.ok("x") or "")
    assert driver.error("(" * 300 + ")" * 300).type in ("SyntaxError", "MemoryError")
    driver.run("+".join(["1"] * 20_000))
    assert driver.ok("1") == "1"


def test_variables(driver: Driver) -> None:
    driver.ok(
        "import math\nx = 1\n_y = 2\ntext = 'a' * 1000\ndef f(): ...\nclass P:\n"
        "    def __repr__(self): 1 / 0\np = P()\nr = await echo({'a': 1})\nsleep = 3"
    )
    found = driver.variables()
    assert set(found) == {"x", "text", "f", "P", "p", "r", "sleep"}
    assert (found["x"].type, found["x"].repr) == ("int", "1")
    assert len(found["text"].repr) < 300
    assert "P instance" in found["p"].repr
    assert (found["r"].type, found["r"].repr) == ("dict", "{'a': 1}")


def test_a_request_during_a_cell_waits(driver: Driver) -> None:
    first = driver.start("import time\nfor _ in range(3):\n    await sleep(0.001)\norder = [1]")
    second = driver.start("order.append(2)\norder")
    third = driver.start("import subprocess\norder.append(3)\norder")
    assert driver.result(third).value == "[1, 2, 3]"
    assert driver.result(second).value == "[1, 2]"
    assert driver.result(first).status == "ok"


def test_the_end_of_the_host_is_the_end_of_the_worker(driver: Driver) -> None:
    driver.start("await never()")
    driver.until_true(lambda: len(driver.calls) == 1)
    # `Driver.close` checks that it ends by itself


def test_shadowed_names_are_the_users(driver: Driver) -> None:
    driver.ok("copy = 3\nsession = 4\ngather = 5\nprint = lambda *a: None")
    assert driver.ok("copy + session + gather") == "12"
    assert driver.ok("await echo(1)") == "1"
    driver.ok("del copy")
    assert driver.ok("(await copy('a', 'b'))['dest']") == "'b'"

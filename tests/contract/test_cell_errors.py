"""Errors: the user's lines with numbers and carets, and nothing of the machinery."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker_driver import Driver, opened

MACHINERY = ("awaitbox", "trio/", "trio_asyncio", "outcome", "importlib._bootstrap", "<verb ")


def clean(driver: Driver, code: str) -> str:
    text = driver.error(code).traceback
    assert not [word for word in MACHINERY if word in text], text
    return text


def test_lines_numbers_and_carets(driver: Driver) -> None:
    driver.ok("def f(x):\n    return 1 / x")
    error = driver.error("a = 1\n\nb = f(0)")
    assert (error.type, error.message, error.line) == ("ZeroDivisionError", "division by zero", 3)
    assert error.traceback.replace("        ^^^^\n", "") == (  # 3.13 shows no anchor there
        "Traceback (most recent call last):\n"
        '  File "<cell 2>", line 3, in <module>\n'
        "    b = f(0)\n"
        '  File "<cell 1>", line 2, in f\n'
        "    return 1 / x\n"
        "           ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )


@pytest.mark.parametrize(
    "code",
    [
        "await fail('ValueError', 'x')",
        "import asyncio\nawait asyncio.gather(fail('ValueError', 'x'))",
        "import asyncio\nawait asyncio.create_task(fail('ValueError', 'x'))",
        "await gather(fail('ValueError', 'x'))",
        "import asyncio\nasyncio.run(fail('ValueError', 'x'))",
        "import trio\ntrio.run(fail, 'ValueError', 'x')",
        "import trio\nasync with trio.open_nursery() as n: n.start_soon(fail, 'ValueError', 'x')",
        "import asyncio\nasync with asyncio.TaskGroup() as g: g.create_task(fail('ValueError', 'x'))",
        "import trio\nawait trio.to_thread.run_sync(lambda: int('x'))",
        "import asyncio\nawait asyncio.wait_for(never(), 0.001)",
        "import trio\nwith trio.fail_after(0.001): await never()",
        "import nope",
        "import numpy",
        "session['nope']",
        "exit(3)",
        "help(shell_run, nope=1)",
    ],
)
def test_no_frame_of_ours(driver: Driver, code: str) -> None:
    text = clean(driver, "async def g(): pass\n" + code)
    assert text.count('File "<cell 1>"') >= 1


def test_chains(driver: Driver) -> None:
    text = clean(
        driver,
        "try:\n    await fail('KeyError', 'inner')\nexcept KeyError as e:\n"
        "    raise ValueError('outer') from e",
    )
    assert "KeyError: inner" in text and "direct cause" in text and "ValueError: outer" in text
    text = clean(driver, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['a']")
    assert "During handling" in text


def test_groups(driver: Driver) -> None:
    error = driver.error("def f(): raise KeyError(1)\nasync def g(): f()\nimport trio\n"
                         "async with trio.open_nursery() as n:\n    n.start_soon(g)")  # fmt: skip
    assert error.type == "ExceptionGroup" and "KeyError: 1" in error.traceback
    assert error.line == 4


@pytest.mark.parametrize(
    ("code", "line", "caret"),
    [
        ("x = 1\ny = (", 2, "^"),
        ("x = = 1", 1, "    x = = 1\n        ^\n"),
        ("x = 1\nf.__globals__", 2, "    f.__globals__\n    ^^^^^^^^^^^^^\n"),
        ("'é'; f.__code__", 1, "    'é'; f.__code__\n         ^^^^^^^^^^\n"),
        ("def f():\n  return 1\n   x", 3, "x"),
    ],
)
def test_syntax_errors_show_their_place(driver: Driver, code: str, line: int, caret: str) -> None:
    error = driver.error(code)
    assert error.type in ("SyntaxError", "IndentationError") and error.line == line
    assert caret in error.traceback
    assert f'File "<cell 1>", line {line}' in error.traceback
    assert "Traceback" not in error.traceback


def test_a_refusal_has_a_hint(driver: Driver) -> None:
    assert "traceback.print_exc" in driver.error("e.tb_frame").message
    assert "inspect" in driver.error("f.__code__").message
    assert driver.error("__builtins__").type == "SyntaxError"
    assert driver.error("import x as __builtins__").type == "SyntaxError"
    assert driver.error("match 1:\n    case int(__globals__=x): pass").type == "SyntaxError"
    assert driver.error("def ﬁ(): pass\nｆ.__globals__").type == "SyntaxError"
    assert driver.ok("s = '__globals__ is only text'\ns[:11]") == "'__globals__'"


def test_recursion_is_bounded(driver: Driver) -> None:
    text = clean(driver, "def f(n): return g(n + 1)\ndef g(n): return f(n + 1)\nf(0)")
    assert len(text) < 10_000 and "more frames" in text and "RecursionError" in text


def test_strange_exceptions(driver: Driver) -> None:
    assert (
        "can't be shown"
        in driver.error("class E(Exception):\n    def __str__(self): 1 / 0\nraise E").message
    )
    assert len(driver.error("raise ValueError('x' * 10_000_000)").message) < 100_000
    assert driver.error("raise ValueError('\\ud800')").message == "\ufffd"
    assert driver.error("class E(BaseException): pass\nraise E(1)").type == "E"
    error = driver.error("e = ValueError('a')\ne.__cause__ = e\nraise e")
    assert error.message == "a"
    driver.error("e = ValueError('a')\nfor _ in range(5000):\n    n = ValueError('b')\n"
                 "    n.__cause__ = e\n    e = n\nraise e")  # fmt: skip
    error = driver.error("e = ValueError('a')\ne.add_note('the note')\nraise e")
    assert "the note" in error.traceback
    assert driver.error("raise ExceptionGroup('g', [ValueError(str(i)) for i in range(1000)])")
    assert driver.ok("1") == "1"


def test_a_module_of_the_workspace_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import json\ndef f():\n    return json.loads('{')\n")
    with opened(tmp_path) as driver:
        error = driver.error("import mine\nmine.f()")
        assert error.line == 2 and "mine.py" in error.traceback
        assert "json/decoder.py" in error.traceback  # what it called in the standard library
        (tmp_path / "bad.py").write_text("x = = 1\n")
        error = driver.error("x = 1\nimport bad")
        assert error.line == 2 and "bad.py" in error.traceback


def test_an_error_in_an_earlier_cells_function_counts_here(driver: Driver) -> None:
    driver.ok("\n\n\n\ndef f():\n    raise ValueError")
    assert driver.error("x = 1\nf()").line == 2
    assert driver.error("await echo(1)\nx = 1\nf()").line == 3

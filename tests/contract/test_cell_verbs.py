"""Verbs in a cell: signatures, results, failures, and what was never awaited."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.worker_driver import Driver, opened


def test_results_are_dicts_that_name_their_keys(driver: Driver) -> None:
    driver.ok("r = await shell_run(['ls'], cwd='/')")
    assert driver.ok("r['exit'], r['commands'][0]['command']") == "(0, ['ls'])"
    assert driver.ok("isinstance(r, dict), {**r} == r, r.get('nope', 7)") == "(True, True, 7)"
    assert driver.ok("import json, copy as c, pickle\npickle.loads(pickle.dumps(r)) == r") == "True"
    error = driver.error("r['commands'][0]['nope']")
    assert error.type == "KeyError" and error.line == 1
    assert "'nope'" in error.message and "command, exit" in error.message
    assert driver.ok("match r:\n    case {'exit': e}: pass\ne") == "0"


def test_arguments(driver: Driver) -> None:
    driver.ok("from pathlib import Path\nawait shell_run('ls')")
    driver.ok("await shell_run([Path('a') / 'b', 'c'], cwd=Path('/x'))")
    driver.ok("await shell_run(('a',))")
    assert [call.args for call in driver.calls] == [
        {"commands": "ls", "cwd": None},
        {"commands": ["a/b", "c"], "cwd": "/x"},
        {"commands": ["a"], "cwd": None},
    ]


@pytest.mark.parametrize(
    "call",
    [
        "shell_run()",
        "shell_run('a', 'b')",
        "shell_run('a', nope=1)",
        "shell_run('a', commands='b')",
    ],
)
def test_wrong_arguments_are_type_errors_at_the_call(driver: Driver, call: str) -> None:
    error = driver.error(f"x = 1\nawait {call}")
    assert error.type == "TypeError" and "shell_run()" in error.message and error.line == 2
    assert driver.calls == []


def test_what_can_not_be_sent(driver: Driver) -> None:
    assert "echo" in driver.error("await echo(object())").message
    assert driver.error("await echo(10**30)").type == "OverflowError"
    assert driver.error("await echo('\\ud800')").type == "ValueError"
    assert driver.error("x = []\nx.append(x)\nawait echo(x)").type == "RecursionError"
    assert driver.error("await echo(b'x' * (65 << 20))").type == "ValueError"
    assert driver.ok("await echo(1)") == "1"


@pytest.mark.parametrize(
    "name", ["FileNotFoundError", "FileExistsError", "PermissionError", "KeyError", "ValueError",
             "TypeError", "OSError", "RuntimeError", "TimeoutError"],
)  # fmt: skip
def test_failures_are_the_builtins(driver: Driver, name: str) -> None:
    error = driver.error(f"await fail('{name}', 'the \"message\"')")
    assert (error.type, error.message) == (name, 'the "message"')
    assert f'{name}: the "message"' in error.traceback
    assert driver.ok(
        f"try:\n    await fail('{name}', 'm')\nexcept {name} as e:\n"
        "    r = type(e).__name__, str(e), e.code, isinstance(e, VerbError)\nr"
    ) == repr((name, "m", "failed", True))


def test_an_unknown_failure_is_a_runtime_error(driver: Driver) -> None:
    assert driver.error("await fail('Strange', 'm')").type == "RuntimeError"
    assert driver.error("await fail('SystemExit', 'm')").type == "RuntimeError"


def test_a_failure_can_be_pickled(driver: Driver) -> None:
    code = (
        "import pickle\ntry:\n    await fail('KeyError', 'm')\nexcept KeyError as e:\n    f = e\n"
    )
    assert driver.ok(code + "type(pickle.loads(pickle.dumps(f))) is type(f)") == "True"


def test_stubs_look_like_functions(driver: Driver) -> None:
    driver.ok("import inspect, asyncio")
    assert driver.ok("str(inspect.signature(shell_run))") == "'(commands, *, cwd=None)'"
    assert driver.ok("shell_run.__name__, shell_run.__doc__[:9]") == "('shell_run', 'shell_run')"
    assert driver.ok("asyncio.iscoroutinefunction(shell_run)") == "True"
    assert driver.ok("c = shell_run('a')\nn = type(c).__name__\nawait c\nn") == "'coroutine'"


def test_help(driver: Driver) -> None:
    driver.ok("help(shell_run)")
    driver.ok("help('echo')")
    driver.ok("help()")
    driver.ok("help(gather)")
    driver.ok("help(len)")
    driver.printed("number of items in a container")
    text = driver.output["stdout"].decode()
    assert "runs commands." in text and "gives x back" in text and "copy" in text
    assert "return_exceptions" in text


def test_session_is_asked_for_afresh(tmp_path: Path) -> None:
    count = itertools.count()
    with opened(tmp_path, {"session.state": lambda: {"id": "s1", "n": next(count)}}) as driver:
        assert driver.ok("session['n'], session['n']") == "(0, 1)"
        assert driver.ok("sorted(session), len(session), 'id' in session") == (
            "(['id', 'n'], 2, True)"
        )
        assert driver.error("session['id'] = 1").type == "TypeError"
        assert "id, n" in driver.error("session['nope']").message
        assert driver.ok("await echo(1)\nsession['id']") == "'s1'"


# --- never awaited
@pytest.mark.parametrize(
    "code",
    [
        "shell_run('a')",
        "x = shell_run('a')",
        "x = 1\nshell_run('a')\nx",
        "await echo(1)\nshell_run('a')",
        "def f(): shell_run('a')\nf()",
        "async def f(): shell_run('a')\nawait f()",
        "import asyncio\nasync def f(): shell_run('a')\nawait asyncio.create_task(f())",
        "import trio\nasync def f(): shell_run('a')\n"
        "async with trio.open_nursery() as n: n.start_soon(f)",
        "[shell_run(c) for c in 'ab']",
    ],
)
def test_a_verb_never_awaited_is_an_error(driver: Driver, code: str) -> None:
    error = driver.error("print('kept')\n" + code)
    assert error.type == "RuntimeError" and "write: await shell_run(...)" in error.message
    driver.printed("kept")
    assert driver.ok("import gc\ngc.collect()\n1") == "1"
    assert driver.output["stderr"] == b""  # no warning of CPython's beside it
    assert [call.verb for call in driver.calls if call.verb == "shell_run"] == []


def test_its_place_is_told(driver: Driver) -> None:
    error = driver.error("x = 1\n\nshell_run('a')")
    assert error.line == 3 and 'File "<cell 1>", line 3' in error.traceback


def test_a_consequence_names_the_cause(driver: Driver) -> None:
    error = driver.error("r = shell_run('a')\nr['exit']")
    assert error.type == "TypeError" and "not subscriptable" in error.message
    assert "write: await shell_run(...)" in error.message


def test_beside_another_error_only_what_was_dropped_is_told(driver: Driver) -> None:
    assert "await echo" in driver.error("echo(1)\n1 / 0").message
    assert driver.error("await gather(echo(1), nope)").message == "name 'nope' is not defined"
    assert driver.error("c = echo(1)\n1 / 0").message == "division by zero"
    assert driver.ok("1") == "1"
    assert driver.output["stderr"] == b""


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nt = asyncio.create_task(shell_run('a'))",
        "import asyncio\nf = asyncio.ensure_future(shell_run('a'))",
        "import asyncio\nt = asyncio.gather(shell_run('a'), shell_run('b'))",
        "import asyncio\nr = await asyncio.gather(shell_run('a'), echo(1))",
        "import trio\nasync with trio.open_nursery() as n: n.start_soon(shell_run, 'a')",
        "r = await gather(shell_run('a'), shell_run('b'))",
        "c = shell_run('a')\nc.close()",
        "c = [shell_run('a'), shell_run('b')]\nfor x in c: await x",
    ],
)
def test_handed_on_is_awaited(driver: Driver, code: str) -> None:
    driver.ok(code)


def test_one_that_a_background_task_still_holds_is_not_lost(driver: Driver) -> None:
    driver.ok(
        "import asyncio\nasync def f():\n    c = echo(7)\n    await asyncio.sleep(0.02)\n"
        "    return await c\nt = asyncio.create_task(f())\nawait asyncio.sleep(0)"
    )
    assert driver.ok("await t") == "7"


# --- calls that wait
def test_a_cancelled_wait_cancels_the_call(driver: Driver) -> None:
    error = driver.error("import asyncio\nawait asyncio.wait_for(never(), 0.01)")
    assert error.type == "TimeoutError"
    driver.ok("import trio\nwith trio.move_on_after(0.01): await never()")
    driver.ok("t = asyncio.create_task(never())\nawait asyncio.sleep(0)\nt.cancel()")
    driver.ok("await asyncio.sleep(0)\nassert t.cancelled()")
    ids = [call.id for call in driver.calls]
    driver.until_true(lambda: driver.cancelled == ids)
    assert len(ids) == 3


def test_a_call_under_a_cancelled_scope_is_not_made(driver: Driver) -> None:
    driver.ok("import trio\nwith trio.CancelScope() as s:\n    s.cancel()\n    await never()")
    assert driver.calls == []


def test_many_calls_at_once(driver: Driver) -> None:
    assert driver.ok("r = await gather(*[echo(i) for i in range(500)])\nr == list(range(500))") == (
        "True"
    )
    assert driver.ok(
        "import asyncio\nsum(await asyncio.gather(*[echo(i) for i in range(500)]))"
    ) == str(sum(range(500)))


def test_big_arguments_and_answers(driver: Driver) -> None:
    assert driver.ok("x = 'y' * (8 << 20)\nawait echo(x) == x") == "True"
    assert driver.ok("r = await gather(*[echo(x[:1 << 20]) for _ in range(20)])\nlen(r)") == "20"

"""Cells that other executors get wrong: scopes, modules, text, tracebacks, lost awaits."""

from __future__ import annotations

import pytest

from awaitbox.host.session import Session
from tests.product import ok


async def test_functions_and_comprehensions_see_the_names_of_the_cell(session: Session) -> None:
    first = await ok(
        session,
        "base = 3\n"
        "def fact(n):\n"
        "    return 1 if n < 2 else n * fact(n - 1)\n"
        "scaled = [fact(k) * base for k in range(5)]\n"
        "print(scaled)",
    )
    assert first.stdout == "[3, 3, 6, 18, 72]\n"
    second = await ok(
        session,
        "for tag in ['a', 'b']:\n"
        "    pairs = list((tag, base, fact(i)) for i in (3,))\n"
        "print(pairs, {base: n for n in range(1)}, (lambda: base)())",
    )
    assert second.stdout == "[('b', 3, 6)] {3: 0} 3\n"


@pytest.mark.parametrize(
    "head", ["", "from __future__ import annotations\n"], ids=["plain", "annotations"]
)
async def test_classes_and_functions_of_a_cell_live_in_main(session: Session, head: str) -> None:
    await ok(
        session,
        f"{head}import pickle, copy, dataclasses, enum\n"
        "@dataclasses.dataclass\n"
        "class Row:\n"
        "    id: int\n"
        "    name: str = 'n'\n"
        "class Colour(enum.Enum):\n"
        "    RED = 1\n"
        "def area(r):\n"
        "    return r.id * 2",
    )
    again = await ok(
        session,
        "row = pickle.loads(pickle.dumps(Row(4)))\n"
        "print(row == Row(4), copy.deepcopy(row).id, pickle.loads(pickle.dumps(area))(row))\n"
        "print(pickle.loads(pickle.dumps(Colour.RED)) is Colour.RED)\n"
        "print(Row.__module__ == area.__module__ == Colour.__module__ == __name__ == '__main__')",
    )
    assert again.stdout == "True 4 8\nTrue\nTrue\n"


@pytest.mark.parametrize("code", ["", "\n\n", "# only a remark", "# only a remark\n", "   \n#\n"])
async def test_a_cell_without_a_statement_is_no_error(session: Session, code: str) -> None:
    result = await session.execute(code)
    assert (result.status, result.stdout, result.value) == ("ok", "", None)


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("doc = '''a\n  b\nc'''\nawait sleep(0.001)\nprint(repr(doc))", "'a\\n  b\\nc'\n"),
        (
            "s = 'line one \\\n  two'\nif True:\n\tprint(repr(s)); await sleep(0.001)",
            "'line one   two'\n",
        ),
        ("async def f():\n\treturn '''\n\tx'''\nprint(repr(await f()))", "'\\n\\tx'\n"),
        ("print('\\\\n'); await sleep(0.001)", "\\n\n"),
    ],
    ids=["triple quotes", "continuation", "tabs", "escapes"],
)
async def test_top_level_await_leaves_the_text_of_a_cell_alone(
    session: Session, code: str, printed: str
) -> None:
    assert (await ok(session, code)).stdout == printed


async def test_top_level_await_leaves_scopes_alone(session: Session) -> None:
    result = await ok(
        session,
        "x = 1\n"
        "def add():\n"
        "    global x\n"
        "    x += 1\n"
        "await sleep(0.001)\n"
        "add(); add()\n"
        "print(x, 'x' in globals())",
    )
    assert result.stdout == "3 True\n"


@pytest.mark.parametrize(
    ("code", "write"),
    [
        ("shell_run(['touch made'])\nprint('ok')", "await shell_run("),
        ("r = shell_run(['touch made'])\nprint('ok')", "await shell_run("),
        ("print('ok')\nshell_logs('dev')", "await shell_logs("),
        (
            "def f():\n    shell_background('touch made')\nf()\nprint('ok')",
            "await shell_background(",
        ),
    ],
    ids=["dropped", "kept in a name", "last expression", "in a function"],
)
async def test_a_verb_that_was_never_awaited_makes_the_cell_an_error(
    session: Session, code: str, write: str
) -> None:
    result = await session.execute(code)
    assert result.status == "error"
    assert result.stdout == "ok\n"
    assert result.error is not None
    assert write in result.error["message"]
    assert write in result.as_text()
    assert result.calls == []
    assert (await ok(session, "import os; os.path.exists('made')")).value == "False"


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nt = asyncio.create_task(shell_run(['true']))\n(await t)['exit']",
        "(await gather(shell_run(['true'])))[0]['exit']",
        "import trio\nasync with trio.open_nursery() as n:\n    n.start_soon(shell_run, 'true')\n0",
        "async def f():\n    return await shell_run(['true'])\n(await f())['exit']",
    ],
    ids=["task", "gather", "nursery", "function"],
)
async def test_a_verb_that_was_handed_on_counts_as_awaited(session: Session, code: str) -> None:
    assert (await ok(session, code)).value == "0"


async def test_a_traceback_shows_the_lines_of_the_cells_and_no_frame_of_ours(
    session: Session,
) -> None:
    await ok(
        session,
        "def ratio(rows):\n"
        "    total = sum(rows)\n"
        "    count = len(rows)\n"
        "    return total / count  # mean",
    )
    result = await session.execute("values = []\n\nprint(ratio(values))")
    assert result.status == "error"
    assert result.error is not None
    assert result.error["type"] == "ZeroDivisionError"
    assert result.error["message"] == "division by zero"
    assert result.error["line"] == 3
    text = result.error["traceback"]
    assert "return total / count" in text and "line 4" in text
    assert "print(ratio(values))" in text and "line 3" in text
    assert "^" in text
    assert text.count(", line ") == 2
    assert text.rstrip().endswith("ZeroDivisionError: division by zero")
    assert text.rstrip() in result.as_text()


@pytest.mark.parametrize(
    "failing",
    [
        "class Bad(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Bad",
        "class Bad(Exception):\n    def __repr__(self):\n        raise OSError\nraise Bad('x')",
        "raise type('Odd', (Exception,), {})('\\udc80')",
        "def f(n):\n    f(n + 1)\nf(0)",
        "raise ExceptionGroup('many', [ValueError(str(n)) for n in range(3)])",
    ],
    ids=["str raises", "repr raises", "lone surrogate", "recursion", "group"],
)
async def test_an_error_that_is_hard_to_show_is_shown(session: Session, failing: str) -> None:
    result = await session.execute(failing)
    assert result.status == "error"
    assert result.error is not None
    assert result.error["type"] in {"Bad", "Odd", "RecursionError", "ExceptionGroup"}
    result.as_text().encode()
    assert (await ok(session, "1 + 1")).value == "2"

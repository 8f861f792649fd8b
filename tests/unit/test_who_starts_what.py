"""One function starts programs, five named places fork or start ours; nothing else does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLACES = {
    ("host/custody/program.py", "_first_that_starts", "posix_spawn"),  # every program
    ("host/custody/launch.py", "start_warden", "posix_spawn"),
    ("host/custody/start.py", "fork_zygote", "fork"),
    ("host/custody/warden.py", "fork_init", "fork"),
    ("host/custody/leaders.py", "fork_leader", "fork"),
    ("host/custody/zygote.py", "fork_worker", "fork"),
}

# The names of anything that makes a process or becomes another program, wherever they come from.
DOORS = frozenset(
    (
        *("fork", "forkpty", "fork1", "vfork", "clone", "clone3", "posix_spawn", "posix_spawnp"),
        *("Popen", "popen", "open_process", "run_process", "fork_exec", "execveat"),
        *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec"),
        *("subprocess_shell", "ProcessPoolExecutor"),
        *(f"{verb}{kind}" for verb in ("exec", "spawn") for kind in "l le lp lpe".split()),
        *(f"{verb}{kind}" for verb in ("exec", "spawn") for kind in "v ve vp vpe".split()),
    )
)
DOTTED = frozenset(("os.system", "pty.spawn", "os.startfile"))  # common words elsewhere
MODULES = frozenset(("subprocess", "multiprocessing", "_posixsubprocess", "_multiprocessing"))

# They close these doors in a worker or put the shim's own behind them, so they name them all.
CLOSERS = ("shims/posix/", "shims/doors.py")


def doors_of(source: str) -> Iterator[tuple[str, str]]:
    """(function, name) of every door that a module names."""
    yield from _walk(ast.parse(source), "")


def _walk(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    for name in _named(node):
        yield function, name
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, function)


def _named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if name in DOORS:
            yield name
        case ast.Attribute(attr=name, value=value):
            if name in DOORS:
                yield name
            elif isinstance(value, ast.Name) and f"{value.id}.{name}" in DOTTED:
                yield f"{value.id}.{name}"
        case ast.Import(names=names):
            yield from (one.name for one in names if one.name.split(".")[0] in MODULES)
        case ast.ImportFrom(module=module, names=names):
            if (module or "").split(".")[0] in MODULES:
                yield str(module)
            for one in names:
                if one.name in DOORS or f"{module}.{one.name}" in DOTTED:
                    yield one.name
        case ast.Call(func=ast.Name(id="getattr" | "__import__" | "import_module"), args=args):
            for given in args:
                if isinstance(given, ast.Constant) and given.value in DOORS | MODULES | {"system"}:
                    yield str(given.value)


def test_nothing_else_starts_a_process() -> None:
    found = set()
    for folder in ("host", "shims", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(CLOSERS):
                found |= {(name, *door) for door in doors_of(path.read_text())}
    assert found - PLACES == set(), "these start processes outside of the six places"
    assert PLACES - found == set(), "these places start nothing any more"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import os\ndef f(): return os.fork()", "fork"),
        ("from os import posix_spawn as quiet", "posix_spawn"),
        ("import os\nos.execvpe('a', ['a'], {})", "execvpe"),
        ("import os as system\nsystem.spawnlp(0, 'a')", "spawnlp"),
        ("import os\nos.system('true')", "os.system"),
        ("from os import system", "system"),
        ("import subprocess", "subprocess"),
        ("from subprocess import run", "subprocess"),
        ("import concurrent.futures as c\nc.ProcessPoolExecutor()", "ProcessPoolExecutor"),
        ("import trio\nasync def f(): await trio.run_process(['a'])", "run_process"),
        ("import trio\nasync def f(): await trio.lowlevel.open_process(['a'])", "open_process"),
        ("import asyncio\nasync def f(): await asyncio.create_subprocess_exec('a')", None),
        ("import pty\npty.spawn('a')", "pty.spawn"),
        ("import os\ngetattr(os, 'fork')()", "fork"),
        ("__import__('subprocess')", "subprocess"),
        ("lib.clone(0)", "clone"),
        ("import multiprocessing.pool", "multiprocessing.pool"),
        ("class A:\n    def f(self): start = os.fork", "fork"),
    ],
)
def test_the_checker_finds(source: str, name: str | None) -> None:
    assert [door for _, door in doors_of(source)] == [name or "create_subprocess_exec"]


def test_the_checker_lets_ordinary_code_pass() -> None:
    source = (
        "import os, signal\n"
        "async def f(machine):\n"
        "    'fork and exec'\n"
        "    command = await machine.spawn(['true'])\n"
        "    exec('x = 1')\n"
        "    actions = [(os.POSIX_SPAWN_DUP2, 1, 2)]\n"
        "    return {'fork': command, 'subprocess': actions}\n"
    )
    assert list(doors_of(source)) == []

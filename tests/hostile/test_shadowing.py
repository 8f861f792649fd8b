"""A workspace full of names that the host and its workers import changes nothing in either."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.product import OpenHost, caller, is_there, ok, value

NAMES = [
    "host/__init__.py",
    "tools/__init__.py",
    "shims/__init__.py",
    "shims/worker.py",
    "awaitbox/__init__.py",
    "awaitbox.py",
    "trio.py",
    "trio/__init__.py",
    "trio_asyncio/__init__.py",
    "asyncio.py",
    "msgspec.py",
    "subprocess.py",
    "signal.py",
    "socket.py",
    "os.py",
    "sitecustomize.py",
    "usercustomize.py",
    "RestrictedPython/__init__.py",
]


@pytest.fixture
def trapped(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace in which an import of any of these leaves a mark beside it."""
    for name in NAMES:
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'hit')!r}, 'a').write({name!r} + '\\n')\n")
    (workspace / "bash").write_text(f"#!/bin/sh\necho bash >> {tmp_path}/hit\n")
    (workspace / "bash").chmod(0o755)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PYTHONPATH", str(workspace))
    return tmp_path / "hit"


async def test_no_module_of_the_workspace_runs_unless_a_cell_imports_it(
    opened: OpenHost, trapped: Path
) -> None:
    async with opened() as host, host.open_session() as session:
        assert (await ok(session, "import asyncio, trio, subprocess, os\n1")).value == "1"
        assert (
            await value(session, "(await shell_run('echo hi'))['commands'][0]['stdout']") == "hi\n"
        )
        assert (await caller(session)("shell_background", commands=["true"]))["pid"]
        assert (await ok(session, "subprocess.run(['true']).returncode")).value == "0"
        await session.reset()
        assert (await ok(session, "x = 1\nx")).value == "1"
    assert not is_there(trapped)


async def test_a_variable_of_a_cell_breaks_neither_verbs_nor_shim(opened: OpenHost) -> None:
    async with opened() as host, host.open_session() as session:
        await ok(session, "keep = shell_run")
        await ok(
            session,
            "shell_run = copy = sleep = session = gather = trio = asyncio = print = open = None\n"
            "shell_logs = 3; list = dict = str = len = Exception = None",
        )
        code = "import subprocess\nsubprocess.run(['echo', 'x'], capture_output=True).stdout"
        assert (await ok(session, code)).value == "b'x\\n'"
        assert (await ok(session, "(await keep('true'))['exit']")).value == "0"
        result = await session.execute("1 / 0")
        assert result.error is not None
        assert result.error["type"] == "ZeroDivisionError"


@pytest.mark.parametrize("name", ["sys", "builtins", "os"])
async def test_what_a_cell_does_to_a_module_stays_in_its_worker(
    opened: OpenHost, name: str
) -> None:
    async with opened() as host, host.open_session() as one, host.open_session() as other:
        await one.execute(f"import {name}\n{name}.marked = 1")
        assert (await ok(other, f"import {name}\nhasattr({name}, 'marked')")).value == "False"
        await one.reset()
        assert (await ok(one, f"import {name}\nhasattr({name}, 'marked')")).value == "False"

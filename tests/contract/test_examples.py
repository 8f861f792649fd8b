"""Every example runs, and shows what its docstring says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import awaitbox, environment
from tests.product import processes_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(folder: Path, name: str) -> list[str]:
    """Run one as its docstring says, in a folder of its own; the lines that it printed."""
    path = EXAMPLES / name
    if f"awaitbox run examples/{name}" in path.read_text():
        ran = awaitbox(folder, "run", str(path))
    else:
        ran = subprocess.run(
            [sys.executable, path],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert processes_of(folder) == []
    return ran.stdout.splitlines()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_how_to_run_it(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert f"    awaitbox run examples/{path.name}" in text or (
        f"    python examples/{path.name}" in text
    )


def test_wait_for_server(tmp_path: Path) -> None:
    started, *rest = run(tmp_path, "wait_for_server.py")
    assert started.startswith("web is running, pid ")
    assert rest == ["it listens", "200 it works", "web is stopped, and its port is free"]


@pytest.mark.slow
def test_parallel_builds(tmp_path: Path) -> None:
    lines = run(tmp_path, "parallel_builds.py")
    assert lines[-3:] == ["parser ok", "lexer  ok", "docs   failed with exit 3"]
    assert sorted(lines[:-3]) == [
        "docs   | error: intro.md is missing",
        *("lexer  | built", "lexer  | step 1", "lexer  | step 2"),
        *("parser | built", "parser | step 1", "parser | step 2", "parser | step 3"),
    ]


@pytest.mark.slow
def test_debug_with_pdb(tmp_path: Path) -> None:
    assert run(tmp_path, "debug_with_pdb.py") == [
        "before the division: total = 18, count = 0",
        "count is never increased",
    ]


@pytest.mark.slow
def test_embed_host(tmp_path: Path) -> None:
    assert run(tmp_path, "embed_host.py") == [
        "[stdout] hello from a cell",
        "status: ok value: 'keep.txt\\nold.log\\n'",
        "asked: delete 'old.log'",
        "asked: delete 'keep.txt'",
        "status: error error: PermissionError",
        "left: ['keep.txt']",
    ]


@pytest.mark.slow
def test_add_a_verb(tmp_path: Path) -> None:
    assert run(tmp_path, "add_a_verb.py") == [
        "{'item': 'nut', 'pieces': 27}",
        "value: ['nut']",
        "refused: TypeError",
        "schema: {'type': 'integer', 'minimum': 1, 'maximum': 100, "
        "'description': 'How many. Default 1.'}",
    ]


@pytest.mark.slow
def test_the_embedding_of_the_readme(tmp_path: Path) -> None:
    text = (EXAMPLES.parent / "README.md").read_text()
    code = text.split("## Embed it\n\n```python\n")[1].split("```")[0]
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.stdout == "ok 0\n{'paths': [{'path': 'README.md', 'is_exists': False}]}\n"

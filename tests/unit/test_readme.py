"""The README says what is so: its table, its commands, its code and its paths."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from awaitbox.host.describe import verb_table
from awaitbox.host.front.cli import COMMANDS
from awaitbox.tools import ALL

TOP = Path(__file__).resolve().parents[2]
README = (TOP / "README.md").read_text()
SET_UP = (
    "python3 -m venv .venv && .venv/bin/pip install -e . && "
    ".venv/bin/awaitbox run examples/wait_for_server.py"
)
TESTS = '.venv/bin/pip install -e ".[test]" && .venv/bin/pytest'


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.M | re.S)


def test_the_verb_table_is_current() -> None:
    begin, end = "<!-- verbs: begin -->\n", "<!-- verbs: end -->"
    table = README[README.index(begin) + len(begin) : README.index(end)]
    assert table == verb_table(ALL), "put the output of awaitbox describe --format table there"


def test_two_commands_do_all_set_up() -> None:
    assert [block.strip() for block in blocks("sh")] == [SET_UP, TESTS]


def test_ci_runs_the_test_command() -> None:
    script = (TOP / ".ci/run").read_text()
    assert '"$venv/bin/pip" install --quiet --disable-pip-version-check -e ".[test]"' in script
    assert '\nstep "$venv/bin/pytest"\n' in script


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_are_cells(code: str) -> None:
    compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_loop_comes_first() -> None:
    assert "shell_logs" in blocks("python")[0]
    assert README.index("```python") < 20


def test_commands_named_are_commands() -> None:
    assert set(re.findall(r"[`$/] ?awaitbox (\w+)", README)) == set(COMMANDS)


def test_paths_named_are_there() -> None:
    named = set(re.findall(r"\b(?:examples|tools|host|shims|tests)/[\w./]+\w", README))
    assert named and not [path for path in named if not (TOP / path).exists()]


def test_top_level_exactly() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=10,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {path.split("/")[0] for path in listed.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} == {
        *("pyproject.toml", "host", "shims", "tools", "tests", "examples"),
        *("README.md", "LICENSE", "CHANGELOG.md"),
    }

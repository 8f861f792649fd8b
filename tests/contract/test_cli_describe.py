"""`awaitbox describe` and `awaitbox doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from awaitbox.tools import ALL
from tests.command_line import awaitbox, terminal

NAMES = [verb.name for verb in ALL]


@pytest.mark.parametrize("form", ["text", "table"])
def test_texts_name_every_verb(tmp_path: Path, form: str) -> None:
    ran = awaitbox(tmp_path, "describe", "--format", form)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(name in ran.stdout for name in NAMES)


@pytest.mark.parametrize(
    ("form", "schema"),
    [("anthropic", "input_schema"), ("openai", "parameters"), ("mcp", "inputSchema")],
)
def test_tool_definitions_are_json(tmp_path: Path, form: str, schema: str) -> None:
    tools = json.loads(awaitbox(tmp_path, "describe", "--format", form).stdout)
    tools = [tool.get("function", tool) for tool in tools]
    assert [tool["name"] for tool in tools] == ["python_execution", *NAMES]
    assert all(tool[schema]["additionalProperties"] is False for tool in tools)


@pytest.mark.slow
def test_doctor_tries_each_thing_and_says_what_holds(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "doctor", "--json")
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["is_well"]) == (0, True)
    states = {check["what"]: check["state"] for check in report["checks"]}
    for tried in ("warden and zygote", "session start", "a cell", "a command", "a terminal"):
        assert states[tried] == "works"
    assert {check["state"] for check in report["checks"]} <= {"works", "warning", "info"}
    assert report["confinement"]["rung"] == "none" and report["confinement"]["enforced"] == []


@pytest.mark.slow
def test_doctor_shows_tables(tmp_path: Path) -> None:
    with terminal(tmp_path, "doctor", COLUMNS="120") as shown:
        for text in ("Landlock", "this release makes no use of it", "warden and zygote"):
            shown.until(text)
        shown.until("not_enforced")
        assert shown.end() == 0


@pytest.mark.slow
def test_doctor_names_what_does_not_work(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "doctor", "--json", "--workspace", "nowhere")
    failed = [check for check in json.loads(ran.stdout)["checks"] if check["state"] == "fails"]
    assert ran.returncode == 1
    assert [check["what"] for check in failed] == ["warden and zygote"]
    assert "nowhere" in failed[0]["found"]


@pytest.mark.slow
def test_doctor_names_a_login_profile_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.bash_profile").write_text("sleep 60\n")
    ran = awaitbox(tmp_path, "doctor", "--json")
    warnings = [c for c in json.loads(ran.stdout)["checks"] if c["what"] == "login environment"]
    assert ran.returncode == 0
    assert [check["state"] for check in warnings] == ["warning"]
    assert "did not end within" in warnings[0]["found"]

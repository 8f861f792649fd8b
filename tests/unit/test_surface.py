"""What a model is offered: ten verbs for the shell and the files, each with one satisfiable schema
and one result, and no trace of the tools that had many."""

from __future__ import annotations

from typing import Any

import pytest

from awaitbox.host.describe import describe, execution
from awaitbox.host.schema import tools
from awaitbox.tools import ALL

VERBS = {verb.name: verb for verb in ALL}


def strings(**array: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, **array}


TEXT = {"type": "string"}
NAME = {"type": "string", "minLength": 1}
FLAG = {"type": "boolean"}

# name -> properties in the order of the call, those required, the result's keys, what stands
# behind `*`
CONTRACT: dict[str, tuple[dict[str, Any], list[str], str, list[str]]] = {
    "shell_run": (
        {"commands": strings(), "cwd": TEXT},
        ["commands"],
        "{cwd, commands: [{command, stdout, stderr, exit, duration_ms, timed_out, note}], "
        "exit, duration_ms, timed_out}",
        ["cwd"],
    ),
    "shell_background": (
        {"commands": strings(), "id": NAME, "cwd": TEXT},
        ["commands"],
        "{id, cwd, commands, pid, status, is_already_running, note}",
        ["id", "cwd"],
    ),
    "shell_logs": (
        {"id": NAME, "n": {"type": "integer", "minimum": 1, "maximum": 2000}},
        ["id"],
        "{id, lines, partial_line, total_lines, dropped_lines, status, exit, uptime_ms}",
        ["n"],
    ),
    "shell_type": (
        {"id": NAME, "text": TEXT, "is_enter": FLAG},
        ["id", "text"],
        "{id, text, is_enter, status}",
        ["is_enter"],
    ),
    "shell_stop": ({"id": NAME}, ["id"], "{id, status, exit, note}", []),
    "copy": (
        {"src": NAME, "dest": NAME, "is_overwrite": FLAG},
        ["src", "dest"],
        "{src, dest}",
        ["is_overwrite"],
    ),
    "move": (
        {"src": NAME, "dest": NAME, "is_overwrite": FLAG},
        ["src", "dest"],
        "{src, dest}",
        ["is_overwrite"],
    ),
    "delete": ({"paths": strings()}, ["paths"], "{paths: [{path, is_deleted}]}", []),
    "create_directory": ({"paths": strings()}, ["paths"], "{paths: [{path, is_created}]}", []),
    "file_exists": ({"paths": strings()}, ["paths"], "{paths: [{path, is_exists}]}", []),
    "sleep": (
        {"seconds": {"type": "number", "minimum": 0.001, "maximum": 300}, "reason": TEXT},
        ["seconds"],
        "{seconds}",
        ["reason"],
    ),
}
DEFAULTS = {"n": 200, "is_enter": True, "is_overwrite": False}
SHELL = [name for name in CONTRACT if name.startswith("shell_")]
BANNED = {"op", "action", "stage", "until", "timeout", "timeout_secs"}


def test_the_verbs_are_there_and_nothing_of_the_old_names() -> None:
    assert set(CONTRACT) <= set(VERBS)
    assert not {"shell", "fs", "fs_tool", "shell_wait", "shell_send"} & set(VERBS)
    assert not {"create_dirs", "exists", "remove", "rename"} & set(VERBS)


@pytest.mark.parametrize("name", CONTRACT)
def test_each_schema_property_by_property(name: str) -> None:
    properties, required, _, _ = CONTRACT[name]
    schema = VERBS[name].schema
    bare = {
        key: {word: value for word, value in found.items() if word != "description"}
        for key, found in schema["properties"].items()
    }
    assert bare == properties
    assert list(bare) == list(properties)
    assert schema == {
        "type": "object",
        "properties": schema["properties"],
        "required": required,
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", CONTRACT)
def test_each_result_and_call(name: str) -> None:
    properties, required, result, keywords = CONTRACT[name]
    verb = VERBS[name]
    assert verb.result == result
    assert [parameter.name for parameter in verb.spec.parameters] == list(properties)
    for parameter in verb.spec.parameters:
        assert parameter.is_required == (parameter.name in required)
        assert (parameter.kind == "keyword") == (parameter.name in keywords)
        assert parameter.default == DEFAULTS.get(parameter.name)


@pytest.mark.parametrize("name", CONTRACT)
def test_no_parameter_means_another_mode(name: str) -> None:
    assert not BANNED & set(VERBS[name].schema["properties"])


@pytest.mark.parametrize("name", CONTRACT)
def test_each_speaks_for_itself(name: str) -> None:
    verb = VERBS[name]
    assert verb.summary.endswith(".")
    assert verb.help.startswith(f"{verb.call}\n\n")
    assert verb.help.endswith(f"Result: {verb.result}")
    assert all(len(line) <= 100 for line in verb.help.splitlines()[:-1])


def test_the_shell_toggle_gates_the_five_and_classes_are_as_agreed() -> None:
    assert [name for name in CONTRACT if VERBS[name].toggle == "shell"] == SHELL
    assert [name for name in VERBS if VERBS[name].kind == "destructive"] == ["delete"]
    reads = {name for name in CONTRACT if VERBS[name].kind == "read"}
    assert reads == {"shell_logs", "shell_type", "shell_stop", "file_exists", "sleep"}


def test_the_prose_teaches_the_loop_and_names_no_mode() -> None:
    text = describe(ALL) + execution(ALL) + str(tools(ALL, "mcp"))
    for name in CONTRACT:
        assert name in text
    for word in ("`shell`", "`fs`", "shell_wait", "until=", "timeout=", "timeout_secs", "op="):
        assert word not in text


def test_who_needs_no_sibling_names_none() -> None:
    for name in ("shell_logs", "shell_type", "shell_stop"):
        others = set(VERBS) - {name}
        assert not [other for other in others if other in VERBS[name].description.split()]
    assert "shell_background" in VERBS["shell_run"].description
    assert "shell_logs" in VERBS["shell_background"].description

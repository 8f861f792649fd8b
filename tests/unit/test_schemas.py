"""JSON Schemas of parameters, the three tool formats, and the prose around them."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from awaitbox.host.describe import describe, execution, verb_table
from awaitbox.host.errors import HostError
from awaitbox.host.registry import Registry
from awaitbox.host.schema import REQUIRED, object_schema, tools
from awaitbox.host.verb import Verb
from awaitbox.tools import ALL

FORMS = ("anthropic", "openai", "mcp")
FILES = ("copy", "move", "delete", "create_directory", "file_exists")


@dataclasses.dataclass
class Point:
    x: int
    title: str = "a property, not a keyword"


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


class Live:
    """No data."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def of(kind: Any, default: Any = REQUIRED) -> dict[str, Any]:
    """The schema of one parameter."""
    found: dict[str, Any] = object_schema({"p": (kind, default)})["properties"]["p"]
    return found


def walk(schema: Any) -> list[str]:
    """All keywords of a schema, at any depth."""
    if isinstance(schema, list):
        return [key for item in schema for key in walk(item)]
    if not isinstance(schema, dict):
        return []
    found = list(schema)
    for key, value in schema.items():
        found += (
            [k for v in value.values() for k in walk(v)] if key == "properties" else walk(value)
        )
    return found


def test_bounds_and_descriptions_reach_the_schema() -> None:
    line = Annotated[str, Meta(min_length=1)]
    assert of(Annotated[list[line], Meta(min_length=1, description="Lines.")]) == {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "minItems": 1,
        "description": "Lines.",
    }
    assert of(Annotated[int, Meta(ge=1, le=2000)]) == {
        "type": "integer",
        "minimum": 1,
        "maximum": 2000,
    }
    assert of(Annotated[float, Meta(gt=0)]) == {"type": "number", "exclusiveMinimum": 0}


@pytest.mark.parametrize(
    ("default", "said"), [(200, "200"), (True, "true"), ("code", '"code"'), ([], "[]")]
)
def test_a_default_is_said_in_the_description(default: Any, said: str) -> None:
    assert of(Annotated[Any, Meta(description="It.")], default)["description"] == (
        f"It. Default {said}."
    )
    assert of(Any, default)["description"] == f"Default {said}."


def test_what_may_be_left_out_is_not_nullable_and_not_required() -> None:
    inner = Annotated[str, Meta(min_length=1, description="Handle.")]
    expected = {"type": "string", "minLength": 1, "description": "Handle."}
    assert of(inner | None, None) == expected
    outer = Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Handle.")]
    assert of(outer, None) == expected
    assert of(int | str | None, None) == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert of(str | None) == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    both = object_schema({"a": (str, REQUIRED), "b": (str | None, None)})
    assert (both["required"], both["additionalProperties"]) == (["a"], False)


def test_named_types_are_written_out() -> None:
    point = of(Point)
    assert point["properties"]["x"] == {"type": "integer"}
    assert point["properties"]["title"]["type"] == "string"
    assert of(list[Point])["items"] == point
    assert of(dict[str, Point])["additionalProperties"] == point
    assert of(Literal["a", "b"]) == {"enum": ["a", "b"]}
    assert of(Color) == {"enum": ["blue", "red"]}
    assert not {"$ref", "$defs", "title"} & set(walk(of(list[Point] | Color)))


def test_a_type_that_holds_itself_ends_in_its_bare_type() -> None:
    children = of(Node)["properties"]["children"]
    assert children["items"] == {"type": "object"}


def test_a_type_that_json_cannot_say_is_no_verb() -> None:
    async def connect(to: Live) -> None:
        """Connect."""

    with pytest.raises(HostError, match="Live") as caught:
        Verb.from_function(connect)
    assert caught.value.code == "invalid_verb"


@pytest.mark.parametrize("form", FORMS)
def test_every_format_begins_with_python_execution_and_has_all_verbs(form: str) -> None:
    found = tools(ALL, form)
    entries = [tool["function"] if form == "openai" else tool for tool in found]
    assert [entry["name"] for entry in entries] == ["python_execution", *(v.name for v in ALL)]
    key = {"anthropic": "input_schema", "openai": "parameters", "mcp": "inputSchema"}[form]
    for entry in entries:
        assert set(entry) == {"name", "description", key}
        assert entry["description"]
    assert list(entries[0][key]["properties"]) == ["code"]
    assert entries[0][key]["required"] == ["code"]
    assert [entry[key] for entry in entries[1:]] == [v.schema for v in ALL]
    assert form != "openai" or {tool["type"] for tool in found} == {"function"}
    msgspec.json.encode(found)


def test_an_unknown_format_lists_those_there_are() -> None:
    with pytest.raises(HostError, match="anthropic, openai, mcp") as caught:
        tools(ALL, "gemini")
    assert caught.value.code == "invalid_option"


def test_the_text_routes_each_kind_of_work() -> None:
    text = describe(ALL)
    route = next(line for line in text.splitlines() if "file system" in line)
    assert all(f"`{name}`" in route for name in FILES)
    for words in (
        "poll shell_logs inside python_execution",
        "bounded loop that breaks on what it read",
        "never a fixed sleep",
        "no verb waits for you",
        "Batch commands",
        "gather(",
        "subprocess",
        'session["resources"]',
    ):
        assert words in text
    for verb in ALL:
        assert f"- {verb.call} -> {verb.result}: {verb.summary}\n" in text
    for word in ("until=", "timeout", "`shell`", "shell_wait", "fs("):
        assert word not in text


def test_python_execution_teaches_the_loop() -> None:
    text = execution(ALL)
    assert "bounded loop" in text and "never a fixed sleep" in text and "await" in text


def test_what_is_toggled_off_is_named_nowhere() -> None:
    verbs = Registry(ALL).offered({"shell": False})
    off = {v.name for v in ALL} - {v.name for v in verbs}
    assert len(off) == 5
    written = describe(verbs) + execution(verbs) + verb_table(verbs) + str(tools(verbs, "mcp"))
    for word in (*off, "subprocess"):
        assert word not in written


def test_the_table_has_a_row_for_each_verb() -> None:
    rows = verb_table(ALL).splitlines()
    assert len(rows) == 2 + len(ALL)
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)

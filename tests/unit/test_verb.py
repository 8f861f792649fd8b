"""What a verb is made of, which functions can be one, and how a call of it is checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta

from awaitbox.host.context import Context
from awaitbox.host.errors import HostError, VerbArguments, VerbError, VerbValue
from awaitbox.host.paths import Roots
from awaitbox.host.registry import RESERVED, Registry
from awaitbox.host.verb import Verb, verb


class Row(TypedDict):
    path: str
    is_there: bool


class Probe(TypedDict):
    id: str
    rows: list[Row]


@verb(kind="read", toggle="probing")
def probe(
    ctx: Context,
    id: Annotated[str, Meta(min_length=1, description="Which.")],
    paths: list[str] | None = None,
    *,
    n: Annotated[int, Meta(ge=1, le=2000, description="How many.")] = 200,
) -> Probe:
    """Look at a thing
    once.

    More about it.
    """
    rows: list[Row] = [{"path": path, "is_there": True} for path in paths or []]
    return {"id": id, "rows": rows[:n]}


@dataclasses.dataclass
class Issue:
    title: str
    labels: list[str] = dataclasses.field(default_factory=list)


async def search(
    text: str, state: Literal["open", "closed"] = "open", near: Issue | None = None
) -> list[Issue]:
    """Find issues."""
    return [Issue(f"{text} {state} {near.title if near else None}")]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(session=None, backgrounds=None, machine=None, roots=Roots(tmp_path))


def test_all_parts_follow_from_the_function() -> None:
    assert (probe.name, probe.kind, probe.toggle) == ("probe", "read", "probing")
    assert (probe.takes_context, probe.is_async, probe.asks) == (True, False, None)
    assert probe.call == "probe(id, paths=None, *, n=200)"
    assert probe.result == "{id, rows: [{path, is_there}]}"
    assert probe.result_keys == ("id", "rows")
    assert probe.summary == "Look at a thing once."
    assert probe.description.endswith("More about it.\n\nResult: {id, rows: [{path, is_there}]}")
    for part in (probe.call, "More about it.", "  id: Which.", "  n: How many. Default 200.\n"):
        assert part in probe.help


def test_the_spec_is_what_a_stub_needs() -> None:
    spec = probe.spec
    assert (spec.name, spec.help) == ("probe", probe.help)
    assert [(p.name, p.kind, p.is_required, p.default) for p in spec.parameters] == [
        ("id", "positional", True, None),
        ("paths", "positional", False, None),
        ("n", "keyword", False, 200),
    ]


def test_convert_gives_what_was_given_and_leaves_the_defaults_to_the_function() -> None:
    assert probe.convert({"id": "a"}) == {"id": "a"}
    assert probe.convert({"id": "a", "n": 1, "paths": None}) == {"id": "a", "n": 1, "paths": None}


@pytest.mark.parametrize(
    ("given", "converted"),
    [
        ("a", ["a"]),
        (Path("a/b"), ["a/b"]),
        (["a", Path("b")], ["a", "b"]),
        (("a", "b"), ["a", "b"]),
    ],
)
def test_a_list_of_strings_takes_one_and_paths(given: Any, converted: list[str]) -> None:
    assert probe.convert({"id": "x", "paths": given})["paths"] == converted


def test_a_path_object_is_its_text_and_a_whole_number_an_integer() -> None:
    assert probe.convert({"id": Path("a"), "n": 3.0}) == {"id": "a", "n": 3}


@pytest.mark.parametrize(
    ("args", "kind", "code", "words"),
    [
        ({}, VerbArguments, "invalid_arguments", "misses 'id'"),
        ({"id": "a", "op": "x"}, VerbArguments, "invalid_arguments", "no parameter 'op'"),
        ({"id": 3}, VerbArguments, "invalid_arguments", "id is 3"),
        ({"id": "a", "n": "5"}, VerbArguments, "invalid_arguments", "n is '5'"),
        ({"id": "a", "n": True}, VerbArguments, "invalid_arguments", "n is True"),
        ({"id": "a", "n": 2.5}, VerbArguments, "invalid_arguments", "n is 2.5"),
        ({"id": "a", "paths": [1]}, VerbArguments, "invalid_arguments", "`paths[0]`"),
        ({"id": ""}, VerbValue, "out_of_bounds", "id is ''"),
        ({"id": "a", "n": 0}, VerbValue, "out_of_bounds", ">= 1"),
        ({"id": "a", "n": 2001}, VerbValue, "out_of_bounds", "<= 2000"),
    ],
)
def test_a_wrong_call_names_verb_parameter_value_and_the_right_call(
    args: dict[str, Any], kind: type[VerbError], code: str, words: str
) -> None:
    with pytest.raises(kind) as caught:
        probe.convert(args)
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.message.startswith("probe")
    assert caught.value.message.endswith("Write: await probe(id, paths=None, *, n=200)")


def test_a_huge_wrong_value_is_shown_short() -> None:
    with pytest.raises(VerbArguments) as caught:
        probe.convert({"id": "a", "n": "x" * 10_000_000})
    assert len(caught.value.message) < 400


async def test_ours_get_the_context_and_answer_at_once(ctx: Context) -> None:
    answer = {"id": "a", "rows": [{"path": "p", "is_there": True}]}
    assert probe.answer(ctx, {"id": "a", "paths": ["p"]}) == answer
    assert await probe.run(ctx, {"id": "a", "paths": ["p"]}) == answer


async def test_an_embedders_verb_takes_its_types_and_gives_plain_data(ctx: Context) -> None:
    own = Verb.from_function(search)
    assert (own.kind, own.takes_context, own.is_async) == ("mutation", False, True)
    assert own.call == "search(text, state='open', near=None)"
    arguments = own.convert({"text": "a", "near": {"title": "b"}})
    assert arguments["near"] == Issue("b")
    assert await own.run(ctx, arguments) == [{"title": "a open b", "labels": []}]
    with pytest.raises(VerbValue, match="invalid enum value"):
        own.convert({"text": "a", "state": "ajar"})


async def test_a_result_that_is_no_data_is_the_verbs_own_error(ctx: Context) -> None:
    async def opens() -> Any:
        """Give something that cannot be sent."""
        return object()

    with pytest.raises(VerbError) as caught:
        await Verb.from_function(opens).run(ctx, {})
    assert caught.value.code == "invalid_result"


def test_a_destructive_verb_asks_for_every_call_unless_it_says_otherwise(ctx: Context) -> None:
    async def wipe(ctx: Context, path: str) -> None:
        """Wipe."""

    always = verb(kind="destructive")(wipe)
    assert always.asks is not None
    assert always.asks(ctx, {"path": "a"}) == "wipe(path='a')"
    never = verb(kind="destructive", asks=lambda ctx, arguments: None)(wipe)
    assert never.asks is not None
    assert never.asks(ctx, {"path": "a"}) is None


async def untyped(a, b: int = 0) -> None:  # type: ignore[no-untyped-def]
    """Doc."""


async def silent(a: int) -> None:
    pass


silent.__doc__ = None


async def starred(*paths: str) -> None:
    """Doc."""


async def keywords(**options: str) -> None:
    """Doc."""


async def positional(a: str, /) -> None:
    """Doc."""


async def unresolved(a: NoSuchType) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Doc."""


async def unchecked(a: Annotated[int, Meta(min_length=1)]) -> None:
    """Doc."""


async def opaque_default(a: Any = object()) -> None:  # noqa: B008
    """Doc."""


def synchronous(a: int) -> None:
    """Doc."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (untyped, "'a' has no type"),
        (silent, "no docstring"),
        (starred, "*paths"),
        (keywords, "**options"),
        (positional, "passed by its name"),
        (unresolved, "NoSuchType"),
        (unchecked, "min_length"),
        (opaque_default, "default of 'a'"),
        (synchronous, "async def"),
        (42, "not a function"),
    ],
)
def test_a_function_that_cannot_be_a_verb_is_told_why(function: Any, words: str) -> None:
    with pytest.raises(HostError) as caught:
        Verb.from_function(function)
    assert caught.value.code == "invalid_verb"
    assert words in caught.value.message


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(HostError, match="read, mutation, destructive"):
        verb(kind="harmless")(search)  # type: ignore[arg-type]


def test_a_registry_keeps_order_and_each_name_once() -> None:
    registry = Registry([probe])
    assert registry.add(search).name == "search"
    assert [item.name for item in registry] == ["probe", "search"]
    assert (len(registry), "search" in registry, registry.get("nothing")) == (2, True, None)
    assert registry.get("probe") is probe
    with pytest.raises(HostError, match="already"):
        registry.add(search)


@pytest.mark.parametrize("name", [*sorted(RESERVED), "print", "open", "_own", "lambda", "<lambda>"])
def test_a_name_that_would_hide_another_is_refused(name: str) -> None:
    async def function() -> None:
        """Doc."""

    function.__name__ = name
    with pytest.raises(HostError) as caught:
        Registry().add(function)
    assert caught.value.code == "invalid_verb"


def test_a_toggle_takes_its_verbs_away_and_an_unknown_one_is_an_error() -> None:
    registry = Registry([probe])
    registry.add(search)
    assert [item.name for item in registry.offered()] == ["probe", "search"]
    assert [item.name for item in registry.offered({"probing": True})] == ["probe", "search"]
    assert [item.name for item in registry.offered({"probing": False})] == ["search"]
    with pytest.raises(HostError) as caught:
        registry.offered({"prob": False})
    assert caught.value.code == "invalid_option"
    assert "probing" in caught.value.message

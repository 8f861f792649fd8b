"""JSON Schemas of verbs, and the tool lists that model APIs take.

A schema here is what a model reads before it calls: no `$ref`, no `$defs`, no titles, nothing
nullable that may as well be left out, and defaults in words, because a model reads descriptions
and skips a `default` key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awaitbox.host.describe import Offered, execution
from awaitbox.host.errors import HostError

REQUIRED: Any = object()  # the default of a parameter that has none

_NAMED = ("properties", "$defs", "patternProperties")  # their keys are names, not keywords


def object_schema(parameters: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """The schema of an object with these `name: (type, default)`, `REQUIRED` where there is none.

    Raises TypeError for a type that JSON Schema can't express.
    """
    types = [kind for kind, _ in parameters.values()]
    schemas, components = msgspec.json.schema_components(types, ref_template="{name}")
    properties = {
        name: _property(_inline(schema, components, ()), default)
        for (name, (_, default)), schema in zip(parameters.items(), schemas, strict=True)
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, (_, default) in parameters.items() if default is REQUIRED],
        "additionalProperties": False,
    }


def _property(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    """`schema` as a parameter's: without `null` where it may be left out, its default in words."""
    if default is None:
        schema = _without_null(schema)
    description = schema.pop("description", "")
    if default is not REQUIRED and default is not None:
        said = json.dumps(msgspec.to_builtins(default), ensure_ascii=False)
        description = f"{description} Default {said}.".lstrip()
    return {**schema, "description": description} if description else schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    kept = [option for option in schema["anyOf"] if option != {"type": "null"}]
    return {**kept[0], **rest} if len(kept) == 1 else {**rest, "anyOf": kept}


def _inline(schema: Any, components: dict[str, Any], above: tuple[str, ...]) -> Any:
    """`schema` with its references replaced. One that leads back to itself becomes its bare type:
    no finite schema says more, and the call is checked by the type all the same."""
    if isinstance(schema, list):
        return [_inline(item, components, above) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        if name in above:
            return {"type": components[name].get("type", "object"), **rest}
        return {**_inline(components[name], components, (*above, name)), **rest}
    return {
        key: {name: _inline(item, components, above) for name, item in value.items()}
        if key in _NAMED
        else _inline(value, components, above)
        for key, value in schema.items()
        if key != "title"
    }


def tools(verbs: Sequence[Offered], form: str) -> list[dict[str, Any]]:
    """The tool list for `anthropic`, `openai` or `mcp`: `python_execution`, then every verb.

    Raises `HostError` (`invalid_option`) for another form.
    """
    if form not in _FORMS:
        raise HostError(
            f"there is no tool format {form!r}; there are: {', '.join(_FORMS)}",
            code="invalid_option",
        )
    entry = _FORMS[form]
    code = {"type": "string", "minLength": 1, "description": "Python source of one cell."}
    schema = {
        "type": "object",
        "properties": {"code": code},
        "required": ["code"],
        "additionalProperties": False,
    }
    offered: Iterable[tuple[str, str, dict[str, Any]]] = (
        (verb.name, verb.description, verb.schema) for verb in verbs
    )
    return [entry(*tool) for tool in (("python_execution", execution(verbs), schema), *offered)]


def _anthropic(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}


def _openai(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _mcp(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


_FORMS = {"anthropic": _anthropic, "openai": _openai, "mcp": _mcp}

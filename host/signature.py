"""A verb's function read once: its parameters, how a call of it is checked, how its result looks.

All that a verb offers follows from here: the schema, the stub in the worker, `help` and the
messages about a wrong call.
"""

from __future__ import annotations

import inspect
import os
import re
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from awaitbox.host.context import Context
from awaitbox.host.errors import HostError, VerbArguments, VerbValue
from awaitbox.host.limits import SHOWN_CHARS
from awaitbox.host.schema import REQUIRED
from awaitbox.shims.wire import Parameter

_short = reprlib.Repr()  # a worker may send megabytes
_short.maxstring = _short.maxother = SHOWN_CHARS
# msgspec's words where a value has the right type and the wrong size
_BOUND = re.compile(r"Expected `\w+` (<|>|of length|matching|that's a multiple)|Invalid enum value")


@dataclass(frozen=True, eq=False)
class Signature:
    """The parameters of one function, without `ctx`. `types` holds `name: (type, default)`."""

    name: str
    takes_context: bool
    parameters: tuple[Parameter, ...]
    types: Mapping[str, tuple[Any, Any]]
    returns: Any
    call: str  # "shell_logs(id, *, n=200)"
    arguments: type[msgspec.Struct]
    lists: tuple[str, ...]  # parameters that also take one bare string

    def convert(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Check one call's arguments; those given come back converted, defaults stay out.

        A bare string is wrapped where a list of strings belongs, a path object becomes its text.
        Raises `VerbArguments` (unknown, missing, ill-typed) or `VerbValue` (outside its bounds).
        """
        for name in self.lists:
            if type(args.get(name)) is str:
                args = {**args, name: [args[name]]}
        try:
            given = msgspec.convert(args, self.arguments)
        except msgspec.ValidationError:
            args = {name: self._lenient(name, value) for name, value in args.items()}
            try:
                given = msgspec.convert(args, self.arguments)
            except msgspec.ValidationError as error:
                self._refuse(args, str(error))
        return {name: getattr(given, name) for name in args}

    def _lenient(self, name: str, value: Any) -> Any:
        """The spellings that are as good, off the fast path: path objects, and 200.0 for a whole
        number, which JSON Schema counts as an integer."""
        if isinstance(value, os.PathLike):
            text = os.fspath(value)
            return [text] if name in self.lists else text
        if isinstance(value, (list, tuple)):
            return [os.fspath(item) if isinstance(item, os.PathLike) else item for item in value]
        if isinstance(value, float) and value.is_integer() and name in self.types:
            return int(value) if _bare(self.types[name][0]) is int else value
        return value

    def _refuse(self, args: Mapping[Any, Any], text: str) -> NoReturn:
        write = f"Write: await {self.call}"
        for name in args:
            if name not in self.types:
                raise VerbArguments(f"{self.name} has no parameter {_shown(name)}. {write}")
        for name, (_, default) in self.types.items():
            if default is REQUIRED and name not in args:
                raise VerbArguments(f"{self.name} misses {name!r}. {write}")
        for name, value in args.items():
            try:
                msgspec.convert(value, self.types[name][0])
            except msgspec.ValidationError as error:
                text = str(error)
                kind = VerbValue if _BOUND.match(text) else VerbArguments
                text = text[:1].lower() + text[1:].replace(" - at `$", f" - at `{name}")
                raise kind(f"{self.name}: {name} is {_shown(value)}, but {text}. {write}") from None
        raise VerbArguments(f"{self.name}: {text}. {write}")


def read(function: Callable[..., Any]) -> Signature:
    """Read a function's signature. Raises `HostError` (`invalid_verb`), naming what is wrong."""
    name = function.__name__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise invalid(name, f"an annotation cannot be resolved ({error})") from None
    found = list(inspect.signature(function).parameters.values())
    takes_context = bool(found) and found[0].name == "ctx" and hints.get("ctx") is Context
    if takes_context:
        found = found[1:]
    kinds = {item.name: (hints.get(item.name), _default(item)) for item in found}
    parameters = tuple(_parameter(name, item, hints) for item in found)
    return Signature(
        name=name,
        takes_context=takes_context,
        parameters=parameters,
        types=types.MappingProxyType(kinds),
        returns=hints.get("return"),
        call=f"{name}({_written(found)})",
        arguments=_struct(name, kinds),
        lists=tuple(item for item, (kind, _) in kinds.items() if _is_list_of_strings(kind)),
    )


def result_text(returns: Any) -> str:
    """A result's keys as a reader sees them: `{paths: [{path, is_deleted}]}`; "" if not known."""
    if typing.is_typeddict(returns):
        fields = typing.get_type_hints(returns)
        return "{" + ", ".join(_field_text(key, kind) for key, kind in fields.items()) + "}"
    return ""


def result_keys(returns: Any) -> tuple[str, ...]:
    """The keys of a result that is a TypedDict; none of another."""
    return tuple(typing.get_type_hints(returns)) if typing.is_typeddict(returns) else ()


def invalid(name: str, what: str) -> HostError:
    """The error about a function that cannot be a verb."""
    return HostError(f"{name} cannot be a verb: {what}", code="invalid_verb")


def _field_text(key: str, kind: Any) -> str:
    if typing.get_origin(kind) is list:
        inner = result_text(typing.get_args(kind)[0])
        return f"{key}: [{inner}]" if inner else key
    inner = result_text(kind)
    return f"{key}: {inner}" if inner else key


def _parameter(verb: str, item: inspect.Parameter, hints: Mapping[str, Any]) -> Parameter:
    if item.kind not in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY):
        raise invalid(verb, f"{item} is not a parameter that can be passed by its name")
    if item.name not in hints:
        raise invalid(verb, f"its parameter {item.name!r} has no type; write {item.name}: str")
    is_required = item.default is item.empty
    try:
        default = None if is_required else msgspec.to_builtins(item.default)
    except TypeError as error:
        raise invalid(verb, f"the default of {item.name!r} is not plain data ({error})") from None
    kind = "keyword" if item.kind is item.KEYWORD_ONLY else "positional"
    return Parameter(name=item.name, kind=kind, is_required=is_required, default=default)


def _default(item: inspect.Parameter) -> Any:
    return REQUIRED if item.default is item.empty else item.default


def _written(found: list[inspect.Parameter]) -> str:
    """Names and defaults without types: what to write, in one short line."""
    bare = [item.replace(annotation=inspect.Parameter.empty) for item in found]
    return str(inspect.Signature(bare))[1:-1].replace("=<", "=...<")


def _struct(name: str, kinds: Mapping[str, tuple[Any, Any]]) -> type[msgspec.Struct]:
    # The defaults stay the function's own: None stands for each here and is never looked at.
    fields = [
        (item, kind) if default is REQUIRED else (item, kind, None)
        for item, (kind, default) in kinds.items()
    ]
    try:
        made = msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)
        msgspec.convert({}, made)  # the types are looked at when they are first used
    except msgspec.ValidationError:
        pass
    except (TypeError, ValueError) as error:
        raise invalid(name, str(error)) from None
    return made


def _bare(kind: Any) -> Any:
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    return kind


def _is_list_of_strings(kind: Any) -> bool:
    kind = _bare(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = [_bare(option) for option in typing.get_args(kind)]
        return str not in options and any(_is_list_of_strings(option) for option in options)
    return typing.get_origin(kind) is list and _bare(typing.get_args(kind)[0]) is str


def _shown(value: Any) -> str:
    return _short.repr(value)

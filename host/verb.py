"""What a verb is: one function and its class. All else follows from its signature and docstring.

A verb of ours is written with the decorator and takes the `Context` as its first parameter `ctx`:

    @verb(kind="mutation")
    async def copy(ctx: Context, src: Annotated[str, Meta(min_length=1)], ...) -> CopyResult: ...

An embedder's own is any typed async function without it (`Verb.from_function`). A plain `def`
cannot wait: it is answered directly on the host's loop, so it must not block either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from awaitbox.host.context import Context
from awaitbox.host.errors import VerbError
from awaitbox.host.schema import object_schema
from awaitbox.host.signature import Signature, invalid, read, result_keys, result_text
from awaitbox.shims.wire import VerbSpec

Kind = Literal["read", "mutation", "destructive"]
Asks = Callable[[Context, dict[str, Any]], str | None]
Shows = Callable[[Context, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Verb:
    """One verb as it is offered.

    `kind` is its class (`read` needs no approval), `toggle` the switch that takes it away. `asks`
    gives the text of what an approver would be asked for one call, None where that call needs no
    approval; it is None as a whole for a verb that only the rules judge. `shows` gives the
    arguments of a call as a trace may keep them; None: as they are.
    """

    name: str
    kind: Kind
    toggle: str | None
    function: Callable[..., Any]
    is_async: bool
    asks: Asks | None
    shows: Shows | None
    signature: Signature
    schema: dict[str, Any]
    summary: str  # the docstring's first paragraph, in one line
    description: str  # the docstring and the result: what a tool list says
    help: str  # what `help(verb)` prints
    spec: VerbSpec
    result_keys: tuple[str, ...]

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], *, kind: Kind = "mutation", toggle: str | None = None
    ) -> Verb:
        """An embedder's own async function as a verb. Raises `HostError` (`invalid_verb`)."""
        if not callable(function) or not hasattr(function, "__name__"):
            raise invalid(repr(function), "it is not a function")
        if not inspect.iscoroutinefunction(function):
            raise invalid(function.__name__, "it must be an async function; write `async def`")
        return _build(function, kind, toggle, None, None)

    @property
    def takes_context(self) -> bool:
        """Whether the function wants `ctx`: ours do, an embedder's do not."""
        return self.signature.takes_context

    @property
    def call(self) -> str:
        """How to write a call: `shell_logs(id, *, n=200)`."""
        return self.signature.call

    @property
    def result(self) -> str:
        """The result's keys, nested ones too: `{paths: [{path, is_deleted}]}`; "" if unknown."""
        return result_text(self.signature.returns)

    def convert(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The checked arguments of one call, see `Signature.convert`."""
        return self.signature.convert(args)

    def answer(self, ctx: Context, arguments: Mapping[str, Any]) -> Any:
        """Call the function with converted arguments: the result of a plain one, of an async one
        the coroutine. The result of an embedder's verb still has to go through `plain`."""
        if self.signature.takes_context:
            return self.function(ctx, **arguments)
        return self.function(**arguments)

    async def run(self, ctx: Context, arguments: Mapping[str, Any]) -> Any:
        """Call the function with converted arguments and give its result as plain data.

        Checkpoints, and leaves behind after a cancel, what the verb does.
        """
        value = self.answer(ctx, arguments)
        if self.is_async:
            value = await value
        return self.plain(value)

    def plain(self, value: Any) -> Any:
        """A result as dicts, lists and scalars. Ours are already.

        Raises `VerbError` (`invalid_result`) for what cannot be sent to a worker.
        """
        if self.signature.takes_context:
            return value
        try:
            return msgspec.to_builtins(value, builtin_types=(bytes,))
        except (TypeError, ValueError, RecursionError) as error:
            raise VerbError(
                f"{self.name} returned a {type(value).__name__} that is not plain data: {error}",
                code="invalid_result",
            ) from None


def verb(
    *,
    kind: Kind,
    toggle: str | None = None,
    asks: Asks | None = None,
    shows: Shows | None = None,
) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function a verb. A destructive one without `asks` asks for every call.

    Raises `HostError` (`invalid_verb`) for a function that has no types or no docstring.
    """
    return lambda function: _build(function, kind, toggle, asks, shows)


def _build(
    function: Callable[..., Any],
    kind: Kind,
    toggle: str | None,
    asks: Asks | None,
    shows: Shows | None,
) -> Verb:
    signature = read(function)
    name = signature.name
    if kind not in get_args(Kind):
        raise invalid(name, f"kind={kind!r}; there are: {', '.join(get_args(Kind))}")
    text = inspect.getdoc(function)
    if not text:
        raise invalid(name, "it has no docstring, and that is all a model learns about it")
    try:
        schema = object_schema(signature.types)
    except TypeError as error:
        raise invalid(name, str(error)) from None
    shape = result_text(signature.returns)
    returns = f"\n\nResult: {shape}" if shape else ""
    shown = f"{signature.call}\n\n{text}{_parameters_text(schema)}{returns}"
    return Verb(
        name=name,
        kind=kind,
        toggle=toggle,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        asks=_asks_always(signature) if asks is None and kind == "destructive" else asks,
        shows=shows,
        signature=signature,
        schema=schema,
        summary=" ".join(text.split("\n\n")[0].split()),
        description=text + returns,
        help=shown,
        spec=VerbSpec(name=name, parameters=list(signature.parameters), help=shown),
        result_keys=result_keys(signature.returns),
    )


def _asks_always(signature: Signature) -> Asks:
    def asks(ctx: Context, arguments: dict[str, Any]) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{signature.name}({given})"

    return asks


def _parameters_text(schema: dict[str, Any]) -> str:
    said = [
        f"  {name}: {property['description']}"
        for name, property in schema["properties"].items()
        if "description" in property
    ]
    return "\n\nParameters:\n" + "\n".join(said) if said else ""

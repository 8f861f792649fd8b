"""Verbs as functions: made from the signatures that arrive as data.

Each is compiled as a real `def`, so that wrong arguments are CPython's own TypeErrors, at the call
and without a round trip. Its coroutine is a real one, named after the verb.
"""

from __future__ import annotations

import asyncio
import inspect
import keyword
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from awaitbox.shims.link import Link
from awaitbox.shims.unawaited import Ledger
from awaitbox.shims.wire import Parameter, VerbSpec

Stub = Callable[..., Any]

_SOURCE = """
def make(_link_call, _flush, _enter, _started, _plain, {defaults}):
    async def {name}(_args, _key):
        _started(_key)
        _flush()
        return await _link_call({name!r}, _args)
    _run = {name}
    _run.__qualname__ = {name!r}
    def {name}({signature}):
        return _enter(_run, {{{args}}})
    return {name}
"""


def make_stubs(
    specs: Iterable[VerbSpec], link: Link, ledger: Ledger, flush: Callable[[], None]
) -> dict[str, Stub]:
    """The verbs by name. `flush` is called before each call goes out."""
    return {spec.name: make_stub(spec, link, ledger, flush) for spec in specs}


def make_stub(spec: VerbSpec, link: Link, ledger: Ledger, flush: Callable[[], None]) -> Stub:
    """Raises ValueError for a signature that is none."""
    names = [spec.name, *(parameter.name for parameter in spec.parameters)]
    if bad := [name for name in names if not name.isidentifier() or keyword.iskeyword(name)]:
        raise ValueError(f"{bad[0]!r} can't be the name of a verb or of a parameter")
    source = _SOURCE.format(
        name=spec.name,
        signature=_signature(spec.parameters),
        defaults=", ".join(f"_default_{name}=None" for name in names[1:]),
        args=", ".join(f"{name!r}: _plain({name})" for name in names[1:]),
    )
    scope: dict[str, Any] = {}
    exec(compile(source, f"<verb {spec.name}>", "exec", dont_inherit=True), scope)
    defaults = {f"_default_{p.name}": p.default for p in spec.parameters if not p.is_required}
    stub: Stub = scope["make"](link.call, flush, ledger.enter, ledger.started, plain, **defaults)
    stub.__doc__ = spec.help
    stub.__qualname__ = spec.name
    stub.__module__ = "awaitbox"
    if hasattr(inspect, "markcoroutinefunction"):
        inspect.markcoroutinefunction(stub)
    else:
        stub._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return stub


def _signature(parameters: Iterable[Parameter]) -> str:
    parts: list[str] = []
    is_keyword = False
    for parameter in parameters:
        if parameter.kind == "keyword" and not is_keyword:
            parts.append("*")
            is_keyword = True
        default = "" if parameter.is_required else f"=_default_{parameter.name}"
        parts.append(parameter.name + default)
    return ", ".join(parts)


def plain(value: Any) -> Any:
    """An argument as the wire carries it: paths as text, sequences as lists, at any depth."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


_PLAIN = frozenset((str, int, bool, float, type(None), bytes))

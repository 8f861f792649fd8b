"""The verbs of one host: ours in the order of the docs, then the embedder's."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from awaitbox.host.errors import HostError
from awaitbox.host.signature import invalid
from awaitbox.host.verb import Verb

# What every cell has beside the verbs, or what a tool list has: a verb of that name would hide it.
RESERVED = frozenset(
    "asyncio display frames gather help inspect_frame python_execution session trio".split()
)


class Registry:
    """Verbs by name, each name once."""

    def __init__(self, verbs: Iterable[Verb] = ()) -> None:
        self._verbs: dict[str, Verb] = {}
        for item in verbs:
            self.add(item)

    def __iter__(self) -> Iterator[Verb]:
        return iter(self._verbs.values())

    def __len__(self) -> int:
        return len(self._verbs)

    def __contains__(self, name: object) -> bool:
        return name in self._verbs

    def add(self, item: Verb | Callable[..., Any]) -> Verb:
        """Take one more, a bare async function too. Raises `HostError` (`invalid_verb`)."""
        new = item if isinstance(item, Verb) else Verb.from_function(item)
        name = new.name
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise invalid(name, "its name cannot be written in a call")
        if name in RESERVED or hasattr(builtins, name):
            raise invalid(name, "a cell already has that name; give the function another")
        if name in self._verbs:
            raise invalid(name, "there is one of that name already; give the function another")
        self._verbs[name] = new
        return new

    def get(self, name: str) -> Verb | None:
        """The verb of that name, toggled off or not; None if there is none."""
        return self._verbs.get(name)

    def offered(self, toggles: Mapping[str, bool] | None = None) -> list[Verb]:
        """The verbs that no toggle takes away. Raises `HostError` (`invalid_option`) for a toggle
        that belongs to no verb."""
        toggles = toggles or {}
        known = {item.toggle for item in self if item.toggle is not None}
        for toggle in toggles:
            if toggle not in known:
                there = ", ".join(sorted(known)) or "none"
                raise HostError(
                    f"there is no toggle {toggle!r}; there are: {there}", code="invalid_option"
                )
        return [item for item in self if item.toggle is None or toggles.get(item.toggle, True)]

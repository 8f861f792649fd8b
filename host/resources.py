"""One id space a session: what runs under an id, and the last finished ones, still readable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeVar

from awaitbox.host.errors import VerbUnknownId, VerbValue
from awaitbox.host.limits import FINISHED_KEPT, ID_CHARS

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_NUMBER = re.compile(r"[0-9.]+[smhd]?")
_PREPARATIONS = frozenset("cd export set source umask ulimit trap pushd mkdir".split())
_WRAPPERS = frozenset("exec env nohup sudo time nice setsid command stdbuf timeout".split())


class Resource(Protocol):
    """What can stand under an id."""

    kind: ClassVar[str]
    id: str

    @property
    def status(self) -> str: ...

    def detail(self) -> dict[str, Any]:
        """`{kind, status, pid, exit, detail}` as `session["resources"]` shows it."""


R = TypeVar("R", bound=Resource)


class Resources:
    """Live and retained resources by id. Ids are reserved before anything starts, so that two
    simultaneous starts never share one."""

    def __init__(self) -> None:
        self._by_id: dict[str, Resource] = {}

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_id.values()))

    def live(self) -> list[Resource]:
        return [resource for resource in self if resource.status == "running"]

    def find(self, id: str) -> Resource | None:
        return self._by_id.get(id)

    def get(self, id: str, kind: type[R]) -> R:
        """The resource of that id and kind, live or retained. Raises `VerbUnknownId`, which lists
        what lives instead."""
        resource = self._by_id.get(id)
        if isinstance(resource, kind):
            return resource
        raise VerbUnknownId(self._unknown(id, kind.kind))

    def _unknown(self, id: str, kind: str) -> str:
        mend = {"background": f'Start one with shell_background([...], id="{id}")'}
        other = self._by_id.get(id)
        nouns = {"background": "background shell"}
        noun = nouns.get(kind, kind)
        what = f"{id!r} is a {other.kind}, not a {noun}" if other else f"no {noun} {id!r}"
        return f"{what}; live: {self.live_text()}. {mend.get(kind, '')}".rstrip()

    def live_text(self) -> str:
        """`dev (running, pid 4711), web (…)`, or `none`."""
        rows = [(resource.id, resource.detail()) for resource in self.live()]
        return ", ".join(f"{id} ({d['status']}, pid {d['pid']})" for id, d in rows) or "none"

    def reserve(self, resource: Resource) -> None:
        """Put `resource` under its id, over a finished one if need be."""
        self._by_id.pop(resource.id, None)
        self._by_id[resource.id] = resource

    def release(self, resource: Resource) -> None:
        """Take away what never started."""
        if self._by_id.get(resource.id) is resource:
            del self._by_id[resource.id]

    def finished(self, resource: Resource) -> None:
        """Count `resource` among the finished, of which FINISHED_KEPT stay readable."""
        if self._by_id.pop(resource.id, None) is not None:
            self._by_id[resource.id] = resource  # newest last
        done = [r for r in self if r.status != "running"]
        for old in done[: max(0, len(done) - FINISHED_KEPT)]:
            del self._by_id[old.id]

    def free_id(self, wanted: str) -> str:
        """`wanted`, or with `-2`, `-3` … behind it if that is live."""
        taken = {resource.id for resource in self.live()}
        number, id = 1, wanted
        while id in taken:
            number += 1
            id = f"{wanted}-{number}"
        return id

    def snapshot(self) -> dict[str, dict[str, Any]]:
        return {resource.id: resource.detail() for resource in self}


def derived_id(script: str) -> str:
    """An id from the program that a script starts: `cd web && npm run dev` gives `npm`."""
    names = [name for name in map(_program, _SEPARATOR.split(script)) if name]
    telling = [name for name in names if name not in _PREPARATIONS]
    return [*telling, *names, "shell"][0][:ID_CHARS]


def _program(command: str) -> str:
    """The name of the program of one command, "" if there is none to be seen."""
    for word in command.split():
        name = re.sub(r"[^A-Za-z0-9_.-]+", "", word.rsplit("/", 1)[-1])
        if _ASSIGNMENT.match(word) or word.startswith("-") or name in _WRAPPERS:
            continue
        if name and not _NUMBER.fullmatch(name):  # what `timeout 5m` and `nice -n 10` take
            return name
    return ""


def check_id(id: str) -> str:
    """An id may be any short printable text; it is shown in messages. Raises `VerbValue`."""
    if len(id) > ID_CHARS or not id.isprintable():
        raise VerbValue(f"id must be at most {ID_CHARS} printable characters")
    return id

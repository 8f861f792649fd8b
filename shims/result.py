"""What a verb returns: plain dicts that name their keys when one is asked for that is not there."""

from __future__ import annotations

from typing import Any


class MissingKey(KeyError):
    """Shows its message as it is; a KeyError would show its repr."""

    def __str__(self) -> str:
        return str(self.args[0])


MissingKey.__name__ = MissingKey.__qualname__ = "KeyError"
MissingKey.__module__ = "builtins"


class Result(dict[str, Any]):
    """A dict. An unknown key raises a KeyError that lists the keys there are."""

    __slots__ = ()

    def __missing__(self, key: object) -> Any:
        raise MissingKey(f"no key {key!r} in this result; it has: {', '.join(map(str, self))}")

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def as_result(value: Any) -> Any:
    """Dicts as `Result`, at any depth; lists are changed in place, all else stays as it came."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(item) in _NESTED:
                value[key] = as_result(item)
        return Result(value)
    if kind is list:
        for index, item in enumerate(value):
            if type(item) in _NESTED:
                value[index] = as_result(item)
    return value


_NESTED = frozenset((dict, list))

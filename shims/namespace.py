"""The namespace of the cells: a module called `__main__`, and its builtins."""

from __future__ import annotations

import builtins
import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NoReturn

from awaitbox.shims.bounds import VARIABLE_CHARS, VARIABLES
from awaitbox.shims.failure import HostError, VerbError
from awaitbox.shims.gathering import gather
from awaitbox.shims.result import Result
from awaitbox.shims.stubs import Stub
from awaitbox.shims.tracebacks import clip
from awaitbox.shims.wire import Variable


class SessionFacts(Mapping[str, Any]):
    """`session`: the facts of this session, asked for afresh at each access. Read-only."""

    def __init__(self, ask: Callable[[], dict[str, Any]]) -> None:
        self.__ask = ask

    def __getitem__(self, key: str) -> Any:
        return self.__ask()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__ask())

    def __len__(self) -> int:
        return len(self.__ask())

    def __repr__(self) -> str:
        return repr(dict(self.__ask()))


class Namespace:
    """`names` is what cells read and write; `scope` their builtins, also those of the workspace's
    modules."""

    def __init__(self) -> None:
        module = ModuleType("__main__")
        self.names: dict[str, Any] = module.__dict__
        self.scope: dict[str, Any] = dict(vars(builtins))
        self._offered: dict[str, Any] = {}
        self.names["__builtins__"] = self.scope
        self.scope.update(
            exit=_leave,
            quit=_leave,
            input=_no_input,
            breakpoint=_no_debugger,
            HostError=HostError,
            VerbError=VerbError,
        )
        sys.breakpointhook = _no_debugger
        sys.modules["__main__"] = module

    def offer(self, stubs: dict[str, Stub], ask: Callable[[], dict[str, Any]]) -> None:
        """Put the verbs in place. They stand among the builtins, too, so that a user's variable of
        the same name shadows one only until it is deleted."""
        self._offered = {**stubs, "gather": gather, "session": SessionFacts(ask)}
        self.scope.update(self._offered, help=Help(stubs))
        self.names.update(self._offered)

    def variables(self) -> list[Variable]:
        """The user's names: no modules, no verbs, nothing that begins with an underscore."""
        found = []
        for name, value in list(self.names.items()):
            is_user = isinstance(name, str) and not name.startswith(("_", "<"))
            if not is_user or isinstance(value, ModuleType) or self._offered.get(name) is value:
                continue
            kind = "dict" if type(value) is Result else type(value).__name__
            found.append(Variable(name, kind, _short(value)))
            if len(found) == VARIABLES:
                break
        return found


class Help:
    """`help(verb)` prints the verb's contract, `help()` what there is; all else is Python's."""

    def __init__(self, stubs: dict[str, Stub]) -> None:
        self._stubs = stubs

    def __call__(self, *subjects: Any) -> None:
        if not subjects:
            print("Verbs; help(verb) prints the contract of one:", *sorted(self._stubs), sep="\n  ")
            return
        for subject in subjects:
            name = subject if isinstance(subject, str) else getattr(subject, "__name__", None)
            stub = self._stubs.get(name) if isinstance(name, str) else None
            if stub is not None and (isinstance(subject, str) or subject is stub):
                print(stub.__doc__)
            elif subject is gather:
                print(f"gather(*awaitables, return_exceptions=False)\n\n{gather.__doc__}")
            else:
                import pydoc

                pydoc.help(subject)

    def __repr__(self) -> str:
        return "Type help(verb) for the contract of a verb, help(object) for help about object."


def _short(value: Any) -> str:
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = VARIABLE_CHARS
    try:
        return clip(short.repr(value), VARIABLE_CHARS)
    except Exception as error:
        return f"<{type(value).__name__}: its repr raises {type(error).__name__}>"


def _leave(code: object = None) -> NoReturn:
    """End this cell, not the session."""
    raise SystemExit(code)


def _no_input(prompt: object = "", /) -> NoReturn:
    """There is no keyboard in a cell."""
    raise EOFError(
        "input() has no keyboard to read from in a cell: put the value into the code; a program "
        "that asks is started with shell_background and answered with shell_type"
    )


def _no_debugger(*args: object, **options: object) -> NoReturn:
    """There is nobody to drive a debugger."""
    raise RuntimeError("breakpoint() has nobody to answer it in a cell: print what you need to see")

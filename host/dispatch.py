"""The way of one call, whoever makes it: legal now, approved, traced, run.

A cell's calls come in as frames and go out as frames (`answer`); an embedder's native tool calls
use `run`. Nothing else reaches a verb.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from typing import Any

import trio

from awaitbox.host.approval import Approvals, Request
from awaitbox.host.context import Context
from awaitbox.host.errors import HostError, VerbError, VerbPermission
from awaitbox.host.trace import Entry, Trace
from awaitbox.host.verb import Verb
from awaitbox.shims.wire import Raise

_log = logging.getLogger("awaitbox")
_BUILTINS = {
    kind.__name__: kind
    for kind in (
        FileNotFoundError,
        FileExistsError,
        IsADirectoryError,
        NotADirectoryError,
        PermissionError,
        TimeoutError,
        OSError,
        KeyError,
        IndexError,
        LookupError,
        TypeError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    )
}


_TOO_LONG = (
    "the command is longer than the kernel takes in one argument (131,071 bytes): write it to a "
    "file and run that"
)


class Dispatch:
    """All calls of one session."""

    def __init__(
        self,
        verbs: Mapping[str, Verb],
        toggled_off: Mapping[str, str],
        approvals: Approvals,
        trace: Trace,
    ) -> None:
        self.verbs = verbs
        self._toggled_off = toggled_off  # name -> toggle
        self._approvals = approvals
        self._trace = trace

    def find(self, name: str) -> Verb:
        """Raises `VerbPermission` (`toggled_off`) or `HostError` (`unknown_verb`)."""
        verb = self.verbs.get(name)
        if verb is not None:
            return verb
        self.check_toggle(name)
        raise HostError(
            f"no verb {name!r}; there are: {', '.join(self.verbs)}", code="unknown_verb"
        )

    def check_toggle(self, name: str) -> None:
        toggle = self._toggled_off.get(name)
        if toggle is not None:
            raise VerbPermission(
                f"{name} is switched off by the toggle {toggle!r} of this host: "
                f"open_host(toggles={{{toggle!r}: True}}) switches it on",
                code="toggled_off",
            )

    def is_immediate(self, verb: Verb) -> bool:
        """True for a verb that never waits: it is answered in the reader's own step."""
        return not verb.is_async and verb.asks is None

    def run_immediate(self, verb: Verb, context: Context, given: Mapping[str, Any]) -> Any:
        """Run a verb that cannot wait. Raises what it raises."""
        entry = self._begin(verb, context, given)
        try:
            value = verb.answer(context, verb.convert(given))
        except BaseException as error:
            self._failed(entry, error)
            raise
        self._trace.end(entry)
        return value

    async def run(self, verb: Verb, context: Context, given: Mapping[str, Any]) -> Any:
        """Check, ask, run. A cancel reaches the verb and is recorded as `cancelled`."""
        entry = self._begin(verb, context, given)
        try:
            arguments = verb.convert(given)
            await self._approve(verb, context, arguments)
            value = await verb.run(context, arguments)
        except BaseException as error:
            self._failed(entry, error)
            raise
        self._trace.end(entry)
        return value

    def _begin(self, verb: Verb, context: Context, given: Mapping[str, Any]) -> Entry:
        shown = given if verb.shows is None else verb.shows(context, given)
        return self._trace.begin(verb.name, shown)

    async def _approve(self, verb: Verb, context: Context, arguments: dict[str, Any]) -> None:
        text = None if verb.asks is None else verb.asks(context, arguments)
        if text is not None:
            with context.session.waiting_for_a_person():
                await self._approvals.ask(Request(context.session.id, verb.name, arguments, text))

    def _failed(self, entry: Entry, error: BaseException) -> None:
        if isinstance(error, PermissionError):
            outcome = "denied"
        elif isinstance(error, Exception) and not isinstance(error, BaseExceptionGroup):
            outcome = "error"
        else:
            outcome = "cancelled"
        self._trace.end(entry, outcome, f"{type(error).__name__}: {error}")


def raised(call: int, error: Exception, live: str) -> Raise:
    """`error` as a frame: the builtin that a cell will see it as, a code and a message."""
    if isinstance(error, VerbError):
        return Raise(call, error.builtin, error.code, error.message)
    if isinstance(error, HostError):
        return Raise(call, "RuntimeError", error.code, error.message)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Raise(call, "OSError", "no_descriptors", no_descriptors(live))
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return Raise(call, "ValueError", "out_of_bounds", _TOO_LONG)
    for kind in type(error).__mro__:
        if kind.__name__ in _BUILTINS:
            return Raise(call, kind.__name__, "verb_failed", _text(error))
    if isinstance(error, trio.TooSlowError):
        return Raise(call, "TimeoutError", "verb_failed", _text(error))
    _log.exception("a verb failed", exc_info=error)
    return Raise(call, "RuntimeError", "internal", f"{type(error).__name__}: {_text(error)}")


def no_descriptors(live: str) -> str:
    return (
        "no file descriptors left in the host. Stop what you no longer need with shell_stop(id); "
        f"live: {live}. The embedder can raise the soft limit: resource.setrlimit(RLIMIT_NOFILE)"
    )


def _text(error: BaseException) -> str:
    """A message without the quotes that KeyError adds."""
    if isinstance(error, KeyError) and len(error.args) == 1:
        return str(error.args[0])
    return str(error) or type(error).__name__

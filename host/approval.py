"""Asking a person: what is asked, what may be answered, and what `allow_always` remembers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from awaitbox.host.errors import HostError, VerbPermission


@dataclass(frozen=True)
class Request:
    """One question. `text` says in a line what will happen when it is allowed."""

    session: str
    verb: str
    arguments: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Deny:
    """A refusal with its reason, which the cell sees."""

    reason: str


Answer = str | Deny
Approver = Callable[[Request], Awaitable[Answer]]


class Approvals:
    """The approver of a host, and what one session was allowed for good.

    `allow_always` holds for the same verb with the same arguments, nothing wider.
    """

    def __init__(self, approve: Approver | None) -> None:
        self._approve = approve
        self._always: set[str] = set()

    async def ask(self, request: Request) -> None:
        """Return if it is allowed, else raise `VerbPermission`. Waits as long as the approver does;
        a cancel reaches the approver and nothing is remembered."""
        key = json.dumps([request.verb, request.arguments], sort_keys=True, default=str)
        if key in self._always:
            return
        if self._approve is None:
            raise VerbPermission(
                f"{request.text} needs approval, and this host has no approver. "
                "The embedder passes one: open_host(approve=async_function)",
                code="no_approver",
            )
        answer = await self._approve(request)
        if answer == "allow_always":
            self._always.add(key)
        elif answer == "deny" or isinstance(answer, Deny):
            reason = f": {answer.reason}" if isinstance(answer, Deny) else ""
            raise VerbPermission(f"{request.text} was denied{reason}", code="denied")
        elif answer != "allow_once":
            raise HostError(
                f"approve() answered {answer!r}; it must be 'allow_once', 'allow_always', 'deny' "
                "or Deny(reason)",
                code="invalid_option",
            )

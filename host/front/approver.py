"""Who answers when a verb asks: everybody's yes, the person at the terminal, or nobody."""

from __future__ import annotations

import os
import termios

import trio

from awaitbox.host.approval import Answer, Approver, Deny, Request
from awaitbox.host.front.screen import Screen, plain

_ANSWERS = {"y": "allow_once", "yes": "allow_once", "a": "allow_always", "always": "allow_always"}
_STDIN = 0


def approver(screen: Screen, *, is_approving: bool) -> Approver:
    """`--yes` allows all; without it the person at the terminal is asked, if there is one."""
    if is_approving:
        return _yes
    return _Person(screen) if os.isatty(_STDIN) else _nobody


async def _yes(request: Request) -> Answer:
    return "allow_once"


async def _nobody(request: Request) -> Answer:
    return Deny("stdin is not a terminal, so nobody can be asked; awaitbox --yes allows everything")


class _Person:
    """Asks one question at a time. A cancel (Ctrl-C) takes nothing from the terminal."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._turn = trio.Lock()

    async def __call__(self, request: Request) -> Answer:
        async with self._turn, self._screen.held():
            termios.tcflush(_STDIN, termios.TCIFLUSH)  # what was typed before is no answer
            self._screen.err(f"allow {plain(request.text)}? [y]es, [a]lways this one, [N]o: ")
            await self._screen.flush()
            answer = await _read_line()
            if answer is None:
                self._screen.err("\n")
        return _ANSWERS.get((answer or "").strip().lower(), "deny")


async def _read_line() -> str | None:
    """A line of the terminal, None at its end. It is read when it is there: a thread that waits in
    `readline` could not be called back, and would take the next line away from the prompt."""
    line = b""
    while not line.endswith(b"\n"):
        await trio.lowlevel.wait_readable(_STDIN)
        part = os.read(_STDIN, 4096)
        if not part:
            return None
        line += part
    return line.decode("utf-8", "replace")

"""What tests of the whole product share: asking a session, and looking at the machine around it."""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import trio

from awaitbox import CellResult, Request
from awaitbox.host.host import Host
from awaitbox.host.session import Session

T = TypeVar("T")
Call = Callable[..., Awaitable[dict[str, Any]]]  # the fixture `call`
OpenHost = Callable[..., AbstractAsyncContextManager[Host]]  # the fixture `opened`


async def allow(request: Request) -> str:
    return "allow_once"


def caller(session: Session) -> Call:
    """Native calls of one session: `await call("shell_logs", id="dev")` gives the result, or
    `{"error": {code, message}}`."""

    async def call(verb: str, **arguments: Any) -> dict[str, Any]:
        return await session.host.call(session, verb, arguments)

    return call


async def ok(session: Session, code: str) -> CellResult:
    """Execute a cell that must not fail."""
    result = await session.execute(code)
    assert result.status == "ok", result.as_text()
    return result


async def value(session: Session, code: str) -> Any:
    """Execute a cell that must not fail, and read the value of its last expression back."""
    shown = (await ok(session, code)).value
    return None if shown is None else ast.literal_eval(shown)


async def until(look: Callable[[], Awaitable[T]], *, seconds: float = 10) -> T:
    """Look again and again until there is something, which is returned."""
    with trio.fail_after(seconds):
        while not (found := await look()):  # noqa: ASYNC110
            await trio.sleep(0.005)  # what is looked at has no event
    return found


async def until_ended(call: Call, id: str, *, n: int = 2_000) -> dict[str, Any]:
    """The logs of a background as soon as it is over."""

    async def look() -> dict[str, Any] | None:
        logs = await call("shell_logs", id=id, n=n)
        return logs if logs["status"] != "running" else None

    return await until(look)


async def until_printed(call: Call, id: str, text: str) -> dict[str, Any]:
    """The logs of a background as soon as they hold `text`, the unfinished line included."""

    async def look() -> dict[str, Any] | None:
        logs = await call("shell_logs", id=id, n=2_000)
        return logs if text in "\n".join([*logs["lines"], logs["partial_line"]]) else None

    return await until(look)


def is_there(path: str | Path) -> bool:
    return Path(path).exists()


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """The names of what lies in a folder, sorted."""
    return sorted(path.name for path in folder.glob(pattern))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in b"ZX"


def running(words: str) -> list[int]:
    """The living processes whose command line is exactly this, its words joined by blanks."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                line = Path(f"/proc/{entry}/cmdline").read_bytes().rstrip(b"\0")
                if line.replace(b"\0", b" ") == words.encode() and is_alive(int(entry)):
                    found.append(int(entry))
    return found


async def until_running(words: str, count: int = 1) -> list[int]:
    """The processes with this command line as soon as there are so many: a start returns before its
    shell has become the program."""

    async def look() -> list[int]:
        found = running(words)
        return found if len(found) == count else []

    return await until(look)


def processes_of(folder: Path) -> list[str]:
    """The living processes that have `folder` in their command line or environment, or stand in it.

    With HOME in that folder all of a host are among them; this process is left out.
    """
    name, found = os.fsencode(folder), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            place = os.fsencode(os.readlink(f"/proc/{entry}/cwd"))
            line = Path(f"/proc/{entry}/cmdline").read_bytes()
            if name in place or name in line + Path(f"/proc/{entry}/environ").read_bytes():
                if is_alive(int(entry)):
                    found.append(f"{entry}: {line.replace(bytes(1), b' ').decode()}")
        except OSError:
            continue  # it ended while we looked, or is another user's
    return found

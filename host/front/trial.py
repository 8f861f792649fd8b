"""What `awaitbox doctor` tries: a host, a session, a cell, a command, a terminal, each for real."""

from __future__ import annotations

import time
from typing import Any

import trio

from awaitbox.host.custody.kernel import raise_open_files
from awaitbox.host.errors import HostError
from awaitbox.host.front.machine_facts import Check
from awaitbox.host.front.open import open_host
from awaitbox.host.host import Host
from awaitbox.host.limits import DOCTOR_SECONDS, LOGIN_SECONDS
from awaitbox.host.session import Session

_SLOW_LOGIN_MS = 1000
_LOGIN_FIX = "look at what /etc/profile and ~/.bash_profile do: bash -lxc true"
_TERMINAL = 'test -t 0 && test -t 1 && echo "on $(tty)"'


class _Bench:
    """Collects checks. One is tried at a time: `begin`, then `works` or an exception."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.confinement: dict[str, Any] | None = None
        self._what = ""
        self._began = 0.0

    def begin(self, what: str) -> None:
        self._what, self._began = what, time.perf_counter()

    def works(self, found: str = "") -> float:
        """-> the milliseconds that it took."""
        milliseconds = (time.perf_counter() - self._began) * 1000
        text = f"{milliseconds:.1f} ms, {found}" if found else f"{milliseconds:.1f} ms"
        self.checks.append(Check(self._what, "works", text))
        return milliseconds

    def fails(self, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        if isinstance(error, trio.TooSlowError):
            text = f"no answer within {DOCTOR_SECONDS:g} s"
        self.checks.append(Check(self._what, "fails", text))


def try_all(workspace: str) -> tuple[list[Check], dict[str, Any] | None]:
    """The checks, up to the first that fails, and what the session says of its confinement."""
    raise_open_files()
    bench = _Bench()
    try:
        trio.run(_try_host, bench, workspace)
    except* (HostError, OSError, trio.TooSlowError) as group:
        bench.fails(_first(group))
    return bench.checks, bench.confinement


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _try_host(bench: _Bench, workspace: str) -> None:
    bench.begin("warden and zygote")
    async with open_host(workspace) as host:
        bench.works()
        await _try_login(bench, host)
        bench.begin("session start")
        async with host.open_session() as session:
            bench.works()
            bench.confinement = session.state()["confinement"]
            await _try_session(bench, host, session)
        bench.begin("end of all processes")
    bench.works()


async def _try_login(bench: _Bench, host: Host) -> None:
    bench.begin("login environment, spare machine")
    with trio.fail_after(DOCTOR_SECONDS):
        await host.settled()
    milliseconds = bench.works(f"{len(host.login)} variables")
    warnings = list(host.warnings)
    if milliseconds > _SLOW_LOGIN_MS and not warnings:
        warnings = [f"slow; the first session waits for it, at most {LOGIN_SECONDS:g} s"]
    bench.checks += [Check("login environment", "warning", text, _LOGIN_FIX) for text in warnings]


async def _try_session(bench: _Bench, host: Host, session: Session) -> None:
    bench.begin("a cell")
    with trio.fail_after(DOCTOR_SECONDS):
        result = await session.execute("1 + 1")
        _expect(result.value == "2", result.as_text())
        bench.works()
    bench.begin("a command")
    with trio.fail_after(DOCTOR_SECONDS):
        ran = await _call(host, session, "shell_run", commands=["echo bash $BASH_VERSION"])
        _expect(ran["exit"] == 0, ran["commands"][0]["stderr"])
        bench.works(ran["commands"][0]["stdout"].strip())
    bench.begin("a terminal")
    with trio.fail_after(DOCTOR_SECONDS):
        started = await _call(host, session, "shell_background", commands=[_TERMINAL])
        log = await _call(host, session, "shell_logs", id=started["id"])
        while log["status"] == "running":
            await trio.sleep(0.01)
            log = await _call(host, session, "shell_logs", id=started["id"])
        _expect(log["exit"] == 0, f"exit {log['exit']}: {log['lines']}")
        bench.works(" ".join(log["lines"]))


async def _call(host: Host, session: Session, verb: str, **arguments: Any) -> dict[str, Any]:
    answer = await host.call(session, verb, arguments)
    if "error" in answer:
        raise HostError(answer["error"]["message"], code=answer["error"]["code"])
    return answer


def _expect(is_right: bool, text: str) -> None:
    if not is_right:
        raise HostError(f"unexpected: {text}", code="doctor_failed")

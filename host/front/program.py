"""The trio program of a command: one screen, one host, one session, and what signals do to them."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from awaitbox.host.custody.kernel import raise_open_files
from awaitbox.host.errors import HostError
from awaitbox.host.front.activity import Activity
from awaitbox.host.front.approver import approver
from awaitbox.host.front.open import open_host
from awaitbox.host.front.options import Common
from awaitbox.host.front.screen import Screen
from awaitbox.host.host import Host
from awaitbox.host.limits import STATUS_AFTER_SECONDS
from awaitbox.host.nursery import own_tasks
from awaitbox.host.result import CellResult
from awaitbox.host.session import Session

FAILED, INTERRUPTED, READER_GONE = 1, 130, 141
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Desk:
    """What a command works with. `session` is there once `body` is called."""

    session: Session
    host: Host

    def __init__(self, common: Common, *, is_traced: bool, stays: bool) -> None:
        self.common = common
        self.screen = Screen()
        self.screen.on_broken = self._broken
        self.activity = Activity(self._trace if is_traced else None)
        self.scope = trio.CancelScope()
        self.exit_code: int | None = None  # set by what ended it from outside
        self.is_interrupted = False  # there was a Ctrl-C
        self._is_traced = is_traced
        self._stays = stays  # a second Ctrl-C does not end it
        self._stop: Callable[[], None] | None = None
        self._told = 0

    # --- what runs
    async def execute(self, code: str) -> CellResult:
        """Run a cell; its output goes to the screen as it comes, Ctrl-C interrupts it."""
        show = None if self.common.is_json else self._show
        async with own_tasks() as nursery:
            if self._is_traced:
                nursery.start_soon(self._tell_slow_calls)
            with self._stoppable(lambda: nursery.start_soon(self.session.interrupt)):
                result = await self.session.execute(code, on_output=show)
        return result

    @contextmanager
    def stoppable(self) -> Iterator[trio.CancelScope]:
        """Ctrl-C cancels what runs in here."""
        with trio.CancelScope() as scope, self._stoppable(scope.cancel):
            yield scope

    @contextmanager
    def _stoppable(self, stop: Callable[[], None]) -> Iterator[None]:
        self._stop, self.screen.status = stop, self._status
        try:
            yield
        finally:
            self._stop = self.screen.status = None

    def code_of(self, result: CellResult) -> int:
        """The exit code that a cell's end means; a Ctrl-C counts also if the cell made an error
        of it, or was over before it came."""
        if self.is_interrupted or result.status == "interrupted":
            return INTERRUPTED
        return 0 if result.status == "ok" else FAILED

    # --- what is shown
    def report(self, result: CellResult, *, is_alone: bool) -> None:
        """Show what did not stream: error and notices, of a cell that stands alone its value too;
        or all of it as JSON."""
        if self.common.is_json:
            self.screen.out(json.dumps(dataclasses.asdict(result), default=repr) + "\n")
            return
        if is_alone and result.value is not None:
            self.screen.end_line()
            self.screen.out(f"{result.value}\n")
        if result.error is not None:
            text = result.error["traceback"].rstrip("\n") or result.error["message"]
            self.screen.end_line()
            self.screen.err(f"{text}\n")
        elif is_alone and result.status != "ok":
            self.screen.end_line()
            self.screen.say(result.status)
        for notice in result.notices:
            self.screen.say(f"notice: {notice['text']}")

    def warn(self) -> None:
        """Show the host's warnings that were not shown yet."""
        for text in self.host.warnings[self._told :]:
            self.screen.say(f"warning: {text}")
        self._told = len(self.host.warnings)

    def live(self) -> list[str]:
        return [resource.id for resource in self.session.resources.live()]

    def say_what_ends(self) -> None:
        """What still runs ends with the session; never without a word."""
        if live := self.session.resources.live():
            names = ", ".join(f"{each.id} (pid {each.detail()['pid']})" for each in live)
            self.screen.say(f"the session ends, and with it: {names}")

    def _show(self, piece: object) -> None:
        put = self.screen.err if getattr(piece, "stream", "") == "stderr" else self.screen.out
        put(str(piece))

    def _trace(self, line: str) -> None:
        self.screen.err(f"  {line}\n")

    def _status(self) -> str | None:
        return self.activity.status(self.live())

    async def _tell_slow_calls(self) -> None:
        while True:
            await trio.sleep(STATUS_AFTER_SECONDS / 4)
            self.activity.tell_slow_calls()

    # --- what ends it
    def _broken(self) -> None:
        if self.exit_code is None:
            self.end(READER_GONE if self.screen.is_reader_gone else FAILED)

    def end(self, exit_code: int) -> None:
        """End everything; a second time without waiting for it: then the warden does it."""
        if self.exit_code is not None:
            os._exit(exit_code)
        self.exit_code = exit_code
        self.scope.cancel()

    async def follow_signals(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Ctrl-C stops what runs, and if nothing does, or again, ends all; SIGTERM and SIGHUP end
        all. A signal that was ignored when we started (nohup) stays so."""
        heard = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        with trio.open_signal_receiver(*heard) as arrivals:
            task_status.started()
            async for number in arrivals:
                stop = self._stop if number == signal.SIGINT else None
                if stop is None:
                    self.end(128 + number)
                    continue
                self.is_interrupted = True
                stop()
                if not self._stays:
                    self._stop = None


Body = Callable[[Desk], Awaitable[int]]


def run_program(common: Common, body: Body, *, is_traced: bool = False, stays: bool = False) -> int:
    """Open a session, run `body` in it and give the exit code. Everything is ended when this
    returns. Raises `HostError`."""
    raise_open_files()
    return trio.run(_program, Desk(common, is_traced=is_traced, stays=stays), body)


async def _program(desk: Desk, body: Body) -> int:
    exit_code = FAILED
    async with own_tasks() as nursery:
        await nursery.start(desk.screen.run)
        await nursery.start(desk.follow_signals)
        try:
            with desk.scope:
                exit_code = await _in_session(desk, body)
        finally:
            with trio.CancelScope(shield=True) as scope:
                if desk.exit_code is not None:  # perhaps because nobody reads
                    scope.deadline = trio.current_time() + STATUS_AFTER_SECONDS
                await desk.screen.flush()
    failure = desk.screen.failure
    if failure is not None and not desk.screen.is_reader_gone:
        raise HostError(f"can't write the output: {failure.strerror}", code="output_failed")
    return exit_code if desk.exit_code is None else desk.exit_code


async def _in_session(desk: Desk, body: Body) -> int:
    common = desk.common
    limits = {} if common.cell_seconds is None else {"cell_seconds": common.cell_seconds}
    async with open_host(
        common.workspace,
        mode=common.mode,
        approve=approver(desk.screen, is_approving=common.is_approving),
        limits=limits,
        on_event=desk.activity.on_event,
    ) as desk.host:
        async with desk.host.open_session() as desk.session:
            if desk.session.mode == "full-access":
                desk.screen.say(f"full-access: cells run as {_user()}, and nothing confines them")
            desk.warn()
            exit_code = await body(desk)
            desk.warn()
            desk.say_what_ends()
            return exit_code


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"

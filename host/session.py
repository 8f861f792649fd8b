"""A session: a persistent namespace, what runs beside it, and one cell after another."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import trio

from awaitbox.host.approval import Approvals
from awaitbox.host.backgrounds import Backgrounds
from awaitbox.host.confinement import check_mode, report
from awaitbox.host.context import Context
from awaitbox.host.custody.command import Command
from awaitbox.host.deadline import Deadline
from awaitbox.host.dispatch import Dispatch, raised
from awaitbox.host.errors import HostError, VerbError
from awaitbox.host.limits import Limits
from awaitbox.host.noticebox import NoticeBox
from awaitbox.host.options import Options
from awaitbox.host.outcome import MACHINE_ENDED, NAMESPACE_LOST, Ending, unsendable, verdict
from awaitbox.host.paths import Roots
from awaitbox.host.process.pump import Pump
from awaitbox.host.programs import PREFIX, Programs, raised_os_error
from awaitbox.host.resources import Resources
from awaitbox.host.result import CallRecord, CellError, CellResult, StreamText, clip
from awaitbox.host.rig import Rig
from awaitbox.host.streams import OnOutput
from awaitbox.host.trace import Trace
from awaitbox.host.verb import Verb
from awaitbox.host.worker import CellRun, Worker
from awaitbox.shims import wire

_MEND = "print less, or keep it in a variable and print the part you need"


class SessionHost(Protocol):
    """What a session needs of the host that opened it."""

    workspace: str
    options: Options
    limits: Limits
    login: dict[str, str]
    pump: Pump

    @property
    def is_lost(self) -> bool: ...
    def offered(self) -> tuple[dict[str, Verb], dict[str, str]]: ...


class Session:
    """Made by `Host.open_session`. All methods run on the host's trio loop."""

    def __init__(self, host: SessionHost, id: str, rig: Rig, nursery: trio.Nursery) -> None:
        self.id = id
        self.host = host
        self.mode = host.options.mode
        self.notices = NoticeBox()
        self.backgrounds = Backgrounds(host.pump, self.notices, nursery)
        self.replaced_workers = 0
        self._rig = rig
        self._nursery = nursery
        self._turn = trio.Lock()
        self._ending: str | None = None  # why the running cell is being stopped
        self._deadline: Deadline | None = None
        self._is_loss_told = False  # the newest result said that the worker is gone
        self._last_error: CellError | None = None
        self.roots = Roots(
            host.workspace,
            read_roots=host.options.read_roots,
            write_roots=host.options.write_roots,
            scratch=f"{rig.folder}/tmp",
        )
        self.trace = Trace(id, host.options.on_event)
        self.context = Context(self, self.backgrounds, rig.machine, self.roots, host.limits)
        offered, toggled_off = host.offered()
        self.dispatch = Dispatch(offered, toggled_off, Approvals(host.options.approve), self.trace)
        self.programs = Programs(rig.machine, self.trace, nursery, self.backgrounds.adopt)
        self._specs = [verb.spec for verb in offered.values()]
        nursery.start_soon(self._tell_machine_end)

    # --- what it is
    @property
    def scratch(self) -> str:
        """The session's own folder for temporary files, `$TMPDIR`; removed at its end."""
        return f"{self._rig.folder}/tmp"

    @property
    def resources(self) -> Resources:
        """What runs under an id, and the last finished ones."""
        return self.backgrounds.resources

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a process of this session."""
        return {**self.host.login, "TMPDIR": self.scratch, **(more or {})}

    def state(self) -> dict[str, Any]:
        """What `session` is in a cell."""
        return {
            "id": self.id,
            "workspace": self.roots.workspace.path,
            "roots": self.roots.listed(),
            "mode": self.mode,
            "confinement": report(self.mode),
            "limits": self.host.limits.describe(),
            "resources": self.resources.snapshot(),
        }

    def check(self) -> None:
        if self.host.is_lost:
            raise HostError(
                "the warden that guards this host's processes died; everything was ended. "
                "Open a new host",
                code="custody_lost",
            )
        if self._rig.is_closing:
            raise HostError("this session is closed", code="session_closed")
        if self._rig.machine.lost.is_set():
            raise HostError(MACHINE_ENDED, code="session_lost")

    # --- cells
    async def execute(self, code: str, *, on_output: OnOutput | None = None) -> CellResult:
        """Run one cell and give its result; a second call waits its turn.

        A cancel interrupts the cell and keeps the namespace. Raises `HostError` (`session_lost`,
        `session_closed`, `custody_lost`, `invalid_arguments`); whatever the cell does is in the
        result.
        """
        if not isinstance(code, str):
            raise HostError(
                f"execute() takes the source of a cell, a str, not {type(code).__name__}",
                code="invalid_arguments",
            )
        if inspect.iscoroutinefunction(on_output):
            raise HostError(
                "on_output is called and not awaited: it must be a plain function",
                code="invalid_arguments",
            )
        refusal = unsendable(code)
        if refusal is not None:
            return CellResult(status="error", error=refusal)
        async with self._turn:
            self.check()
            worker = await self._ready_worker()
            self._rig.streams.begin(on_output)
            self.trace.event("cell_started", code=code)
            began = time.perf_counter()
            self._ending = None
            cell = worker.execute(code)
            try:
                await self._until_done(worker, cell)
            finally:
                texts = self._rig.streams.end()
                calls = self.trace.take()
                for text in cell.frame.notices if cell.frame else ():
                    self.notices.put([], "task_failed", text)
            result = self._result(worker, cell, texts, calls, began)
            self.trace.event("cell_ended", status=result.status, duration_ms=result.duration_ms)
            self._rig.streams.raise_failure()
            return result

    async def _ready_worker(self) -> Worker:
        worker = self._rig.worker
        if worker is None or worker.state == "over":
            if worker is not None and not self._is_loss_told:
                why = worker.why or "it crashed or was killed"
                text = f"the worker died between two cells ({why}): {NAMESPACE_LOST}"
                self.notices.put([], "worker_lost", text)
            self._is_loss_told = False
            worker = await self._rig.new_worker()
            self.greet(worker)
            self.replaced_workers += 1
        return worker

    def greet(self, worker: Worker | None = None) -> None:
        """Give the worker, or the one the session began with, what its cells need to know."""
        worker = worker or self._rig.worker
        assert worker is not None
        self.programs.forget_calls()
        worker.greet(
            self,
            wire.Hello(
                session={**self.state(), "imports": list(self.host.options.imports)},
                verbs=self._specs,
                workspace=self.roots.workspace.path,
                env=[os.fsencode(f"{name}={value}") for name, value in self.environment().items()],
            ),
        )

    async def _until_done(self, worker: Worker, cell: CellRun) -> None:
        self._deadline = deadline = Deadline(self.host.limits.cell_seconds)
        try:
            with deadline.scope:
                await cell.done.wait()
            if not cell.done.is_set():
                self._ending = self._ending or "deadline"
                await worker.interrupt(cell)
        except BaseException:
            self._ending = self._ending or "interrupted"
            await worker.interrupt(cell)
            raise
        finally:
            self._deadline = None
            with trio.CancelScope(shield=True):
                await worker.quiet()  # so that what the cell gave up is gone when it is over

    def _result(
        self,
        worker: Worker,
        cell: CellRun,
        texts: Mapping[str, StreamText],
        calls: list[CallRecord],
        began: float,
    ) -> CellResult:
        ending = Ending(
            self._ending,
            self.host.limits.cell_seconds,
            self._rig.machine.lost.is_set(),
            worker.why,
        )
        status, error = verdict(cell.frame, ending)
        self._is_loss_told = cell.frame is None
        # They wait: for the next cell after an interrupt, for `Session.notices` if there is none.
        is_left = status == "interrupted" or ending.is_machine_lost
        value, value_clipped = None, False
        if cell.frame is not None and cell.frame.value is not None:
            value, value_clipped = clip(cell.frame.value, _MEND)
        self._last_error = error or self._last_error
        return CellResult(
            status=status,
            stdout=texts["stdout"].kept.text(_MEND),
            stderr=texts["stderr"].kept.text(_MEND),
            value=value,
            error=error,
            notices=[] if is_left else self.notices.take(),
            calls=calls,
            duration_ms=round((time.perf_counter() - began) * 1e3, 3),
            is_clipped=value_clipped or any(text.kept.is_clipped for text in texts.values()),
        )

    async def interrupt(self) -> None:
        """Stop the running cell, if there is one; returns when it is over. The namespace stays,
        unless the cell can't be stopped from inside: then its result says so."""
        worker = self._rig.worker
        if worker is None or worker.cell is None:
            return
        if self._ending is None:
            self._ending = "interrupted"
        await worker.interrupt(worker.cell)

    async def reset(self) -> None:
        """A fresh namespace in a new worker. Resources live on; a running cell is ended first."""
        await self.interrupt()
        async with self._turn:
            self.check()
            if self._rig.worker is not None:
                await self._rig.worker.kill()
            self.greet(await self._rig.new_worker())

    async def variables(self) -> dict[str, dict[str, str]]:
        """The user's names in the namespace: `{name: {type, repr}}`. Waits for a running cell."""
        async with self._turn:
            self.check()
            worker = await self._ready_worker()
            found = await worker.inspect()
        return {item.name: {"type": item.type, "repr": item.repr} for item in found}

    async def traceback(self) -> str | None:
        """The traceback of the newest cell that failed."""
        return None if self._last_error is None else self._last_error["traceback"]

    async def set_mode(self, mode: str) -> None:
        """Refused (`mode_unavailable`) for what this release can't hold."""
        check_mode(mode)

    @contextmanager
    def waiting_for_a_person(self) -> Iterator[None]:
        """Time in here does not count against the cell's deadline."""
        if self._deadline is None:
            yield
        else:
            with self._deadline.paused():
                yield

    async def _tell_machine_end(self) -> None:
        await self._rig.machine.lost.wait()
        self.notices.put([], "session_lost", MACHINE_ENDED)

    # --- calls of the worker
    def answer(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise | None:
        """Answer a call that never waits at once; None for the others."""
        if fds:
            return None
        if call.verb == "session.state":
            return wire.Return(call.id, self.state())
        verb = self.dispatch.verbs.get(call.verb)
        if verb is None or not self.dispatch.is_immediate(verb):
            return None
        try:
            value = self.dispatch.run_immediate(verb, self.context, call.args)
        except Exception as error:
            return raised(call.id, error, self.resources.live_text())
        return wire.Return(call.id, value)

    async def answer_later(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise:
        """Answer any other call; owns `fds`. A cancel ends what it started, and is raised."""
        try:
            if call.verb.startswith(PREFIX):
                return await self._program(call, fds)
            verb = self.dispatch.find(call.verb)
            return wire.Return(call.id, await self.dispatch.run(verb, self.context, call.args))
        except Exception as error:
            return raised(call.id, error, self.resources.live_text())
        finally:
            for fd in fds:
                os.close(fd)

    def cancelled_late(self, call: int) -> Command | None:
        """What a call started whose cancel comes after its answer."""
        return self.programs.started_by(call)

    async def _program(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise:
        """A call of the posix shim: the same door as `shell_run`."""
        try:
            self.dispatch.check_toggle("shell_run")
            return wire.Return(
                call.id, await self.programs.answer(call.id, call.verb, call.args, fds)
            )
        except VerbError:
            raise
        except OSError as error:
            return raised_os_error(call.id, error, call.args.get("cwd"))

"""The worker: a process that runs cells, one after another, and asks the host for everything else.

Two tasks: the reader takes frames and runs a cell's first step itself, so that a cell without
`await` costs no switch; the runner drives the cells that await. Both use the runner's context, so
contextvars that one cell sets are seen in the next.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from asyncio import tasks as asyncio_tasks
from collections.abc import Coroutine
from typing import Any, NoReturn

import trio
import trio.lowlevel
from trio._core._run import GLOBAL_RUN_CONTEXT

from awaitbox.shims import doors, mixing, threads, tracebacks, wire
from awaitbox.shims.bounds import BROKEN_STATUS, NOTICES, SETTLE_PASSES
from awaitbox.shims.cell import VALUE, Cell
from awaitbox.shims.critical import Critical
from awaitbox.shims.driver import CellTask, drive, step
from awaitbox.shims.imports import Imports
from awaitbox.shims.interrupt import Interrupts
from awaitbox.shims.leftover import Leftovers
from awaitbox.shims.link import Link
from awaitbox.shims.loop import CellLoop, open_cell_loop
from awaitbox.shims.namespace import Namespace
from awaitbox.shims.nested import Nested
from awaitbox.shims.notices import FailedTasks
from awaitbox.shims.output import Outputs
from awaitbox.shims.stubs import make_stubs
from awaitbox.shims.unawaited import Ledger, Lost
from awaitbox.shims.verdict import clipped, verdict

_trio_run = trio.run


class Worker:
    """All that one worker process holds."""

    def __init__(self, sock: socket.socket) -> None:
        self._critical = Critical()
        self._sock = sock
        self._link = Link(sock, self._critical)
        self._outputs = Outputs(self._critical)
        self._interrupts = Interrupts(self._critical, self._link)
        self._namespace = Namespace()
        self._nested = Nested(self._critical)
        self._ledger = Ledger(self._is_own)
        self._workspace = os.getcwd()
        self._outside: OSError | None = None  # why the workspace could not be entered
        self._cell: Cell | None = None
        self._was_interrupted = False
        self._work: Coroutine[Any, Any, None] | None = None
        self._runner: trio.lowlevel.Task
        self._loop: CellLoop
        self._leftovers: Leftovers
        self._sync_task: CellTask  # of cells that do not await
        self._failed: FailedTasks

    # --- life
    async def serve(self) -> None:
        """Never returns: the end of the socket ends the process."""
        token = trio.lowlevel.current_trio_token()
        async with open_cell_loop() as loop, trio.open_nursery() as nursery:
            self._loop = loop
            loop.nested = self._nested.asyncio_run
            self._failed = FailedTasks(loop)
            self._sync_task = CellTask(loop)
            self._runner = await nursery.start(self._run_cells)
            self._leftovers = Leftovers(self._runner)
            hooks = loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook
            sys.set_asyncgen_hooks(*hooks)  # trio would close those of cells without asyncio
            self._link.home_loop = loop
            self._link.home_runner = self._runner._runner
            self._link.arrived = lambda: token.run_sync_soon(self._wake, idempotent=True)
            self._interrupts.token = token
            mixing.install(loop)
            self._interrupts.install()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            try:
                while True:
                    await trio.lowlevel.wait_readable(self._sock)
                    self._link.read()
                    self._turn()
            except BaseException:  # ours: the runner would keep a broken worker alive, and silent
                sys.excepthook(*sys.exc_info())
                os._exit(BROKEN_STATUS)

    def _greet(self, hello: wire.Hello) -> None:
        self._workspace = hello.workspace
        self._interrupts.workspace = os.path.join(hello.workspace, "")
        os.environb.clear()
        for name, _, value in (pair.partition(b"=") for pair in hello.env):
            os.environb[name] = value
        time.tzset()
        self._outside = _enter(hello.workspace)
        sys.argv = [""]
        names = hello.session.get("imports") or ()
        Imports(hello.workspace, self._namespace.scope, names).install()
        stubs = make_stubs(hello.verbs, self._link, self._ledger, self._outputs.flush)
        self._namespace.offer(stubs, self._ask)
        self._nested.install()
        threads.install()
        _install_posix(self._link, self._outputs)
        doors.close()

    def _ask(self) -> dict[str, Any]:
        self._outputs.flush()
        facts: dict[str, Any] = self._link.call_sync("session.state", {})
        return facts

    # --- cells
    def _turn(self) -> None:
        """Do what the host asked for, up to the next cell that awaits."""
        requests = self._link.requests
        while requests and self._cell is None:
            request = requests.popleft()
            if type(request) is wire.Exec:
                self._begin(request)
            elif type(request) is wire.Inspect:
                self._inspect(request)
            elif type(request) is wire.Hello:
                self._greet(request)

    def _wake(self) -> None:
        """Requests were read by somebody else: the runner sees to them when it is idle."""
        if self._runner.custom_sleep_data is self:  # it is parked
            trio.lowlevel.reschedule(self._runner)

    def _hand_over(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._wake()

    async def _run_cells(self, task_status: trio.TaskStatus[trio.lowlevel.Task]) -> None:
        me = trio.lowlevel.current_task()
        task_status.started(me)
        while True:
            if self._work is None:
                me.custom_sleep_data = self
                await trio.lowlevel.wait_task_rescheduled(_never)
            work, self._work = self._work, None
            if work is not None:
                await work
            self._turn()

    def _in_task(self, function: Any, *args: Any) -> Any:
        """Run code of the user that does not await: `asyncio.current_task()` is there, too."""
        enter, leave = asyncio_tasks._enter_task, asyncio_tasks._leave_task
        enter(self._loop, self._sync_task)  # type: ignore[arg-type]
        try:
            return self._in_step(function, *args)
        finally:
            leave(self._loop, self._sync_task)  # type: ignore[arg-type]

    def _in_step(self, function: Any, *args: Any) -> Any:
        """Run code of the user, in the cells' context, where an interrupt may raise."""
        before = GLOBAL_RUN_CONTEXT.task
        if before is self._runner:
            return step(function, *args)
        # The reader runs it in the runner's name: a scope that it opens must not end the reader.
        GLOBAL_RUN_CONTEXT.task = self._runner
        try:
            return self._runner.context.run(step, function, *args)
        finally:
            GLOBAL_RUN_CONTEXT.task = before

    def _is_own(self) -> bool:
        return getattr(GLOBAL_RUN_CONTEXT, "task", None) is self._runner

    def _begin(self, request: wire.Exec) -> None:
        self._cell = self._interrupts.cell = cell = Cell(request.id, request.code)
        self._interrupts.install()  # the last cell may have put its own in place
        if self._leftovers.are_cancelled:
            self._hand_over(self._tidy(cell))
        else:
            self._run(cell)

    async def _tidy(self, cell: Cell) -> None:
        notices = await self._leftovers.take_off()
        if not self._was_interrupted:  # an interrupt may tear a scope, and the user knows of it
            self._failed.texts += notices
        self._run(cell)

    def _run(self, cell: Cell) -> None:
        """The cell's first step. If it awaits, the runner goes on with it."""
        shown: str | None = None
        error: BaseException | None = None
        try:
            if self._outside is not None:
                self._outside = _enter(self._workspace)
                if self._outside is not None:
                    raise self._outside
            cell.compile()
            if cell.is_async:
                self._hand_over(self._drive(cell))
                return
            shown = self._in_task(self._evaluate, cell)
        except BaseException as failure:
            error = failure
        if self._ledger.entries:
            self._hand_over(self._settle(cell, shown, error))
        else:
            self._finish(cell, shown, error, [])

    def _evaluate(self, cell: Cell) -> str | None:
        assert cell.code is not None
        return self._show(cell, eval(cell.code, self._namespace.names))

    async def _drive(self, cell: Cell) -> None:
        shown: str | None = None
        error: BaseException | None = None
        task = CellTask(self._loop)
        self._interrupts.task = task
        assert cell.code is not None
        try:
            result = await drive(eval(cell.code, self._namespace.names), task, self._loop)
            shown = step(self._show, cell, result)
        except BaseException as failure:
            error = failure
        await self._settle(cell, shown, error)

    async def _settle(self, cell: Cell, shown: str | None, error: BaseException | None) -> None:
        """Let tasks that the cell made start; then what is not awaited never will be."""
        for _ in range(SETTLE_PASSES):
            if not self._ledger.entries:
                break
            await trio.lowlevel.cancel_shielded_checkpoint()
        lost = self._ledger.take_lost()
        if cell.interrupts:
            self._ledger.excuse()
        self._finish(cell, shown, error, lost)

    def _show(self, cell: Cell, result: Any) -> str | None:
        value = cell.value(result, self._namespace.names)
        if value is None:
            return None
        self._namespace.names["_"] = value
        try:
            return repr(value)
        except Exception as error:
            place = f"{type(value).__name__} object at {id(value):#x}"
            return f"<{place}: its repr raises {tracebacks.one_line(error)}>"

    def _finish(
        self, cell: Cell, shown: str | None, error: BaseException | None, lost: list[Lost]
    ) -> None:
        notices = self._failed.take()
        self._namespace.names.pop(VALUE, None)
        status, failure = verdict(cell, error, lost, self._workspace, self._in_step)
        self._outputs.flush()
        self._cell = None
        self._was_interrupted = bool(cell.interrupts)
        self._interrupts.over()
        value, missing = (None, 0) if failure or shown is None else clipped(shown)
        self._link.send(
            wire.pack(wire.Done(cell.id, status, value, failure, missing, notices[:NOTICES]))
        )

    def _inspect(self, request: wire.Inspect) -> None:
        variables = self._in_step(self._namespace.variables)
        self._link.send(wire.pack(wire.Inspected(request.id, variables)))


def _enter(workspace: str) -> OSError | None:
    """Go there; what stands in the way, if anything does."""
    try:
        os.chdir(workspace)
    except OSError as error:
        text = f"{error.strerror}: the workspace can't be entered"
        return OSError(error.errno, text, workspace)
    return None


def _never(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _install_posix(link: Link, outputs: Outputs) -> None:
    from awaitbox.shims import posix

    posix.install(link, outputs.flush)


def warm() -> None:
    """Import and run once what every worker needs. Leaves no thread, no descriptor, no loop."""
    import awaitbox.shims.posix  # noqa: F401

    async def once() -> None:
        async with open_cell_loop() as loop:

            async def wait() -> int:
                await asyncio.sleep(0)
                await trio.lowlevel.checkpoint()
                return 1

            await drive(wait(), CellTask(loop), loop)

    _trio_run(once)
    cell = Cell(0, "x = 1\nx")
    cell.compile()
    tracebacks.describe(ValueError("once"), cell.filename, os.sep)


def main(fd: int) -> NoReturn:
    """Serve the socket `fd` to its end. Descriptors 1 and 2 are the output that the host reads."""
    sock = socket.socket(fileno=fd)
    # Frames wait in the socket from here on, and an interrupt until somebody can take it: the host
    # need not wait until the loop runs.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    sock.sendall(wire.pack(wire.Ready(os.getpid())))
    sys.set_int_max_str_digits(0)
    worker = Worker(sock)
    _trio_run(worker.serve)
    os._exit(0)

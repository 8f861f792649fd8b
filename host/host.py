"""The host: it opens sessions and owns what they share: custody, pump, login, spare."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

import trio

from awaitbox.host.confinement import check_mode
from awaitbox.host.custody.custody import Custody
from awaitbox.host.describe import describe
from awaitbox.host.dispatch import raised
from awaitbox.host.environment import capture_login
from awaitbox.host.errors import HostError
from awaitbox.host.folder import RunFolder
from awaitbox.host.limits import SPARE_DELAY_SECONDS
from awaitbox.host.nursery import own_tasks
from awaitbox.host.options import Options
from awaitbox.host.paths import Root
from awaitbox.host.process.pump import Pump
from awaitbox.host.registry import Registry
from awaitbox.host.rig import Rig
from awaitbox.host.schema import tools
from awaitbox.host.session import Session
from awaitbox.host.verb import Verb
from awaitbox.shims.wire import RECEIVE_BYTES


class Host:
    """Made by `open_host`. All methods run on the trio loop that opened it."""

    def __init__(
        self,
        workspace: str,
        options: Options,
        registry: Registry,
        custody: Custody,
        run_folder: RunFolder,
        pump: Pump,
        nursery: trio.Nursery,
    ) -> None:
        self.workspace = workspace
        self.options = options
        self.limits = options.limits
        self.pump = pump
        self.login: dict[str, str] = {}
        self.warnings: list[str] = []
        self._registry = registry
        self._custody = custody
        self._run_folder = run_folder
        self._nursery = nursery
        self._buffer = bytearray(RECEIVE_BYTES)
        self._login_ready = trio.Event()
        self._spare: Rig | None = None
        self._spare_lock = trio.Lock()
        self._spare_settled = trio.Event()  # it is there, or can't be made

    @classmethod
    @asynccontextmanager
    async def open(
        cls, workspace: str | os.PathLike[str], options: Options, verbs: Sequence[Verb]
    ) -> AsyncIterator[Host]:
        """Open a host. Leaves no process and no folder on exit, whatever raised inside."""
        check_mode(options.mode)
        registry = Registry(verbs)
        registry.offered(options.toggles)  # an unknown toggle is an error now, not in a session
        folder = Root.of(workspace, is_writable=True).path
        async with RunFolder.open() as run_folder, Custody.open(run_folder) as custody:
            with closing(Pump()) as pump:
                async with own_tasks() as nursery:
                    host = cls(folder, options, registry, custody, run_folder, pump, nursery)
                    nursery.start_soon(pump.run)
                    nursery.start_soon(host._capture_login)
                    if options.has_spare:
                        nursery.start_soon(host._fill_spare, 0.0)
                    try:
                        yield host
                    finally:
                        await host._drop_spare()

    # --- sessions
    @property
    def is_lost(self) -> bool:
        """True once the warden died; everything that ran is ended then."""
        return self._custody.lost.is_set()

    @asynccontextmanager
    async def open_session(self) -> AsyncIterator[Session]:
        """A new session. On exit everything that it started is gone, and its folder too.

        Raises `HostError` (`custody_lost`, `machine_failed`, `worker_failed`).
        """
        rig = await self._take_rig()
        try:
            await self._login_ready.wait()
            async with own_tasks() as nursery:
                session = Session(self, f"s-{secrets.token_hex(4)}", rig, nursery)
                session.greet()
                try:
                    yield session
                finally:
                    await rig.aclose()
        finally:
            await rig.aclose()

    async def _take_rig(self) -> Rig:
        if self.is_lost:
            raise HostError("the warden of this host died; open a new host", code="custody_lost")
        async with self._spare_lock:
            rig, self._spare = self._spare, None
        if rig is not None and not rig.is_fresh:
            await rig.aclose()
            rig = None
        rig = rig or await self._make_rig()
        if self.options.has_spare:
            self._spare_settled = trio.Event()
            self._nursery.start_soon(self._fill_spare, SPARE_DELAY_SECONDS)
        return rig

    async def _make_rig(self) -> Rig:
        return await Rig.make(self._custody, self._run_folder, self._buffer, self._nursery)

    async def _fill_spare(self, delay_seconds: float) -> None:
        """Make the spare ahead of need; that it can't be made shows when a session is opened."""
        await trio.sleep(delay_seconds)
        async with self._spare_lock:
            if self._spare is None and not self.is_lost:
                try:
                    self._spare = await self._make_rig()
                except (HostError, OSError) as error:
                    self.warnings.append(f"no spare machine could be made: {error}")
        self._spare_settled.set()

    async def _drop_spare(self) -> None:
        if self._spare is not None:
            await self._spare.aclose()
            self._spare = None

    async def _capture_login(self) -> None:
        """Once, before any model code ran; the first session waits for it."""
        try:
            folder = self._run_folder.session()
            machine = await self._custody.machine(folder)
            try:
                self.login, warning = await capture_login(machine, os.environ)
            finally:
                with trio.CancelScope(shield=True):
                    await machine.aclose()
                    await self._run_folder.remove(folder)
            if warning:
                self.warnings.append(warning)
        except HostError as error:
            self.warnings.append(f"no login environment: {error}")
        self.login.update(self.options.env)
        self._login_ready.set()

    async def settled(self) -> None:
        """Return when the login environment and the spare are there; for measurements."""
        await self._login_ready.wait()
        if self.options.has_spare:
            await self._spare_settled.wait()

    # --- verbs
    def offered(self) -> tuple[dict[str, Verb], dict[str, str]]:
        """-> verbs by name, and the toggle of each that is switched off."""
        on = {verb.name: verb for verb in self._registry.offered(self.options.toggles)}
        off = {v.name: v.toggle or "" for v in self._registry if v.name not in on}
        return on, off

    def verb(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register an embedder's async function as a verb of the sessions opened from now on.
        Raises `HostError` (`invalid_verb`)."""
        self._registry.add(Verb.from_function(function))
        return function

    def describe(self) -> str:
        """The text that teaches a model this tool."""
        return describe(list(self.offered()[0].values()))

    def tools(self, format: str) -> list[dict[str, Any]]:
        """Tool definitions for `anthropic`, `openai` or `mcp`; the first is `python_execution`."""
        return tools(list(self.offered()[0].values()), format)

    async def call(
        self, session: Session, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Run a verb as a native tool. Its own failure comes as `{"error": {code, message}}`; a
        cancel stays a cancel, and leaves behind what the verb leaves."""
        try:
            session.check()
            if not isinstance(arguments, Mapping):
                raise HostError(
                    f"arguments must be an object, not {type(arguments).__name__}",
                    code="invalid_arguments",
                )
            if name == "python_execution":
                return await self._execute(session, arguments)
            verb = session.dispatch.find(name)
            value = await session.dispatch.run(verb, session.context, arguments)
            return value if isinstance(value, dict) else {"value": value}
        except Exception as error:
            frame = raised(0, error, session.resources.live_text())
            return {"error": {"code": frame.code, "message": frame.message}}

    async def _execute(self, session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
        code = arguments.get("code")
        if set(arguments) != {"code"} or not isinstance(code, str):
            raise HostError(
                "python_execution takes one argument: code, a string", code="invalid_arguments"
            )
        result = await session.execute(code)
        return {"status": result.status, "text": result.as_text()}

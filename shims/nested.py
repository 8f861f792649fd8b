"""`asyncio.run` and `trio.run` in a cell: a loop of their own in this thread, while trio is hidden.

The cell is itself run by trio, so both would refuse. The outer loop stands still meanwhile; verbs
that are called inside read the socket in the inner one.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

import sniffio
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT
from trio_asyncio._loop import current_loop

from awaitbox.shims.critical import Critical

_trio_run = trio.run
_Runner = asyncio.Runner
_SelectorLoop = asyncio.SelectorEventLoop


class Nested:
    """Installs both. `critical` keeps an interrupt from leaving trio hidden."""

    def __init__(self, critical: Critical) -> None:
        self._critical = critical

    def hidden(self) -> _Hidden:
        """Inside, this thread runs no trio."""
        return _Hidden(self._critical)

    def install(self) -> None:
        nested = self

        class Runner(_Runner):  # type: ignore[misc]
            """Of asyncio, in a cell."""

            def __init__(
                self,
                *,
                debug: bool | None = None,
                loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
            ) -> None:
                super().__init__(debug=debug, loop_factory=loop_factory or _SelectorLoop)

            def run(self, coro: Any, *, context: Context | None = None) -> Any:
                with nested.hidden():
                    return super().run(coro, context=context)

            def close(self) -> None:
                with nested.hidden():
                    super().close()

            def get_loop(self) -> asyncio.AbstractEventLoop:
                with nested.hidden():
                    return super().get_loop()

            def __enter__(self) -> Any:
                with nested.hidden():
                    return super().__enter__()

        asyncio.Runner = asyncio.runners.Runner = Runner  # type: ignore[misc]
        asyncio.run = asyncio.runners.run = self.asyncio_run
        asyncio.new_event_loop = asyncio.events.new_event_loop = self.new_loop
        trio.run = self.trio_run  # type: ignore[assignment]

    def asyncio_run(
        self,
        main: Coroutine[Any, Any, Any],
        *,
        debug: bool | None = None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> Any:
        """Run a coroutine to its end in a fresh event loop."""
        with self.hidden():
            is_inside = asyncio._get_running_loop() is not None
        if is_inside:
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """A loop that can be run in a cell, by `run_until_complete` or `run_forever`."""
        nested = self

        class Loop(_SelectorLoop):
            def run_forever(self) -> None:
                with nested.hidden():
                    super().run_forever()

            def run_until_complete(self, future: Any) -> Any:
                with nested.hidden():
                    return super().run_until_complete(future)

        return Loop()

    @trio.lowlevel.enable_ki_protection  # its tasks are not
    def trio_run(self, async_fn: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """Run an async function to its end in a run of its own."""
        context = copy_context()
        context.run(current_loop.set, None)  # or its tasks would believe themselves in our loop
        with self.hidden():
            is_main = threading.current_thread() is threading.main_thread()
            wakeup = signal.set_wakeup_fd(-1) if is_main else -1
            try:
                return context.run(_trio_run, async_fn, *args, **options)
            finally:
                if is_main:
                    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)


class _Hidden:
    """A class: an interrupt could leave a generator's frame before its `finally` counts. Protected,
    for one may also come when `__exit__` begins."""

    __slots__ = ("_critical", "_kept", "_library")

    def __init__(self, critical: Critical) -> None:
        self._critical = critical
        self._kept: dict[str, Any] = {}
        self._library: str | None = None

    @trio.lowlevel.enable_ki_protection
    def __enter__(self) -> None:
        try:
            with self._critical:
                state = GLOBAL_RUN_CONTEXT.__dict__
                self._kept, self._library = dict(state), sniffio.thread_local.name
                state.clear()
                sniffio.thread_local.name = None
        except BaseException:
            self._put_back()
            raise

    @trio.lowlevel.enable_ki_protection
    def __exit__(self, *_: object) -> None:
        with self._critical:
            self._put_back()

    @trio.lowlevel.enable_ki_protection
    def _put_back(self) -> None:
        state = GLOBAL_RUN_CONTEXT.__dict__
        state.clear()
        state.update(self._kept)
        sniffio.thread_local.name = self._library

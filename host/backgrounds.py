"""What runs beside the cells of one session: its backgrounds, followed to their ends."""

from __future__ import annotations

import trio

from awaitbox.host.background import Background
from awaitbox.host.noticebox import NoticeBox
from awaitbox.host.process.foreground import Leftover
from awaitbox.host.process.pty import Pty
from awaitbox.host.process.pump import Pump
from awaitbox.host.resources import Resources, derived_id


class Backgrounds:
    """The backgrounds of one session, by id in `resources`. Each is watched by a task in `nursery`,
    which must not end before them."""

    def __init__(self, pump: Pump, notices: NoticeBox, nursery: trio.Nursery) -> None:
        self.resources = Resources()
        self.pump = pump
        self._notices = notices
        self._nursery = nursery

    def watch(self, background: Background) -> None:
        """Follow a started background until its end."""
        self._nursery.start_soon(self._watch, background)

    async def _watch(self, background: Background) -> None:
        await background.watch(self._adopt_from)
        self.resources.finished(background)

    def _adopt_from(self, leftover: Leftover, script: Background) -> None:
        pty, pipes = script.hand_over()
        self._adopt(leftover, "\n".join(script.commands), script.cwd, pty, pipes)

    def adopt(self, leftover: Leftover, line: str, cwd: str) -> Background:
        """What a command left running becomes a background; a notice names it."""
        return self._adopt(leftover, line, cwd, None, leftover.fds)

    def _adopt(
        self, leftover: Leftover, line: str, cwd: str, pty: Pty | None, pipes: list[int]
    ) -> Background:
        id = self.resources.free_id(derived_id(leftover.survivor.argv0))
        background = Background(id, [line], cwd, self.pump)
        background.adopt(leftover.command, leftover.survivor, pty, pipes)
        self.resources.reserve(background)
        self.watch(background)
        self._notices.put(
            [id],
            "adopted",
            f"{line!r} left {id} running (pid {background.pid}): read it with "
            f"shell_logs({id!r}), end it with shell_stop({id!r})",
        )
        return background

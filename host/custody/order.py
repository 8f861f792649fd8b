"""An order: a program that a caller wants started, as packets, and how its failure is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from awaitbox.host.custody import protocol
from awaitbox.host.custody.command import Command
from awaitbox.host.errors import HostError


class Order:
    """`packets` is its request, `fds` the descriptors that go with it, still the caller's."""

    def __init__(
        self,
        argv: Sequence[str | bytes],
        env: Mapping[str, str],
        cwd: str,
        fds: Sequence[int],
        *,
        open_files: int,
        tty: str | None,
        executable: str | bytes | None,
    ) -> None:
        """Raises `ValueError`, `OSError` (E2BIG)."""
        if (tty is not None and fds) or len(fds) > protocol.PROGRAM_DESCRIPTORS:
            raise ValueError(f"{len(fds)} descriptors{' beside a terminal' if tty else ''}")
        request = protocol.Request(
            [os.fsencode(part) for part in argv],
            {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
            os.fsencode(cwd),
            open_files=open_files,
            terminal=os.fsencode(tty or ""),
            executable=os.fsencode(executable or ""),
        )
        self.packets = list(protocol.pack_request(request))
        self.fds = fds
        self._names: dict[int, str | bytes | None] = {
            protocol.AT_FOLDER: cwd,
            protocol.AT_TERMINAL: tty,
        }
        self._program = argv[0] if executable is None else executable

    def error(self, command: Command) -> Exception:
        """What a command without a pid is to its caller, if its machine lives."""
        if command.failure is not None:  # as CPython raises it: the class follows from the number
            number, at = command.failure
            return OSError(number, os.strerror(number), self._names.get(at, self._program))
        if command.is_breach:
            return HostError(f"the start was refused: {command.note}", code="custody_breach")
        if command.is_unread:
            what = "nothing was started: each leader was killed before it took the request"
        else:
            what = f"{command.note}, so whether it ran is not known"
        return HostError(f"{what}; what had begun was ended", code="leader_lost")

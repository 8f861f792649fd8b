"""The host's side of one init: a session's machine, in which commands are started."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from awaitbox.host.custody import kernel, parcel, protocol
from awaitbox.host.custody.command import Command
from awaitbox.host.custody.endpoint import Endpoint
from awaitbox.host.custody.order import Order
from awaitbox.host.errors import HostError
from awaitbox.host.limits import READY_SECONDS, SILENCE_SECONDS

if TYPE_CHECKING:
    from awaitbox.host.custody.watch import Watch

_DIED = "its init was killed"
_STARTS = 3  # of leaders that were killed before they took a request
_STRAY_PACKETS = 10_000  # about commands that are not known (any more)
_END_SECONDS = protocol.HUNT_SECONDS + SILENCE_SECONDS


class Machine:
    """One init and what it leads. Made by `Custody.machine`.

    `lost` is set when init dies though nobody closed the machine, with `reason` a sentence that
    says how; every command is then ended. `over` is set when nothing of it is left.
    """

    def __init__(
        self,
        folder: str,
        sock: socket.socket,
        pidfd: int,
        watch: Watch,
        *,
        open_files: int,
        give_up: Callable[[str], None],
        forget: Callable[[], None],
    ) -> None:
        """`give_up` ends the whole custody; `forget`: all is closed."""
        self.folder = folder
        self.pid = kernel.pid_of(pidfd) or -1
        self.pidfd = pidfd
        self.reason: str | None = None
        self.lost = trio.Event()
        self.over = trio.Event()
        self.answered = trio.Event()  # READY, BROKEN, or neither will come
        self.is_ready = False
        self.left = 0
        self._end = Endpoint(sock, watch, self._on_packet)
        self._watch = watch
        self._open_files = open_files
        self._give_up = give_up
        self._on_released = forget
        self._commands: dict[int, Command] = {}
        self._last_id = 0
        self._strays = 0
        self._is_closing = False
        self._is_orphan = False
        self._is_late = False
        self._is_dead = False
        watch.add(pidfd, self.look)

    async def until_ready(self) -> None:
        """Wait until init serves. Raises `HostError` (`machine_failed`); then, and after a cancel,
        nothing of it is left."""
        try:
            with trio.move_on_after(READY_SECONDS):
                await self.answered.wait()
        except BaseException:
            await self.discard()
            raise
        if not self.is_ready:
            await self.discard()
            why = self.reason or f"its init said nothing for {READY_SECONDS} s"
            raise HostError(f"no machine could be made: {why}", code="machine_failed")

    # ---------------------------------------------------------------- commands
    async def spawn(
        self,
        argv: Sequence[str | bytes],
        *,
        env: Mapping[str, str],
        cwd: str,
        fds: Sequence[int],
        tty: str | None = None,
        executable: str | bytes | None = None,
    ) -> Command:
        """Start a program; return when the kernel has confirmed it as one of this machine.

        `fds` become its 0, 1, ... (at most 8; of 0 to 2 what is missing is /dev/null) and stay the
        caller's to close. With `tty` they must be empty: the slave's path is opened as 0, 1, 2 and
        is the controlling terminal. The program gets a session of its own, default signals, the
        soft limit on open files that this process had at first, and exactly `env`.

        Raises `OSError` as `subprocess` does (`filename` is the program, the folder or the
        terminal), `ValueError` (a NUL, an illegal name), `HostError` (`session_lost`;
        `leader_lost`: killed before its answer; `custody_breach`). Checkpoints. After a cancel or
        an error nothing of it runs.
        """
        order = Order(
            argv, env, cwd, fds, open_files=self._open_files, tty=tty, executable=executable
        )
        for _ in range(_STARTS):
            command = await self._start(order)
            if command.pid >= 0:
                return command
            if command.failure is not None or not command.is_unread:
                break
        raise self.lost_error() if self._is_gone else order.error(command)

    @property
    def _is_gone(self) -> bool:
        return self._is_closing or self.lost.is_set() or not self._end.is_open

    async def _start(self, order: Order) -> Command:
        """Ask once. A command without a pid was not started, and is closed."""
        if self._is_gone:
            raise self.lost_error()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._last_id += 1
        command = Command(self._last_id, ours, self, self._watch)
        self._commands[command.id] = command
        try:
            with trio.move_on_after(READY_SECONDS):
                await self._send(command, order, theirs)
                await command.answered.wait()
        except BaseException:
            await command.discard()
            raise
        if not command.answered.is_set():
            command.lose("its leader did not answer")
        if command.pid < 0:
            await command.discard()
        return command

    async def _send(self, command: Command, order: Order, theirs: socket.socket) -> None:
        """The first packet goes ahead of SPAWN, so that the leader finds it without a wait."""
        first, *others = order.packets
        with theirs:
            await command.send(first)
            data = protocol.pack(protocol.SPAWN, command.id)
            await self._end.send(data, [theirs.fileno(), *order.fds])
        for packet in others:
            await command.send(packet)

    # ---------------------------------------------------------------- for commands
    def lost_error(self) -> HostError:
        """`session_lost`, with how this machine ended."""
        reason = self.reason or "it was closed"
        text = f"the machine of this session ended ({reason}), and all that ran in it"
        return HostError(f"{text}; open a new session", code="session_lost")

    def kill_leader(self, id: int) -> None:
        """Have init end all of a command; it answers with LOST."""
        self._end.tell(protocol.KILL, id)

    def forget(self, id: int) -> None:
        """All of a command is closed."""
        self._commands.pop(id, None)

    def look(self) -> None:
        """See whether init died, which a command of its may notice first: then set `lost` now."""
        if self.pidfd >= 0 and not self._is_dead and kernel.is_over(self.pidfd):
            self._is_dead = True
            self._on_death()

    # ---------------------------------------------------------------- ends
    async def aclose(self) -> None:
        """End everything in the machine at once, and return when that is certain.

        Shielded, bounded; removes nothing on disk. Its commands' descriptors are closed too.
        """
        self.close()
        with trio.CancelScope(shield=True):
            await self.over.wait()
        self.release()
        await trio.lowlevel.checkpoint()

    async def discard(self) -> None:
        """`aclose` for one that is not wanted any more: shielded; does not raise."""
        with trio.CancelScope(shield=True):
            await self.aclose()

    def close(self) -> None:
        """Begin what `aclose` waits for."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._end.is_open and not self.over.is_set():
            self._end.finish()  # init reads an end, and we still read init
            self._watch.expect((self, "end"), _END_SECONDS, self._on_late_end)

    def give_up(self, reason: str) -> None:
        """Kill init; what it led is ended by its leaders and by the warden."""
        self.reason = self.reason or reason
        if self.pidfd >= 0:
            try:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            except OSError:
                pass
            self._watch.expect((self, "end"), _END_SECONDS, self._on_late_end)

    def orphan(self) -> None:
        """The warden is dead: init sees that too and ends all; nobody will report its end."""
        self._is_orphan = True
        self.reason = self.reason or "its warden died"
        self.lost.set()
        self._end.close()
        if self.pidfd < 0 or kernel.is_over(self.pidfd):
            self.finish(0)
        else:
            self._watch.expect((self, "end"), _END_SECONDS, self._on_late_end)

    def finish(self, left: int, status: int | None = None) -> None:
        """Nothing of the machine is left but `left` processes of another user. Idempotent."""
        if self.over.is_set():
            return
        if not self._is_closing:
            self._note_death(status)
        self.left = left
        note = f"its session ended: {self.reason or 'it was closed'}"
        for command in list(self._commands.values()):
            command.orphaned(left, note, is_machine_over=True)
        self._watch.arrived((self, "end"))
        self._end.close()
        self._watch.remove(self.pidfd)
        os.close(self.pidfd)
        self.pidfd = -1
        self.answered.set()
        self.over.set()

    def release(self) -> None:
        """Close what commands still hold."""
        for command in list(self._commands.values()):
            command.release()
        self._on_released()

    def _note_death(self, status: int | None) -> None:
        self.reason = self.reason or _DIED
        if self.reason == _DIED and status is not None:
            self.reason += _how(status)
        self.lost.set()

    def _on_late_end(self) -> None:
        if self.pidfd >= 0 and not kernel.is_over(self.pidfd) and not self._is_late:
            self._is_late = True
            self.give_up("its init did not end")
        elif self._is_orphan:
            self.finish(0)  # not even SIGKILL ends it now
        else:
            self._give_up("the warden did not report the end of an init")

    # ---------------------------------------------------------------- packets
    def _on_death(self) -> None:
        self._watch.remove(self.pidfd)
        if not self._is_closing and not self._is_orphan:
            self._note_death(None)
        while self._end.is_open:  # a BROKEN may lie there
            self._on_packet()
        if self._is_orphan:
            self.finish(0)
            return
        self.answered.set()
        self._watch.expect((self, "end"), _END_SECONDS, self._on_late_end)

    def _on_packet(self) -> None:
        packet = self._end.receive(most=1)
        if packet is None:
            if self._is_dead:
                self._end.close()
            return
        data, fds, is_cut = packet
        parcel.close_all(fds)
        if not data:
            self._end.close()
            if not self._is_closing and not kernel.is_over(self.pidfd):
                self._watch.expect((self, "end"), SILENCE_SECONDS, self._on_late_end)
            return
        try:
            kind, id, values = protocol.unpack(data)
            if fds or is_cut:
                raise protocol.ProtocolError("descriptors from an init")
            self._take(kind, id, values, data)
        except protocol.ProtocolError as error:
            self._end.close()
            self.give_up(f"its init was not to be trusted: {error}")

    def _take(self, kind: int, id: int, values: tuple[int, ...], data: bytes) -> None:
        command = self._commands.get(id)
        if kind == protocol.READY and not self.is_ready:
            self.is_ready = True
            self.answered.set()
        elif kind == protocol.BROKEN:
            self.reason = protocol.text_of(data).decode(errors="replace")
        elif kind in (protocol.LOST, protocol.NOFORK) and command is None:
            self._count_stray()
        elif kind == protocol.LOST and command is not None:
            command.orphaned(values[1], f"its leader was killed{_how(values[0])}")
        elif kind == protocol.NOFORK and command is not None:
            command.refused(values[0])
        elif kind == protocol.BUSY:
            self._count_stray()
            for busy in self._commands.values():
                busy.still_busy()
        else:
            raise protocol.ProtocolError(f"{protocol.name_of(kind)} from an init")

    def _count_stray(self) -> None:
        """What an honest init sends now and then, and a hostile one without end."""
        self._strays += 1
        if self._strays > _STRAY_PACKETS + 2 * self._last_id:
            raise protocol.ProtocolError("a flood of packets")


def _how(status: int) -> str:
    return f" (signal {os.WTERMSIG(status)})" if os.WIFSIGNALED(status) else ""

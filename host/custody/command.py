"""The host's side of one leader: a program, its end, and the end of its tree."""

from __future__ import annotations

import errno
import os
import signal
import socket
from typing import TYPE_CHECKING, Protocol

import trio

from awaitbox.host.custody import kernel, parcel, protocol, stages, trust
from awaitbox.host.custody.endpoint import Endpoint
from awaitbox.host.custody.survivors import Survivor, Survivors
from awaitbox.host.errors import HostError
from awaitbox.host.limits import SILENCE_SECONDS

if TYPE_CHECKING:
    from awaitbox.host.custody.watch import Watch

__all__ = ["Command", "Survivor"]

_BUSY_PACKETS = 4 * round(protocol.HUNT_SECONDS / protocol.BUSY_SECONDS)


class Above(Protocol):
    """What a command needs of its machine."""

    @property
    def pid(self) -> int:
        """Of init."""

    @property
    def lost(self) -> trio.Event: ...
    def look(self) -> None:
        """Set `lost` now if init is dead."""

    def lost_error(self) -> HostError: ...
    def kill_leader(self, id: int) -> None:
        """Have init end all of a command; it answers with LOST."""

    def give_up(self, reason: str) -> None:
        """End the machine."""

    def forget(self, id: int) -> None:
        """All of a command is closed."""


class Command:
    """One started program. Made by `Machine.spawn`; all attributes are the host's own findings.

    `status` is a raw wait status, from the kernel where it keeps one, else the leader's word; None
    if neither is known, and then `note` says why. It stays None until `ended`, and `ended` is not
    set before the machine's `lost` if its init died.
    """

    def __init__(self, id: int, ctl: socket.socket, machine: Above, watch: Watch) -> None:
        self.id = id
        self.pid = -1
        self.pidfd = -1
        self.status: int | None = None
        self.oldest_status: int | None = None
        self.note: str | None = None
        self.left = 0
        self.ended = trio.Event()
        self.gone = trio.Event()
        self.answered = trio.Event()  # STARTED, FAILED, or neither will come
        self.failure: tuple[int, int] | None = None  # errno, AT_...
        self.is_breach = False
        self.is_unread = False  # no leader has read the request, says the kernel
        self.stage = stages.ASKED
        self._ctl = Endpoint(ctl, watch, self._on_packet)
        self._machine = machine
        self._watch = watch
        self._busy = 0
        self._is_closing = False
        self._survivors = Survivors(machine.pid, self._ask_survivors)

    # ---------------------------------------------------------------- for verbs
    def signal(self, number: int) -> None:
        """Signal the process alone. No error if it is over. Raises `PermissionError` (sudo)."""
        if self.pidfd >= 0:
            try:
                signal.pidfd_send_signal(self.pidfd, number)
            except ProcessLookupError:
                pass

    async def survivors(self) -> Survivor | None:
        """The oldest living process of the tree, after `ended`.

        None if nothing is left; also if nothing of it stays long enough to be named, then `gone`
        is not set. Raises `HostError` (`custody_breach`, `session_lost`). A cancel leaves
        everything as it was.
        """
        oldest = await self._survivors.oldest()
        if self.stage == stages.LOST:  # what lived is being ended
            oldest = None
            await self.gone.wait()
        if self._machine.lost.is_set():
            raise self._machine.lost_error()
        if self.is_breach:
            raise HostError(f"the command was ended: {self.note}", code="custody_breach")
        return oldest

    async def stop(self, grace_seconds: float) -> None:
        """End the whole tree: SIGTERM and SIGCONT, the grace, SIGKILL; returns when it is gone.

        Shielded: a cancel waits for the end, which comes after the grace and a bounded time more.
        A leader that says nothing is stepped over, then its init.
        """
        if self.stage == stages.ASKED:
            self.lose("it was stopped before its start")  # the leader may still read its request
        elif self._ctl.is_open:
            self._ctl.tell(protocol.STOP, 0, round(grace_seconds * 1000))
            seconds = grace_seconds + SILENCE_SECONDS
            self._watch.expect((self, "gone"), seconds, self._on_silence)
        with trio.CancelScope(shield=True):
            await self.gone.wait()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Give the descriptors back. Before `gone` it ends the tree at once, and then does so."""
        self._is_closing = True
        if self.stage == stages.OVER:
            self.release()
        else:
            self.lose("it was closed before its end")

    # ---------------------------------------------------------------- for the machine
    async def send(self, packet: bytes) -> None:
        """A part of the request, as `Endpoint.send` does it."""
        await self._ctl.send(packet)

    async def discard(self) -> None:
        """End what was begun and close. Shielded; does not raise."""
        with trio.CancelScope(shield=True):
            await self.stop(0)
        self.close()

    def refused(self, number: int) -> None:
        """Init could not hand the request to a leader; the end of `ctl` may be seen before it."""
        if self.pid < 0:
            self.failure = number, protocol.AT_REQUEST
        self.orphaned(0, "init could not fork a leader")

    def orphaned(self, left: int, note: str, *, is_machine_over: bool = False) -> None:
        """Init, or whoever is above it, has ended what the leader left. Idempotent.

        The end of the machine is also why a leader was lost just before.
        """
        if self.stage == stages.OVER:
            return
        self._see_unread()
        self.stage = stages.after(self.stage, stages.ORPHANED)
        self.note = note if is_machine_over else self.note or note
        if self.pidfd >= 0 and not left and not kernel.is_over(self.pidfd):
            self._kill_unbelieved()
        self._finish(left)

    def release(self) -> None:
        """Close all descriptors; nothing is sent any more."""
        self._ctl.close()
        for key in ("exit", "gone", "named"):
            self._watch.arrived((self, key))
        if self.pidfd >= 0:
            self._watch.remove(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = -1
        self._survivors.close()
        self._machine.forget(self.id)

    def still_busy(self) -> None:
        """Init hunts: not silent."""
        if self.stage == stages.LOST:
            self._watch.expect((self, "gone"), SILENCE_SECONDS, self._on_silence)

    def lose(self, note: str, *, is_breach: bool = False) -> None:
        """Listen to the leader no more; init ends the tree."""
        if self.stage in (stages.LOST, stages.OVER):
            return
        self.stage = stages.after(self.stage, stages.CLOSED)
        self.note = self.note or note
        self.is_breach = self.is_breach or is_breach
        self._ctl.close()
        self._survivors.end()
        for key in ("exit", "named"):
            self._watch.arrived((self, key))
        self._watch.expect((self, "gone"), SILENCE_SECONDS, self._on_silence)
        self._machine.kill_leader(self.id)

    # ---------------------------------------------------------------- packets
    def _see_unread(self) -> None:
        """Before the first packet is taken: reading it would take the kernel's word away."""
        if self.stage == stages.ASKED and not self.is_unread:
            self.is_unread = self._ctl.is_unread()

    def _on_packet(self) -> None:
        self._see_unread()
        packet = self._ctl.receive(most=1)
        if packet is None:
            return
        data, fds, is_cut = packet
        if not data:
            parcel.close_all(fds)
            self._machine.look()
            self.lose("its leader was killed")
            return
        try:
            self._take(data, fds, is_cut)
        except (protocol.ProtocolError, stages.IllegalEvent, trust.Breach) as error:
            self.lose(f"its leader was not to be trusted: {error}", is_breach=True)
        except trust.NoRoom:
            self.failure = errno.EMFILE, protocol.AT_REQUEST
            self.lose("this host has no file descriptors left")

    def _take(self, data: bytes, fds: list[int], is_cut: bool) -> None:
        try:
            kind, _, values = protocol.unpack(data)
            if kind in (protocol.EXIT, protocol.GONE):
                self._machine.look()  # its end is told first
                if self.stage == stages.OVER:
                    parcel.close_all(fds)
                    return
            stage = stages.after(self.stage, kind)
        except (protocol.ProtocolError, stages.IllegalEvent):
            parcel.close_all(fds)
            raise
        if kind in (protocol.STARTED, protocol.SURVIVOR):
            fd = trust.single(fds, is_cut)
            if kind == protocol.SURVIVOR:
                self._survivors.named(fd)
            elif not self._on_started(fd):
                return
        else:
            trust.none(fds, is_cut)
        if kind in (protocol.SURVIVOR, protocol.NOBODY):
            self._watch.arrived((self, "named"))
        if kind == protocol.FAILED:
            self.failure = values[0], values[1]
        elif kind == protocol.BUSY:
            self._on_busy()
        elif kind == protocol.NOBODY:
            self._survivors.answered(None)
        elif kind in (protocol.EXIT, protocol.GONE):
            self._check_over(kind, values)
        self.stage = stage
        if kind == protocol.EXIT:
            self._on_exit(values[0])
            if values[1]:
                self.stage = stages.after(stage, protocol.GONE)
        elif kind == protocol.GONE:
            self.oldest_status = values[2] if values[1] else None
        if self.stage == stages.OVER:
            self._finish(values[0] if kind == protocol.GONE else 0)

    def _on_started(self, pidfd: int) -> bool:
        self.pid = trust.checked(pidfd, self._machine.pid)
        if self.pid < 0:  # a leader that lives does not reap before the ACK; init did it
            os.close(pidfd)
            self.lose("its leader was killed")
            return False
        self.pidfd = pidfd
        self._ctl.tell(protocol.ACK)
        self._watch.add(pidfd, self._on_over)
        self.answered.set()
        return True

    def _on_over(self) -> None:
        """The program ended, says the kernel; a leader that was stopped would not say so."""
        if self.pidfd >= 0 and kernel.is_over(self.pidfd):
            self._watch.remove(self.pidfd)
            if self.stage == stages.RUNNING:
                self._watch.expect((self, "exit"), SILENCE_SECONDS, self._on_silence)

    def _check_over(self, kind: int, values: tuple[int, ...]) -> None:
        left = values[0] if kind == protocol.GONE else 0
        if not left and not kernel.is_over(self.pidfd):
            raise trust.Breach("an end that the kernel does not know")

    def _on_exit(self, status: int) -> None:
        known = kernel.exit_status(self.pidfd)
        self.status = status if known is None else known
        self._watch.arrived((self, "exit"))
        self.ended.set()

    def _on_busy(self) -> None:
        self._busy += 1
        if self._busy > _BUSY_PACKETS:
            raise trust.Breach("busy without an end")
        self._watch.expect((self, "gone"), SILENCE_SECONDS, self._on_silence)

    def _ask_survivors(self) -> bool:
        if not self._ctl.is_open:
            return False
        self._ctl.tell(protocol.SURVIVORS)
        self._watch.expect((self, "named"), SILENCE_SECONDS, self._on_silence)
        return True

    # ---------------------------------------------------------------- ends
    def _on_silence(self) -> None:
        """Stop got no answer in time: leader, then init, are stepped over."""
        if self.stage == stages.LOST:
            self._machine.give_up("init did not end a command")
        else:
            self.lose("its leader did not answer")

    def _kill_unbelieved(self) -> None:
        try:
            self.signal(signal.SIGKILL)
        except PermissionError:
            pass

    def _finish(self, left: int) -> None:
        self.left = left
        if self.pidfd >= 0:
            self._watch.remove(self.pidfd)
            if self.status is None:
                self.status = kernel.exit_status(self.pidfd)
        if self.status is None and self.failure is None:
            self.note = self.note or "how it ended is not known"
        if (known := self._survivors.end()) is not None:
            self.oldest_status = known
        for key in ("exit", "gone", "named"):
            self._watch.arrived((self, key))
        self._ctl.close()
        self.answered.set()
        self.ended.set()
        self.gone.set()
        if self._is_closing:
            self.release()

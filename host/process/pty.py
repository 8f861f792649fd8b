"""The host's end of a pseudo-terminal. What runs on it opens the other end by `path`.

All settings are read and made on the master, where the kernel answers for the slave; so it works
before a program has opened it, and after the last one has closed it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import struct
import termios
from typing import Any

import trio

from awaitbox.host.errors import HostError
from awaitbox.host.limits import CANONICAL_LINE_BYTES, TYPE_SECONDS

_TIOCSPTLCK = 0x40045431
_TIOCGPTN = 0x80045430
_TIOCSIG = 0x40045436
_KERNEL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)  # all that TIOCSIG takes

_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6
_LINE_ENDING = (
    termios.VEOF,
    termios.VEOL,
    termios.VEOL2,
    termios.VKILL,
    termios.VINTR,
    termios.VQUIT,
    termios.VSUSP,
)


class TerminalFull(HostError):
    """Nobody reads what is typed, and the terminal takes no more. `written` bytes went in."""

    def __init__(self, written: int, size: int, seconds: float) -> None:
        super().__init__(
            f"the program reads nothing: {written:,} of {size:,} bytes went in within "
            f"{seconds:g} s; look at its output, and type the rest when it reads again",
            code="terminal_full",
        )
        self.written = written


class Pty:
    """A terminal that is open. `master` is non-blocking and not inherited; `path` is the slave."""

    def __init__(self, master: int, path: str) -> None:
        self.master = master
        self.path = path
        self._line_bytes = 0  # typed since the last end of a line
        self._typing = trio.Lock()

    @classmethod
    def open(
        cls, columns: int, rows: int, *, is_log: bool = True, devpts: int | None = None
    ) -> Pty:
        """Open a new terminal; raises `OSError`, e.g. for want of descriptors.

        `is_log` turns the kernel's post-processing of output off: twice the throughput, and no CR
        to take out again. `devpts` is a descriptor of the root of a devpts to open it in.
        """
        flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK
        master = os.open("/dev/ptmx" if devpts is None else "ptmx", flags, dir_fd=devpts)
        try:
            fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
            (number,) = struct.unpack("I", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))
            pty = cls(master, f"/dev/pts/{number}")
            pty.resize(columns, rows)
            if is_log:
                attributes = termios.tcgetattr(master)
                attributes[_OFLAG] &= ~termios.OPOST
                termios.tcsetattr(master, termios.TCSANOW, attributes)
        except BaseException:
            os.close(master)
            raise
        return pty

    def close(self) -> None:
        """Close the master, which hangs up what runs on the terminal. The pump goes first.

        Writes that wait end with `trio.ClosedResourceError`.
        """
        if self.master >= 0:
            if self._typing.locked():
                trio.lowlevel.notify_closing(self.master)
            os.close(self.master)
            self.master = -1

    @property
    def is_echo(self) -> bool:
        """Whether what is typed shows; False at a password prompt."""
        return bool(termios.tcgetattr(self.master)[_LFLAG] & termios.ECHO)

    @property
    def is_canonical(self) -> bool:
        """Whether the kernel gathers lines; False for line editors and full-screen programs."""
        return bool(termios.tcgetattr(self.master)[_LFLAG] & termios.ICANON)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        answer = fcntl.ioctl(self.master, termios.TIOCGWINSZ, bytes(8))
        rows, columns, _, _ = struct.unpack("HHHH", answer)
        return columns, rows

    def resize(self, columns: int, rows: int) -> None:
        """Set the size; a change signals SIGWINCH to the foreground group."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def foreground(self) -> int | None:
        """The foreground process group, None if there is none."""
        try:
            return os.tcgetpgrp(self.master) or None
        except OSError as error:
            if error.errno not in (errno.ENOTTY, errno.EIO, errno.ESRCH):
                raise
            return None

    def signal_foreground(self, number: int) -> None:
        """Send a signal to the foreground process group; `ProcessLookupError` if there is none.

        Those of the keyboard (INT, QUIT, TSTP) are sent by the kernel, in one step with the look
        at which group it is and also to programs of another user.
        """
        group = self.foreground
        if group is None:
            raise ProcessLookupError(errno.ESRCH, "no program holds the foreground", self.path)
        if number in _KERNEL_SIGNALS:
            fcntl.ioctl(self.master, _TIOCSIG, number)
        else:
            os.killpg(group, number)

    async def write(
        self, data: bytes, seconds: float = TYPE_SECONDS, *, is_enter: bool = False
    ) -> None:
        """Type `data`, then with `is_enter` the Enter key in a write of its own. Checkpoints.

        Two writes never mix. Raises `ValueError` for a line that the terminal would cut, before
        anything is typed; `TerminalFull` when the terminal takes no more for `seconds` in all. What
        went in before that, or before a cancel, stays typed.
        """
        written = 0
        with trio.move_on_after(seconds):
            async with self._typing:
                if self.master < 0:
                    raise trio.ClosedResourceError("the terminal is closed")
                ends = self._line_ends()
                self._check_lines(data, ends)
                for piece in (data, b"\r") if is_enter else (data,):
                    rest = memoryview(piece)
                    while rest:
                        try:
                            count = os.write(self.master, rest)
                        except BlockingIOError:
                            await trio.lowlevel.wait_writable(self.master)
                            continue
                        self._count_line(bytes(rest[:count]), ends)
                        written += count
                        rest = rest[count:]
            return
        raise TerminalFull(written, len(data) + is_enter, seconds)

    def _line_ends(self) -> re.Pattern[bytes] | None:
        """Return what ends a line of input now; None if the kernel gathers no lines."""
        attributes: list[Any] = termios.tcgetattr(self.master)
        if not attributes[_LFLAG] & termios.ICANON:
            return None
        ends = {b"\n", *(attributes[_CC][index] for index in _LINE_ENDING)} - {b"\0"}
        if attributes[_IFLAG] & termios.ICRNL:
            ends.add(b"\r")
        return re.compile(b"[" + b"".join(map(re.escape, ends)) + b"]")

    def _check_lines(self, data: bytes, ends: re.Pattern[bytes] | None) -> None:
        if ends is None:
            return
        first, *others = map(len, ends.split(data))
        longest = max([self._line_bytes + first, *others])
        if longest > CANONICAL_LINE_BYTES:
            raise ValueError(
                f"a line of {longest:,} bytes: the terminal takes {CANONICAL_LINE_BYTES:,} and "
                "would cut the rest; write it to a file, or type it in shorter lines"
            )

    def _count_line(self, data: bytes, ends: re.Pattern[bytes] | None) -> None:
        if ends is None:
            self._line_bytes = 0
            return
        first, *others = map(len, ends.split(data))
        self._line_bytes = others[-1] if others else self._line_bytes + first

"""stdout and stderr of cells: text streams over the pipes that the host reads.

Printed text is gathered and written when enough of it waits, shortly after the first of it, before
a verb is called, before the other stream writes, and at the end of a cell. Programs that write to
the same descriptors therefore stand in the order in which the cell started them.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from awaitbox.shims.bounds import GATHER_CHARS, GATHER_SECONDS, SHARED_WRITE_BYTES, WRITE_BYTES
from awaitbox.shims.critical import Critical

_ONE_LINE = 2  # the parts that `print` makes of it
_ERRORS = "awaitbox.replace"  # a lone surrogate becomes U+FFFD; by "replace" a question mark
codecs.register_error(_ERRORS, lambda error: (b"\xef\xbf\xbd", error.end))  # type: ignore[attr-defined]


class CellText(io.TextIOBase):
    """A text stream over a descriptor. Closing it only flushes: the next cell prints, too."""

    def __init__(self, fd: int, name: str, critical: Critical) -> None:
        self._fd = fd
        self._name = name
        self._critical = critical
        self._parts: list[str | bytes] = []
        self._size = 0
        self._rest = memoryview(b"")  # encoded, not yet written
        self._lock = threading.Lock()
        self._out, self._chunk = _own_description(fd)
        self._written_at = 0.0  # time.monotonic()
        self.before: CellText | None = None  # is flushed first, when it has something
        self.alarm: Alarm | None = None
        self.buffer = CellBytes(self)

    # --- writing
    def write(self, text: str) -> int:
        """Never blocks for a short text; an interrupt while it does leaves the rest to a later
        flush."""
        if type(text) is str and self._parts:  # the usual case; the other stream has nothing then
            self._parts.append(text)
            size = len(text)
            self._size += size
            if self._size >= GATHER_CHARS:
                self.flush()
            elif text == "\n" and len(self._parts) == _ONE_LINE and self._is_due():
                self.flush()
            return size
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        text = str.__str__(text)  # a subclass would run its own code in the middle of a flush
        self._put(text)
        return len(text)

    def _put(self, part: str | bytes) -> None:
        if self.before is not None and self.before._parts:
            self.before.flush()
        if not self._parts and self.alarm is not None:
            self.alarm.set()
        self._parts.append(part)
        self._size += len(part)
        if self._size >= GATHER_CHARS:
            self.flush()

    def _is_due(self) -> bool:
        """Whether a line that is complete goes out at once: the first of many does, so that it is
        seen even if the next statement is a C call that lets no thread run."""
        return time.monotonic() - self._written_at > GATHER_SECONDS

    def flush(self) -> None:
        """Write all that waits. Blocks while the pipe is full; an interrupt may raise."""
        while self._parts or self._rest:
            with self._critical, self._lock:
                if not self._write_some():
                    continue
            ready = select.poll()  # one each: the alarm's thread may wait here too
            ready.register(self._out, select.POLLOUT)
            ready.poll()

    def _write_some(self) -> bool:
        """-> whether to wait for the reader. With the lock held."""
        if not self._rest:
            parts, self._size = self._parts[:], 0
            del self._parts[: len(parts)]  # in place: another thread may be about to append
            self._rest = memoryview(_encoded(parts))
        self._written_at = time.monotonic()
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._out, self._rest[: self._chunk]) :]
                if self._chunk == SHARED_WRITE_BYTES:
                    return bool(self._rest)
        except BlockingIOError:
            return True
        except OSError:
            self._rest = memoryview(b"")  # nobody reads it any more
        return False

    # --- what a text stream also is
    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "replace"

    @property
    def name(self) -> str:
        return self._name

    @property
    def mode(self) -> str:
        return "w"

    @property
    def line_buffering(self) -> bool:
        return False

    def reconfigure(self, **settings: Any) -> None:
        """Accepted and without effect: text is UTF-8 and arrives within 10 ms anyway."""

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def close(self) -> None:
        self.flush()

    def __del__(self) -> None:
        pass  # the base would close it

    def __repr__(self) -> str:
        return f"<{self._name} of the cell>"


class CellBytes(io.BufferedIOBase):
    """`sys.stdout.buffer`: bytes in order with the text."""

    def __init__(self, text: CellText) -> None:
        self._text = text

    @property
    def raw(self) -> CellBytes:
        return self

    @property
    def name(self) -> str:
        return self._text.name

    def write(self, data: Any) -> int:
        part = bytes(memoryview(data))
        self._text._put(part)
        return len(part)

    def flush(self) -> None:
        self._text.flush()

    def fileno(self) -> int:
        return self._text.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.flush()

    def __del__(self) -> None:
        pass


class Alarm:
    """Writes a silent rest: a thread that sleeps until text waits, then GATHER_SECONDS."""

    def __init__(self, streams: Iterable[CellText], critical: Critical) -> None:
        self._streams = list(streams)
        self._critical = critical
        self._setting = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._is_set = False
        self._thread: threading.Thread | None = None

    def set(self) -> None:
        if self._is_set:
            return
        with self._critical, self._setting:
            if self._is_set:
                return
            self._is_set = True
            if self._thread is None:  # not before the first text: the zygote must have no thread
                self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
                self._thread.start()
            self._bell.release()

    def _run(self) -> None:
        while True:
            self._bell.acquire()
            time.sleep(GATHER_SECONDS)
            self._is_set = False
            for stream in self._streams:
                stream.flush()


def _own_description(fd: int) -> tuple[int, int]:
    """A descriptor to write to, and how much at once.

    Programs share the descriptor itself, so it can't be made non-blocking; another open file
    description of the same pipe can. Where that can't be had, what is short enough for a pipe that
    is ready never blocks.
    """
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        try:
            own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            return own, WRITE_BYTES
        except OSError:
            pass
    return fd, SHARED_WRITE_BYTES


def _encoded(parts: list[str | bytes]) -> bytes:
    try:
        return "".join(parts).encode("utf-8", _ERRORS)  # type: ignore[arg-type]
    except TypeError:
        return b"".join(p if isinstance(p, bytes) else p.encode("utf-8", _ERRORS) for p in parts)


class Outputs:
    """Both streams, installed as `sys.stdout` and `sys.stderr`."""

    def __init__(self, critical: Critical) -> None:
        self.stdout = CellText(1, "<stdout>", critical)
        self.stderr = CellText(2, "<stderr>", critical)
        self.stdout.before, self.stderr.before = self.stderr, self.stdout
        self.stdout.alarm = self.stderr.alarm = Alarm((self.stdout, self.stderr), critical)
        sys.stdout = sys.__stdout__ = self.stdout  # type: ignore[misc,assignment]
        sys.stderr = sys.__stderr__ = self.stderr  # type: ignore[misc,assignment]

    def flush(self) -> None:
        """Write all that waits; returns at once when nothing does."""
        if self.stdout._parts or self.stdout._rest:
            self.stdout.flush()
        if self.stderr._parts or self.stderr._rest:
            self.stderr.flush()

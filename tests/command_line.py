"""The real `awaitbox` program as tests run it: on pipes, or on a terminal of its own."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = str(Path(sys.executable).with_name("awaitbox"))
SECONDS = 30  # no run of a test takes a tenth of it
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment whose home, state and temporary files lie below `folder`."""
    own = {"HOME": folder / "home", "TMPDIR": folder / "tmp", "XDG_STATE_HOME": folder / "state"}
    for path in own.values():
        path.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, **{name: str(path) for name, path in own.items()}, **more}


def awaitbox(
    folder: Path, *arguments: str, stdin: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run it in `folder` to its end; stdin is never a terminal."""
    return subprocess.run(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(folder, **more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects of `--json`, one a line."""
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def started(folder: Path, *arguments: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run it with its output on pipes; ended by the test, or killed at the end of the block."""
    process = subprocess.Popen(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(folder, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


class Terminal:
    """The program with a terminal of its own, as a person has it."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self._process = process
        self.text = ""  # all that was printed, escape sequences removed
        self._seen = 0

    def until(self, text: str) -> str:
        """Wait until `text` comes behind what was waited for before; give what came up to it."""
        end = time.monotonic() + SECONDS
        while (at := self.text.find(text, self._seen)) < 0:
            assert self._read(end), f"{text!r} did not come: {self.text[self._seen :]!r}"
        before, self._seen = self.text[self._seen : at], at + len(text)
        return before

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Wait for its end; the exit code."""
        end = time.monotonic() + SECONDS
        while self._read(end):
            pass
        return self._process.wait(SECONDS)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _read(self, end: float) -> bool:
        """Take in what is printed next; False at the end of it, or of the time."""
        if not select.select([self._master], [], [], max(0, end - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # EIO: nobody holds the terminal any more
            return False
        self.text = _SEQUENCE.sub("", self.text + data.decode("utf-8", "replace"))
        return bool(data)


@contextmanager
def terminal(folder: Path, *arguments: str, **more: str) -> Iterator[Terminal]:
    """Run it on a terminal that is its controlling one; killed at the end of the block."""
    env = environment(folder, TERM="xterm-256color", PROMPT_TOOLKIT_NO_CPR="1", **more)
    master, slave = os.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", PROGRAM, *arguments],
            cwd=folder,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        with process:
            try:
                yield Terminal(master, process)
            finally:
                if process.poll() is None:
                    process.kill()
    finally:
        os.close(master)

"""kill -9 of a host: nothing of it lives on, and its folder is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from awaitbox.host.custody import kernel
from tests.custody_rig import is_alive

VICTIM = Path(__file__).parents[1] / "custody_victim.py"


class Victim:
    """A host in a process of its own. `tag` is in the command line of all that it starts."""

    def __init__(self, tag: str, count: int, *more: str) -> None:
        self.tag = tag
        self.process = subprocess.Popen(
            [sys.executable, str(VICTIM), tag, str(count), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TMPDIR": tempfile.gettempdir()},
            text=True,
            bufsize=1,
        )
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.warden, self.folder = self.process.stdout.readline().split()
        self.ours = [int(self.warden), *(pid for pid, _ in kernel.descendants(int(self.warden)))]
        print(file=self.process.stdin, flush=True)
        self.said = self.process.stdout.readline().strip()

    def tagged(self) -> list[int]:
        """Living processes that the victim started."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and self.tag in Path(f"/proc/{name}/cmdline").read_text():
                    found.append(int(name))
            except (OSError, UnicodeDecodeError):
                pass
        own = (str(self.process.pid), self.said)
        return [pid for pid in found if str(pid) not in own and is_alive(pid)]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def seconds_until_all_is_gone(self) -> float:
        """At most five; then what is left is killed and the test fails."""
        began = time.monotonic()
        while time.monotonic() < began + 5:
            left = [pid for pid in (*self.tagged(), *self.ours) if is_alive(pid)]
            if not left and not os.path.exists(self.folder):
                return time.monotonic() - began
        for pid in left:
            os.kill(pid, 9)
        raise AssertionError(f"left: {left}, folder: {os.path.exists(self.folder)}")


@pytest.mark.slow
def test_a_host_killed_with_fifty_daemons(capsys: pytest.CaptureFixture[str]) -> None:
    victim = Victim(f"tag-{os.getpid()}-{time.monotonic_ns()}", 50)
    assert len(victim.tagged()) == 50
    victim.kill()
    seconds = victim.seconds_until_all_is_gone()
    with capsys.disabled():
        print(f"\nhost killed with 50 daemons: gone after {seconds * 1e3:.0f} ms")
    assert seconds < 1


@pytest.mark.slow
def test_a_killed_host_whose_fork_keeps_its_sockets_open() -> None:
    victim = Victim(f"tag-{os.getpid()}-{time.monotonic_ns()}", 2, "forked")
    try:
        victim.kill()
        assert victim.seconds_until_all_is_gone() < 1
        assert is_alive(int(victim.said))
    finally:
        os.kill(int(victim.said), 9)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_host_killed_at_sixty_moments_of_a_spawn(capsys: pytest.CaptureFixture[str]) -> None:
    alive, worst = 0, 0.0
    for moment in range(60):
        victim = Victim(f"tag-{os.getpid()}-{time.monotonic_ns()}", 0)
        until = time.monotonic() + moment / 60 * 0.020
        while time.monotonic() < until:
            pass
        victim.kill()
        alive += bool(victim.tagged())
        worst = max(worst, victim.seconds_until_all_is_gone())
    with capsys.disabled():
        print(f"\nhost killed within 20 ms of a spawn: 60 times, {alive} with something alive; ")
        print(f"gone after {worst * 1e3:.0f} ms at worst")
    assert worst < 2

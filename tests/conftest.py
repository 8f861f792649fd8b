"""What every test is held to: it leaves no process, descriptor, thread or file of ours behind."""

from __future__ import annotations

import gc
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from awaitbox.host.custody import kernel
from tests.fixtures import call, host, opened, session, workspace

__all__ = ["call", "host", "opened", "session", "workspace"]

_TRIO_THREAD = "Trio thread "  # idle ones are kept for ten seconds, and used again


@pytest.fixture(scope="session", autouse=True)
def heeded_interrupts() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and programs inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run folders of tests lie apart from those of the hosts of this machine."""
    folder = tmp_path_factory.mktemp("tmp")
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    yield folder
    tempfile.tempdir = before


@pytest.fixture(autouse=True)
def nothing_left(own_temporary_folder: Path) -> Iterator[None]:
    """Fails the test if anything is there after it that was not there before."""
    children, fds, threads = _children(), _descriptors(), _threads()
    yield
    left = [f"process {name}" for pid, name in _children().items() if pid not in children]
    left += [f"thread {thread.name}" for thread in _threads() if thread not in threads]
    left += [f"file {path}" for path in _files(own_temporary_folder)]
    if _new(fds, _descriptors()):
        gc.collect()  # a cycle may hold one until now
        left += [f"descriptor {text}" for text in _new(fds, _descriptors())]
    if left:
        pytest.fail("left behind: " + ", ".join(left))


def _children() -> dict[int, str]:
    found = {}
    for pid in kernel.children(os.getpid()):
        try:
            found[pid] = f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}"
        except OSError:
            pass
    return found


def _threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if not one.name.startswith(_TRIO_THREAD)]


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # the one that listed the folder
    return found


def _new(before: dict[int, str], after: dict[int, str]) -> list[str]:
    if len(after) <= len(before):
        return []
    return [f"{fd} {target}" for fd, target in after.items() if before.get(fd) != target]


def _files(folder: Path) -> list[str]:
    """Folders of hosts, and sockets by path, below the temporary folder."""
    found = [str(path) for path in folder.glob("awaitbox-*/*")]
    for parent, _, names in os.walk(folder):
        paths = (os.path.join(parent, name) for name in names)
        found += [path for path in paths if stat.S_ISSOCK(os.lstat(path).st_mode)]
    return found

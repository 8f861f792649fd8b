"""The capture on real programs."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from awaitbox.host.limits import CAPTURE_BYTES, CAPTURE_HEAD_BYTES, CAPTURE_TAIL_BYTES
from awaitbox.host.process.capture import Capture, drain


def started(script: str, writer: int) -> subprocess.Popen[bytes]:
    """Start a script that holds the only write end from now on."""
    program = subprocess.Popen(["/bin/sh", "-c", script], stdout=writer)
    os.close(writer)
    return program


def the_file(folder: Path) -> tuple[str, int]:
    """Name and size of the one file that there is."""
    (path,) = folder.iterdir()
    return path.name, path.stat().st_size


async def captured(script: str, folder: Path) -> Capture:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    capture = Capture("stdout", str(folder))
    try:
        with started(script, writer):
            await drain(reader, capture)
        await capture.finish()
    finally:
        os.close(reader)
        capture.close()
    return capture


async def test_small_output(tmp_path: Path) -> None:
    capture = await captured("echo one; printf 'two\\377'", tmp_path)
    assert capture.text() == "one\ntwo\ufffd"
    assert capture.note() is None


async def test_more_than_the_bound(tmp_path: Path) -> None:
    capture = await captured("echo first; head -c 18000000 /dev/zero; echo last", tmp_path)
    size = 18_000_000 + len("first\nlast\n")
    text = capture.text()
    assert len(text) == CAPTURE_HEAD_BYTES + CAPTURE_TAIL_BYTES
    assert (text[:6], text[-5:]) == ("first\n", "last\n")
    name, written = the_file(tmp_path)
    assert written == size
    assert capture.note() == (
        f"stdout: {size:,} bytes, {size - CAPTURE_BYTES:,} of them left out after the first "
        f"{CAPTURE_HEAD_BYTES:,}; all of it is in $TMPDIR/{name}"
    )


@pytest.mark.slow
async def test_two_hundred_megabytes(tmp_path: Path) -> None:
    begin = time.process_time()
    capture = await captured("head -c 200000000 /dev/zero", tmp_path)
    assert time.process_time() - begin < 1.5
    assert capture.total == 200_000_000

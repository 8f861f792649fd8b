"""The capture: whole, then two ends and a file; its notes; what a cancel leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from awaitbox.host.process import capture as capture_module
from awaitbox.host.process import spill as spill_module
from awaitbox.host.process.capture import Capture, drain


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test can write out: 20 bytes whole, else 6 and 4, and 100 in the file."""
    monkeypatch.setattr(capture_module, "CAPTURE_BYTES", 20)
    monkeypatch.setattr(capture_module, "CAPTURE_HEAD_BYTES", 6)
    monkeypatch.setattr(capture_module, "CAPTURE_TAIL_BYTES", 4)
    monkeypatch.setattr(capture_module, "SPILL_BLOCK_BYTES", 10)
    monkeypatch.setattr(spill_module, "SPILL_BYTES", 100)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # the test closed it


def spilled(folder: Path) -> tuple[str, bytes]:
    """Name and content of the one file that there is."""
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    return path.name, path.read_bytes()


async def test_whole_up_to_the_bound(small: None, tmp_path: Path) -> None:
    capture = Capture("stdout", str(tmp_path))
    for byte in b"0123456789abcdefghij":
        capture.feed(bytes([byte]))
    await capture.finish()
    assert capture.raw == b"0123456789abcdefghij"
    assert capture.text() == "0123456789abcdefghij"
    assert capture.note() is None
    assert os.listdir(tmp_path) == []


async def test_two_ends_and_a_file_beyond_it(small: None, tmp_path: Path) -> None:
    capture = Capture("stderr", str(tmp_path))
    capture.feed(b"0123456789abcdefghijk")
    capture.feed(b"lmnopq")
    assert capture.is_spill_due
    await capture.spill()
    assert not capture.is_spill_due
    capture.feed(b"rs\xff")
    await capture.finish()
    assert capture.text() == "012345qrs\ufffd"
    name, content = spilled(tmp_path)
    assert content == b"0123456789abcdefghijklmnopqrs\xff"
    assert capture.note() == (
        f"stderr: 30 bytes, 20 of them left out after the first 6; all of it is in $TMPDIR/{name}"
    )
    assert name.startswith("stderr-")


async def test_the_file_is_bound_too(small: None, tmp_path: Path) -> None:
    capture = Capture("stdout", str(tmp_path), shown="/tmp")
    for _ in range(30):
        capture.feed(b"0123456")
        await capture.spill()
    await capture.finish()
    name, content = spilled(tmp_path)
    assert content == (b"0123456" * 15)[:100]
    assert capture.note() == (
        "stdout: 210 bytes, 200 of them left out after the first 6; "
        f"the first 100 are in /tmp/{name}"
    )


async def test_a_folder_that_is_gone_is_said(small: None, tmp_path: Path) -> None:
    capture = Capture("stdout", str(tmp_path / "gone"))
    for _ in range(3):
        capture.feed(b"x" * 50)
        await capture.spill()
    await capture.finish()
    assert capture.text() == "x" * 10
    assert capture.note() == (
        "stdout: 150 bytes, 140 of them left out after the first 6; "
        "no file has them: No such file or directory"
    )


async def test_a_full_disk_is_said(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture("stdout", str(tmp_path))
    capture.feed(b"x" * 50)
    await capture.spill()
    full = os.open("/dev/full", os.O_WRONLY)
    own, capture._spill._fd = capture._spill._fd, full
    os.close(own)
    for _ in range(2):
        capture.feed(b"x" * 20)
        await capture.spill()
    await capture.finish()
    note = capture.note()
    assert note is not None
    assert "only the first 50 are in $TMPDIR/stdout-" in note
    assert note.endswith("No space left on device")


async def test_closed_before_the_rest_was_written(small: None, tmp_path: Path) -> None:
    capture = Capture("stdout", str(tmp_path))
    capture.feed(b"x" * 50)
    await capture.spill()
    capture.feed(b"x" * 10)
    capture.close()
    await capture.finish()
    assert (capture.note() or "").startswith(
        "stdout: 60 bytes, 50 of them left out after the first 6; the first 50 are in $TMPDIR/"
    )


async def test_a_cut_falls_into_a_character(small: None, tmp_path: Path) -> None:
    capture = Capture("stdout", str(tmp_path))
    capture.feed("aaaaaéééééééééé".encode())
    await capture.finish()
    assert capture.text() == "aaaaa\ufffdéé"


async def test_drain_reads_to_the_end(tmp_path: Path, pipe: tuple[int, int]) -> None:
    capture = Capture("stdout", str(tmp_path))
    reader, writer = pipe
    assert capture.last_byte_at < 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain, reader, capture)
        for piece in (b"one\n", b"two\n"):
            os.write(writer, piece)
            await trio.testing.wait_all_tasks_blocked()
        os.close(writer)
    assert capture.is_ended
    assert capture.text() == "one\ntwo\n"


async def test_drain_says_when_the_last_byte_came(
    tmp_path: Path, pipe: tuple[int, int], mock_clock: trio.testing.MockClock
) -> None:
    capture = Capture("stdout", str(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain, pipe[0], capture)
        mock_clock.jump(5)
        os.write(pipe[1], b"x")
        await trio.testing.wait_all_tasks_blocked(0.001)
        came = trio.current_time()
        mock_clock.jump(7)
        assert capture.last_byte_at == came
        nursery.cancel_scope.cancel()
    assert capture.last_byte_at == came


async def test_a_cancel_keeps_what_was_written(tmp_path: Path, pipe: tuple[int, int]) -> None:
    capture = Capture("stdout", str(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain, pipe[0], capture)
        os.write(pipe[1], b"before ")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        os.write(pipe[1], b"and at the cancel")
    assert capture.text() == "before and at the cancel"
    assert not capture.is_ended
    os.write(pipe[1], b", later")
    assert os.read(pipe[0], 100) == b", later"


async def test_a_cancel_while_a_block_is_written(
    small: None,
    tmp_path: Path,
    pipe: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: trio.testing.MockClock,
) -> None:
    """The thread is waited for, and what came meanwhile is taken; a slow disk is no quiet."""
    capture = Capture("stdout", str(tmp_path))
    write = capture._spill._write
    quiet: list[float] = []

    def meanwhile() -> None:
        mock_clock.jump(5)
        quiet.append(trio.current_time() - capture.last_byte_at)
        os.write(pipe[1], b"late")
        scope.cancel()

    def slow_write() -> None:
        trio.from_thread.run_sync(meanwhile)
        write()

    with monkeypatch.context() as patch, trio.CancelScope() as scope:
        patch.setattr(capture._spill, "_write", slow_write)
        os.write(pipe[1], b"x" * 30)
        await drain(pipe[0], capture)
    assert scope.cancelled_caught
    assert quiet == [0]
    await capture.finish()
    assert capture.text() == "xxxxxxlate"
    assert spilled(tmp_path)[1] == b"x" * 30 + b"late"

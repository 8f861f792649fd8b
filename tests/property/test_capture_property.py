"""The capture for any cutting of a stream: what is kept, what is in the file, what is counted."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from awaitbox.host.process import capture as capture_module
from awaitbox.host.process import spill as spill_module
from awaitbox.host.process.capture import Capture

WHOLE, HEAD, TAIL, BLOCK, FILE = 40, 15, 12, 20, 150


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=8))
def test_any_chunks(chunks: list[bytes]) -> None:
    data = b"".join(chunks)

    async def capture_all(folder: str) -> Capture:
        capture = Capture("stdout", folder)
        for chunk in chunks:
            capture.feed(chunk)
            assert len(capture._tail) <= max(WHOLE, 2 * TAIL)
            if capture.is_spill_due:
                await capture.spill()
        await capture.finish()
        return capture

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(capture_module, "CAPTURE_BYTES", WHOLE)
        patch.setattr(capture_module, "CAPTURE_HEAD_BYTES", HEAD)
        patch.setattr(capture_module, "CAPTURE_TAIL_BYTES", TAIL)
        patch.setattr(capture_module, "SPILL_BLOCK_BYTES", BLOCK)
        patch.setattr(spill_module, "SPILL_BYTES", FILE)
        capture = trio.run(capture_all, folder)
        files = [path.read_bytes() for path in Path(folder).iterdir()]
        assert capture.total == len(data)
        if len(data) <= WHOLE:
            assert (capture.raw, capture.left_out, files) == (data, 0, [])
            assert capture.note() is None
        else:
            assert capture.raw == data[:HEAD] + data[-TAIL:]
            assert capture.left_out == len(data) - HEAD - TAIL
            assert files == [data[:FILE]]
            assert ("all of it" in (capture.note() or "")) == (len(data) <= FILE)

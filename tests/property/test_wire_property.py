"""Any bytes in any split give frames or a `WireError`, and nothing else."""

from __future__ import annotations

import itertools
import os
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaitbox.shims import wire

TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
IDS = st.integers(0, 2**40)
FRAMES_OF_WORKER = st.one_of(
    st.builds(wire.Ready, IDS),
    st.builds(wire.Call, IDS, TEXT, st.dictionaries(TEXT, VALUES, max_size=4), st.integers(0, 3)),
    st.builds(wire.Cancel, IDS),
    st.builds(wire.Done, IDS, TEXT, TEXT | st.none(), st.none(), IDS, st.lists(TEXT, max_size=3)),
    st.builds(
        wire.Inspected, IDS, st.lists(st.builds(wire.Variable, TEXT, TEXT, TEXT), max_size=3)
    ),
)
FRAMES_OF_HOST = st.one_of(
    st.builds(wire.Exec, IDS, TEXT),
    st.builds(wire.Inspect, IDS),
    st.builds(wire.Return, IDS, VALUES),
    st.builds(wire.Raise, IDS, TEXT, TEXT, TEXT),
)


def fed(decoder: wire.Decoder, data: bytes, cuts: list[int]) -> list[Any]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [
        frame
        for begin, end in itertools.pairwise(places)
        for frame in decoder.feed(memoryview(data)[begin:end])
    ]


@pytest.mark.parametrize("of_worker", [True, False])
@given(data=st.data())
def test_frames_survive_any_split(of_worker: bool, data: st.DataObject) -> None:
    frames = data.draw(st.lists(FRAMES_OF_WORKER if of_worker else FRAMES_OF_HOST, max_size=5))
    stream = b"".join(map(wire.pack, frames))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    assert fed(wire.Decoder(of_worker=of_worker), stream, cuts) == frames


@pytest.mark.parametrize("of_worker", [True, False])
@given(junk=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_bytes(of_worker: bool, junk: bytes, cuts: list[int]) -> None:
    try:
        fed(wire.Decoder(of_worker=of_worker), junk, cuts)
    except wire.WireError:
        pass


@pytest.mark.parametrize("of_worker", [True, False])
@given(body=st.binary(max_size=200) | VALUES.map(msgspec.msgpack.encode))
def test_any_body(of_worker: bool, body: bytes) -> None:
    try:
        frames = wire.Decoder(of_worker=of_worker).feed(
            memoryview(len(body).to_bytes(4, "big") + body)
        )
    except wire.WireError:
        return
    assert all(isinstance(frame, msgspec.Struct) for frame in frames)


@given(frame=FRAMES_OF_WORKER, at=st.integers(0, 400), byte=st.integers(0, 255))
def test_one_wrong_byte(frame: Any, at: int, byte: int) -> None:
    data = bytearray(wire.pack(frame))
    data[at % len(data)] = byte
    try:
        wire.Decoder(of_worker=True).feed(memoryview(bytes(data)))
    except wire.WireError:
        pass


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
def test_nesting_is_no_crash(depth: int) -> None:
    body = msgspec.msgpack.encode({"frame": "Call", "id": 1, "verb": "x"})
    nested = body[:1] + body[1:]
    payload = b"\x84" + nested[1:] + b"\xa4args\x81\xa1x" + b"\x91" * depth + b"\xc0"
    with pytest.raises(wire.WireError):
        frame = wire.Decoder(of_worker=True).feed(
            memoryview(len(payload).to_bytes(4, "big") + payload)
        )
        if depth == 100:
            raise wire.WireError(f"fine: {type(frame[0]).__name__}")


def test_sizes_are_bounded_before_they_are_read() -> None:
    decoder = wire.Decoder(of_worker=True)
    with pytest.raises(wire.WireError, match="over the bound"):
        decoder.feed(memoryview((wire.WORKER_FRAME_BYTES + 1).to_bytes(4, "big")))


@pytest.mark.parametrize(
    "message",
    [
        {"frame": "Exec", "id": 1, "code": "x"},  # only a host says that
        {"frame": "Call", "id": 1, "verb": "x", "args": 3},
        {"frame": "Call", "id": 1, "verb": "x", "args": {}, "more": 1},
        {"frame": "Call", "id": "1", "verb": "x", "args": {}},
        {"frame": "Done", "id": 1},
        {"frame": "Nope"},
        {},
        [],
        None,
        3,
    ],
)
def test_what_a_worker_may_not_say(message: Any) -> None:
    body = msgspec.msgpack.encode(message)
    with pytest.raises(wire.WireError):
        wire.Decoder(of_worker=True).feed(memoryview(len(body).to_bytes(4, "big") + body))


# --- descriptors
@settings(max_examples=30)
@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_descriptors_are_claimed_in_order(counts: list[int]) -> None:
    ours, theirs = socket.socketpair()
    receiver = wire.Receiver(theirs, of_worker=True)
    opened: list[int] = []
    try:
        for id, count in enumerate(counts):
            fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
            opened += fds
            data = wire.pack(wire.Call(id, "x", {}, count))
            socket.send_fds(ours, [data], fds) if fds else ours.send(data)
            (frame,) = receiver.read() or []
            claimed = receiver.claim(frame.fds)
            opened += claimed
            assert len(claimed) == count and not receiver.descriptors
        with pytest.raises(wire.WireError):
            receiver.claim(1)
        with pytest.raises(wire.WireError):
            receiver.claim(-1)
    finally:
        for fd in opened:
            os.close(fd)
        ours.close()
        theirs.close()


def test_more_descriptors_than_a_frame_carries() -> None:
    ours, theirs = socket.socketpair()
    receiver = wire.Receiver(theirs, of_worker=True)
    try:
        socket.send_fds(ours, [b"x"], [0] * (wire.FRAME_DESCRIPTORS + 2))
        with pytest.raises(wire.WireError):
            receiver.read()
    finally:
        for fd in receiver.descriptors:
            os.close(fd)
        ours.close()
        theirs.close()

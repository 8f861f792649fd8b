"""Packets and stages: what may come, and that nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaitbox.host.custody import protocol, stages

PLAIN = st.binary(max_size=40).filter(lambda text: b"\0" not in text)
NAMES = PLAIN.filter(lambda name: bool(name) and b"=" not in name)


def test_every_packet_comes_back() -> None:
    packets = {
        protocol.STOP: (300,),
        protocol.NOFORK: (11,),
        protocol.ENDED: (-1, 2),
        protocol.LOST: (9, 0),
        protocol.FAILED: (2, protocol.AT_FOLDER),
        protocol.EXIT: (3 << 8, 1),
        protocol.GONE: (0, 1, 15),
    }
    for kind in range(protocol.MACHINE, protocol.NOBODY + 1):
        values = packets.get(kind, ())
        if kind not in (protocol.SETUP, protocol.BROKEN):
            assert protocol.unpack(protocol.pack(kind, 7, *values)) == (kind, 7, values)
    text = protocol.pack_text(protocol.BROKEN, b"why")
    assert protocol.unpack(text) == (protocol.BROKEN, 0, ())
    assert protocol.text_of(text) == b"why"
    assert len(protocol.pack_text(protocol.SETUP, bytes(1 << 20))) == protocol.PACKET_BYTES


def test_a_packet_is_refused_at_every_wrong_length() -> None:
    whole = protocol.pack(protocol.GONE, 1, 0, 0, 0)
    for length in (*range(len(whole)), len(whole) + 1):
        with pytest.raises(protocol.ProtocolError):
            protocol.unpack((whole + b"\0")[:length])


@given(st.binary(max_size=64))
def test_any_bytes_are_a_packet_or_a_protocol_error(data: bytes) -> None:
    try:
        kind, _, _ = protocol.unpack(data)
    except protocol.ProtocolError:
        return
    assert protocol.name_of(kind)


@given(st.lists(PLAIN, min_size=1), st.dictionaries(NAMES, PLAIN), PLAIN, PLAIN, st.integers(0))
def test_a_request_comes_back(
    argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, executable: bytes, files: int
) -> None:
    request = protocol.Request(argv, env, cwd, open_files=files, executable=executable)
    reader = protocol.RequestReader()
    got = [reader.feed(packet) for packet in protocol.pack_request(request)]
    assert got[-1] is not None
    assert (got[-1].argv, got[-1].env, got[-1].cwd) == (argv, env, cwd)
    assert (got[-1].executable, got[-1].terminal, got[-1].open_files) == (executable, b"", files)


def test_a_long_request_takes_several_packets() -> None:
    request = protocol.Request([b"x" * 100_000] * 15, {}, b"/", open_files=1)
    packets = list(protocol.pack_request(request))
    assert max(map(len, packets)) == protocol.PACKET_BYTES
    reader = protocol.RequestReader()
    assert [reader.feed(packet) for packet in packets[:-1]] == [None] * (len(packets) - 1)
    whole = reader.feed(packets[-1])
    assert whole is not None
    assert whole.argv == request.argv
    with pytest.raises(protocol.ProtocolError):
        reader.feed(b"x")


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_any_bytes_are_a_request_or_a_protocol_error(packets: list[bytes]) -> None:
    reader = protocol.RequestReader()
    try:
        for packet in packets:
            reader.feed(packet)
    except protocol.ProtocolError:
        pass


@pytest.mark.parametrize(
    "body",
    [b"", b"a\0b\0c\0d\0e", b"/\0\0\x001\x002\0one", b"/\0\0\x001\x00-1\0a", b"/\0\0\x00x\x001\0a"],
)
def test_a_request_that_does_not_parse(body: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.RequestReader().feed(len(body).to_bytes(4, "big") + body)


# ------------------------------------------------------------------ stages
ALLOWED: dict[str, dict[int | str, str]] = {
    stages.ASKED: {
        protocol.STARTED: stages.RUNNING,
        protocol.FAILED: stages.OVER,
        stages.CLOSED: stages.LOST,
        stages.ORPHANED: stages.OVER,
    },
    stages.RUNNING: {
        protocol.EXIT: stages.ENDED,
        protocol.GONE: stages.OVER,
        protocol.SURVIVOR: stages.RUNNING,
        protocol.NOBODY: stages.RUNNING,
        protocol.BUSY: stages.RUNNING,
        stages.CLOSED: stages.LOST,
        stages.ORPHANED: stages.OVER,
    },
    stages.ENDED: {
        protocol.GONE: stages.OVER,
        protocol.SURVIVOR: stages.ENDED,
        protocol.NOBODY: stages.ENDED,
        protocol.BUSY: stages.ENDED,
        stages.CLOSED: stages.LOST,
        stages.ORPHANED: stages.OVER,
    },
    stages.LOST: {stages.ORPHANED: stages.OVER},
    stages.OVER: {stages.ORPHANED: stages.OVER},
}


@pytest.mark.parametrize("state", stages.STATES)
@pytest.mark.parametrize("event", stages.EVENTS)
def test_every_event_in_every_state(state: str, event: int | str) -> None:
    if (expected := ALLOWED[state].get(event)) is not None:
        assert stages.after(state, event) == expected
    else:
        with pytest.raises(stages.IllegalEvent, match=state):
            stages.after(state, event)


def test_names_are_those_of_the_table() -> None:
    for name in ("MACHINE", "WORKER", "UP", "BROKEN", "STARTED", "NOBODY"):
        assert protocol.name_of(getattr(protocol, name)) == name

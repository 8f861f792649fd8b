"""A host facing a worker that sends anything at all."""

from __future__ import annotations

import array
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing

from awaitbox.host.custody.custody import WorkerProcess
from awaitbox.host.errors import HostError
from awaitbox.host.limits import BACKLOG_BYTES, CALLS_IN_FLIGHT
from awaitbox.host.worker import MOVES, CellRun, Worker
from awaitbox.shims import wire


class FakeProcess:
    """A worker's process: its end closes its socket. Notes its signals."""

    def __init__(self, sock: socket.socket) -> None:
        self.pid = 1
        self.ended = trio.Event()
        self._sock = sock
        self.signals: list[int] = []
        self.is_closed = False
        self.kills = 0

    def signal(self, number: int) -> None:
        self.signals.append(number)

    async def kill(self) -> None:
        self.kills += 1
        if not self.ended.is_set():
            self._sock.shutdown(socket.SHUT_RDWR)
            self.ended.set()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        self.is_closed = True


class FakeSession:
    """Answers `now` at once and `later` when `released`; keeps what it was given."""

    def __init__(self) -> None:
        self.calls: list[wire.Call] = []
        self.released = trio.Event()
        self.cancelled = 0

    def answer(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise | None:
        self.calls.append(call)
        if call.verb != "now":
            return None
        for fd in fds:
            os.close(fd)
        return wire.Return(call.id, {"n": len(self.calls)})

    def cancelled_late(self, call: int) -> None:
        return None

    async def answer_later(self, call: wire.Call, fds: list[int]) -> wire.Return | wire.Raise:
        try:
            await self.released.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            for fd in fds:
                os.close(fd)
        return wire.Return(call.id, None)


class Peer:
    """The hostile end, and what it attacks."""

    def __init__(self, worker: Worker, sock: trio.socket.SocketType) -> None:
        self.worker = worker
        self.process = cast(FakeProcess, worker.process)
        self.session = FakeSession()
        self.sock = sock

    async def say(self, *frames: wire._Frame | bytes) -> None:
        for frame in frames:
            data = frame if isinstance(frame, bytes) else wire.pack(frame)
            while data:
                data = data[await self.sock.send(data) :]

    async def begin(self) -> None:
        """Be a good worker until the session is there."""
        await self.say(wire.Ready(1))
        await self.worker.ready.wait()
        self.worker.greet(self.session, wire.Hello({}, [], "/", []))

    async def is_over(self) -> str:
        """Wait until the worker was given up: -> why."""
        with trio.fail_after(5):
            await self.worker.over.wait()
        assert self.worker.state == "over"
        assert self.process.kills
        assert self.process.is_closed
        return self.worker.why or ""


@asynccontextmanager
async def attacked(*, is_begun: bool = True) -> AsyncIterator[Peer]:
    """A running `Worker` and its peer."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    worker = Worker(cast(WorkerProcess, FakeProcess(theirs)), ours, bytearray(1 << 18))
    sock = trio.socket.from_stdlib_socket(theirs)
    with sock:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.run)
            peer = Peer(worker, sock)
            if is_begun:
                await peer.begin()
            yield peer
            nursery.cancel_scope.cancel()
    assert worker.over.is_set()


def frame(**fields: Any) -> bytes:
    """A frame with any fields, well-formed as msgpack."""
    body = msgspec.msgpack.encode(fields)
    return len(body).to_bytes(4, "big") + body


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


GARBAGE = {
    "zeros": bytes(64),
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "largest length": b"\xff\xff\xff\xff",
    "length over the bound": (wire.WORKER_FRAME_BYTES + 1).to_bytes(4, "big"),
    "empty frame": sized(b""),
    "not a map": sized(msgspec.msgpack.encode([1, 2, 3])),
    "reserved byte": sized(b"\xc1"),
    "cut body": sized(wire.pack(wire.Ready(1))[4:-1]),
    "trailing byte": sized(wire.pack(wire.Ready(1))[4:] + b"\0"),
    "nested arrays": sized(b"\x91" * 200_000 + b"\xc0"),
    "nested maps": sized(b"\x81\xa1a" * 200_000 + b"\xc0"),
    "nested in args": sized(
        b"\x84\xa5frame\xa4Call\xa2id\x01\xa4verb\xa3now\xa4args\x81\xa1a"
        + b"\x91" * 100_000
        + b"\xc0"
    ),
    "huge array header": sized(b"\xdd\xff\xff\xff\xff"),
    "huge string header": sized(b"\xdb\xff\xff\xff\xff"),
    "huge map header": sized(b"\xdf\xff\xff\xff\xff"),
    "bad utf-8": sized(b"\x81\xa5frame\xa2\xff\xfe"),
    "no tag": frame(id=1),
    "unknown tag": frame(frame="Run", id=1),
    "tag is a number": frame(frame=3),
    "a frame of the host": frame(frame="Exec", id=1, code="1"),
    "answer of the host": frame(frame="Return", id=1, value=1),
    "unknown field": frame(frame="Cancel", id=1, more=1),
    "missing field": frame(frame="Call", id=1, verb="now"),
    "args is a number": frame(frame="Call", id=1, verb="now", args=3),
    "args is a list": frame(frame="Call", id=1, verb="now", args=[]),
    "args has number keys": frame(frame="Call", id=1, verb="now", args={1: 2}),
    "id is a text": frame(frame="Call", id="1", verb="now", args={}),
    "id is a bool": frame(frame="Call", id=True, verb="now", args={}),
    "id is too large": sized(
        b"\x84\xa5frame\xa4Call\xa2id\xc7\x09\x01" + bytes(9) + b"\xa4verb\xa3now\xa4args\x80"
    ),
    "verb is bytes": frame(frame="Call", id=1, verb=b"now", args={}),
    "descriptors that never came": frame(frame="Call", id=1, verb="now", args={}, fds=1),
    "negative descriptors": frame(frame="Call", id=1, verb="now", args={}, fds=-1),
    "many descriptors": frame(frame="Call", id=1, verb="now", args={}, fds=1_000_000),
    "ready twice": wire.pack(wire.Ready(1)),
    "done of no cell": wire.pack(wire.Done(1, "ok", None, None, 0, [])),
    "inspected unasked": wire.pack(wire.Inspected(1, [])),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_the_end_of_the_worker_and_is_named(data: bytes) -> None:
    async with attacked() as peer:
        await peer.say(data)
        assert "protocol" in await peer.is_over()
        assert peer.session.calls == []


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_in_a_cell_ends_the_cell(data: bytes) -> None:
    if data == wire.pack(wire.Done(1, "ok", None, None, 0, [])):
        pytest.skip("that is the right answer then")
    async with attacked() as peer:
        cell = peer.worker.execute("1")
        await peer.say(data)
        await peer.is_over()
        assert cell.done.is_set()
        assert cell.frame is None


@pytest.mark.parametrize(
    "first",
    [
        wire.Call(1, "now", {}),
        wire.Done(1, "ok", None, None, 0, []),
        wire.Inspected(1, []),
    ],
    ids=lambda frame: type(frame).__name__,
)
async def test_nothing_comes_before_ready(first: wire._Frame) -> None:
    async with attacked(is_begun=False) as peer:
        await peer.say(first)
        assert "protocol" in await peer.is_over()


async def test_a_call_before_the_session_is_refused() -> None:
    async with attacked(is_begun=False) as peer:
        await peer.say(wire.Ready(1), wire.Call(1, "now", {}))
        assert "protocol" in await peer.is_over()


async def test_frames_in_any_cut_are_the_same_frames() -> None:
    data = b"".join(wire.pack(wire.Call(n, "now", {"x": "y" * n})) for n in range(1, 20))
    for step in (1, 2, 3, 5, 64):
        async with attacked() as peer:
            for at in range(0, len(data), step):
                await peer.say(data[at : at + step])
                await trio.lowlevel.checkpoint()
            with trio.fail_after(5):
                while len(peer.session.calls) < 19:
                    await trio.lowlevel.checkpoint()
            assert [call.id for call in peer.session.calls] == list(range(1, 20))


@pytest.mark.parametrize(
    ("state", "event"),
    [(s, e) for s in ("starting", "idle", "running", "over") for e in ("ready", "exec", "done")],
)
async def test_the_table_of_states_is_kept(state: str, event: str) -> None:
    async with attacked() as peer:
        worker = peer.worker
        worker.state = state
        if (state, event) in MOVES:
            worker._move(event)
            assert worker.state == MOVES[state, event]
        else:
            with pytest.raises(wire.WireError, match=f"{event} while {state}"):
                worker._move(event)
        worker.state = "idle"


async def test_the_end_of_another_cell_is_not_the_end_of_this_one() -> None:
    async with attacked() as peer:
        cell = peer.worker.execute("1")
        await peer.say(wire.Done(cell.id + 1, "ok", "forged", None, 0, []))
        await peer.is_over()
        assert cell.frame is None


async def test_a_cell_that_ends_twice_ends_the_worker() -> None:
    async with attacked() as peer:
        cell = peer.worker.execute("1")
        done = wire.Done(cell.id, "ok", None, None, 0, [])
        await peer.say(done, done)
        assert "protocol" in await peer.is_over()
        assert cell.frame is not None


async def test_two_calls_with_one_id_are_a_breach() -> None:
    async with attacked() as peer:
        await peer.say(wire.Call(7, "later", {}), wire.Call(7, "later", {}))
        assert "protocol" in await peer.is_over()
        await trio.testing.wait_all_tasks_blocked()


async def test_a_cancel_of_nothing_is_nothing() -> None:
    async with attacked() as peer:
        await peer.say(wire.Cancel(99), wire.Call(1, "later", {}), wire.Cancel(1), wire.Cancel(1))
        with trio.fail_after(5):
            while not peer.session.cancelled:
                await trio.lowlevel.checkpoint()
        assert peer.worker.state == "idle"


async def test_the_end_of_a_worker_cancels_its_calls() -> None:
    async with attacked() as peer:
        await peer.say(*[wire.Call(n, "later", {}) for n in range(50)])
        with trio.fail_after(5):
            while len(peer.session.calls) < 50:
                await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        peer.sock.shutdown(socket.SHUT_WR)
        await peer.is_over()
        assert peer.session.cancelled == 50


# --- descriptors


def descriptors(count: int) -> list[tuple[int, int, bytes]]:
    """Ancillary data with `count` copies of one descriptor."""
    numbers = array.array("i", [0] * count)
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers.tobytes())]


@pytest.mark.parametrize("count", [5, 20, 253])
async def test_more_descriptors_than_a_frame_may_carry_end_it(count: int) -> None:
    async with attacked() as peer:
        await peer.sock.sendmsg([wire.pack(wire.Cancel(1))], descriptors(count))
        assert "descriptors" in await peer.is_over()


async def test_descriptors_that_no_frame_claims_are_bounded() -> None:
    async with attacked() as peer:
        try:
            for _ in range(wire.PENDING_DESCRIPTORS + 1):
                await peer.sock.sendmsg([wire.pack(wire.Cancel(1))], descriptors(1))
        except OSError:
            pass  # it was over before the last one
        assert "descriptors" in await peer.is_over()


async def test_descriptors_of_a_refused_call_are_closed() -> None:
    async with attacked() as peer:
        call = wire.Call(1, "later", {}, fds=3)
        await peer.sock.sendmsg([wire.pack(call)], descriptors(3))
        await peer.sock.sendmsg([wire.pack(call)], descriptors(3))
        await peer.is_over()


async def test_descriptors_of_an_immediate_call_are_closed() -> None:
    async with attacked() as peer:
        await peer.sock.sendmsg([wire.pack(wire.Call(1, "now", {}, fds=3))], descriptors(3))
        with trio.fail_after(5):
            while not peer.session.calls:
                await trio.lowlevel.checkpoint()


# --- floods


async def test_calls_in_flight_are_bounded() -> None:
    async with attacked() as peer:
        replies = 0

        async def read() -> None:
            nonlocal replies
            decoder = wire.Decoder(of_worker=False)
            while True:
                data = await peer.sock.recv(1 << 16)
                for answer in decoder.feed(memoryview(data)):
                    if isinstance(answer, wire.Raise):
                        assert answer.code == "too_many"
                        replies += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await peer.say(
                b"".join(wire.pack(wire.Call(n, "later", {})) for n in range(CALLS_IN_FLIGHT + 20))
            )
            with trio.fail_after(10):
                while replies < 20:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert peer.worker.state == "idle"


@pytest.mark.slow  # tens of megabytes
async def test_a_worker_that_reads_no_answers_is_read_no_more() -> None:
    async with attacked() as peer:

        class Verbose(FakeSession):
            def answer(self, call: wire.Call, fds: list[int]) -> wire.Return:
                self.calls.append(call)
                return wire.Return(call.id, "x" * 100_000)

        peer.session = Verbose()
        peer.worker.greet(peer.session, wire.Hello({}, [], "/", []))
        flood = b"".join(wire.pack(wire.Call(n, "now", {})) for n in range(2_000))
        with trio.move_on_after(10) as scope:
            for _ in range(200):
                await peer.say(flood)
                if peer.worker._outbox.size > BACKLOG_BYTES:
                    scope.cancel()
        size = peer.worker._outbox.size
        assert size < BACKLOG_BYTES * 60  # what one read of the socket may ask for, and no more
        await trio.testing.wait_all_tasks_blocked()
        assert peer.worker._outbox.size == size
        with trio.fail_after(5):
            await peer.worker.kill()


# --- ends


@pytest.mark.parametrize("when", ["idle", "running"])
async def test_a_closed_socket_ends_it(when: str) -> None:
    async with attacked() as peer:
        cell: CellRun | None = peer.worker.execute("1") if when == "running" else None
        peer.sock.shutdown(socket.SHUT_RDWR)
        assert await peer.is_over() == ""
        assert cell is None or (cell.done.is_set() and cell.frame is None)
        with pytest.raises(HostError) as caught:
            peer.worker.execute("1")
        assert caught.value.code == "worker_lost"


async def test_whoever_asks_for_the_namespace_is_woken_by_the_end() -> None:
    async with attacked() as peer:
        async with trio.open_nursery() as nursery:
            found: list[list[wire.Variable]] = []

            async def ask() -> None:
                found.append(await peer.worker.inspect())

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            peer.sock.shutdown(socket.SHUT_RDWR)
        assert found == [[]]


async def test_an_interrupt_that_is_ignored_ends_in_a_kill(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with attacked() as peer:
        cell = peer.worker.execute("while True: pass")
        begun = trio.current_time()
        assert await peer.worker.interrupt(cell)
        assert trio.current_time() - begun == pytest.approx(2.5, abs=0.6)
        assert peer.process.signals == [signal.SIGINT] * len(peer.process.signals)
        assert len(peer.process.signals) > 3
        assert cell.done.is_set()


async def test_an_interrupt_that_is_heard_is_no_kill() -> None:
    async with attacked() as peer:
        cell = peer.worker.execute("while True: pass")
        await peer.say(wire.Done(cell.id, "interrupted", None, None, 0, []))
        assert not await peer.worker.interrupt(cell)
        assert peer.process.kills == 0


async def test_an_answer_that_is_no_data_is_an_error_of_its_call() -> None:
    async with attacked() as peer:

        class Odd(FakeSession):
            def answer(self, call: wire.Call, fds: list[int]) -> wire.Return:
                return wire.Return(call.id, object())

        peer.worker.greet(Odd(), wire.Hello({}, [], "/", []))
        await peer.say(wire.Call(1, "now", {}))
        decoder, answers = wire.Decoder(of_worker=False), list[Any]()
        with trio.fail_after(5):
            while not any(isinstance(answer, wire.Raise) for answer in answers):
                answers += decoder.feed(memoryview(await peer.sock.recv(1 << 16)))
        assert answers[-1].code == "result_too_large"
        assert peer.worker.state == "idle"


def test_every_frame_of_a_worker_is_among_those_attacked() -> None:
    tags: set[Callable[..., Any]] = set(wire.FromWorker.__args__)
    assert {kind.__name__ for kind in tags} == {"Ready", "Call", "Cancel", "Done", "Inspected"}

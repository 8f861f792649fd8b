"""The worker's end of the socket, against a host that is a thread."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from awaitbox.shims import wire
from awaitbox.shims.critical import Critical
from awaitbox.shims.failure import VerbError
from awaitbox.shims.link import Link


def _exact(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@contextmanager
def linked(answer: Callable[[wire.Call], Any]) -> Iterator[tuple[Link, list[Any]]]:
    """A link whose host answers call after call, each with one blocking write; what it saw."""
    ours, theirs = socket.socketpair()
    seen: list[Any] = []
    decoder = wire.Decoder(of_worker=True)

    def serve() -> None:
        try:
            while True:
                size = _exact(theirs, 4)
                body = _exact(theirs, int.from_bytes(size, "big"))
                for frame in decoder.feed(memoryview(size + body)):
                    seen.append(frame)
                    if isinstance(frame, wire.Call):
                        reply = answer(frame)
                        if reply is not None:
                            theirs.sendall(wire.pack(reply))
        except (EOFError, OSError):
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Link(ours, Critical()), seen
    finally:
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()
        ours.close()
        theirs.close()


def echo(call: wire.Call) -> wire.Return:
    return wire.Return(call.id, call.args.get("x"))


def test_a_blocking_call() -> None:
    with linked(echo) as (link, _):
        assert [link.call_sync("echo", {"x": x}) for x in (1, "a", None, {"b": [1]})] == [
            1,
            "a",
            None,
            {"b": [1]},
        ]


def test_a_failure_is_the_builtin() -> None:
    with linked(lambda call: wire.Raise(call.id, "KeyError", "unknown_id", "no such")) as (link, _):
        with pytest.raises(KeyError, match=r"^no such$") as caught:
            link.call_sync("echo", {})
        assert isinstance(caught.value, VerbError) and caught.value.code == "unknown_id"


def test_a_timeout_cancels_the_call() -> None:
    with linked(lambda call: None if call.verb == "never" else echo(call)) as (link, seen):
        with pytest.raises(TimeoutError):
            link.call_sync("never", {}, timeout=0.01)
        assert link.call_sync("echo", {"x": 1}, timeout=10) == 1
        assert [type(frame).__name__ for frame in seen] == ["Call", "Cancel", "Call"]
        assert seen[1].id == seen[0].id


def test_a_host_that_writes_before_it_reads_does_not_hang_us() -> None:
    """Both sides have more to say than the socket takes: whoever waits to write has to read."""
    big = b"x" * (4 << 20)
    with linked(lambda call: wire.Return(call.id, big)) as (link, _):
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: link.call_sync("echo", {"x": big}), range(8)))
        assert [len(answer) for answer in answers] == [len(big)] * 8


def test_threads_read_for_each_other() -> None:
    with linked(echo) as (link, _):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda x: link.call_sync("echo", {"x": x}), range(400)))
        assert answers == list(range(400))
        assert link.call_sync("echo", {"x": 1}) == 1


def test_descriptors_travel_beside_the_call() -> None:
    ours, theirs = socket.socketpair()
    receiver = wire.Receiver(theirs, of_worker=True)
    read, write = os.pipe()
    seen = []

    def serve() -> None:
        for frame in receiver.read() or []:
            seen.extend(receiver.claim(frame.fds))
            theirs.sendall(wire.pack(wire.Return(frame.id, None)))

    thread = threading.Thread(target=serve)
    thread.start()
    link = Link(ours, Critical())
    link.call_sync("process.start", {}, fds=[read, write])
    thread.join()
    os.write(seen[1], b"x")
    assert os.read(read, 1) == b"x"
    for fd in (read, write, *seen):
        os.close(fd)
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), TypeError),
        (10**30, OverflowError),
        ("\ud800", ValueError),
        (b"x" * (wire.WORKER_FRAME_BYTES + 1), ValueError),
    ],
)
def test_what_can_not_be_sent_is_refused_here(value: Any, kind: type[Exception]) -> None:
    with linked(echo) as (link, seen):
        with pytest.raises(kind, match="echo"):
            link.call_sync("echo", {"x": value})
        assert link.call_sync("echo", {"x": 1}) == 1
        assert len(seen) == 1


def test_released_threads_raise_and_later_ones_do_not_start() -> None:
    with linked(lambda call: None) as (link, _):
        began = threading.Barrier(4)

        def wait() -> str:
            began.wait()
            try:
                link.call_sync("never", {})
            except KeyboardInterrupt:
                return "released"
            return "answered"

        with ThreadPoolExecutor(3) as pool:
            waits = [pool.submit(wait) for _ in range(3)]
            began.wait()
            link.refusal = KeyboardInterrupt  # for those that have not sent yet
            while not all(one.done() for one in waits):
                link.release_threads(KeyboardInterrupt)
            assert [one.result() for one in waits] == ["released"] * 3


async def test_a_call_under_trio() -> None:
    with linked(echo) as (link, seen):
        assert await link.call("echo", {"x": 3}) == 3  # a run that is not the worker's own
        with trio.CancelScope() as scope:
            scope.cancel()
            await link.call("echo", {"x": 4})
        assert scope.cancelled_caught and len(seen) == 1


def test_a_call_under_asyncio() -> None:
    async def main(link: Link) -> Any:
        return await asyncio.gather(*[link.call("echo", {"x": x}) for x in range(50)])

    with linked(echo) as (link, _):
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            assert runner.run(main(link)) == list(range(50))


def test_requests_wait_and_are_announced() -> None:
    ours, host = socket.socketpair()
    link = Link(ours, Critical())
    announced = []
    link.arrived = lambda: announced.append(1)
    host.sendall(wire.pack(wire.Exec(1, "x")) + wire.pack(wire.Inspect(2)))
    link.pump()
    assert [type(request).__name__ for request in link.requests] == ["Exec", "Inspect"]
    assert announced == [1]
    ours.close()
    host.close()

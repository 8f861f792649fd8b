"""How cells, workers, sessions and hosts end: interrupts, deadlines, crashes, cancels, errors."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio
import trio.testing

from awaitbox import CellResult, HostError
from awaitbox.host.session import Session
from tests.product import (
    Call,
    OpenHost,
    caller,
    is_alive,
    is_there,
    ok,
    running,
    until,
    until_running,
    value,
)

BLOCKED = {
    "busy": "while True: pass",
    "await": "await sleep(300)",
    "asyncio": "import asyncio; await asyncio.sleep(300)",
    "trio": "import trio; await trio.sleep_forever()",
    "blocking": "import time; time.sleep(300)",
    "verb": "await shell_run('sleep 3411')",
    "gather": "await gather(*[shell_run('sleep 3411') for _ in range(3)])",
    "shim": "import subprocess; subprocess.run(['sleep', '3411'])",
    "catches": "while True:\n    try:\n        while True: pass\n    except Exception: pass",
    "thread": "import asyncio, time; await asyncio.to_thread(time.sleep, 1)",
}


def worker_pid(session: Session) -> int:
    worker = session._rig.worker
    assert worker is not None
    return worker.process.pid


async def interrupted(session: Session, code: str) -> CellResult:
    """Interrupt `code` once it has said that it runs."""
    begun = trio.Event()
    results: list[CellResult] = []

    async def run() -> None:
        source = f"print('begun', flush=True)\n{code}"
        results.append(await session.execute(source, on_output=lambda piece: begun.set()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        with trio.fail_after(10):
            await begun.wait()
            await session.interrupt()
    return results[0]


@pytest.mark.parametrize("code", BLOCKED.values(), ids=BLOCKED)
async def test_an_interrupt_stops_a_cell_and_keeps_the_namespace(
    session: Session, code: str
) -> None:
    await ok(session, "x = 1")
    with trio.fail_after(8):
        result = await interrupted(session, code)
    assert result.status == "interrupted"
    assert result.stdout == "begun\n"
    assert (await ok(session, "x")).value == "1"
    assert not running("sleep 3411")


async def test_an_interrupt_between_cells_does_nothing(session: Session) -> None:
    await session.interrupt()
    await ok(session, "x = 1")
    await session.interrupt()
    assert (await ok(session, "x")).value == "1"


def ticks(pid: int) -> int:
    """Processor time that a process has used, in clock ticks."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


@pytest.mark.slow  # until the worker is given up
async def test_a_call_of_c_that_cannot_be_stopped_costs_the_namespace(session: Session) -> None:
    await ok(session, "x = 1")
    pid = worker_pid(session)
    before = ticks(pid)
    results: list[CellResult] = []

    async def run() -> None:
        results.append(await session.execute("sum(range(10**12))"))

    async def is_inside() -> bool:
        return ticks(pid) > before + 5

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until(is_inside)
        begun = trio.current_time()
        await session.interrupt()
    assert trio.current_time() - begun < 3.5
    (result,) = results
    assert result.status == "interrupted"
    assert "namespace is lost" in result.as_text()
    assert (await session.execute("x")).status == "error"
    assert (await ok(session, "1")).value == "1"


@pytest.mark.parametrize("code", ["while True: pass", "await sleep(300)"])
async def test_a_deadline_stops_a_cell_names_the_line_and_keeps_the_namespace(
    opened: OpenHost, code: str
) -> None:
    async with opened(limits={"cell_seconds": 0.2}) as host, host.open_session() as session:
        await ok(session, "x = 1")
        with trio.fail_after(8):
            result = await session.execute(f"print('begun')\n\n{code}")
        assert (result.status, result.stdout) == ("deadline", "begun\n")
        assert result.error is not None
        assert result.error["line"] == 3
        assert "line 3" in result.error["message"]
        assert "0.2 s" in result.as_text()
        assert (await ok(session, "x")).value == "1"


@pytest.mark.slow  # until the worker is given up
async def test_a_deadline_of_what_cannot_be_stopped_is_still_a_deadline(opened: OpenHost) -> None:
    async with opened(limits={"cell_seconds": 0.2}) as host, host.open_session() as session:
        result = await session.execute("sum(range(10**12))")
        assert result.status == "deadline"
        assert "namespace is lost" in result.as_text()
        assert (await ok(session, "1")).value == "1"


async def test_a_cancel_of_execute_interrupts_the_cell(session: Session) -> None:
    await ok(session, "x = 1")
    with trio.fail_after(8):
        with trio.move_on_after(0.1) as scope:
            await session.execute("await shell_run('sleep 3411')")
    assert scope.cancelled_caught
    assert not running("sleep 3411")
    assert (await ok(session, "x")).value == "1"


async def test_a_second_execute_waits_its_turn(session: Session) -> None:
    order: list[str] = []

    async def run(name: str, code: str) -> None:
        result = await ok(session, code)
        order.append(f"{name} {result.stdout.strip()}")

    async with trio.open_nursery() as nursery:
        await nursery.start(_started, run, "one", "await sleep(0.1); x = 1; print('first')")
        nursery.start_soon(run, "two", "print('second', x)")
    assert order == ["one first", "two second 1"]


async def _started(run, name, code, *, task_status):  # type: ignore[no-untyped-def]
    """Run it in the background, and return once it is the cell that runs."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, name, code)
        await trio.testing.wait_all_tasks_blocked()
        task_status.started()


async def test_a_cell_that_waits_for_its_turn_can_be_cancelled(session: Session) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.execute, "await sleep(300)")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.05) as scope:
            await session.execute("made = 1")
        assert scope.cancelled_caught
        await session.interrupt()
    assert (await session.execute("made")).status == "error"


# --- a worker that dies


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_a_worker_that_dies_in_a_cell_is_told_and_replaced(
    session: Session, call: Call, number: int
) -> None:
    await ok(session, "x = 1\nb = await shell_background('sleep 3412', id='dev')")
    begun = trio.Event()
    results: list[CellResult] = []

    async def run() -> None:
        code = "print('begun', flush=True)\nawait sleep(300)"
        results.append(await session.execute(code, on_output=lambda piece: begun.set()))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await begun.wait()
            os.kill(worker_pid(session), number)
    (result,) = results
    assert (result.status, result.stdout) == ("worker_lost", "begun\n")
    assert result.error is not None
    assert "namespace is lost" in result.error["message"]
    gone = await session.execute("x")
    assert gone.error is not None
    assert gone.error["type"] == "NameError"
    assert (await call("shell_logs", id="dev"))["status"] == "running"


async def test_a_worker_that_dies_between_cells_is_told_in_the_next(session: Session) -> None:
    await ok(session, "x = 1")
    pid = worker_pid(session)
    os.kill(pid, signal.SIGKILL)

    async def over() -> bool:
        worker = session._rig.worker
        return worker is None or worker.state == "over"

    await until(over)
    result = await session.execute("print('runs')")
    assert result.stdout == "runs\n"
    assert "namespace" in result.as_text()  # silence would read as if x were still there


async def test_calls_of_a_dead_worker_end_with_their_trees(
    session: Session, workspace: Path
) -> None:
    async def run() -> None:
        await session.execute("await shell_run('touch up; sleep 3413')")

    async def is_up() -> bool:
        return (workspace / "up").exists()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await until(is_up)
            os.kill(worker_pid(session), signal.SIGKILL)
    assert not running("sleep 3413")


async def test_other_sessions_are_unharmed(opened: OpenHost) -> None:
    async with opened() as host, host.open_session() as one, host.open_session() as other:
        await ok(other, "x = 1")
        os.kill(worker_pid(one), signal.SIGKILL)
        await one.execute("0")
        assert (await ok(other, "x")).value == "1"


# --- a machine that ends


async def test_the_end_of_the_machine_is_the_end_of_the_session(opened: OpenHost) -> None:
    async with opened() as host:
        async with host.open_session() as other, host.open_session() as session:
            await ok(other, "x = 1")
            await ok(session, "b = await shell_background('sleep 3414', id='dev')")
            pid = worker_pid(session)
            with trio.fail_after(10):
                result = await session.execute(
                    "await shell_run('kill -9 $(ps -o ppid= $PPID); sleep 3414')"
                )
            assert result.status == "worker_lost"
            assert result.error is not None
            assert result.error["type"] == "SessionLost"
            assert not is_alive(pid)
            assert not running("sleep 3414")
            with pytest.raises(HostError) as caught:
                await session.execute("1")
            assert caught.value.code == "session_lost"
            answer = await caller(session)("shell_logs", id="dev")
            assert answer["error"]["code"] == "session_lost"
            assert any("ended" in notice["text"] for notice in session.notices.take())
            assert (await ok(other, "x")).value == "1"
        async with host.open_session() as fresh:
            assert (await ok(fresh, "1")).value == "1"


# --- the end of sessions and hosts


async def test_nothing_survives_its_session(opened: OpenHost) -> None:
    async with opened() as host:
        async with host.open_session() as session:
            await ok(
                session,
                "await shell_background(\"trap '' TERM HUP; sleep 3415; sleep 3415\")\n"
                "await shell_run('setsid sleep 3415 >/dev/null 2>&1 &')\n"
                "import subprocess; p = subprocess.Popen(['sleep', '3415'])",
            )
            await until_running("sleep 3415", 3)
            folder = session.scratch
            assert is_there(folder)
        assert not running("sleep 3415")
        assert not is_there(folder)
        with pytest.raises(HostError) as caught:
            await session.execute("1")
        assert caught.value.code == "session_closed"
        answer = await host.call(session, "shell_run", {"commands": ["true"]})
        assert answer["error"]["code"] == "session_closed"


@pytest.mark.parametrize("where", ["session", "host"])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
async def test_what_the_embedder_raises_comes_out_bare(
    opened: OpenHost, where: str, kind: type[BaseException]
) -> None:
    with pytest.raises(kind, match="mine"):
        async with opened() as host:
            async with host.open_session() as session:
                await ok(session, "b = await shell_background('sleep 3416')")
                if where == "session":
                    raise kind("mine")
            raise kind("mine")
    assert not running("sleep 3416")


async def test_a_cancel_of_the_embedder_stays_a_cancel(opened: OpenHost) -> None:
    with trio.fail_after(10):
        with trio.CancelScope() as scope:
            async with opened() as host, host.open_session() as session:
                await ok(session, "b = await shell_background('sleep 3417')")
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not running("sleep 3417")


async def test_a_cancel_while_opening_leaves_nothing(opened: OpenHost) -> None:
    for checkpoints in range(1, 40, 3):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def later(count: int = checkpoints) -> None:
                    for _ in range(count):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                nursery.start_soon(later)
                async with opened() as host, host.open_session():
                    await trio.sleep_forever()
        assert scope.cancelled_caught


async def test_sessions_open_and_close_side_by_side(opened: OpenHost) -> None:
    seen: list[int] = []

    async def one(number: int) -> None:
        async with host.open_session() as session:
            seen.append(await value(session, f"x = {number}; await sleep(0.01); x"))

    async with opened() as host:
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(one, number)
    assert sorted(seen) == list(range(6))

"""Interrupts: what runs is stopped, what was there is kept, and the next cell is never hit."""

from __future__ import annotations

import random

import pytest

from tests.worker_driver import Driver

IMPORTS = (
    "import asyncio, trio, time, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
    "x = 5\nasync def spin():\n    while True: pass\n"
    "import subprocess"
)

STOPPED = {
    "busy": "while True: pass",
    "busy after an await": "await echo(1)\nwhile True: pass",
    "time.sleep": "time.sleep(60)",
    "verb": "await never()",
    "trio.sleep": "await trio.sleep(60)",
    "trio.sleep_forever": "await trio.sleep_forever()",
    "asyncio.sleep": "await asyncio.sleep(60)",
    "future": "await asyncio.get_running_loop().create_future()",
    "asyncio.gather": "await asyncio.gather(never(), asyncio.sleep(60), never())",
    "gather": "await gather(never(), never())",
    "wait_for": "await asyncio.wait_for(never(), 60)",
    "task group": "async with asyncio.TaskGroup() as g:\n g.create_task(never())",
    "nursery": "async with trio.open_nursery() as n:\n for i in range(50): n.start_soon(trio.sleep, 60)",
    "queue": "await asyncio.Queue().get()",
    "event": "await trio.Event().wait()",
    "session": "while True: session['id']",
    "asyncio.run": "async def m(): await asyncio.sleep(60)\nasyncio.run(m())",
    "asyncio.run of a verb": "asyncio.run(never())",
    "asyncio.run busy": "asyncio.run(spin())",
    "trio.run": "trio.run(trio.sleep, 60)",
    "trio.run busy": "trio.run(spin)",
    "busy asyncio task": "t = asyncio.create_task(spin())\nawait trio.sleep(60)",
    "busy trio child": "async with trio.open_nursery() as n: n.start_soon(spin)",
    "to_thread": "await asyncio.to_thread(time.sleep, 3)",
    "trio to_thread": "await trio.to_thread.run_sync(time.sleep, 3)",
    "trio to_thread in a child": "async with trio.open_nursery() as n:\n"
    " n.start_soon(trio.to_thread.run_sync, time.sleep, 3)",
    "pool": "with ThreadPoolExecutor(4) as e: list(e.map(time.sleep, [3] * 4))",
    "lock": "l = threading.Lock(); l.acquire(); l.acquire()",
    "queue.get": "import queue\nqueue.Queue().get()",
    "print flood": "while True: print('y' * 1000)",
    "short print flood": "while True: print('y')",
    "print to stderr": "import sys\nwhile True: print('y', file=sys.stderr)",
    "repr": "class P:\n def __repr__(self):\n  while True: pass\nP()",
    "error text": "class E(Exception):\n def __str__(self):\n  while True: pass\nraise E",
    "swallows once": "try: time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(60)",
    "swallows all": "while True:\n try:\n  time.sleep(0.01)\n except BaseException: continue",
    "swallows all, busy": "while True:\n try: pass\n except BaseException: pass",
    "swallows all, await": "while True:\n try: await asyncio.sleep(60)\n except BaseException: pass",
    "swallows all, verb": "while True:\n try: await never()\n except BaseException: continue",
    "swallows all, function": "def f():\n while True:\n  try: time.sleep(0.01)\n"
    "  except BaseException: continue\nf()",
    "stubborn task": "async def s():\n while True:\n  try: await asyncio.sleep(60)\n"
    "  except asyncio.CancelledError: pass\nawait asyncio.create_task(s())",
    "generator": "def g():\n while True: yield\nfor _ in g(): pass",
    "comprehension": "[i for i in iter(int, 1)]",
    "del": "class D:\n def __del__(self): time.sleep(0.3)\nwhile True: D()",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPPED)
def test_stops(driver: Driver, name: str) -> None:
    driver.ok(IMPORTS)
    id = driver.start("print('begun', flush=True)\n" + STOPPED[name])
    driver.printed("begun")
    driver.until_true(lambda: True)
    done = driver.stopped(id)
    assert done.status == "interrupted", (done, done.error and done.error.traceback)
    assert driver.ok("x") == "5"
    assert driver.ok("await asyncio.gather(echo(1), asyncio.sleep(0))") == "[1, None]"
    assert driver.ok("async with trio.open_nursery() as n: n.start_soon(trio.sleep, 0)") is None
    assert driver.ok("x") == "5"


def test_code_that_handles_it_goes_on(driver: Driver) -> None:
    driver.ok(IMPORTS)
    id = driver.start(
        "print('begun')\ntry: time.sleep(60)\nexcept KeyboardInterrupt: r = 'stopped'\nr"
    )
    driver.printed("begun")
    driver.interrupt()
    done = driver.result(id)
    assert (done.status, done.value) == ("ok", "'stopped'")


def test_cleanup_runs(driver: Driver) -> None:
    driver.ok(IMPORTS)
    id = driver.start(
        "r = []\nprint('begun')\ntry: await never()\nfinally:\n    r.append(await echo(1))"
    )
    driver.printed("begun")
    driver.until_true(lambda: len(driver.calls) == 1)
    driver.interrupt()
    assert driver.result(id).status == "interrupted"
    assert driver.ok("r") == "[1]"
    assert driver.cancelled == [driver.calls[0].id]


def test_one_between_cells_is_ignored(driver: Driver) -> None:
    for _ in range(20):
        driver.interrupt()
        assert driver.ok("1") == "1"


def test_a_background_task_of_an_earlier_cell_lives_on(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok("q = asyncio.Queue()\nt = asyncio.create_task(q.get())")
    id = driver.start("print('begun')\nawait never()")
    driver.printed("begun")
    assert driver.stopped(id).status == "interrupted"
    assert driver.ok("q.put_nowait(3)\nawait t") == "3"


def test_a_thread_in_a_blocking_call_is_released(driver: Driver) -> None:
    driver.ok(IMPORTS)
    id = driver.start(
        "def f(i): return asyncio.run(never())\n"
        "print('begun')\nwith ThreadPoolExecutor(4) as e: list(e.map(lambda i: session['id'], range(10**9)))"
    )
    driver.printed("begun")
    assert driver.stopped(id).status == "interrupted"
    assert driver.ok("x") == "5"


@pytest.mark.slow
def test_at_random_moments_nothing_is_torn(driver: Driver) -> None:
    """A torn or lost frame would break the stream, a late signal the next cell."""
    driver.ok(IMPORTS)
    dice = random.Random(1)
    cell = (
        "for i in range(400):\n    await echo(i)\n    print('y' * 50)\n    session['id']\n"
        "    await asyncio.gather(echo(i), echo(i))"
    )
    stopped = 0
    for _ in range(300):
        id = driver.start(cell)
        try:
            driver.until(lambda id=id: id in driver._done, dice.uniform(0.0005, 0.03))
        except AssertionError:
            pass
        driver.interrupt()
        done = driver.result(id)
        stopped += done.status == "interrupted"
        assert driver.ok("x") == "5"
    assert stopped > 200
    text = driver.output["stdout"].replace(b"\n", b"")
    assert set(text) <= {ord("y")}
    assert not driver.output["stderr"]

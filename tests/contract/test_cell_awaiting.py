"""asyncio, trio and verbs in one cell, and loops of one's own."""

from __future__ import annotations

import pytest

from tests.worker_driver import Driver

IMPORTS = "import asyncio, trio, time"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("await asyncio.gather(echo(1), echo(2))", "[1, 2]"),
        ("await asyncio.sleep(0.001); await trio.sleep(0.001); await asyncio.sleep(0)", None),
        ("t = asyncio.create_task(echo(4))\nawait t", "4"),
        ("await asyncio.wait_for(echo(5), 1)", "5"),
        ("async with asyncio.TaskGroup() as g: a = g.create_task(echo(8))\na.result()", "8"),
        ("async with asyncio.timeout(1): r = await echo(10)\nr", "10"),
        ("with trio.move_on_after(0.005) as s: await never()\ns.cancelled_caught", "True"),
        ("with trio.move_on_after(0.005) as s: await asyncio.sleep(5)\ns.cancelled_caught", "True"),
        (
            "try:\n    async with asyncio.timeout(0.005): await asyncio.sleep(5)\n"
            "except TimeoutError: r = 1\nr",
            "1",
        ),
        (
            "try:\n    async with asyncio.timeout(0.005): await trio.sleep(5)\n"
            "except TimeoutError: r = 2\nr",
            "2",
        ),
        (
            "try:\n    async with asyncio.timeout(0.005): await never()\n"
            "except TimeoutError: r = 3\nr",
            "3",
        ),
        (
            "async def bad(): await asyncio.sleep(0.001); raise ValueError('x')\ntry:\n"
            "    async with asyncio.TaskGroup() as g:\n        g.create_task(bad())\n"
            "        g.create_task(never()); await never()\n"
            "except* ValueError as e: r = e.exceptions\nr",
            "(ValueError('x'),)",
        ),
        ("q = asyncio.Queue(); await q.put(1); await q.get()", "1"),
        ("await asyncio.to_thread(lambda: 42)", "42"),
        ("await trio.to_thread.run_sync(lambda: 43)", "43"),
        ("asyncio.current_task().get_name(), asyncio.current_task().cancelling()", "('cell', 0)"),
        ("await echo(1)\nasyncio.current_task() is not None", "True"),
        ("r = []\nasync with trio.open_nursery() as n:\n"
         "    n.start_soon(trio.sleep, 0.001)\n    n.start_soon(echo, 1)\n    r.append(await echo(2))\nr", "[2]"),
        ("e = asyncio.Event()\nasyncio.get_running_loop().call_later(0.001, e.set)\nawait e.wait()", "True"),
        ("async def f():\n    async with asyncio.Lock(): return await echo(3)\nawait f()", "3"),
        ("[await t for t in asyncio.as_completed([echo(1)])]", "[1]"),
        ("d, p = await asyncio.wait([asyncio.create_task(echo(1))])\nlen(d), len(p)", "(1, 0)"),
        ("s, r = trio.open_memory_channel(1)\nawait s.send(1)\nawait r.receive()", "1"),
        ("import sniffio\nsniffio.current_async_library()", "'trio'"),
        ("f = asyncio.get_running_loop().create_future()\nf.set_result(3)\nawait f", "3"),
        ("await asyncio.shield(echo(3))", "3"),
    ],
)  # fmt: skip
def test_mixed(driver: Driver, code: str, value: str | None) -> None:
    driver.ok(IMPORTS)
    assert driver.ok(code) == value


def test_current_task_can_be_cancelled(driver: Driver) -> None:
    driver.ok(IMPORTS)
    assert driver.error("asyncio.current_task().cancel()\nawait asyncio.sleep(1)").type == (
        "CancelledError"
    )
    assert driver.error("asyncio.current_task().cancel()\nawait trio.sleep(1)").type == (
        "CancelledError"
    )
    assert (
        driver.ok(
            "t = asyncio.current_task()\nasyncio.get_running_loop().call_soon(t.cancel)\n"
            "try: await never()\nexcept asyncio.CancelledError: t.uncancel()\nawait echo(t.cancelling())"
        )
        == "0"
    )


def test_asyncio_tasks_run_in_order(driver: Driver) -> None:
    driver.ok(IMPORTS)
    assert (
        driver.ok(
            "r = []\nasync def f(i):\n    r.append(i)\n    await asyncio.sleep(0)\n    r.append(-i)\n"
            "await asyncio.gather(*[f(i) for i in range(1, 5)])\nr"
        )
        == "[1, 2, 3, 4, -1, -2, -3, -4]"
    )


def test_a_task_lives_across_cells(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok("q = asyncio.Queue()\nasync def f():\n    return await q.get()")
    driver.ok("t = asyncio.create_task(f())")
    driver.ok("q.put_nowait(7)")
    assert driver.ok("await t") == "7"


def test_a_thread_may_call_back_into_the_loop(driver: Driver) -> None:
    driver.ok(IMPORTS)
    assert (
        driver.ok(
            "loop = asyncio.get_running_loop()\n"
            "def f(): return asyncio.run_coroutine_threadsafe(echo(5), loop).result()\n"
            "await asyncio.to_thread(f)"
        )
        == "5"
    )
    assert (
        driver.ok("await trio.to_thread.run_sync(lambda: trio.from_thread.run(trio.sleep, 0))")
        is None
    )


# --- gather
def test_gather_raises_the_first_failure_when_the_others_have_ended(driver: Driver) -> None:
    driver.ok(IMPORTS)
    assert (
        driver.ok(
            "r = []\nasync def slow():\n    try: await never()\n    finally:\n"
            "        await asyncio.sleep(0.002)\n        r.append('ended')\n"
            "async def bad(): await asyncio.sleep(0.001); raise ValueError('x')\n"
            "try: await gather(slow(), bad(), slow())\nexcept ValueError as e: r.append(str(e))\nr"
        )
        == "['ended', 'ended', 'x']"
    )
    driver.until_true(lambda: len(driver.cancelled) == 2)


def test_gather_with_failures_among_the_results(driver: Driver) -> None:
    assert (
        driver.ok("await gather(echo(1), fail('ValueError', 'x'), return_exceptions=True)")
        == "[1, ValueError('x')]"
    )
    assert driver.ok("await gather()") == "[]"
    assert driver.error("await gather(1)").type == "TypeError"
    assert driver.error("await gather([echo(1)])").type == "TypeError"


def test_a_cancelled_gather_cancels_all(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok("with trio.move_on_after(0.005): await gather(never(), never())")
    driver.until_true(lambda: len(driver.cancelled) == 2)
    assert driver.error("await asyncio.wait_for(gather(never(), never()), 0.005)").type == (
        "TimeoutError"
    )
    driver.until_true(lambda: len(driver.cancelled) == 4)


def test_gather_takes_the_same_future_twice(driver: Driver) -> None:
    driver.ok(IMPORTS)
    assert driver.ok("t = asyncio.create_task(echo(1))\nawait gather(t, t)") == "[1, 1]"


# --- loops of one's own
@pytest.mark.parametrize(
    "run",
    [
        "asyncio.run(main())",
        "asyncio.get_event_loop().run_until_complete(main())",
        "asyncio.new_event_loop().run_until_complete(main())",
        "[r.run(main()) for r in [asyncio.Runner()]][0]",
        "trio.run(tmain)",
        "await asyncio.to_thread(asyncio.run, main())",
        "await asyncio.to_thread(trio.run, tmain)",
    ],
)
def test_nested_loops(driver: Driver, run: str) -> None:
    driver.ok(IMPORTS)
    driver.ok(
        "async def main():\n    a, b = await asyncio.gather(echo(1), echo(2))\n"
        "    await asyncio.sleep(0.001)\n    return a, b, await gather(echo(3))\n"
        "async def tmain():\n    await trio.sleep(0.001)\n    return 1, await echo(2), await gather(echo(3))"
    )
    assert driver.ok(run) == "(1, 2, [3])"
    assert driver.ok("await echo(1)\nawait trio.sleep(0)\nawait asyncio.sleep(0)\n" + run) == (
        "(1, 2, [3])"
    )
    assert driver.ok("await asyncio.gather(echo(1), asyncio.sleep(0))") == "[1, None]"


def test_asyncio_run_in_asyncio_run_is_refused_as_ever(driver: Driver) -> None:
    driver.ok(IMPORTS)
    error = driver.error(
        "async def main(): \n    c = asyncio.sleep(0)\n    try: asyncio.run(c)\n"
        "    finally: c.close()\nasyncio.run(main())"
    )
    assert error.type == "RuntimeError" and "running event loop" in error.message


def test_a_call_in_flight_outside_is_answered_during_a_nested_run(driver: Driver) -> None:
    driver.ok(IMPORTS)
    assert (
        driver.ok(
            "t = asyncio.create_task(echo(1))\nawait asyncio.sleep(0)\n"
            "async def main(): return await echo(2)\nasyncio.run(main()), trio.run(echo, 3), await t"
        )
        == "(2, 3, 1)"
    )


def test_closing_or_stopping_the_loop_is_harmless(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok("loop = asyncio.get_event_loop()\nloop.stop()\nloop.close()")
    assert driver.ok("await asyncio.gather(echo(1), asyncio.sleep(0))") == "[1, None]"

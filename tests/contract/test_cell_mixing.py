"""trio inside asyncio tasks and asyncio inside trio's tasks."""

from __future__ import annotations

import pytest

from tests.worker_driver import Driver

IMPORTS = "import asyncio, trio, time"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("await asyncio.gather(trio.sleep(0.001), asyncio.sleep(0.001, 1), echo(2))", "[None, 1, 2]"),
        ("await gather(trio.sleep(0.001), asyncio.sleep(0.001, 1), echo(2))", "[None, 1, 2]"),
        ("await asyncio.create_task(trio.sleep(0.001))", None),
        ("async def f():\n    with trio.move_on_after(0.002) as s: await trio.sleep(5)\n"
         "    return s.cancelled_caught\nawait asyncio.create_task(f())", "True"),
        ("async def f():\n    with trio.move_on_after(0.002) as s: await asyncio.sleep(5)\n"
         "    return s.cancelled_caught\nawait asyncio.create_task(f())", "True"),
        ("async def f():\n    with trio.move_on_after(0.002) as s: await never()\n"
         "    return s.cancelled_caught\nawait asyncio.create_task(f())", "True"),
        ("async def f():\n    with trio.CancelScope() as s:\n        s.cancel()\n"
         "        await asyncio.sleep(5)\n    return s.cancelled_caught\n"
         "await asyncio.create_task(f())", "True"),
        ("async def f():\n    with trio.CancelScope() as s:\n        s.cancel()\n"
         "        await trio.sleep(5)\n    return s.cancelled_caught\n"
         "await asyncio.create_task(f())", "True"),
        ("async def f():\n    r = []\n    async def g(x): r.append(await echo(x))\n"
         "    async with trio.open_nursery() as n:\n        n.start_soon(g, 1)\n"
         "        n.start_soon(g, 2)\n    return sorted(r)\nawait asyncio.create_task(f())", "[1, 2]"),
        ("async def f(): return await trio.to_thread.run_sync(lambda: 4)\n"
         "await asyncio.create_task(f())", "4"),
        ("s, r = trio.open_memory_channel(0)\n"
         "await asyncio.gather(s.send(5), r.receive())", "[None, 5]"),
        ("e = trio.Event()\nt = asyncio.create_task(e.wait())\nawait trio.sleep(0.001)\ne.set()\n"
         "await t", None),
        ("async with trio.open_nursery() as n: n.start_soon(asyncio.sleep, 0.001)", None),
        ("r = []\nasync def f():\n    await asyncio.sleep(0)\n    r.append(await echo(1))\n"
         "    r.append(asyncio.current_task() is not None)\n    await trio.sleep(0)\n"
         "async with trio.open_nursery() as n: n.start_soon(f)\nr", "[1, True]"),
        ("async def f(task_status):\n    await asyncio.sleep(0.001)\n    task_status.started(7)\n"
         "    await asyncio.sleep(0.001)\nasync with trio.open_nursery() as n: r = await n.start(f)\nr",
         "7"),
        ("async def f():\n    async with asyncio.timeout(0.002): await trio.sleep(5)\n"
         "try:\n    async with trio.open_nursery() as n: n.start_soon(f)\n"
         "except* TimeoutError: r = 1\nr", "1"),
        ("try: await asyncio.wait_for(trio.sleep(5), 0.002)\nexcept TimeoutError: r = 1\nr", "1"),
        ("async def f():\n    async with asyncio.TaskGroup() as g:\n"
         "        g.create_task(trio.sleep(0.001))\n        t = g.create_task(echo(3))\n"
         "    return t.result()\nawait asyncio.create_task(f())", "3"),
        ("v = []\nasync def f():\n    try: await trio.sleep(5)\n    finally:\n"
         "        with trio.CancelScope(shield=True): await trio.sleep(0.001)\n        v.append(1)\n"
         "t = asyncio.create_task(f())\nawait asyncio.sleep(0)\nt.cancel()\n"
         "try: await t\nexcept asyncio.CancelledError: v.append(t.cancelled())\nv", "[1, True]"),
        ("t = asyncio.create_task(trio.sleep(0.001))\nisinstance(t, asyncio.Task), "
         "t.get_coro().__name__, 'sleep' in repr(t)", "(True, 'sleep', True)"),
    ],
)  # fmt: skip
def test_mixes(driver: Driver, code: str, value: str | None) -> None:
    driver.ok(IMPORTS)
    assert driver.ok(code) == value
    assert driver.ok("await asyncio.sleep(0)\nawait trio.sleep(0)") is None


def test_a_wrong_start_is_trios_own_error(driver: Driver) -> None:
    driver.ok(IMPORTS)
    error = driver.error("async with trio.open_nursery() as n: n.start_soon(trio.sleep(1))")
    assert "TypeError: Trio was expecting an async function" in error.traceback
    error = driver.error("async with trio.open_nursery() as n: n.start_soon(print)")
    assert "expected an async function" in error.traceback.lower()


def test_an_orphaned_task_can_be_collected(driver: Driver) -> None:
    driver.ok(IMPORTS + ", gc, weakref")
    driver.ok("async def f(): await asyncio.get_running_loop().create_future()")
    driver.ok("t = asyncio.create_task(f())\nw = weakref.ref(t)\nawait asyncio.sleep(0)\ndel t")
    assert driver.ok("gc.collect()\nw()") is None

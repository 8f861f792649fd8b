"""Tasks that fail in the background are told once, with the result of a cell."""

from __future__ import annotations

from tests.worker_driver import Driver

START = (
    "import asyncio, gc\nasync def bad(text='it broke'):\n    await asyncio.sleep(0)\n"
    "    raise ValueError(text)\n"
)


def test_one_that_nobody_holds(driver: Driver) -> None:
    driver.ok(START)
    done = driver.run(
        "asyncio.create_task(bad()).set_name('worker')\nawait asyncio.sleep(0.01)\ngc.collect()"
    )
    assert done.status == "ok"
    assert len(done.notices) == 1 and "ValueError: it broke" in done.notices[0]
    assert driver.run("gc.collect()").notices == []
    assert driver.output["stderr"] == b""


def test_one_that_is_held(driver: Driver) -> None:
    driver.ok(START)
    done = driver.run("t = asyncio.create_task(bad())\nawait asyncio.sleep(0.01)")
    assert len(done.notices) == 1 and "ValueError: it broke" in done.notices[0]
    assert driver.run("del t\ngc.collect()").notices == []
    assert driver.output["stderr"] == b""


def test_one_that_ends_between_two_cells(driver: Driver) -> None:
    driver.ok(START)
    assert driver.run("t = asyncio.create_task(bad())").notices == []
    driver.ok("await asyncio.sleep(0.01)")
    assert driver.run("1").notices == []


def test_one_that_is_awaited_is_none(driver: Driver) -> None:
    driver.ok(START)
    code = "t = asyncio.create_task(bad())\ntry: await t\nexcept ValueError: r = 'seen'\nr"
    done = driver.run(code)
    assert (done.value, done.notices) == ("'seen'", [])
    done = driver.run("r = await asyncio.gather(bad(), bad(), return_exceptions=True)\nlen(r)")
    assert (done.value, done.notices) == ("2", [])
    done = driver.run("await gather(bad('a'), bad('b'))")
    assert done.error is not None and done.error.message == "a" and done.notices == []
    done = driver.run("async with asyncio.TaskGroup() as g: g.create_task(bad())")
    assert done.status == "error" and done.notices == []


def test_callbacks_and_exits(driver: Driver) -> None:
    driver.ok(START)
    done = driver.run(
        "asyncio.get_running_loop().call_soon(lambda: 1 / 0)\nawait asyncio.sleep(0.01)"
    )
    assert len(done.notices) == 1 and "ZeroDivisionError" in done.notices[0]
    done = driver.run(
        "async def f(): exit(3)\nt = asyncio.create_task(f())\nawait asyncio.sleep(0.01)"
    )
    assert done.status == "ok" and "SystemExit" in done.notices[0]
    assert driver.ok("1") == "1"


def test_many_are_counted(driver: Driver) -> None:
    driver.ok(START)
    done = driver.run(
        "ts = [asyncio.create_task(bad()) for _ in range(500)]\nawait asyncio.sleep(0.05)"
    )
    assert len(done.notices) == 100 and "more" in done.notices[-1]
    assert driver.run("1").notices == []

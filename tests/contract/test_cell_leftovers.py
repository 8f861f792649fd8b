"""What a cell leaves open, puts in place or forgets, and the next one must not suffer from."""

from __future__ import annotations

from tests.worker_driver import Driver

IMPORTS = "import asyncio, trio, contextlib, gc"


def test_a_nursery_may_stay_open_across_cells(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok("cm = trio.open_nursery()\nn = await cm.__aenter__()\nr = []")
    driver.ok("async def f(): r.append(await echo(1))\nn.start_soon(f)\nawait echo(0)")
    driver.ok("await cm.__aexit__(None, None, None)")
    assert driver.ok("r") == "[1]"


def test_one_that_failed_is_taken_off(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok(
        "cm = trio.open_nursery()\nn = await cm.__aenter__()\nasync def bad(): 1 / 0\n"
        "n.start_soon(bad)\nn.start_soon(trio.sleep_forever)"
    )
    driver.until_true(lambda: driver.is_parked())
    done = driver.run("await trio.sleep(0)\nawait asyncio.sleep(0)\nawait echo(1)")
    assert (done.status, done.value) == ("ok", "1")
    assert "left open" in done.notices[0] and "ZeroDivisionError" in done.notices[1]
    assert driver.run("await trio.sleep(0)").notices == []


def test_a_scope_that_a_plain_cell_opened_and_cancelled(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok("s = trio.CancelScope()\ns.__enter__()\ns.cancel()")
    done = driver.run("await trio.sleep(0)\nawait echo(1)")
    assert (done.status, done.value, len(done.notices)) == ("ok", "1", 1)


def test_generators_left_half_way_are_closed(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok(
        "r = []\nasync def g():\n    try:\n        yield 1\n        yield 2\n    finally:\n"
        "        await asyncio.sleep(0)\n        await trio.sleep(0)\n        r.append(await echo(1))"
    )
    driver.ok("async for x in g(): break")
    driver.ok("async def f():\n    async for x in g(): break\nawait asyncio.create_task(f())")
    driver.ok("async with contextlib.aclosing(g()) as a:\n    async for x in a: break")
    driver.ok("gc.collect()\nwhile len(r) < 3: await asyncio.sleep(0.001)")
    assert driver.ok("r") == "[1, 1, 1]"
    assert driver.output["stderr"] == b""


def test_a_handler_of_ones_own_does_not_outlive_the_cell(driver: Driver) -> None:
    driver.ok("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nNone")
    id = driver.start("print('begun')\ntime.sleep(60)")
    driver.printed("begun")
    assert driver.stopped(id).status == "interrupted"


def test_a_task_group_of_an_interrupted_cell_does_not_cancel_the_next(driver: Driver) -> None:
    driver.ok(IMPORTS)
    id = driver.start(
        "async def slow():\n    try: await never()\n    finally:\n        await asyncio.sleep(0.01)\n"
        "print('begun')\nasync with asyncio.TaskGroup() as g: g.create_task(slow())"
    )
    driver.printed("begun")
    driver.until_true(lambda: len(driver.calls) == 1)
    driver.interrupt()
    driver.until_true(lambda: len(driver.cancelled) == 1)
    driver.interrupt()
    assert driver.result(id).status == "interrupted"
    assert driver.ok("await asyncio.sleep(0.03)\nawait echo(1)") == "1"


def test_values_over_the_bound_are_cut_in_the_middle(driver: Driver) -> None:
    done = driver.run("'a' * (16 << 20) + 'b' * 100")
    assert done.value is not None and done.missing == 102
    assert done.value[:3] == "'aa" and done.value.endswith("bb'")
    done = driver.run("'\\U0001f600' * (5 << 20)")
    assert done.missing == (1 << 20) + 2


def test_a_server_and_its_client_in_one_namespace(driver: Driver) -> None:
    driver.ok(IMPORTS)
    driver.ok(
        "async def h(r, w):\n    w.write((await r.readline()).upper())\n    await w.drain()\n"
        "    w.close()\ns = await asyncio.start_server(h, '127.0.0.1', 0)\n"
        "port = s.sockets[0].getsockname()[1]"
    )
    assert (
        driver.ok(
            "r, w = await asyncio.open_connection('127.0.0.1', port)\nw.write(b'hello\\n')\n"
            "x = await r.readline()\nw.close()\nx"
        )
        == "b'HELLO\\n'"
    )
    assert (
        driver.ok(
            "c = await trio.open_tcp_stream('127.0.0.1', port)\nawait c.send_all(b'again\\n')\n"
            "x = await c.receive_some(10)\nawait c.aclose()\nx"
        )
        == "b'AGAIN\\n'"
    )
    driver.ok("s.close()")

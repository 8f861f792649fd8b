"""Interrupts that fall into the start of a program: it runs for its caller, or not at all."""

from __future__ import annotations

import random

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import ok, running


@pytest.mark.slow
async def test_no_program_outlives_the_interrupt_of_its_start(session: Session) -> None:
    dice = random.Random(3)
    await ok(session, "import subprocess")
    for _ in range(60):
        results: list[object] = []

        async def run(into: list[object] = results) -> None:
            into.append(await session.execute("subprocess.run('sleep 3471', shell=True)"))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await trio.sleep(dice.uniform(0, 0.007))
                while not results:  # before its first step there is nothing to interrupt
                    await session.interrupt()
                    await trio.lowlevel.checkpoint()
        assert not running("sleep 3471")

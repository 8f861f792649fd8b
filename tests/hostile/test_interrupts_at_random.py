"""Interrupts that fall anywhere: into a print, a frame, a verb call, a call of the shim."""

from __future__ import annotations

import random

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import ok

CELL = """\
import subprocess
for i in range(10**6):
    print("y" * 50)
    await file_exists(f"f{i}")
    session["id"]
    if i % 20 == 10:
        subprocess.run(["true"])
"""


@pytest.mark.slow
async def test_the_namespace_and_the_stream_survive_300_of_them(session: Session) -> None:
    dice = random.Random(7)
    await ok(session, "x = 5")
    for _ in range(300):
        results = []

        async def run(into: list[object] = results) -> None:
            into.append(await session.execute(CELL))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await trio.sleep(dice.uniform(0, 0.03))
                while not results:  # before its first step there is nothing to interrupt
                    await session.interrupt()
                    await trio.lowlevel.checkpoint()
        assert results[0].status == "interrupted"  # type: ignore[attr-defined]
        assert (await ok(session, "x")).value == "5"
    assert session.replaced_workers == 0

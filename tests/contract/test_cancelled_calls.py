"""A call that a cell cancels has ended all it started before the cancel is raised."""

from __future__ import annotations

import pytest

from awaitbox.host.session import Session
from tests.product import ok, running

LINE = "trap '' TERM INT HUP; while :; do sleep 3461; done"
WAYS = {
    "trio": "import trio\nwith trio.move_on_after(0.05): await shell_run({line!r})",
    "asyncio": (
        "import asyncio\n"
        "try: await asyncio.wait_for(shell_run({line!r}), 0.05)\n"
        "except TimeoutError: pass"
    ),
    "task": (
        "import asyncio\n"
        "task = asyncio.create_task(shell_run({line!r}))\n"
        "await sleep(0.05)\ntask.cancel()\n"
        "try: await task\n"
        "except asyncio.CancelledError: pass"
    ),
    "gather": (
        "async def fail():\n    await sleep(0.05)\n    raise ValueError\n"
        "try: await gather(shell_run({line!r}), fail())\n"
        "except ValueError: pass"
    ),
    "nursery": (
        "import trio\n"
        "async with trio.open_nursery() as n:\n"
        "    n.start_soon(shell_run, [{line!r}])\n"
        "    await sleep(0.05)\n"
        "    n.cancel_scope.cancel()"
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_its_tree_is_gone_in_the_next_statement(session: Session, way: str) -> None:
    look = "\nimport subprocess\nsubprocess.run(['pgrep', '-f', 'sleep 346[1]']).returncode"
    result = await ok(session, WAYS[way].format(line=LINE) + look)
    assert result.value == "1"
    assert not running("sleep 3461")

"""`create_directory`, `file_exists` and `sleep`, called as a cell calls them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from awaitbox.host.errors import (
    VerbArguments,
    VerbFileExists,
    VerbOSError,
    VerbPermission,
    VerbValue,
)
from awaitbox.tools.files.create_directory import create_directory
from awaitbox.tools.files.file_exists import file_exists
from awaitbox.tools.sleep import sleep
from tests.files import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World.opened(tmp_path) as world:
        yield world


async def test_directories_are_made_with_their_parents_in_order(world: World) -> None:
    world.build("old/", "l -> old")
    paths = ["a/b/c", "a", "a/d/", "old", "l", "l/", ".", "x/../y", "..cfg/in"]
    result = await world(create_directory, paths)
    assert [row["path"] for row in result["paths"]] == paths
    assert [row["is_created"] for row in result["paths"]] == [
        True, False, True, False, False, False, False, True, True,
    ]  # fmt: skip
    assert set(world.tree()) == {
        "old", "l", "a", "a/b", "a/b/c", "a/d", "y", "..cfg", "..cfg/in",
    }  # fmt: skip


async def test_a_file_that_stands_there_is_an_error(world: World) -> None:
    world.build("a", "dead -> nothing")
    for path in ("a", "dead"):
        with pytest.raises(VerbFileExists):
            await world(create_directory, path)
    with pytest.raises(VerbOSError):
        await world(create_directory, ["made", "a/b"])
    assert world.tree() == {"a": "a", "dead": "-> nothing", "made": "/"}


@pytest.mark.parametrize(
    "path", ["../x", "../ws-old/x", "/x/y", "door/x", "../read/x", "n/../../x"]
)
async def test_no_directory_is_made_outside(world: World, path: str) -> None:
    world.build("door -> ../out")
    before = world.tree("")
    with pytest.raises(VerbPermission):
        await world(create_directory, path)
    assert world.tree("") == before


async def test_of_many_at_once_one_made_it(world: World) -> None:
    made: list[bool] = []

    async def one() -> None:
        result = await world(create_directory, "a/b/c")
        made.append(result["paths"][0]["is_created"])

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(one)
    assert sorted(made) == [False] * 7 + [True]


async def test_what_exists_is_told_without_reading_it(world: World) -> None:
    world.build("f", "d/", "l -> d", "dead -> nothing", "loop -> loop")
    os.mkfifo(world.ws / "fifo")
    os.chmod(world.ws / "f", 0)
    there = ["f", "d", "d/", "l", "l/", "l/..", "fifo", ".", str(world.ws), "../read/r", "d/../f"]
    missing = ["f/", "f/x", "dead", "loop", "nothing", "no/thing", "~", "x" * 300, "d/" + "x" * 300]
    with trio.fail_after(5):
        result = await world(file_exists, there + missing)
    assert {row["path"] for row in result["paths"] if row["is_exists"]} == set(there)
    assert [row["path"] for row in result["paths"]] == there + missing


@pytest.mark.parametrize("path", ["../out/secret", "../out/missing", "/etc/passwd", "door", "/"])
async def test_outside_it_is_not_told(world: World, path: str) -> None:
    world.build("door -> ../out/secret")
    with pytest.raises(VerbPermission):
        await world(file_exists, ["x", path])


async def test_sleep_takes_its_time(autojump_clock: trio.testing.MockClock, world: World) -> None:
    before = trio.current_time()
    assert await world(sleep, 300, reason="the build") == {"seconds": 300.0}
    assert trio.current_time() - before == 300
    with trio.move_on_after(5):
        await world(sleep, 100)
    assert trio.current_time() - before == 305


@pytest.mark.parametrize(
    ("seconds", "kind"),
    [
        (0, VerbValue),
        (0.0009, VerbValue),
        (300.1, VerbValue),
        (-1, VerbValue),
        (float("nan"), VerbValue),
        (float("inf"), VerbValue),
        ("1", VerbArguments),
        (True, VerbArguments),
    ],
)
def test_sleep_has_bounds(seconds: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        sleep.convert({"seconds": seconds})

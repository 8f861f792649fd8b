"""`move`, called as a cell calls it."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from awaitbox.host import transfer, tree
from awaitbox.host.errors import (
    VerbError,
    VerbFileExists,
    VerbFileNotFound,
    VerbOSError,
    VerbPermission,
    VerbValue,
)
from awaitbox.tools.files.move import move
from tests.files import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World.opened(tmp_path) as world:
        yield world


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system than the workspace's."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        if os.stat(name).st_dev == os.stat(tempfile.gettempdir()).st_dev:
            pytest.skip("/dev/shm is no file system of its own here")
        yield Path(name)


async def test_a_file_a_link_and_a_tree(world: World) -> None:
    world.build("a", "t/x", "l -> a")
    inode = (world.ws / "t/x").stat().st_ino
    assert await world(move, "a", "new/b") == {"src": "a", "dest": "new/b"}
    await world(move, "t", "u")
    await world(move, "l/", "m")
    assert world.tree() == {"new": "/", "new/b": "a", "u": "/", "u/x": "t/x", "m": "-> a"}
    assert (world.ws / "u/x").stat().st_ino == inode


async def test_an_existing_dest_is_refused(world: World) -> None:
    world.build("a", "f", "d/", "t/x", "dead -> nothing")
    before = world.tree()
    for src, dest in (("a", "f"), ("a", "d"), ("a", "dead"), ("t", "d"), ("t", "f")):
        with pytest.raises(VerbFileExists):
            await world(move, src, dest)
    assert world.tree() == before


async def test_overwrite_replaces_what_stands_there_and_no_target_of_a_link(world: World) -> None:
    world.build("a", "f", "b", "g", "l -> g", "t/new", "u/old/x", "v/y", "h")
    await world(move, "a", "f", is_overwrite=True)
    await world(move, "b", "l", is_overwrite=True)
    await world(move, "t", "u", is_overwrite=True)
    await world(move, "v", "h", is_overwrite=True)
    assert world.tree() == {
        "f": "a", "g": "g", "l": "b", "u": "/", "u/new": "t/new", "h": "/", "h/y": "v/y",
    }  # fmt: skip


async def test_two_names_of_one_file_become_one(world: World) -> None:
    world.build("a")
    os.link(world.ws / "a", world.ws / "b")
    await world(move, "a", "b", is_overwrite=True)
    assert world.tree() == {"b": "a"}


@pytest.mark.parametrize(
    ("src", "dest", "kind"),
    [
        ("a", "a", VerbValue),
        ("a", "d/../a", VerbValue),
        ("d", "d/e/f", VerbValue),
        ("d", "d/new/f", VerbValue),
        ("d/e", "d", VerbValue),
        ("a", "new/", VerbOSError),
        ("a/", "b", VerbFileNotFound),
        ("missing", "new/b", VerbFileNotFound),
        ("a", "d", VerbFileExists),
        (".", "b", VerbPermission),
        ("d/..", "b", VerbPermission),
        ("a", "../out/a", VerbPermission),
        ("../out/secret", "b", VerbPermission),
        ("../read/r", "b", VerbPermission),
        ("door/secret", "b", VerbPermission),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    world: World, src: str, dest: str, kind: type[VerbError]
) -> None:
    world.build("a", "d/x", "d/e/", "door -> ../out")
    before = [world.tree(name) for name in ("ws", "out", "read")]
    with pytest.raises(kind):
        await world(move, src, dest, is_overwrite=True)
    assert [world.tree(name) for name in ("ws", "out", "read")] == before


async def test_across_file_systems(tmp_path: Path, elsewhere: Path) -> None:
    world = World(tmp_path, elsewhere)
    world.build("t/a", "t/d/b", "t/l -> a", "f", "g")
    before = world.tree("ws/t")
    await world(move, "t", elsewhere / "new/t")
    await world(move, elsewhere / "new/t", "u")
    await world(move, "f", elsewhere / "f")
    await world(move, "g", elsewhere / "f", is_overwrite=True)
    assert world.tree() == {"u": "/", **{f"u/{name}": text for name, text in before.items()}}
    assert sorted(os.listdir(elsewhere)) == ["f", "new"]
    assert (elsewhere / "f").read_text() == "g"


async def test_across_file_systems_a_cancel_leaves_all_as_it_was(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, elsewhere)
    world.build("t/a", "t/b", "t/c")
    before = world.tree()
    scope = trio.CancelScope()
    real, seen = tree._copy_entry, 0

    def cancel_first(*args: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            trio.from_thread.run_sync(scope.cancel)
        real(*args)

    monkeypatch.setattr(tree, "_copy_entry", cancel_first)
    with scope:
        await world(move, "t", elsewhere / "t")
    assert scope.cancelled_caught
    assert (world.tree(), os.listdir(elsewhere)) == (before, [])


async def test_of_two_at_once_one_wins_and_the_others_stay(world: World) -> None:
    world.build(*(f"src{i}" for i in range(8)))
    won: list[int] = []

    async def one(i: int) -> None:
        try:
            await world(move, f"src{i}", "dest")
            won.append(i)
        except VerbFileExists:
            pass

    async with trio.open_nursery() as nursery:
        for i in range(8):
            nursery.start_soon(one, i)
    assert len(won) == 1
    left = {f"src{i}": f"src{i}" for i in range(8) if i not in won}
    assert world.tree() == {"dest": f"src{won[0]}", **left}


@pytest.mark.parametrize("is_overwrite", [False, True])
def test_a_file_system_without_the_flag(
    world: World, monkeypatch: pytest.MonkeyPatch, is_overwrite: bool
) -> None:
    class Old:
        @staticmethod
        def renameat2(*_: Any) -> int:
            ctypes.set_errno(22)
            return -1

    monkeypatch.setattr(transfer, "_libc", Old)
    world.build("a", "b", "t/x", "u/y")

    def all_moved() -> None:
        for src, dest in (("a", "c"), ("c", "b"), ("t", "u")):
            transfer.move(world.ctx.roots, src, dest, lambda: None, is_overwrite=is_overwrite)

    if is_overwrite:
        all_moved()
        assert world.tree() == {"b": "a", "u": "/", "u/x": "t/x"}
    else:
        with pytest.raises(VerbFileExists):
            all_moved()
        assert world.tree()["b"] == "b"

"""`delete`, called as a cell calls it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from awaitbox.host import tree
from awaitbox.host.errors import VerbError, VerbPermission
from awaitbox.tools.files.delete import delete
from awaitbox.tools.files.file_exists import file_exists
from tests.files import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World.opened(tmp_path) as world:
        yield world


async def test_links_go_and_their_targets_stay(world: World) -> None:
    world.build("real/keep", "real/sub/", "l1 -> real", "l2 -> real", "l3 -> nowhere")
    world.build("tree/in -> ../real")
    result = await world(delete, ["l1", "l2/", "l3", "tree", "missing"])
    assert [row["path"] for row in result["paths"]] == ["l1", "l2/", "l3", "tree", "missing"]
    assert [row["is_deleted"] for row in result["paths"]] == [True, True, True, True, False]
    assert world.tree() == {"real": "/", "real/keep": "real/keep", "real/sub": "/"}
    probed = await world(file_exists, ["l3", "real"])
    assert [row["is_exists"] for row in probed["paths"]] == [False, True]


@pytest.mark.parametrize("path", [".", "./", "/", "..", "real/..", "real/../.", "l/..", "{ws}"])
async def test_a_root_and_what_lies_outside_are_refused(world: World, path: str) -> None:
    world.build("real/f", "l -> real")
    before = world.tree()
    with pytest.raises(VerbPermission):
        await world(delete, ["l", path.format(ws=world.ws)])
    with pytest.raises(VerbPermission):
        world.asked(delete, paths=[path.format(ws=world.ws)])
    assert world.tree() == before


@pytest.mark.parametrize(
    "path", ["../out/secret", "../out/missing", "door/secret", "../read/r", "../tmp", "../read"]
)
async def test_nothing_else_goes_before_a_refusal(world: World, path: str) -> None:
    world.build("a", "door -> ../out")
    before = [world.tree(name) for name in ("ws", "out", "read")]
    with pytest.raises(VerbPermission):
        await world(delete, ["a", path])
    assert [world.tree(name) for name in ("ws", "out", "read")] == before


async def test_one_bare_path_twice_and_one_in_the_other(world: World) -> None:
    world.build("a", "b", "t/x")
    assert await world(delete, Path("a")) == {"paths": [{"path": "a", "is_deleted": True}]}
    result = await world(delete, ["b", "b", "t", "t/x", "a/b", "a/"])
    assert [row["is_deleted"] for row in result["paths"]] == [True, False, True] + [False] * 3
    assert world.tree() == {}


async def test_what_is_named_as_a_directory_and_is_none_is_missing(world: World) -> None:
    world.build("a")
    result = await world(delete, ["a/", "a/b"])
    assert [row["is_deleted"] for row in result["paths"]] == [False, False]
    assert world.tree() == {"a": "a"}


async def test_fifos_and_trees_of_any_depth(world: World) -> None:
    world.build("t/a/b/c", "t/a/d", "t/e/")
    os.mkfifo(world.ws / "t/fifo")
    world.deep("deep", 1_200)
    result = await world(delete, ["t", "deep"])
    assert [row["is_deleted"] for row in result["paths"]] == [True, True]
    assert world.tree() == {}


async def test_a_cancel_stops_between_two_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.build(*(f"t/f{i}" for i in range(10)), "later")
    scope = trio.CancelScope()
    real, seen = tree._unlink, 0

    def cancel_at_the_fifth(*args: Any) -> bool:
        nonlocal seen
        seen += 1
        if seen == 5:
            trio.from_thread.run_sync(scope.cancel)
        return real(*args)

    monkeypatch.setattr(tree, "_unlink", cancel_at_the_fifth)
    with scope:
        await world(delete, ["t", "later"])
    assert scope.cancelled_caught
    assert seen == 5
    assert len(world.tree("ws/t")) == 6  # the first call was for `t` itself
    assert "later" in world.tree()


async def test_a_failure_says_where_and_what_was_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.build("a", "t/d/stuck", "b")
    real = tree._unlink

    def refuse(name: str, parent: int) -> bool:
        if name == "stuck":
            raise PermissionError(1, "Operation not permitted")
        return real(name, parent)

    monkeypatch.setattr(tree, "_unlink", refuse)
    with pytest.raises(VerbPermission) as caught:
        await world(delete, ["a", "t", "b"])
    assert caught.value.code == "os_error"
    for words in ("'t': Operation not permitted", "'d/stuck'", "1 of 3 paths"):
        assert words in caught.value.message
    assert set(world.tree()) == {"t", "t/d", "t/d/stuck", "b"}


async def test_what_two_delete_at_once_is_gone_without_an_error(world: World) -> None:
    world.build(*(f"t/d{i}/f{j}" for i in range(10) for j in range(10)))
    outcomes: list[bool] = []

    async def one() -> None:
        result = await world(delete, "t")
        outcomes.append(result["paths"][0]["is_deleted"])

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(one)
    assert any(outcomes)
    assert world.tree() == {}


def test_scratch_is_never_asked_about(world: World) -> None:
    (world.base / "tmp/x").write_text("x")
    scratch = f"{world.base}/tmp"
    assert world.asked(delete, paths=[f"{scratch}/x", f"{scratch}/missing"]) is None
    assert world.asked(delete, paths=["a", f"{scratch}/x", "t/b"]) == "delete 'a', 't/b'"
    assert world.asked(delete, paths="missing/far") == "delete 'missing/far'"
    world.build(f"out -> {scratch}", "a")
    assert world.asked(delete, paths="out/x") is None
    assert world.asked(delete, paths="out") == "delete 'out'"
    (world.base / "tmp/back").symlink_to(world.ws)
    assert world.asked(delete, paths=f"{scratch}/back/a") is not None
    with pytest.raises(VerbPermission):
        world.asked(delete, paths=scratch)


@pytest.mark.parametrize("paths", [[], "", ["a", ""], [1], None])
async def test_no_paths_are_no_call(world: World, paths: Any) -> None:
    with pytest.raises(VerbError):
        await world(delete, paths)

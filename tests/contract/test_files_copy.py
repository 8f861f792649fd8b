"""`copy`, called as a cell calls it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
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
from awaitbox.tools.files.copy import copy
from tests.files import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World.opened(tmp_path) as world:
        yield world


async def test_a_file_with_its_parents_mode_and_time(world: World) -> None:
    world.build("a.sh")
    os.chmod(world.ws / "a.sh", 0o751)
    os.utime(world.ws / "a.sh", ns=(1_000_000_001, 2_000_000_002))
    assert await world(copy, "a.sh", "x/y/b.sh") == {"src": "a.sh", "dest": "x/y/b.sh"}
    found = (world.ws / "x/y/b.sh").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (0o751, 2_000_000_002)
    assert world.tree() == {"a.sh": "a.sh", "x": "/", "x/y": "/", "x/y/b.sh": "a.sh"}


async def test_paths_come_back_as_they_were_given(world: World) -> None:
    world.build("a")
    assert await world(copy, Path("a"), f"{world.ws}/./b") == {
        "src": "a",
        "dest": f"{world.ws}/./b",
    }


async def test_a_tree_whole_with_its_links_modes_and_times(world: World) -> None:
    world.build("t/a", "t/d/e/f", "t/empty/", "t/in -> d/e", "t/out -> /etc", "t/dead -> nothing")
    os.chmod(world.ws / "t/d", 0o500)
    os.chmod(world.ws / "t/empty", 0o700)
    for name in ("t/d/e", "t/d", "t"):
        os.utime(world.ws / name, ns=(1, 1_000_000_007))
    os.utime(world.ws / "t/in", ns=(1, 1_000_000_008), follow_symlinks=False)
    before = world.tree("ws/t")
    await world(copy, "t", "u")
    assert world.tree("ws/u") == before
    for name in ("d", "d/e", "empty", "in", "."):
        old, new = (world.ws / "t" / name).lstat(), (world.ws / "u" / name).lstat()
        assert (new.st_mode, new.st_mtime_ns) == (old.st_mode, old.st_mtime_ns), name


async def test_a_link_at_the_top_is_followed_below_the_roots_only(world: World) -> None:
    world.build("real/f", "l -> real", "secret -> ../out/secret")
    await world(copy, "l", "m")
    assert world.tree("ws/m") == {"f": "real/f"}
    with pytest.raises(VerbPermission):
        await world(copy, "secret", "s")
    assert "s" not in world.tree()


async def test_what_is_read_only_can_be_read(world: World) -> None:
    await world(copy, world.base / "read/r", "r")
    assert world.tree() == {"r": "r"}
    with pytest.raises(VerbPermission, match="only be read"):
        await world(copy, "r", world.base / "read/new")
    assert world.tree("read") == {"r": "r"}


@pytest.mark.parametrize("dest", ["../out/x", "/x", "../ws-old/x", "door/x", "door"])
async def test_nothing_is_written_outside(world: World, dest: str) -> None:
    world.build("a", "door -> ../out")
    with pytest.raises((VerbPermission, VerbFileExists)):
        await world(copy, "a", dest)
    assert world.tree("out") == {"secret": "s"}


async def test_an_existing_dest_is_refused_whatever_it_is(world: World) -> None:
    world.build("a", "f", "d/x", "l -> a", "dead -> nothing")
    before = world.tree()
    for src, dest in (("a", "f"), ("a", "d"), ("a", "l"), ("a", "dead"), ("d", "f"), ("d", "d/x")):
        with pytest.raises((VerbFileExists, VerbValue)):
            await world(copy, src, dest)
    with pytest.raises(VerbFileExists, match="is_overwrite=True") as caught:
        await world(copy, "a", "f")
    assert caught.value.code == "exists"
    assert world.tree() == before


async def test_overwrite_replaces_a_file_and_a_link_but_not_its_target(world: World) -> None:
    world.build("a", "f", "g", "l -> g")
    await world(copy, "a", "f", is_overwrite=True)
    await world(copy, "a", "l", is_overwrite=True)
    assert world.tree() == {"a": "a", "f": "a", "g": "g", "l": "a"}


async def test_overwrite_replaces_a_tree_as_a_whole(world: World) -> None:
    world.build("t/new", "u/old/x", "f")
    await world(copy, "t", "u", is_overwrite=True)
    await world(copy, "t", "f", is_overwrite=True)
    assert world.tree() == {
        "t": "/", "t/new": "t/new", "u": "/", "u/new": "t/new", "f": "/", "f/new": "t/new",
    }  # fmt: skip


async def test_a_file_never_replaces_a_directory(world: World) -> None:
    world.build("a", "d/x")
    with pytest.raises(VerbFileExists, match="dest='d/a'"):
        await world(copy, "a", "d", is_overwrite=True)
    assert world.tree() == {"a": "a", "d": "/", "d/x": "d/x"}


@pytest.mark.parametrize(
    ("src", "dest", "kind"),
    [
        ("a", "a", VerbValue),
        ("a", "./d/../a", VerbValue),
        ("l", "a", VerbValue),
        ("d", "d/e/f", VerbValue),
        ("d", "d/new/deep/f", VerbValue),
        (".", "d/copy", VerbValue),
        ("d/e", "d", VerbValue),
        ("d/x", "d", VerbValue),
        ("a", "new/", VerbOSError),
        ("a/", "b", VerbFileNotFound),
        ("a/x", "b", VerbOSError),
        ("missing", "new/b", VerbFileNotFound),
        ("dead", "b", VerbFileNotFound),
        ("a", "a/b", VerbOSError),
        ("a\0", "b", VerbValue),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    world: World, src: str, dest: str, kind: type[VerbError]
) -> None:
    world.build("a", "d/x", "d/e/", "l -> a", "dead -> nothing")
    before = world.tree()
    with pytest.raises(kind):
        await world(copy, src, dest, is_overwrite=True)
    assert world.tree() == before


async def test_the_workspace_itself_is_not_replaced(world: World) -> None:
    world.build("a")
    (world.base / "tmp/t").mkdir()
    with pytest.raises(VerbPermission, match="root"):
        await world(copy, world.base / "tmp/t", ".", is_overwrite=True)
    assert world.tree() == {"a": "a"}


async def test_fifos_and_sockets_are_made_anew_and_never_read(world: World) -> None:
    world.build("t/a")
    os.mkfifo(world.ws / "t/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(world.ws / "t/socket"))
    with trio.fail_after(5):
        await world(copy, "t", "u")
        await world(copy, "t/fifo", "fifo")
    assert stat.S_ISFIFO((world.ws / "u/fifo").lstat().st_mode)
    assert stat.S_ISFIFO((world.ws / "fifo").lstat().st_mode)
    assert stat.S_ISSOCK((world.ws / "u/socket").lstat().st_mode)


async def test_a_copy_does_not_run_as_its_owner(world: World) -> None:
    world.build("a")
    os.chmod(world.ws / "a", 0o4755)
    await world(copy, "a", "b")
    assert stat.S_IMODE((world.ws / "b").stat().st_mode) == 0o755


def test_holes_stay_holes_and_bytes_are_the_same(world: World) -> None:
    with open(world.ws / "big", "wb") as file:
        file.write(os.urandom(200_000))
        file.seek(1 << 30)
        file.write(b"end")
        file.truncate((1 << 30) + 100_000)
    transfer.copy(world.ctx.roots, "big", "again", lambda: None, is_overwrite=False)
    old, new = (world.ws / "big").stat(), (world.ws / "again").stat()
    assert (new.st_size, new.st_blocks <= old.st_blocks + 64) == (old.st_size, True)
    with open(world.ws / "big", "rb") as a, open(world.ws / "again", "rb") as b:
        for at in (0, 100_000, (1 << 30) - 10, (1 << 30) + 90_000):
            a.seek(at)
            b.seek(at)
            assert a.read(100_000) == b.read(100_000)


async def test_without_help_of_the_kernel_the_bytes_are_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3_000_000)
    (world.ws / "a").write_bytes(data)
    monkeypatch.setattr(tree, "_offload", lambda *_: 0)
    monkeypatch.setattr(tree, "COPY_BYTES", 1_000_001)
    await world(copy, "a", "b")
    assert (world.ws / "b").read_bytes() == data


async def test_of_two_at_once_one_wins(world: World) -> None:
    world.build(*(f"src{i}/f" for i in range(8)))
    outcomes: list[str] = []

    async def one(i: int) -> None:
        try:
            await world(copy, f"src{i}", "dest")
            outcomes.append(f"src{i}/f")
        except VerbFileExists:
            pass

    async with trio.open_nursery() as nursery:
        for i in range(8):
            nursery.start_soon(one, i)
    assert len(outcomes) == 1
    assert world.tree("ws/dest") == {"f": outcomes[0]}
    assert not [name for name in world.tree() if "awaitbox" in name]


async def test_a_cancel_leaves_no_half_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.build(*(f"t/d{i}/f{j}" for i in range(5) for j in range(5)), "u/old")
    before = world.tree()
    scope = trio.CancelScope()
    real, seen = tree._copy_entry, 0

    def cancel_at_the_tenth(*args: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 10:
            trio.from_thread.run_sync(scope.cancel)
        real(*args)

    monkeypatch.setattr(tree, "_copy_entry", cancel_at_the_tenth)
    with scope:
        await world(copy, "t", "u", is_overwrite=True)
    assert scope.cancelled_caught
    assert seen == 10
    assert world.tree() == before


def failing_after(count: int) -> Callable[[], None]:
    """A check that raises OSError when it is called for the `count`-th time."""
    left = count

    def check() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")

    return check


@pytest.mark.parametrize("count", range(0, 12))
def test_a_failure_at_any_entry_leaves_all_as_it_was(world: World, count: int) -> None:
    world.build("t/a", "t/d/b", "t/d/e/c", "t/l -> a", "u/old")
    before = world.tree()
    roots = world.ctx.roots
    try:
        transfer.copy(roots, "t", "u", failing_after(count), is_overwrite=True)
    except VerbOSError as error:
        assert "'t' to 'u': No space left" in error.message
        assert world.tree() == before
    else:
        assert count >= 8  # the tree, five entries, and the contents of two files or more
        assert world.tree("ws/u") == world.tree("ws/t")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a device")
async def test_a_failure_inside_a_tree_says_where(world: World) -> None:
    world.build("t/d/a")
    os.mknod(world.ws / "t/d/null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with pytest.raises(VerbOSError, match=r"'t' to 'u': is a device.*'d/null'"):
        await world(copy, "t", "u")
    assert "u" not in world.tree()


async def test_a_very_deep_tree(world: World) -> None:
    world.deep("t", 600)
    await world(copy, "t", "u")
    await world(copy, "t/" + "d/" * 590, "end")
    assert len(world.tree("ws/end")) == 10

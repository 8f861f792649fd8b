"""The folder of a host: whose it is, who sweeps it, and that all of it goes."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from awaitbox.host import folder as folder_module
from awaitbox.host.custody.removal import remove_tree
from awaitbox.host.errors import HostError
from awaitbox.host.folder import RunFolder, base_folder, sweep


@pytest.fixture(autouse=True)
def own_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path / f"awaitbox-{os.getuid()}"


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


async def test_a_folder_lives_as_long_as_its_host(own_base: Path) -> None:
    async with RunFolder.open() as folder:
        assert os.path.dirname(folder.path) == str(own_base)
        assert (mode(own_base), mode(folder.path)) == (0o700, 0o700)
        one, two = folder.session(), folder.session()
        assert sorted(os.listdir(folder.path)) == sorted(map(os.path.basename, (one, two)))
        assert os.listdir(one) == ["tmp"]
        assert await folder.remove(one)
        assert os.listdir(folder.path) == [os.path.basename(two)]
        assert await folder.remove(one)
    assert os.listdir(own_base) == []


async def test_folders_of_living_hosts_stay_and_stale_ones_go(own_base: Path) -> None:
    async with RunFolder.open() as living:
        os.makedirs(own_base / "run-stale" / "session-x" / "tmp")
        os.mkdir(own_base / "something-else")
        async with RunFolder.open() as other:
            names = {os.path.basename(folder.path) for folder in (living, other)}
            assert set(os.listdir(own_base)) == {*names, "something-else"}


def test_the_lock_outlives_the_host_in_whoever_holds_the_same_description(
    own_base: Path,
) -> None:
    own_base.mkdir(mode=0o700)
    run = own_base / "run-a"
    run.mkdir()
    lock = os.open(run, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    wardens = os.dup(lock)
    os.close(lock)
    sweep(str(own_base))
    assert run.exists()
    os.close(wardens)
    sweep(str(own_base))
    assert not run.exists()


def test_a_folder_that_is_open_to_others_is_refused(own_base: Path) -> None:
    own_base.mkdir(mode=0o700)
    own_base.chmod(0o770)
    with pytest.raises(HostError, match="chmod 700") as caught:
        base_folder()
    assert caught.value.code == "folder_refused"


def test_a_link_or_a_file_in_its_place_is_refused(own_base: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    own_base.symlink_to(target)
    with pytest.raises(HostError, match="is not a folder of yours"):
        base_folder()
    own_base.unlink()
    own_base.write_text("")
    with pytest.raises(HostError, match="is not a folder of yours"):
        base_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_another_users_folder_is_refused_and_not_swept(own_base: Path) -> None:
    own_base.mkdir(mode=0o700)
    (own_base / "run-other").mkdir()
    os.chown(own_base / "run-other", 65534, 65534)
    sweep(str(own_base))
    assert (own_base / "run-other").exists()
    (own_base / "run-other").rmdir()
    os.chown(own_base, 65534, 65534)
    with pytest.raises(HostError, match="belongs to user 65534"):
        base_folder()
    os.chown(own_base, 0, 0)


def test_a_new_folder_that_a_sweeper_takes_is_made_again(
    own_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folder_module._locked
    tries = 0

    def locked(path: str) -> int | None:
        nonlocal tries
        tries += 1
        if tries == 1:
            os.rmdir(path)  # before its lock
        fd = real(path)
        if tries == 2:
            os.rmdir(path)  # between its lock and the look at it
        return fd

    base = base_folder()
    monkeypatch.setattr(folder_module, "_locked", locked)
    path, lock = folder_module._make(base)
    assert tries == 3
    assert os.path.samestat(os.stat(path), os.fstat(lock))
    os.close(lock)


# ------------------------------------------------------------------ removal
def test_what_a_hostile_program_leaves_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    top = tmp_path / "top"
    (top / "locked" / "inner").mkdir(parents=True)
    (top / "locked" / "inner" / "file").write_text("")
    (top / "link").symlink_to(outside)
    (top / "locked" / "loop").symlink_to(top)
    os.mkfifo(top / "fifo")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(top / "sock"))
    sock.close()
    (top / "\udcff\n").mkdir()
    (top / ".removed-1-1").mkdir()
    (top / "locked" / "inner").chmod(0)
    (top / "locked").chmod(0)
    top.chmod(0o500)
    assert remove_tree(str(top))
    assert not top.exists()
    assert (outside / "kept").read_text() == "kept"


def test_depth_costs_nothing(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("deep", dir_fd=at)
    for name in ["deep", *["d" * 200] * 500]:
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
        os.mkdir("d" * 200, dir_fd=at)
    os.close(at)
    assert remove_tree(str(tmp_path / "deep"))
    assert not (tmp_path / "deep").exists()


def test_a_link_to_a_folder_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert not remove_tree(str(tmp_path / "link"))
    assert (tmp_path / "real").exists()


def test_removal_is_bounded(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for n in range(20):
        (top / f"{n}" / "a").mkdir(parents=True)
    assert not remove_tree(str(top), 0)
    assert top.exists()
    assert remove_tree(str(top))
    assert remove_tree(str(top))


async def test_removal_in_a_thread_does_not_hold_the_loop(own_base: Path) -> None:
    async with RunFolder.open() as folder:
        path = folder.session()
        for n in range(300):
            os.mkdir(f"{path}/tmp/{n}")
        async with trio.open_nursery() as nursery:
            done = trio.Event()

            async def remove() -> None:
                await folder.remove(path)
                done.set()

            nursery.start_soon(remove)
            await done.wait()
        assert os.listdir(folder.path) == []

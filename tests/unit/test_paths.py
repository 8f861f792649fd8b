"""Where a path leads, and that nothing leads out of the roots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from awaitbox.host.errors import (
    HostError,
    VerbError,
    VerbFileNotFound,
    VerbOSError,
    VerbPermission,
    VerbValue,
)
from awaitbox.host.paths import Roots


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """`ws` with `real/sub/f`, beside it `read`, `write`, `tmp` and the forbidden `out/secret`."""
    base = tmp_path.resolve()
    for name in ("ws/real/sub", "read", "write", "tmp", "out", "ws-old", "wss"):
        (base / name).mkdir(parents=True)
    (base / "ws/real/sub/f").write_text("f")
    (base / "out/secret").write_text("s")
    (base / "read/r").write_text("r")
    return base


@pytest.fixture
def roots(machine: Path) -> Roots:
    return Roots(
        machine / "ws",
        read_roots=[machine / "read"],
        write_roots=[machine / "write"],
        scratch=machine / "tmp",
    )


def found(roots: Roots, path: str | Path, *, follow_last: bool = True) -> str:
    with roots.place(path, "read", follow_last=follow_last) as place:
        assert os.path.realpath(f"/proc/self/fd/{place.parent}/{place.name}") == os.path.realpath(
            place.path
        )
        return place.path


def test_relative_paths_are_of_the_workspace(roots: Roots, machine: Path) -> None:
    for path in ("real/sub/f", "./real//sub/./f", Path("real/sub/f"), machine / "ws/real/sub/f"):
        assert found(roots, path) == f"{machine}/ws/real/sub/f"
    for path in (".", "./", "real/..", str(machine / "ws"), f"../../{machine.name}/ws"):
        with roots.place(path, "read", follow_last=True) as place:
            assert (place.path, place.is_root) == (f"{machine}/ws", True)


def test_tilde_and_dots_in_names_are_names(roots: Roots, machine: Path) -> None:
    assert found(roots, "~") == f"{machine}/ws/~"
    assert found(roots, "..cfg") == f"{machine}/ws/..cfg"
    with pytest.raises(VerbFileNotFound, match="not expanded"):
        found(roots, "~/x")


def test_dotdot_is_taken_after_a_link(roots: Roots, machine: Path) -> None:
    (machine / "ws/l").symlink_to("real/sub")
    assert found(roots, "l/../x") == f"{machine}/ws/real/x"
    assert found(roots, "l/..") == f"{machine}/ws/real"


@pytest.mark.parametrize("path", ["l", "l/", "l/.", "./l//"])
def test_a_link_is_itself_unless_followed(roots: Roots, machine: Path, path: str) -> None:
    (machine / "ws/l").symlink_to("real")
    assert found(roots, path, follow_last=False) == f"{machine}/ws/l"
    assert found(roots, path) == f"{machine}/ws/real"


def test_chains_of_links_are_walked_to_their_end(roots: Roots, machine: Path) -> None:
    (machine / "ws/a").symlink_to("b")
    (machine / "ws/b").symlink_to(machine / "write")
    (machine / "write/c").symlink_to("../ws/real/sub")
    assert found(roots, "a/c/f") == f"{machine}/ws/real/sub/f"
    assert found(roots, "a/c") == f"{machine}/ws/real/sub"
    (machine / "ws/loop").symlink_to("loop")
    with pytest.raises(VerbOSError, match="symbolic links"):
        found(roots, "loop/x")
    with pytest.raises(VerbOSError, match="symbolic links"):
        found(roots, "loop")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/etc/passwd",
        "/nothing/there",
        "..",
        "../out/secret",
        "../ws-old/x",
        "../wss/x",
        "../nothing/x",
        "real/../../out",
        "out",
        "out/secret",
        "root/etc/passwd",
        "sly/../out/secret",
        "secret",
    ],
)
def test_what_leads_outside_is_refused_whether_it_exists_or_not(
    roots: Roots, machine: Path, path: str
) -> None:
    (machine / "ws/out").symlink_to("../out")
    (machine / "ws/root").symlink_to("/")
    (machine / "ws/sly").symlink_to(machine / "write")
    (machine / "ws/secret").symlink_to(machine / "out/secret")
    with pytest.raises(VerbPermission, match="outside the roots") as caught:
        found(roots, path)
    assert str(machine / "ws") in caught.value.message


def test_the_link_that_leads_outside_can_be_named_itself(roots: Roots, machine: Path) -> None:
    (machine / "ws/out").symlink_to("../out")
    assert found(roots, "out", follow_last=False) == f"{machine}/ws/out"


def test_read_roots_are_not_written(roots: Roots, machine: Path) -> None:
    assert found(roots, machine / "read/r") == f"{machine}/read/r"
    with pytest.raises(VerbPermission, match="only be read") as caught:
        with roots.place(machine / "read/r", "write", follow_last=False):
            pass
    assert f"{machine}/write" in caught.value.message
    for path in ("x", machine / "write/x", machine / "tmp/x"):
        with roots.place(path, "write", follow_last=False) as place:
            assert not place.is_root


def test_of_nested_roots_the_innermost_decides(machine: Path) -> None:
    roots = Roots(machine / "ws", read_roots=[machine / "ws/real"], write_roots=[machine / "ws"])
    with roots.place("x", "write", follow_last=False):
        pass
    with pytest.raises(VerbPermission):
        with roots.place("real/x", "write", follow_last=False):
            pass


def test_a_place_that_holds_a_root_counts_as_one(machine: Path) -> None:
    roots = Roots(machine / "ws", write_roots=[machine / "ws/real/sub"])
    for path in ("real", "real/sub", "."):
        with roots.place(path, "write", follow_last=False) as place:
            assert place.is_root


def test_missing_parents_are_made_only_when_asked(roots: Roots, machine: Path) -> None:
    with pytest.raises(VerbFileNotFound):
        found(roots, "a/b/c")
    with roots.place("a/b/../c/d", "write", follow_last=False, has_parents=False) as place:
        assert (place.path, place.lstat()) == (f"{machine}/ws/a/c/d", None)
        assert not (machine / "ws/a").exists()
        place.make_parents()
        os.mkdir(place.name, dir_fd=place.parent)
    assert (machine / "ws/a/c/d").is_dir() and not (machine / "ws/a/b").exists()


@pytest.mark.parametrize("path", ["../new/x", "/new/x", "a/../../new/x", "read/new/x"])
def test_missing_parents_outside_are_refused(roots: Roots, machine: Path, path: str) -> None:
    (machine / "ws/read").symlink_to("../read")
    with pytest.raises(VerbPermission):
        with roots.place(path, "write", follow_last=False, has_parents=False):
            pass
    assert not (machine / "new").exists()


def test_a_file_on_the_way_is_told(roots: Roots) -> None:
    with pytest.raises(VerbOSError, match=r"'real/sub/f/x': .*[Nn]ot a directory"):
        found(roots, "real/sub/f/x")


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_text_that_is_no_path(roots: Roots, path: str) -> None:
    with pytest.raises(VerbValue):
        found(roots, path)


def test_a_name_too_long_is_the_systems_own_error(roots: Roots) -> None:
    with pytest.raises(VerbOSError, match="too long"):
        found(roots, "x" * 300 + "/y")


def test_any_bytes_can_be_a_name(roots: Roots, machine: Path) -> None:
    os.mkdir(os.fsencode(machine) + b"/ws/\xff")
    assert found(roots, "\udcff/x").endswith("\udcff/x")


def test_a_swap_after_the_look_leads_nowhere_else(roots: Roots, machine: Path) -> None:
    with roots.place("real/sub/new", "write", follow_last=False) as place:
        os.rename(machine / "ws/real/sub", machine / "ws/moved")
        (machine / "ws/real/sub").symlink_to(machine / "out")
        os.mkdir(place.name, dir_fd=place.parent)
    assert (machine / "ws/moved/new").is_dir()
    assert os.listdir(machine / "out") == ["secret"]


def test_a_root_that_was_replaced_is_refused(roots: Roots, machine: Path) -> None:
    os.rename(machine / "ws", machine / "gone")
    for path in (".", "x", str(machine / "ws/real/x")):
        with pytest.raises(VerbOSError) as caught:
            found(roots, path)
        assert caught.value.code == "root_replaced"
    (machine / "ws").mkdir()
    for path in (".", "x"):
        with pytest.raises(VerbOSError) as caught:
            found(roots, path)
        assert caught.value.code == "root_replaced"
    assert found(roots, machine / "write/x") == f"{machine}/write/x"


def test_a_deep_path_takes_one_descriptor(roots: Roots, machine: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    deep = "/".join(["d"] * 400)
    with roots.place(deep, "write", follow_last=False, has_parents=False) as place:
        place.make_parents()
        assert len(os.listdir("/proc/self/fd")) == before + 1
        os.mkdir(place.name, dir_fd=place.parent)
    with roots.place(deep + "/.." * 399, "read", follow_last=True) as place:
        assert place.path == f"{machine}/ws/d"
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_error_of_the_block_becomes_the_verbs_own(roots: Roots) -> None:
    with pytest.raises(VerbError, match="'real': ") as caught:
        with roots.place("real", "write", follow_last=False) as place:
            os.rmdir(place.name, dir_fd=place.parent)
    assert isinstance(caught.value, OSError)


def test_directory_is_for_what_runs_in_one(roots: Roots, machine: Path) -> None:
    (machine / "ws/l").symlink_to("real")
    assert roots.directory(None) == f"{machine}/ws"
    assert roots.directory("l/sub") == f"{machine}/ws/real/sub"
    assert roots.directory(Path(machine / "read")) == f"{machine}/read"
    with pytest.raises(VerbFileNotFound, match="'nothing'"):
        roots.directory("nothing")
    with pytest.raises(VerbOSError, match="not a directory"):
        roots.directory("real/sub/f")
    with pytest.raises(VerbPermission):
        roots.directory("../out")


def test_roots_are_listed_workspace_first(roots: Roots, machine: Path) -> None:
    assert roots.listed()[0] == f"{machine}/ws"
    assert set(roots.listed()) == {f"{machine}/{name}" for name in ("ws", "read", "write", "tmp")}


@pytest.mark.parametrize("name", ["nothing", "out/secret", "a\0b"])
def test_what_is_no_directory_cannot_be_a_root(machine: Path, name: str) -> None:
    with pytest.raises(HostError) as caught:
        Roots(f"{machine}/{name}")
    assert caught.value.code == "invalid_root"


def test_a_root_given_by_a_link_is_the_directory_behind_it(machine: Path) -> None:
    (machine / "door").symlink_to("ws")
    roots = Roots(machine / "door")
    assert roots.workspace.path == f"{machine}/ws"
    assert found(roots, machine / "door/real") == f"{machine}/ws/real"

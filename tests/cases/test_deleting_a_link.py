"""Deletion of what is not quite a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.product import Call, names_in


@pytest.fixture
def linked(workspace: Path) -> Path:
    """A folder, links to it with every spelling, and a tree that holds one."""
    (workspace / "real/sub").mkdir(parents=True)
    (workspace / "real/keep.txt").write_text("k")
    for name in ("l1", "l2"):
        (workspace / name).symlink_to("real")
    (workspace / "l3").symlink_to("nowhere")
    (workspace / "tree").mkdir()
    (workspace / "tree/in").symlink_to("../real")
    return workspace


async def test_a_link_is_deleted_and_never_its_target(linked: Path, call: Call) -> None:
    result = await call("delete", paths=["l1", "l2/", "l3", "tree", "missing"])
    assert [row["is_deleted"] for row in result["paths"]] == [True, True, True, True, False]
    assert names_in(linked) == ["real"]
    assert names_in(linked / "real") == ["keep.txt", "sub"]
    seen = await call("file_exists", paths=["l3", "real"])
    assert [row["is_exists"] for row in seen["paths"]] == [False, True]


@pytest.mark.parametrize("path", [".", "/", "{ws}", "real/..", "real/../", "..", "{ws}/../outside"])
async def test_the_workspace_and_what_lies_outside_are_refused(
    linked: Path, call: Call, path: str
) -> None:
    (linked.parent / "outside").touch()
    answer = await call("delete", paths=[path.format(ws=linked)])
    assert set(answer) == {"error"}
    assert (linked / "real/keep.txt").exists()
    assert (linked.parent / "outside").exists()

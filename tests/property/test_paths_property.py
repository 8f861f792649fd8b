"""Paths of any shape: the walk agrees with the kernel, and nothing changes outside the roots."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaitbox.host.errors import VerbError, VerbPermission
from awaitbox.host.verb import Verb
from awaitbox.tools.files.copy import copy
from awaitbox.tools.files.create_directory import create_directory
from awaitbox.tools.files.delete import delete
from awaitbox.tools.files.file_exists import file_exists
from awaitbox.tools.files.move import move
from tests.files import World

names = st.sampled_from(["a", "b", "c", "l", "m", "out", "read", "ws", "secret", "f"])
steps = st.one_of(names, st.sampled_from(["..", ".", "", "..."]))
texts = st.builds(
    lambda start, parts, end: (start + "/".join(parts) + end) or ".",
    st.sampled_from(["", "", "", "{base}/", "{base}/ws/", "/"]),
    st.lists(steps, max_size=6),
    st.sampled_from(["", "", "/", "/."]),
)
files = st.lists(
    st.tuples(st.lists(names, min_size=1, max_size=3), st.one_of(st.none(), st.just(""), texts)),
    max_size=8,
)


def build(world: World, specs: list[tuple[list[str], str | None]]) -> None:
    """Folders (None), files ("") and links (their text) below the workspace, where they fit."""
    for parts, text in specs:
        path = world.ws.joinpath(*parts)
        try:
            if not Path(os.path.realpath(path.parent)).is_relative_to(world.ws):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.mkdir()
            elif text == "":
                path.touch(exist_ok=False)
            else:
                path.symlink_to(text.format(base=world.base))
        except OSError:
            continue  # something stands there, or on the way


def is_reachable(world: World, real: str) -> bool:
    return any(os.path.commonpath([real, root]) == root for root in world.ctx.roots.listed())


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(specs=files, text=texts)
def test_a_followed_path_is_where_the_kernel_goes(
    specs: list[tuple[list[str], str | None]], text: str
) -> None:
    with tempfile.TemporaryDirectory() as folder, World.opened(Path(folder)) as world:
        build(world, specs)
        path = text.format(base=world.base)
        full = os.path.join(world.ws, path)
        try:
            with world.ctx.roots.place(path, "read", follow_last=True) as place:
                found = place.lstat()
                assert is_reachable(world, place.path)
                assert (found is not None) == os.path.exists(full)
                if found is not None:
                    assert place.path == os.path.realpath(full)
                    assert os.path.samestat(found, os.stat(full))
        except VerbPermission:
            assert not is_reachable(world, os.path.realpath(full))
        except VerbError:
            assert not os.path.exists(full)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(specs=files, text=texts)
def test_a_link_is_named_itself(specs: list[tuple[list[str], str | None]], text: str) -> None:
    with tempfile.TemporaryDirectory() as folder, World.opened(Path(folder)) as world:
        build(world, specs)
        path = text.format(base=world.base)
        full = os.path.join(world.ws, path)
        while full.endswith(("/", "/.")):
            full = full[:-1].rstrip("/") if full.endswith("/.") else full.rstrip("/")
        try:
            with world.ctx.roots.place(path, "read", follow_last=False) as place:
                found = place.lstat()
                parent = os.path.realpath(os.path.dirname(place.path))
                assert parent == os.path.dirname(place.path)
                if found is not None:
                    assert os.path.samestat(found, os.lstat(full))
        except VerbError:
            pass


verbs = st.sampled_from([copy, move, delete, create_directory, file_exists])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    specs=files,
    calls=st.lists(st.tuples(verbs, texts, texts, st.booleans()), min_size=1, max_size=6),
)
async def test_no_call_changes_anything_outside_or_leaves_a_half(
    specs: list[tuple[list[str], str | None]], calls: list[tuple[Verb, str, str, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        build(world, specs)
        before = [world.tree(name) for name in ("out", "read")], sorted(os.listdir(world.base))
        for verb, first, second, is_overwrite in calls:
            first, second = first.format(base=world.base), second.format(base=world.base)
            was = world.tree()
            try:
                if verb in (copy, move):
                    await world(verb, first, second, is_overwrite=is_overwrite)
                else:
                    await world(verb, [first, second])
            except VerbError:
                assert verb in (delete, create_directory) or world.tree() == was
        after = [world.tree(name) for name in ("out", "read")], sorted(os.listdir(world.base))
        assert after == before
        assert world.ws.is_dir()
        assert not [name for name in world.tree() if "awaitbox" in name]

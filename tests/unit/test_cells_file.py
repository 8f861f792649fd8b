"""Files of cells: where they are cut, and that line numbers stay those of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaitbox.host.errors import HostError
from awaitbox.host.front.cells_file import read_cells, split


def cut(text: str) -> list[tuple[str, int, str]]:
    return [(cell.title, cell.first_line, cell.code) for cell in split(text)]


def test_a_file_without_markers_is_one_cell() -> None:
    assert cut("a = 1\nb = 2\n") == [("", 1, "a = 1\nb = 2\n")]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", '"""Only a docstring."""\n'])
def test_a_file_without_code_has_no_cell(text: str) -> None:
    assert cut(text) == []


def test_markers_begin_cells_and_name_them() -> None:
    text = "# %% Start it\na = 1\n\n# %%\nb = 2"
    assert cut(text) == [("Start it", 2, "a = 1\n"), ("", 5, "b = 2\n")]


def test_cells_without_code_are_left_out_and_not_counted() -> None:
    text = '"""Says what it shows."""\n\n# %% [markdown]\n# prose\n# %%\n# %% Work\nwork()\n'
    cells = split(text)
    assert [(cell.number, cell.name, cell.first_line) for cell in cells] == [
        (1, "cell 1 (Work)", 7)
    ]


@pytest.mark.parametrize("marker", ["# %%", "#%%", "#  %%", "# %%%"])
def test_ways_to_write_a_marker(marker: str) -> None:
    assert len(split(f"a\n{marker}\nb\n")) == 2


@pytest.mark.parametrize("line", ["    # %%", "x = '# %%'", "# %", "%%time"])
def test_lines_that_are_no_marker(line: str) -> None:
    assert len(split(f"a\n{line}\nb\n")) == 1


def test_code_that_does_not_compile_is_a_cell_all_the_same() -> None:
    assert cut("# %%\nif (\n") == [("", 2, "if (\n")]


def test_a_carriage_return_ends_a_line_but_a_form_feed_does_not() -> None:
    assert cut("# %%\r\na = 1\r\n\f\r\n# %%\rb\r") == [("", 2, "a = 1\n"), ("", 5, "b\n")]


LINES = st.lists(st.sampled_from(["a = 1", "", "# %%", "# %% Name", "# note", "'''", "if x:"]))


@given(LINES)
def test_each_line_of_a_cell_stands_where_its_number_says(lines: list[str]) -> None:
    for cell in split("\n".join(lines)):
        code = cell.code.rstrip("\n").split("\n")
        start = cell.first_line - 1
        assert lines[start : start + len(code)] == code


def test_reading_honours_a_byte_order_mark_and_a_coding_line(tmp_path: Path) -> None:
    path = tmp_path / "cells.py"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_cells(str(path))[0].code == "a = 1\n"
    path.write_bytes(b"# coding: latin-1\na = '\xe9'\n")
    assert "é" in read_cells(str(path))[0].code


@pytest.mark.parametrize("data", [b"\xff\xfe", b"# coding: nonsense\n", None])
def test_an_unreadable_file_is_an_error_that_names_it(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "cells.py"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(HostError, match=r"can't read .*cells\.py") as caught:
        read_cells(str(path))
    assert caught.value.code == "unreadable_file"

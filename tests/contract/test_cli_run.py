"""`awaitbox run`: cells in order until one fails, and how a run is ended from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command_line import PROGRAM, awaitbox, environment, objects, started
from tests.product import processes_of

pytestmark = pytest.mark.slow
WAITS = "print('waits', flush=True)\nawait sleep(60)\n"


def cells(folder: Path, text: str) -> str:
    (folder / "cells.py").write_text(text)
    return "cells.py"


def test_cells_share_a_namespace_and_their_values_are_not_printed(tmp_path: Path) -> None:
    file = cells(tmp_path, '"""Says."""\n# %% One\na = 1\na\n# %% Two\nprint(a + 1)\n')
    ran = awaitbox(tmp_path, "run", file)
    assert (ran.returncode, ran.stdout) == (0, "2\n")


def test_the_first_that_fails_ends_the_run_and_is_named(tmp_path: Path) -> None:
    file = cells(tmp_path, "# %%\nprint(1)\n# %% Bad\n\n1 / 0\n# %%\nprint(3)\n")
    ran = awaitbox(tmp_path, "run", file)
    assert (ran.returncode, ran.stdout) == (1, "1\n")
    assert "cells.py: cell 2 (Bad) of 3: error in line 5 of the file" in ran.stderr
    assert "ZeroDivisionError" in ran.stderr


def test_code_that_does_not_compile_is_an_error_of_its_cell(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "run", cells(tmp_path, "# %%\nprint(1)\n# %%\nif (\n"))
    assert (ran.returncode, ran.stdout) == (1, "1\n")
    assert "cell 2 of 2" in ran.stderr and "SyntaxError" in ran.stderr


def test_json_gives_an_object_a_cell(tmp_path: Path) -> None:
    file = cells(tmp_path, "# %%\nprint(1)\n# %%\n1 / 0\n# %%\nprint(3)\n")
    ran = awaitbox(tmp_path, "run", file, "--json")
    assert ran.returncode == 1
    assert [result["status"] for result in objects(ran.stdout)] == ["ok", "error"]


def test_trace_shows_calls_with_outcome_and_time(tmp_path: Path) -> None:
    file = cells(tmp_path, "await shell_run('exit 3')\nawait shell_logs('nope')\n")
    ran = awaitbox(tmp_path, "run", file, "--trace")
    lines = ran.stderr.splitlines()
    assert any(line.startswith("  shell_run(commands=") and "  ok, " in line for line in lines)
    assert any(line.startswith("  shell_logs(id='nope', n=200)  error, ") for line in lines)


def test_what_still_runs_at_the_end_is_named_and_ended(tmp_path: Path) -> None:
    file = cells(tmp_path, "await shell_background(['sleep 60'], id='dev')\n")
    ran = awaitbox(tmp_path, "run", file)
    assert ran.returncode == 0
    assert "the session ends, and with it: dev (pid " in ran.stderr
    assert processes_of(tmp_path) == []


def test_notices_are_shown(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "run", cells(tmp_path, "await shell_run('sleep 60 &')\n"))
    assert "awaitbox: notice: 'sleep 60 &' left sleep running (pid " in ran.stderr


@pytest.mark.parametrize("text", ["", "# %%\n# nothing\n"])
def test_a_file_without_code_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    ran = awaitbox(tmp_path, "run", cells(tmp_path, text))
    assert ran.returncode == 0 and "cells.py has no cell with code in it" in ran.stderr


def test_a_missing_file_is_exit_2(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "run", "nowhere.py")
    assert ran.returncode == 2
    assert ran.stderr == "awaitbox: can't read nowhere.py: No such file or directory\n"


# --- ended from outside
def test_ctrl_c_interrupts_the_cell_and_ends_the_run_with_130(tmp_path: Path) -> None:
    file = cells(tmp_path, f"# %%\n{WAITS}# %%\nprint('never')\n")
    with started(tmp_path, "run", file) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
        assert "cell 1 of 2: interrupted in line" in process.stderr.read()
        assert process.wait(10) == 130
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_everything_quietly(tmp_path: Path, number: signal.Signals) -> None:
    file = cells(tmp_path, f"await shell_background('sleep 60')\n{WAITS}")
    with started(tmp_path, "run", file) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(number)
        assert len(process.stderr.read().splitlines()) == 1  # the warning of the beginning
        assert process.wait(10) == 128 + number
    assert processes_of(tmp_path) == []


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    file = cells(tmp_path, f"await shell_background('sleep 60')\n{WAITS}")
    with started(tmp_path, "run", file) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.kill()
        process.wait(10)
        end = time.monotonic() + 10
        while (left := processes_of(tmp_path)) and time.monotonic() < end:
            time.sleep(0.01)
        assert left == []


def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path: Path) -> None:
    file = cells(tmp_path, "while True:\n    print('y' * 100)\n    await sleep(0.001)\n")
    with started(tmp_path, "run", file) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "y" * 100 + "\n"
        process.stdout.close()
        assert len(process.stderr.read().splitlines()) == 1
        assert process.wait(10) == 141
    assert processes_of(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [PROGRAM, "exec", "print(1)"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    assert ran.returncode != 0 and "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr

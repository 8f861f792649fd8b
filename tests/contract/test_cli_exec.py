"""`awaitbox exec`, and what all commands share: options, errors, exit codes."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import awaitbox as package
from awaitbox.host.result import CellResult
from tests.command_line import PROGRAM, awaitbox, environment, objects

WARNING = "nothing confines them"


def test_output_comes_first_then_the_value(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "exec", "print('hi', end='')\n1 + 1")
    assert (ran.returncode, ran.stdout) == (0, "hi\n2\n")
    assert WARNING in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_an_error_goes_to_stderr_with_exit_1(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "exec", "-", stdin="print('before')\n1 / 0\n")
    assert (ran.returncode, ran.stdout) == (1, "before\n")
    assert "line 2" in ran.stderr and "ZeroDivisionError: division by zero" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "read-only"], "this release does not build"),
        (["--mode", "half-access"], "no mode 'half-access'; there are: read-only"),
        (["--workspace", "nowhere"], "nowhere"),
    ],
)
def test_what_the_host_refuses_is_one_line_and_exit_2(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    ran = awaitbox(tmp_path, "exec", "1", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_wrong_options_are_exit_2(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "exec", "1", "--cell-seconds", "0")
    assert ran.returncode == 2 and "--cell-seconds" in ran.stderr


def test_version() -> None:
    ran = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=30)
    assert ran.stdout == f"awaitbox {package.__version__}\n"


def test_help_loads_no_event_loop() -> None:
    code = (
        "import sys; from awaitbox.host.front import cli; sys.argv[1:] = ['--help']\n"
        "try: cli.main()\n"
        "finally: print({'trio', 'rich', 'prompt_toolkit', 'msgspec'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert "repl" in ran.stdout and ran.stdout.endswith("set()\n")


@pytest.mark.slow
def test_json_has_the_fields_of_a_result_and_nothing_streams(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "exec", "--json", "print('é')\nawait shell_run('exit 3')\n'v'")
    (result,) = objects(ran.stdout)
    assert list(result) == [field.name for field in dataclasses.fields(CellResult)]
    assert (result["status"], result["stdout"], result["value"]) == ("ok", "é\n", "'v'")
    assert [call["verb"] for call in result["calls"]] == ["shell_run"]


@pytest.mark.slow
def test_what_asks_is_refused_without_a_terminal_and_the_text_names_yes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    ran = awaitbox(tmp_path, "exec", "await delete('a')")
    assert ran.returncode == 1 and "--yes" in ran.stderr and (tmp_path / "a").exists()
    ran = awaitbox(tmp_path, "exec", "await delete('a')", "--yes")
    assert ran.returncode == 0 and not (tmp_path / "a").exists()


@pytest.mark.slow
def test_a_deadline_is_exit_1_and_names_its_line(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "exec", "1\nawait sleep(60)", "--cell-seconds", "0.3")
    assert ran.returncode == 1 and "stopped after 0.3 s in line 2" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
def test_closed_standard_streams_do_no_harm(tmp_path: Path, closed: str) -> None:
    line = f"{shlex.quote(PROGRAM)} exec 'print(1)\nawait shell_run(\"echo 1\")' {closed}"
    ran = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment(tmp_path), timeout=30)
    assert ran.returncode == 0


@pytest.mark.slow
def test_programs_get_the_limit_on_open_files_that_we_were_started_with(tmp_path: Path) -> None:
    code = "r = await shell_run('ulimit -Sn'); print(r['commands'][0]['stdout'], end='')"
    line = f"ulimit -Sn 300; exec {shlex.join([PROGRAM, 'exec', code])}"
    ran = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.stdout == "300\n"

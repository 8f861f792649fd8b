"""`awaitbox repl` on a real terminal, and the questions that a person is asked there."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from awaitbox.host.front.prompt import is_incomplete
from tests.command_line import awaitbox, terminal
from tests.product import processes_of

ENTER, CTRL_C, CTRL_D, TAB = "\r", "\x03", "\x04", "\t"
PROMPT = ">>>"


@pytest.mark.parametrize(
    ("text", "goes_on"),
    [
        ("1 + 1", False),
        ("for x in y:", True),
        ("for x in y:\n    print(x)", True),
        ("for x in y:\n    print(x)\n", False),
        ("await f(", True),
        ("await sleep(1)", False),
        ("x = '''a", True),
        ("a = 1\nb = 2", False),
        ("if x:\n    y\nelse:", True),
        ("@decorated", True),
        ("1 +", False),  # wrong, and said to be by the cell
        ("'a", False),
        ("!echo (", False),
        (":help", False),
        ("a\0b", False),
    ],
)
def test_enter_goes_on_only_where_the_source_does(text: str, goes_on: bool) -> None:
    assert is_incomplete(text) is goes_on


def test_without_a_terminal_it_names_what_works_there(tmp_path: Path) -> None:
    ran = awaitbox(tmp_path, "repl")
    assert ran.returncode == 2 and "awaitbox exec -" in ran.stderr


@pytest.mark.slow
def test_cells_with_values_errors_and_several_lines(tmp_path: Path) -> None:
    with terminal(tmp_path, "repl") as repl:
        repl.until(PROMPT)
        repl.send("a = 20" + ENTER)
        repl.until(PROMPT)
        repl.send("for x in [1, 2]:" + ENTER + "print(x * a)" + ENTER + ENTER)
        repl.until("20\r\n40\r\n")
        repl.until(PROMPT)
        repl.send("a + 1" + ENTER)
        repl.until("21\r\n")
        repl.until(PROMPT)
        repl.send("a / 0" + ENTER)
        repl.until("ZeroDivisionError: division by zero")
        repl.until(PROMPT)
        repl.send(CTRL_D)
        assert repl.end() == 0
    assert processes_of(tmp_path) == []
    assert "a + 1" in (tmp_path / "state/awaitbox/history").read_text()


@pytest.mark.slow
def test_ctrl_c_stops_the_cell_and_keeps_the_namespace(tmp_path: Path) -> None:
    with terminal(tmp_path, "repl") as repl:
        repl.until(PROMPT)
        repl.send("kept = 5" + ENTER)
        repl.until(PROMPT)
        repl.send("print('be' 'gun'); await sleep(60)" + ENTER)
        repl.until("begun\r\n")
        repl.send(CTRL_C)
        repl.until("KeyboardInterrupt")
        repl.until(PROMPT)
        repl.send("thrown away" + CTRL_C)  # at the prompt it clears the line
        repl.until(PROMPT)
        repl.send("kept + 1" + ENTER)
        repl.until("6\r\n")
        repl.until(PROMPT)
        repl.send("!touch begun; sleep 60" + ENTER)
        repl.until("shell_run(commands=['touch begun; sleep 60']) ")  # the status line
        assert (tmp_path / "begun").exists()
        repl.send(CTRL_C)
        repl.until("stopped, with all that it had started")
        repl.until(PROMPT)
        repl.send(CTRL_D)
        assert repl.end() == 0


@pytest.mark.slow
def test_bang_runs_commands_and_backgrounds(tmp_path: Path) -> None:
    with terminal(tmp_path, "repl") as repl:
        repl.until(PROMPT)
        repl.send("!echo o''ut; echo e''rr >&2; exit 3" + ENTER)
        repl.until("out\r\n")
        repl.until("err\r\n")
        repl.until("exit 3")
        repl.until(PROMPT)
        repl.send("!&echo up; sleep 60" + ENTER)
        repl.until("echo runs (pid ")
        repl.until(PROMPT)
        repl.send("session['resources']['echo']['status']" + ENTER)
        repl.until("'running'\r\n")
        repl.until(PROMPT)
        repl.send(":nonsense" + ENTER)
        repl.until("no command :nonsense")
        repl.until(PROMPT)
        repl.send(":help" + ENTER)
        repl.until("Ctrl-D   leaves")
        repl.until(PROMPT)
        repl.send(CTRL_D)
        repl.until("the session ends, and with it: echo (pid ")
        assert repl.end() == 0
    assert processes_of(tmp_path) == []


@pytest.mark.slow
def test_names_are_completed(tmp_path: Path) -> None:
    with terminal(tmp_path, "repl") as repl:
        repl.until(PROMPT)
        repl.send("my_own_name = 41; print('s' 'et')" + ENTER)
        repl.until("set\r\n")
        repl.until(PROMPT)
        repl.send("my_ow" + TAB)
        repl.until("my_own_name")
        repl.send(" + 1" + ENTER)
        repl.until("42\r\n")
        repl.until(PROMPT)
        repl.send("file_ex" + TAB + ENTER)
        repl.until("file_exists")
        repl.until(PROMPT)
        repl.send(CTRL_D)
        assert repl.end() == 0


@pytest.mark.slow
def test_a_signal_at_the_prompt_gives_the_terminal_back(tmp_path: Path) -> None:
    with terminal(tmp_path, "repl") as repl:
        repl.until(PROMPT)
        repl.signal(signal.SIGTERM)
        assert repl.end() == 143
    assert processes_of(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "is_deleted"),
    [("y", True), ("always", True), ("n", False), ("", False), ("\x04", False)],
)
def test_a_person_is_asked(tmp_path: Path, answer: str, is_deleted: bool) -> None:
    (tmp_path / "old").write_text("")
    with terminal(tmp_path, "exec", "await delete('old')") as asked:
        asked.until("allow delete 'old'? [y]es, [a]lways this one, [N]o: ")
        asked.send(answer + "\n")
        assert asked.end() == (0 if is_deleted else 1)
    assert (tmp_path / "old").exists() is not is_deleted


@pytest.mark.slow
def test_ctrl_c_at_a_question_denies_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    with terminal(tmp_path, "repl") as repl:
        repl.until(PROMPT)
        repl.send("await delete('old')" + ENTER)
        repl.until("[N]o: ")
        repl.send(CTRL_C)
        repl.until("KeyboardInterrupt")
        repl.until(PROMPT)
        repl.send("1 + 1" + ENTER)
        repl.until("2\r\n")
        repl.until(PROMPT)
        repl.send(CTRL_D)
        assert repl.end() == 0
    assert (tmp_path / "old").exists()


@pytest.mark.slow
def test_a_cell_that_takes_long_shows_what_it_does(tmp_path: Path) -> None:
    with terminal(
        tmp_path, "exec", "await shell_background('sleep 60', id='dev')\nawait sleep(2)"
    ) as ran:
        ran.until("sleep(seconds=2) ")
        ran.until("live: dev")
        assert ran.end() == 0

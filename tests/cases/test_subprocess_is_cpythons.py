"""`subprocess` and its kin in a cell, where other shims differ from CPython."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import ok, running


@pytest.mark.slow  # the bound of a call, long enough for a loaded machine to print before it
@pytest.mark.parametrize(
    "call",
    [
        "subprocess.run('echo start; sleep 3341 | cat', shell=True, stdout=-1, timeout=1)",
        "subprocess.check_output('echo start; sleep 3341 | cat', shell=True, timeout=1)",
        "subprocess.check_output(['sh', '-c', 'echo start; setsid sleep 3341'], timeout=1)",
    ],
    ids=["run", "check_output", "another session"],
)
async def test_a_bound_comes_back_with_the_output_and_ends_the_tree(
    session: Session, call: str
) -> None:
    with trio.fail_after(5):
        result = await ok(
            session,
            "import subprocess\n"
            f"try:\n    {call}\n"
            "except subprocess.TimeoutExpired as e:\n    print(e.output, e.stdout, e.timeout)",
        )
    assert result.stdout == "b'start\\n' b'start\\n' 1\n"
    assert not running("sleep 3341")


async def test_called_process_error_has_all_that_it_has_elsewhere(session: Session) -> None:
    result = await ok(
        session,
        "import subprocess\n"
        "argv = ['sh', '-c', 'echo out; echo err >&2; exit 3']\n"
        "try:\n"
        "    subprocess.run(argv, check=True, capture_output=True, text=True)\n"
        "except subprocess.CalledProcessError as e:\n"
        "    print([e.returncode, e.cmd == argv, e.output, e.stdout, e.stderr], e, sep='\\n')",
    )
    assert result.stdout == (
        "[3, True, 'out\\n', 'out\\n', 'err\\n']\n"
        "Command '['sh', '-c', 'echo out; echo err >&2; exit 3']' "
        "returned non-zero exit status 3.\n"
    )


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("subprocess.run(['sh', '-c', 'kill -9 $$']).returncode", "-9"),
        ("subprocess.call(['sh', '-c', 'kill -15 $$'])", "-15"),
        ("subprocess.Popen(['sh', '-c', 'kill -2 $$']).wait()", "-2"),
        ("subprocess.run('exit 200', shell=True).returncode", "200"),
        ("os.system('exit 7')", "1792"),
        ("os.system('kill -9 $$')", "9"),
        ("subprocess.getstatusoutput('echo x; exit 5')", "(5, 'x')"),
    ],
)
async def test_death_by_a_signal_is_negative_and_an_exit_is_itself(
    session: Session, call: str, printed: str
) -> None:
    assert (await ok(session, f"import os, subprocess\n{call}")).value == printed


async def test_death_by_a_signal_is_told_by_name(session: Session) -> None:
    result = await ok(
        session,
        "import subprocess\n"
        "try:\n    subprocess.run(['sh', '-c', 'kill -9 $$']).check_returncode()\n"
        "except subprocess.CalledProcessError as e:\n    print(e)",
    )
    told = "Command '['sh', '-c', 'kill -9 $$']' died with <Signals.SIGKILL: 9>.\n"
    assert result.stdout == told


async def test_popen_of_os_is_a_text_file(session: Session, workspace: Path) -> None:
    result = await ok(
        session,
        "import os\n"
        "f = os.popen('printf \"a\\\\nb\\\\n\"; exit 2')\n"
        "print([f.readline(), list(f), f.close()])\n"
        "print([os.popen('echo hi').read(), os.popen('true').close()])\n"
        "with os.popen('cat > got.txt', 'w') as w:\n"
        "    count = w.write('x\\u00e9\\n')\n"
        "print([line.strip() for line in os.popen('seq 3')])",
    )
    assert result.stdout == "['a\\n', ['b\\n'], 512]\n['hi\\n', None]\n['1', '2', '3']\n"
    assert (workspace / "got.txt").read_text(encoding="utf-8") == "x\u00e9\n"


async def test_a_pipeline_of_two_flows_and_breaks_as_everywhere(session: Session) -> None:
    result = await ok(
        session,
        "import subprocess as sp\n"
        "p1 = sp.Popen(['seq', '1', '1000000'], stdout=sp.PIPE)\n"
        "p2 = sp.Popen(['head', '-n', '2'], stdin=p1.stdout, stdout=sp.PIPE, text=True)\n"
        "p1.stdout.close()\n"
        "print([p2.communicate()[0], p1.wait(timeout=5), p2.returncode])\n"
        "y = sp.Popen(['yes'], stdout=sp.PIPE)\n"
        "h = sp.run(['head', '-n', '1'], stdin=y.stdout, capture_output=True)\n"
        "y.stdout.close()\n"
        "print([h.stdout, y.wait(timeout=5)])",
    )
    assert result.stdout == "['1\\n2\\n', -13, 0]\n[b'y\\n', -13]\n"


async def test_the_pipes_of_a_popen_are_live(session: Session) -> None:
    result = await ok(
        session,
        "import subprocess as sp\n"
        "with sp.Popen(['cat'], stdin=sp.PIPE, stdout=sp.PIPE, text=True, bufsize=1) as c:\n"
        "    n = c.stdin.write('a\\n'); c.stdin.flush(); first = c.stdout.readline()\n"
        "    n = c.stdin.write('b\\n'); c.stdin.close(); rest = c.stdout.read()\n"
        "print([first, rest, c.returncode])",
    )
    assert result.stdout == "['a\\n', 'b\\n', 0]\n"

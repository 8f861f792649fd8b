"""Commands that outlive, outwait or outwit the tools that run them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import Call, OpenHost, caller, ok, running, until, until_ended, value


@pytest.mark.parametrize(
    "command",
    [
        "sleep 3331 & echo over",
        "(sleep 3331) & echo over",
        "setsid sleep 3331 & echo over",
        "nohup sleep 3331 2>/dev/null & echo over",
        "(sleep 3331 &); echo over",
        "sleep 3331 >&2 & echo over",
    ],
)
async def test_a_child_that_keeps_the_pipe_open_does_not_hold_the_call(
    session: Session, command: str
) -> None:
    with trio.fail_after(5):
        command_row = await value(session, f"(await shell_run([{command!r}]))['commands'][0]")
    assert command_row["stdout"] == "over\n"
    assert command_row["exit"] == 0
    assert not command_row["timed_out"]


@pytest.mark.slow  # a second is waited for, as the contract says
async def test_a_child_that_goes_on_printing_does_not_hold_the_call(session: Session) -> None:
    command = "(while sleep 0.02; do echo tick; done) & sleep 0.3; echo fg; exit 3"
    with trio.fail_after(5):
        row = await value(session, f"(await shell_run([{command!r}]))['commands'][0]")
    assert "fg" in row["stdout"].split()
    assert (row["exit"], row["timed_out"]) == (3, False)


@pytest.mark.slow  # the bound of the call
@pytest.mark.parametrize(
    "rest",
    [
        "trap '' TERM; (trap '' TERM; sleep 3332; echo late > late.txt) | cat & "
        "setsid sleep 3332 & sleep 3332",
        "sleep 3332",
        "exec sleep 3332",
        "(setsid sh -c 'trap \"\" TERM HUP; sleep 3332 & wait' >/dev/null 2>&1 &) ; sleep 3332",
        "while :; do sleep 3332 & sleep 0.01; done",
    ],
    ids=["ignores TERM", "plain", "exec", "daemon", "keeps starting more"],
)
async def test_at_the_bound_the_whole_tree_ends_and_what_was_printed_is_kept(
    opened: OpenHost, workspace: Path, rest: str
) -> None:
    async with opened(limits={"shell_run_seconds": 0.4}) as host, host.open_session() as session:
        with trio.fail_after(8):
            row = await value(
                session, f"(await shell_run([{'echo start; ' + rest!r}]))['commands'][0]"
            )
        assert row["timed_out"]
        assert row["exit"] != 0
        assert row["stdout"] == "start\n"
        assert "shell_background" in row["note"]
        assert not running("sleep 3332")
    assert not (workspace / "late.txt").exists()


async def test_bytes_that_are_no_utf_8_cost_nothing_but_themselves(session: Session) -> None:
    rows = await value(
        session,
        "r = await shell_run([\"printf 'caf\\\\351\\\\n'; echo after\","
        " \"printf 'nul\\\\0x\\\\n'\","
        " 'head -c 300000 /dev/urandom | cat; echo TAIL'])\n"
        "import json\n"
        "noise = r['commands'][2]['stdout']\n"
        "[r['commands'][0]['stdout'], r['commands'][1]['stdout'], r['exit'],"
        " noise.endswith('TAIL\\n'), len(json.dumps(noise).encode('utf-8')) > 0]",
    )
    assert rows == ["caf\ufffd\nafter\n", "nul\0x\n", 0, True, True]


async def test_what_a_program_prints_for_a_program_stays_whole(session: Session) -> None:
    code = "import json; print(json.dumps(list(range(30000))))"
    result = await ok(
        session,
        f"import json\nr = await shell_run([{f'{sys.executable} -c {code!r}'!r}])\n"
        "c = r['commands'][0]\n"
        "v = json.loads(c['stdout'])\n"
        "print(len(c['stdout']), len(v), v[-1], c['note'])",
    )
    assert result.stdout == f"{len(json.dumps(list(range(30000)))) + 1} 30000 29999 None\n"


async def test_a_login_profile_runs_once_and_reaches_every_line(
    opened: OpenHost, workspace: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir()
    (home / "bin/mytool").write_text("#!/bin/sh\necho mine $FLAVOUR\n")
    (home / "bin/mytool").chmod(0o755)
    (home / ".bash_profile").write_text(
        "echo noise; echo noise >&2; echo x >> $HOME/ran\n"
        "export RUNS=x$RUNS FLAVOUR=mint\nPATH=$HOME/bin:/usr/local/bin:/usr/bin:/bin\n"
    )
    async with opened() as host, host.open_session() as session:
        call = caller(session)
        lines = [
            "mytool",
            "echo $RUNS",
            "PATH=/nowhere:$PATH /bin/bash -c 'echo ${PATH%%:*}'",
            "export RUNS=y FLAVOUR=salt",
            "echo $RUNS; mytool",
        ]
        ran = await call("shell_run", commands=lines)
        assert [row["stdout"] for row in ran["commands"]] == [
            "mine mint\n",
            "x\n",
            "/nowhere\n",
            "",
            "x\nmine mint\n",
        ]
        async with host.open_session() as other:
            seen = await caller(other)("shell_run", commands=["echo $RUNS"], cwd=workspace)
        assert seen["commands"][0]["stdout"] == "x\n"
    assert (home / "ran").read_text() == "x\n"


@pytest.mark.slow  # three starts of an interpreter, and the grace of a stop
async def test_a_stopped_server_leaves_its_port_to_the_next(session: Session, call: Call) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = f"{sys.executable} -m http.server {port} --bind 127.0.0.1"
    script = f"sh -c 'trap : TERM; trap \"\" HUP; {server}; true'"

    async def is_up() -> bool:
        try:
            (await trio.open_tcp_stream("127.0.0.1", port)).socket.close()
        except OSError:
            return False
        return True

    for _ in range(2):
        started = await call("shell_background", commands=[script], id="web")
        assert started["status"] == "running"
        assert await until(is_up, seconds=20)
        stopped = await call("shell_stop", id="web")
        assert stopped["status"] == "stopped"
        with socket.create_server(("127.0.0.1", port)):
            pass
        assert not running(server)


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (
            "import asyncio\n"
            "try:\n"
            "    await asyncio.wait_for(shell_run(['sleep 3333; touch late']), 0.1)\n"
            "except asyncio.TimeoutError:\n"
            "    print('late')",
            "late\n",
        ),
        (
            "import trio\nwith trio.move_on_after(0.1) as scope:\n"
            "    await shell_run(['sleep 3333 & sleep 3333'])\n"
            "print(scope.cancelled_caught)",
            "True\n",
        ),
        (
            "async def boom():\n"
            "    await sleep(0.05)\n"
            "    raise ValueError('x')\n"
            "try:\n"
            "    await gather(shell_run(['setsid sleep 3333']), boom())\n"
            "except ValueError as e:\n"
            "    print('error', e)",
            "error x\n",
        ),
    ],
    ids=["wait_for", "move_on_after", "gather"],
)
async def test_a_cancelled_call_leaves_no_command(
    session: Session, code: str, printed: str
) -> None:
    with trio.fail_after(5):
        result = await ok(session, code)
    assert result.stdout == printed
    assert not running("sleep 3333")
    assert [entry["outcome"] for entry in result.calls if entry["verb"] == "shell_run"] == [
        "cancelled"
    ]


async def test_a_failing_command_is_a_value_and_no_exception(session: Session) -> None:
    code = "[r['exit'] for r in await gather(shell_run(['exit 4']), shell_run(['echo fine']))]"
    assert await value(session, code) == [4, 0]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("for i in 1 2 3; do printf '\\r%d%%' $i; done; printf '\\r100%%\\n'", ["100%"]),
        ("printf '\\033[1;32mok\\033[0m\\r\\n'", ["ok"]),
        ("printf 'a\\tb\\n'", ["a\tb"]),
        ("printf 'first\\033[2K\\033[1Gsecond\\n'", ["second"]),
        ("printf '\\033]0;title\\007text\\n'", ["text"]),
        ("printf 'crlf\\r\\nnext\\r\\n'", ["crlf", "next"]),
    ],
    ids=["progress", "colour", "tab", "erased", "title", "crlf"],
)
async def test_a_log_shows_what_a_person_would_see(
    call: Call, script: str, lines: list[Any]
) -> None:
    started = await call("shell_background", commands=[script])
    logs = await until_ended(call, started["id"])
    assert (logs["lines"], logs["partial_line"]) == (lines, "")
    assert (logs["total_lines"], logs["dropped_lines"]) == (len(lines), 0)

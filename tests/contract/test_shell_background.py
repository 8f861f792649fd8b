"""What the contract says of `shell_background`, sentence by sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import (
    Call,
    OpenHost,
    caller,
    is_alive,
    ok,
    running,
    until_ended,
    until_printed,
    until_running,
    value,
)

UNTIL_UP = "until [ -e up ]; do sleep 0.01; done"
KEYS = ["id", "cwd", "commands", "pid", "status", "is_already_running", "note"]


async def test_the_result_has_these_keys_and_no_others(call: Call, workspace: Path) -> None:
    result = await call("shell_background", commands=["sleep 3361"], id="dev")
    assert list(result) == KEYS
    (pid,) = await until_running("sleep 3361")
    assert result | {"note": ""} == {
        "id": "dev",
        "cwd": str(workspace),
        "commands": ["sleep 3361"],
        "pid": pid,
        "status": "running",
        "is_already_running": False,
        "note": "",
    }


async def test_the_note_names_the_confinement(call: Call) -> None:
    result = await call("shell_background", commands=["sleep 3361"])
    assert "full-access" in result["note"]


async def test_the_lines_are_one_script_on_a_terminal(call: Call, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    script = ["x=1", "cd /", 'echo "$x $PWD"', "tty", "stty size", "echo $TERM $PAGER $GIT_PAGER"]
    started = await call("shell_background", commands=script, cwd="sub")
    assert started["cwd"] == str(workspace / "sub")
    logs = await until_ended(call, started["id"])
    said, tty, *rest = logs["lines"]
    assert said == "1 /"
    assert tty.startswith("/dev/pts/")
    assert rest == ["40 120", "xterm-256color cat cat"]
    assert logs["exit"] == 0


async def test_a_bare_string_is_one_command(session: Session) -> None:
    assert await value(session, "(await shell_background('sleep 3361'))['commands']") == [
        "sleep 3361"
    ]


async def test_it_has_job_control_and_its_own_session(call: Call) -> None:
    script = [
        "read -r pid sid group front < <(ps -o pid=,sid=,pgid=,tpgid= -p $$)",
        "[ $pid = $sid ] && [ $pid = $group ] && [ $pid = $front ] && echo leads",
    ]
    started = await call("shell_background", commands=script)
    assert (await until_ended(call, started["id"]))["lines"] == ["leads"]


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("sleep 3362", "sleep"),
        ("/usr/bin/env sleep 3362", "sleep"),
        ("timeout 300 sleep 3362", "sleep"),
        ("cd sub && sleep 3362", "sleep"),
        ("cd sub; nice -n 10 sleep 3362", "sleep"),
        ("cd sub\nsleep 3362", "sleep"),
        ("X=1 Y=2 sleep 3362", "sleep"),
        ("exec sleep 3362", "sleep"),
        ("(sleep 3362)", "sleep"),
        ("'sleep' 3362", "sleep"),
    ],
)
async def test_the_id_is_derived_from_the_programs_name(
    call: Call, workspace: Path, line: str, id: str
) -> None:
    (workspace / "sub").mkdir()
    assert (await call("shell_background", commands=[line]))["id"] == id


async def test_a_derived_id_that_is_taken_gets_a_number(call: Call) -> None:
    ids = [(await call("shell_background", commands=[f"sleep 336{n}"]))["id"] for n in (1, 2, 3)]
    assert ids == ["sleep", "sleep-2", "sleep-3"]
    await call("shell_stop", id="sleep-2")
    assert (await call("shell_background", commands=["sleep 3364"]))["id"] == "sleep-2"


@pytest.mark.parametrize("with_id", [{}, {"id": "dev"}], ids=["without id", "with its id"])
async def test_the_same_script_again_is_the_live_one(call: Call, with_id: dict[str, str]) -> None:
    first = await call("shell_background", commands=["sleep 3361", "true"], id="dev")
    again = await call("shell_background", commands=["sleep 3361", "true"], **with_id)
    assert again == first | {"is_already_running": True}
    assert len(await until_running("sleep 3361")) == 1


async def test_equal_means_commands_and_folder(call: Call, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    await call("shell_background", commands=["sleep 3361"])
    for arguments in (
        {"commands": ["sleep 3361"], "cwd": "sub"},
        {"commands": ["sleep 3361", "true"]},
        {"commands": ["sleep 3361"], "id": "own"},
    ):
        other = await call("shell_background", **arguments)
        assert not other["is_already_running"]
    await until_running("sleep 3361", 4)


async def test_one_that_is_over_is_not_already_running(call: Call) -> None:
    first = await call("shell_background", commands=["true"], id="once")
    await until_ended(call, "once")
    again = await call("shell_background", commands=["true"], id="once")
    assert not again["is_already_running"]
    assert again["pid"] != first["pid"]


async def test_another_script_under_a_live_id_is_an_error_that_says_what_runs(
    session: Session, call: Call
) -> None:
    await call("shell_background", commands=["sleep 3361"], id="dev")
    answer = await call("shell_background", commands=["sleep 3362"], id="dev")
    assert answer["error"]["code"] == "id_taken"
    for part in ("'dev'", "sleep 3361", "shell_stop('dev')"):
        assert part in answer["error"]["message"]
    assert not running("sleep 3362")
    caught = await ok(
        session,
        "try:\n    await shell_background('sleep 3362', id='dev')\n"
        "except FileExistsError as e:\n    print(e.code)",
    )
    assert caught.stdout == "id_taken\n"


async def test_the_id_space_is_one_for_all_that_run(session: Session, call: Call) -> None:
    await call("shell_run", commands=["sleep 3361 &"])
    assert (await call("shell_background", commands=["sleep 3362"]))["id"] == "sleep-2"
    answer = await call("shell_background", commands=["sleep 3363"], id="sleep")
    assert answer["error"]["code"] == "id_taken"
    assert list(await value(session, "session['resources']")) == ["sleep", "sleep-2"]


async def test_simultaneous_starts_never_share_an_id(session: Session) -> None:
    code = (
        "started = await gather(*[shell_background(f'sleep 337{n}') for n in range(8)])\n"
        "[sorted(s['id'] for s in started), len({s['pid'] for s in started})]"
    )
    ids, pids = await value(session, code)
    assert ids == sorted(["sleep", *[f"sleep-{n}" for n in range(2, 9)]])
    assert pids == 8


async def test_simultaneous_starts_of_one_script_start_it_once(session: Session) -> None:
    code = (
        "started = await gather(*[shell_background('sleep 3371') for n in range(8)])\n"
        "[{s['id'] for s in started} == {'sleep'}, len({s['pid'] for s in started}),"
        " sorted(s['is_already_running'] for s in started)]"
    )
    assert await value(session, code) == [True, 1, [False, *[True] * 7]]
    assert len(await until_running("sleep 3371")) == 1


async def test_simultaneous_starts_under_one_id_are_one_start_and_errors(session: Session) -> None:
    code = (
        "got = await gather(*[shell_background(f'sleep 337{n}', id='dev') for n in range(5)],"
        " return_exceptions=True)\n"
        "[type(g).__name__ if isinstance(g, Exception) else g['id'] for g in got]"
    )
    got = await value(session, code)
    assert got.count("dev") == 1
    (n,) = [n for n, one in enumerate(got) if one == "dev"]
    await until_running(f"sleep 337{n}")
    assert not [other for other in range(5) if other != n and running(f"sleep 337{other}")]


async def test_ids_are_of_one_session(opened: OpenHost) -> None:
    async with opened() as host:
        async with host.open_session() as one, host.open_session() as other:
            first = await caller(one)("shell_background", commands=["sleep 3361"], id="dev")
            second = await caller(other)("shell_background", commands=["sleep 3361"], id="dev")
            assert not second["is_already_running"]
            assert first["pid"] != second["pid"]
            await caller(other)("shell_stop", id="dev")
            assert is_alive(first["pid"])


async def test_a_cancelled_start_leaves_nothing(session: Session, call: Call) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await call("shell_background", commands=["sleep 3361"], id="dev")
    assert scope.cancelled_caught
    assert not running("sleep 3361")
    assert (await call("shell_background", commands=["sleep 3362"], id="dev"))["status"] == (
        "running"
    )


async def test_what_a_script_leaves_running_is_adopted(session: Session, call: Call) -> None:
    started = await call(
        "shell_background",
        commands=["setsid sh -c 'touch up; exec sleep 3365' & " + UNTIL_UP, "echo said"],
        id="script",
    )
    logs = await until_ended(call, "script")
    assert (logs["status"], logs["exit"], logs["lines"]) == ("exited", 0, ["said"])
    (pid,) = await until_running("sleep 3365")
    live = {resource.id: resource.detail()["pid"] for resource in session.resources.live()}
    assert list(live.values()) == [pid]
    assert started["pid"] != pid
    (id,) = live
    assert (await call("shell_stop", id=id))["status"] == "stopped"
    assert not is_alive(pid)


async def test_a_daemon_on_the_terminal_cannot_keep_its_script_running(
    session: Session, call: Call
) -> None:
    noise = 'trap "" HUP TERM; touch up; while :; do echo noise; sleep 0.01; done'
    script = f"setsid sh -c '{noise}' & {UNTIL_UP}; exit 5"
    await call("shell_background", commands=[script], id="script")
    logs = await until_ended(call, "script")
    assert (logs["status"], logs["exit"]) == ("exited", 5)
    (left,) = session.resources.live()
    await until_printed(call, left.id, "noise")
    assert (await call("shell_stop", id=left.id))["status"] == "stopped"


async def test_an_end_by_a_signal_is_128_and_its_number(call: Call) -> None:
    await call("shell_background", commands=["kill -9 $$"], id="dev")
    logs = await until_ended(call, "dev")
    assert (logs["status"], logs["exit"]) == ("exited", 137)


async def test_it_survives_a_reset_and_a_cell(session: Session, call: Call) -> None:
    started = await ok(session, "b = await shell_background('sleep 3361', id='dev')\nb['pid']")
    await session.reset()
    assert (await call("shell_logs", id="dev"))["status"] == "running"
    again = await value(session, "await shell_background('sleep 3361', id='dev')")
    assert again["is_already_running"]
    assert str(again["pid"]) == started.value


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"commands": []}, "out_of_bounds"),
        ({"commands": ["true"], "id": ""}, "out_of_bounds"),
        ({"commands": ["true"], "id": "a\nb"}, "out_of_bounds"),
        ({"commands": ["true"], "id": "x" * 101}, "out_of_bounds"),
        ({"commands": ["true"], "name": "dev"}, "invalid_arguments"),
        ({"commands": ["true"], "cwd": "/"}, "denied"),
        ({"commands": ["true"], "cwd": "missing"}, "not_found"),
    ],
    ids=repr,
)
async def test_wrong_arguments(call: Call, arguments: dict[str, Any], code: str) -> None:
    answer = await call("shell_background", **arguments)
    assert answer["error"]["code"] == code

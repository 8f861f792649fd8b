"""What the contract says of `shell_stop`, sentence by sentence."""

from __future__ import annotations

import os
import resource
import socket
import sys

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import Call, ok, running, until_ended, until_printed, until_running, value


async def test_the_result_has_these_keys_and_no_others(call: Call) -> None:
    await call("shell_background", commands=["sleep 3391"], id="dev")
    result = await call("shell_stop", id="dev")
    assert list(result) == ["id", "status", "exit", "note"]
    assert result == {"id": "dev", "status": "stopped", "exit": 143, "note": None}
    assert not running("sleep 3391")
    logs = await call("shell_logs", id="dev")
    assert (logs["status"], logs["exit"]) == ("stopped", 143)


async def test_a_program_that_ends_itself_at_term_keeps_its_exit_and_last_words(
    call: Call,
) -> None:
    script = "trap 'echo bye; exit 4' TERM; echo up; while :; do :; done"
    await call("shell_background", commands=[script], id="dev")
    await until_printed(call, "dev", "up")
    assert (await call("shell_stop", id="dev"))["exit"] == 4
    logs = await call("shell_logs", id="dev")
    assert (logs["lines"], logs["exit"]) == (["up", "bye"], 4)


@pytest.mark.slow  # the grace
@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM; echo up; while :; do sleep 3392; done",
        "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM HUP; sleep 3392; true') & "
        "echo up; sleep 3392; sleep 3392",
        "trap '' TERM; echo up; while :; do (trap '' TERM; setsid sleep 3392) & sleep 0.01; done",
        "kill -STOP $$ & echo up; sleep 3392",
        "echo up; sleep 3392 & sleep 3392",
    ],
    ids=["ignores", "other session", "keeps starting more", "stopped", "plain"],
)
async def test_the_whole_tree_is_gone_when_it_returns(call: Call, script: str) -> None:
    await call("shell_background", commands=[script], id="dev")
    await until_printed(call, "dev", "up")
    with trio.fail_after(8):
        result = await call("shell_stop", id="dev")
    assert result["status"] == "stopped"
    assert not running("sleep 3392")


async def test_its_ports_are_free(call: Call) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); s.accept()"
    )
    await call("shell_background", commands=[f'{sys.executable} -c "{code}"'], id="server")
    logs = await until_printed(call, "server", "\n")
    port = int(logs["lines"][0])
    await call("shell_stop", id="server")
    socket.create_server(("127.0.0.1", port)).close()


async def test_stopping_a_finished_one_is_no_error(call: Call) -> None:
    await call("shell_background", commands=["echo said; exit 3"], id="dev")
    await until_ended(call, "dev")
    for _ in range(2):
        result = await call("shell_stop", id="dev")
        assert (result["status"], result["exit"]) == ("exited", 3)
        assert result["note"]
    assert (await call("shell_logs", id="dev"))["lines"] == ["said"]
    await call("shell_background", commands=["sleep 3391"], id="other")
    await call("shell_stop", id="other")
    again = await call("shell_stop", id="other")
    assert (again["status"], again["exit"]) == ("stopped", 143)
    assert again["note"]


async def test_two_stops_at_once_are_both_answered(session: Session) -> None:
    code = (
        "b = await shell_background('sleep 3391', id='dev')\n"
        "[s['status'] for s in await gather(shell_stop('dev'), shell_stop('dev'))]"
    )
    with trio.fail_after(8):
        assert (await ok(session, code)).value == "['stopped', 'stopped']"


async def test_a_cancelled_stop_is_carried_through(call: Call) -> None:
    await call("shell_background", commands=["trap '' TERM; echo up; sleep 3391"], id="dev")
    await until_printed(call, "dev", "up")
    with trio.move_on_after(0.05):
        await call("shell_stop", id="dev")
    assert (await call("shell_stop", id="dev"))["status"] == "stopped"
    assert not running("sleep 3391")


async def test_what_the_session_stopped_sends_no_notice(session: Session, call: Call) -> None:
    await call("shell_background", commands=["sleep 3391"], id="dev")
    await call("shell_stop", id="dev")
    assert (await ok(session, "0")).notices == []


async def test_it_ends_nothing_else(call: Call) -> None:
    await call("shell_background", commands=["sleep 3391"], id="one")
    await call("shell_background", commands=["sleep 3393"], id="two")
    await until_running("sleep 3393")
    await call("shell_stop", id="one")
    assert running("sleep 3393")
    assert (await call("shell_logs", id="two"))["status"] == "running"


async def test_want_of_descriptors_is_an_error_that_names_what_could_be_stopped(
    session: Session, call: Call
) -> None:
    await ok(session, "1")
    await session.host.settled()
    started = await call("shell_background", commands=["sleep 3394"], id="dev")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    for room in range(2, 10):  # whichever of a start's descriptors is the one too many
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, hard))
        try:
            background = await call("shell_background", commands=["sleep 3395"])
            foreground = await call("shell_run", commands=["true"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for answer in (background, foreground):
            if "error" in answer:
                assert answer["error"]["code"] == "no_descriptors"
                for part in ("shell_stop", "dev", str(started["pid"])):
                    assert part in answer["error"]["message"]
        if "error" not in background:
            await call("shell_stop", id=background["id"])
    assert (await call("shell_run", commands=["echo on"]))["commands"][0]["stdout"] == "on\n"
    assert (await call("shell_logs", id="dev"))["status"] == "running"


MANY = """\
rs = await gather(
    *[shell_background(f'sleep 339{i}00') for i in range(20)], return_exceptions=True
)
[type(r).__name__ for r in rs if isinstance(r, Exception)], [r for r in rs if isinstance(r, dict)]
"""


async def test_starts_side_by_side_that_run_out_of_descriptors_fail_and_hold_nothing_up(
    session: Session, call: Call
) -> None:
    await ok(session, "x = 5")
    await session.host.settled()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(fd) for fd in os.listdir("/proc/self/fd")}
    room = [number for number in range(soft) if number not in used][30]
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
    try:
        with trio.fail_after(20):
            failed, started = await value(session, MANY)
            shim = await session.execute("import subprocess\nsubprocess.run('true', shell=True)")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert failed and set(failed) == {"OSError"}
    assert len(failed) + len(started) == 20
    assert shim.status == "ok" or (shim.error is not None and shim.error["type"] == "OSError")
    assert (await ok(session, "x")).value == "5"
    for background in started:
        await call("shell_stop", id=background["id"])

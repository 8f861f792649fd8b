"""What the contract says of `shell_run`, sentence by sentence."""

from __future__ import annotations

import os
import signal
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
    is_there,
    names_in,
    ok,
    running,
    until,
    value,
)

ROW = ["command", "stdout", "stderr", "exit", "duration_ms", "timed_out", "note"]
MIB = 1 << 20


async def run_one(call: Call, line: str) -> dict[str, Any]:
    """The row of a single command."""
    result = await call("shell_run", commands=[line])
    row: dict[str, Any] = result["commands"][0]
    return row


async def test_the_result_has_these_keys_and_no_others(call: Call, workspace: Path) -> None:
    result = await call("shell_run", commands=["echo out; echo err >&2"])
    assert list(result) == ["cwd", "commands", "exit", "duration_ms", "timed_out"]
    (row,) = result["commands"]
    assert list(row) == ROW
    assert row | {"duration_ms": 0} == {
        "command": "echo out; echo err >&2",
        "stdout": "out\n",
        "stderr": "err\n",
        "exit": 0,
        "duration_ms": 0,
        "timed_out": False,
        "note": None,
    }
    assert (result["cwd"], result["exit"], result["timed_out"]) == (str(workspace), 0, False)
    assert type(result["duration_ms"]) is type(row["duration_ms"]) is int
    assert result["duration_ms"] >= row["duration_ms"] >= 0


async def test_a_result_in_a_cell_is_a_plain_dict_that_lists_its_keys(session: Session) -> None:
    assert await value(session, "r = await shell_run('true')\n[type(r['commands'][0])is dict]")
    result = await session.execute("r['output']")
    assert result.error is not None
    assert result.error["type"] == "KeyError"
    for key in ("cwd", "commands", "exit", "duration_ms", "timed_out"):
        assert key in result.error["message"]


async def test_commands_run_in_order_each_on_its_own(call: Call, workspace: Path) -> None:
    result = await call(
        "shell_run",
        commands=[
            "echo one > log; cd /; X=1; export Y=1; f() { :; }; umask 0; shopt -s extglob",
            "exit 3",
            "echo two >> log; pwd; echo $X$Y; type f; exit 4",
            "cat log",
        ],
    )
    assert [row["exit"] for row in result["commands"]] == [0, 3, 4, 0]
    assert result["commands"][2]["stdout"] == f"{workspace}\n\n"
    assert result["commands"][3]["stdout"] == "one\ntwo\n"
    assert result["exit"] == 3


async def test_and_joins_within_one_line(call: Call) -> None:
    assert (await run_one(call, "cd / && false && echo no"))["exit"] == 1


@pytest.mark.parametrize("given", ["'echo $0'", "['echo $0']", "commands='echo $0'"])
async def test_a_bare_string_is_one_command_of_bash(session: Session, given: str) -> None:
    rows = await value(session, f"(await shell_run({given}))['commands']")
    assert [row["stdout"] for row in rows] == ["bash\n"]


async def test_cwd_is_a_folder_below_a_root(
    session: Session, call: Call, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "sub dir").mkdir()
    for cwd in ("sub dir", "./sub dir/", str(workspace / "sub dir"), workspace / "sub dir"):
        result = await call("shell_run", commands=["pwd"], cwd=cwd)
        assert result["cwd"] == str(workspace / "sub dir")
        assert result["commands"][0]["stdout"] == f"{workspace}/sub dir\n"
    code = "from pathlib import Path\n(await shell_run('pwd', cwd=Path('sub dir')))['cwd']"
    assert await value(session, code) == str(workspace / "sub dir")


@pytest.mark.parametrize(
    ("cwd", "kind"),
    [
        ("missing", "FileNotFoundError"),
        ("/etc", "PermissionError"),
        ("..", "PermissionError"),
        ("link", "PermissionError"),
        ("file", "OSError"),
    ],
)
async def test_a_cwd_that_is_none_is_an_error(
    session: Session, workspace: Path, cwd: str, kind: str
) -> None:
    (workspace / "file").touch()
    (workspace / "link").symlink_to("/etc")
    result = await session.execute(f"await shell_run('touch made', cwd={cwd!r})")
    assert result.error is not None
    caught = await ok(
        session,
        f"try:\n    await shell_run('touch made', cwd={cwd!r})\n"
        f"except {kind} as e:\n    print(e.code)",
    )
    assert caught.stdout
    assert not names_in(workspace, "**/made")


async def test_stdin_is_at_its_end_and_nothing_else_is_handed_on(call: Call) -> None:
    result = await call(
        "shell_run",
        commands=["cat", "readlink /proc/self/fd/0", "test -t 1 || echo pipe", "ls /proc/self/fd"],
    )
    rows = [row["stdout"] for row in result["commands"]]
    assert rows == ["", "/dev/null\n", "pipe\n", "0\n1\n2\n3\n"]  # 3 is the listing itself


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE])
async def test_death_by_a_signal_is_128_and_its_number(call: Call, number: int) -> None:
    for line in (f"kill -{number:d} $$", f"sh -c 'kill -{number:d} $$'"):
        assert (await run_one(call, line))["exit"] == 128 + number


async def test_signals_are_at_their_defaults(call: Call) -> None:
    row = await run_one(call, "exec grep -E '^Sig(Blk|Ign)' /proc/self/status")
    masks = [int(line.split()[1], 16) for line in row["stdout"].splitlines()]
    assert [mask & ~(3 << 31) for mask in masks] == [0, 0]  # 32 and 33 are the C library's own


# --- the environment


async def test_the_environment_of_a_command(
    opened: OpenHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "GH_TOKEN", "MY_SECRET_2", "DB_PASSWORD", "PASSWD", "AWS_CREDENTIALS"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("CREDENTIAL", "hidden")
    for name in ("LD_LIBRARY_PATH", "BASH_ENV", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "ENV"):
        monkeypatch.setenv(name, "/hidden")
    for name in ("MONKEY", "KEYBOARD", "TOKENIZER"):
        monkeypatch.setenv(name, "shown")
    monkeypatch.setenv("PAGER", "less")
    async with opened(env={"MINE": "yes", "MY_TOKEN": "given"}) as host:
        async with host.open_session() as session:
            row = await run_one(caller(session), "env -0")
    env = dict(item.split("=", 1) for item in row["stdout"].split("\0") if item)
    assert "hidden" not in row["stdout"]
    assert {name: env.get(name) for name in ("MONKEY", "KEYBOARD", "TOKENIZER")} == {
        "MONKEY": "shown",
        "KEYBOARD": "shown",
        "TOKENIZER": "shown",
    }
    assert (env["MINE"], env["MY_TOKEN"]) == ("yes", "given")
    assert {name: env[name] for name in ("TERM", "PAGER", "GIT_PAGER", "GIT_EDITOR")} == {
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
    }


async def test_path_entries_that_the_login_shell_dropped_come_first(
    opened: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home/.bash_profile").write_text("PATH=/usr/local/bin:/usr/bin:/bin\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/venv/bin:/usr/bin:/bin:{tmp_path}/late")
    async with opened() as host, host.open_session() as session:
        row = await run_one(caller(session), "echo $PATH")
    assert row["stdout"] == (f"{tmp_path}/venv/bin:{tmp_path}/late:/usr/local/bin:/usr/bin:/bin\n")


async def test_tmpdir_is_a_folder_of_the_session_alone(opened: OpenHost) -> None:
    async with opened() as host:
        async with host.open_session() as one, host.open_session() as other:
            folders = []
            for session in (one, other):
                row = await run_one(caller(session), "mktemp -p $TMPDIR >/dev/null; echo $TMPDIR")
                folder = Path(row["stdout"].strip())
                assert names_in(folder)
                assert os.stat(folder.parent).st_mode & 0o077 == 0
                roots = await value(session, "session['roots']")
                assert str(folder) in repr(roots)
                folders.append(folder)
            assert folders[0] != folders[1]
        assert not any(map(is_there, folders))


# --- the bound and the cancel


@pytest.mark.slow  # the bound
async def test_at_the_bound_commands_not_reached_say_so(opened: OpenHost) -> None:
    limits = {"shell_run_seconds": 0.3}
    async with opened(limits=limits) as host, host.open_session() as session:
        lines = ["echo first", "echo second; sleep 3351", "echo third"]
        result = await caller(session)("shell_run", commands=lines)
    first, second, third = result["commands"]
    assert result["timed_out"]
    assert (first["stdout"], first["exit"], first["timed_out"]) == ("first\n", 0, False)
    assert (second["stdout"], second["timed_out"]) == ("second\n", True)
    assert second["exit"] == 128 + signal.SIGTERM
    assert result["exit"] == second["exit"]
    assert "shell_background" in second["note"]
    assert (third["stdout"], third["exit"], third["timed_out"]) == ("", None, False)
    assert "not run" in third["note"]
    assert not running("sleep 3351")


async def test_the_bound_is_of_the_call_and_a_number_that_the_session_shows(
    opened: OpenHost,
) -> None:
    async with opened(limits={"shell_run_seconds": 7}) as host, host.open_session() as session:
        assert await value(session, "session['limits']['shell_run_seconds']") == 7
    async with opened() as host, host.open_session() as session:
        assert await value(session, "session['limits']['shell_run_seconds']") == 120


@pytest.mark.parametrize(
    "line",
    [
        "echo $$ > started; exec sleep 3352",
        "sleep 3352 & echo $! > started; wait",
        "trap '' TERM INT HUP; (trap '' TERM; sleep 3352) & echo $! > started; sleep 3352",
        "setsid sh -c 'echo $$ > started; exec sleep 3352' & sleep 3352",
    ],
)
async def test_a_cancel_ends_the_tree_and_is_raised(
    session: Session, call: Call, workspace: Path, line: str
) -> None:
    async with trio.open_nursery() as nursery:
        outcomes = []

        async def go() -> None:
            try:
                await call("shell_run", commands=[line, "touch second"])
            except trio.Cancelled:
                outcomes.append("cancelled")
                raise
            outcomes.append("returned")

        nursery.start_soon(go)

        async def started() -> str:
            path = workspace / "started"
            return path.read_text() if path.exists() else ""

        pid = int(await until(started))
        nursery.cancel_scope.cancel()
    assert outcomes == ["cancelled"]
    assert not is_alive(pid)
    assert not running("sleep 3352")
    assert not (workspace / "second").exists()
    assert (await call("shell_run", commands=["echo next"]))["commands"][0]["stdout"] == "next\n"


async def test_calls_run_side_by_side(session: Session) -> None:
    code = (
        "a, b = await gather(\n"
        "    shell_run('mkfifo there; cat there'),\n"
        "    shell_run('until [ -p there ]; do sleep 0.01; done; echo met > there'))\n"
        "[a['commands'][0]['stdout'], b['exit']]"
    )
    with trio.fail_after(10):
        assert await value(session, code) == ["met\n", 0]


# --- output


async def test_output_is_raw_and_whole(session: Session) -> None:
    code = r"(await shell_run(r'''printf '\033[31mred\033[0m\r\n\ta\bb\0'; printf x'''))"
    row = await value(session, f"{code}['commands'][0]")
    assert row["stdout"] == "\033[31mred\033[0m\r\n\ta\bb\0x"


@pytest.mark.slow  # 16 MiB through a worker
@pytest.mark.parametrize(("more", "stream"), [(0, "stdout"), (1, "stdout"), (1, "stderr")])
async def test_a_stream_is_whole_to_16_mib(session: Session, more: int, stream: str) -> None:
    size = 16 * MIB + more
    to = ">&2" if stream == "stderr" else ""
    zeros = "head -c {} /dev/zero | tr '\\0' {}"
    line = f"({zeros.format(8 * MIB, 'a')}; {zeros.format(size - 8 * MIB, 'b')}) {to}"
    shown = await value(
        session,
        f"c = (await shell_run([{line!r}]))['commands'][0]\nt = c['{stream}']\n"
        "[len(t), t.count('a'), t.count('b'), c['note']]",
    )
    if not more:
        assert shown == [size, 8 * MIB, 8 * MIB, None]
        return
    length, heads, tails, note = shown
    assert (length, heads, tails) == (16 * MIB, 8 * MIB, 8 * MIB)
    assert f"{size:,}" in note
    assert stream in note


@pytest.mark.slow  # 200 MB
async def test_beyond_that_the_ends_are_kept_and_a_file_has_all(session: Session) -> None:
    size = 200 * 1000 * 1000
    line = f"echo HEAD; head -c {size} /dev/zero | tr '\\0' x; echo; echo TAIL"
    total = size + len("HEAD\n\nTAIL\n")
    kept, missing = 16 * MIB, total - 16 * MIB
    head, tail, length, note, name = await value(
        session,
        f"c = (await shell_run([{line!r}]))['commands'][0]\n"
        "import re\n"
        "[c['stdout'][:5], c['stdout'][-6:], len(c['stdout']), c['note'],"
        " re.search(r'[$]TMPDIR/[^ ;]+', c['note'])[0]]",
    )
    assert (head, tail, length) == ("HEAD\n", "\nTAIL\n", kept)
    assert f"{missing:,}" in note
    path = name.replace("$TMPDIR", session.scratch)
    assert os.stat(path).st_size == total
    counted = await value(
        session,
        f"c = (await shell_run(['wc -c < {name}; head -c 5 {name}; tail -c 5 {name}']))\n"
        "c['commands'][0]['stdout']",
    )
    assert counted == f"{total}\nHEAD\nTAIL\n"


@pytest.mark.slow  # 50 MB
async def test_a_line_of_50_mb(session: Session) -> None:
    line = "head -c 50000000 /dev/zero | tr '\\0' x"
    length, note = await value(
        session,
        f"c = (await shell_run([{line!r}]))['commands'][0]\n[len(c['stdout']), c['note']]",
    )
    assert length == 16 * MIB
    assert f"{50_000_000 - 16 * MIB:,}" in note


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (r"caf\351", "caf\ufffd"),
        (r"\377\376", "\ufffd\ufffd"),
        (r"\342\202", "\ufffd"),
        (r"\355\240\200", "\ufffd\ufffd\ufffd"),
        (r"\303\251", "\u00e9"),
        (r"\360\237\230\200", "\U0001f600"),
    ],
)
async def test_bytes_that_are_no_utf_8_become_a_replacement(
    session: Session, printed: str, text: str
) -> None:
    code = f"(await shell_run([{f'''printf '{printed}'; printf '{printed}' >&2'''!r}]))"
    row = await value(session, f"{code}['commands'][0]")
    assert (row["stdout"], row["stderr"]) == (text, text)


# --- what it leaves running


LEFT_BEHIND = [
    "sleep 3353 &",
    "sleep 3353 >/dev/null 2>&1 </dev/null &",
    "setsid sleep 3353 &",
    "setsid sleep 3353 >/dev/null 2>&1 &",
    "nohup sleep 3353 >/dev/null 2>&1 & disown",
    "( ( setsid sleep 3353 >/dev/null 2>&1 & ) & )",
    "exec -a hidden sh -c 'sleep 3353 & exit'",
]


@pytest.mark.parametrize("line", LEFT_BEHIND)
async def test_what_a_command_leaves_running_becomes_a_background(
    session: Session, call: Call, line: str, workspace: Path
) -> None:
    with trio.fail_after(5):
        row = await run_one(call, line)
    (pid,) = running("sleep 3353")
    assert row["exit"] == 0
    assert not row["timed_out"]
    resources = await value(session, "session['resources']")
    ((id, detail),) = resources.items()
    assert id.startswith("sleep")
    assert detail | {"detail": ""} == {
        "kind": "background",
        "status": "running",
        "pid": pid,
        "exit": None,
        "detail": "",
    }
    assert line in detail["detail"]
    assert id in row["note"]
    assert f"shell_logs({id!r})" in row["note"]
    logs = await call("shell_logs", id=id)
    assert (logs["status"], logs["exit"], logs["lines"]) == ("running", None, [])
    stopped = await call("shell_stop", id=id)
    assert stopped["status"] == "stopped"
    assert not is_alive(pid)


async def test_a_notice_names_what_was_left_running(session: Session) -> None:
    result = await ok(session, "r = await shell_run('sleep 3354 &')")
    (notice,) = result.notices
    assert notice["ids"] == ["sleep"]
    assert "shell_logs('sleep')" in notice["text"]
    assert notice["text"] in result.as_text()


async def test_one_command_leaves_at_most_one_and_a_stop_ends_all_of_it(
    session: Session, call: Call
) -> None:
    row = await run_one(call, "sleep 3355 & sleep 3356 & setsid sleep 3357 &")
    (id,) = session.resources.snapshot()
    assert row["note"].count("left running") == 1
    assert session.resources.snapshot()[id]["pid"] == running("sleep 3355")[0]
    os.kill(running("sleep 3355")[0], signal.SIGTERM)
    assert (await call("shell_logs", id=id))["status"] == "running"
    assert (await call("shell_stop", id=id))["status"] == "stopped"
    assert not [pid for n in (3355, 3356, 3357) for pid in running(f"sleep {n}")]


async def test_it_ends_when_the_last_survivor_does_with_the_exit_of_the_oldest(
    session: Session, call: Call, workspace: Path
) -> None:
    line = "mkfifo a b; sh -c 'read x < a; exit 7' & sh -c 'read x < b; exit 8' &"
    await run_one(call, line)
    (id,) = session.resources.snapshot()
    await run_one(call, "echo > a")
    assert (await call("shell_logs", id=id))["status"] == "running"
    await run_one(call, "echo > b")

    async def ended() -> dict[str, Any] | None:
        logs = await call("shell_logs", id=id)
        return logs if logs["status"] != "running" else None

    logs = await until(ended)
    assert (logs["status"], logs["exit"]) in (("exited", 7), ("exited", None))


async def test_its_further_output_is_in_the_log(call: Call, workspace: Path) -> None:
    line = (
        "mkfifo go; "
        "(exec 2>&1; read x < go; echo more; echo and more >&2; exec sleep 3360) & echo now"
    )
    row = await run_one(call, line)
    assert row["stdout"] == "now\n"
    await run_one(call, "echo > go")

    async def printed() -> bool:
        logs = await call("shell_logs", id=await the_only_id(call))
        return bool(logs["lines"] == ["more", "and more"])

    await until(printed)
    await call("shell_stop", id=await the_only_id(call))


async def the_only_id(call: Call) -> str:
    """The id of the one background there is, from the message about one that is not."""
    answer = await call("shell_logs", id="no such")
    text: str = answer["error"]["message"]
    return text.split("live: ")[1].split(" ")[0]


async def test_late_output_of_a_child_is_neither_lost_nor_doubled(
    session: Session, call: Call
) -> None:
    line = "shell=$$; (while [ -d /proc/$shell ]; do :; done; seq 1 2000) & echo first"
    row = await run_one(call, line)
    seen = row["stdout"].split("\n")[:-1]
    if session.resources.snapshot():
        (id,) = session.resources.snapshot()

        async def ended() -> dict[str, Any] | None:
            logs = await call("shell_logs", id=id, n=2000)
            return logs if logs["status"] == "exited" else None

        seen += (await until(ended))["lines"]
    assert seen == ["first", *map(str, range(1, 2001))]


async def test_what_was_left_is_never_already_running_and_has_no_keyboard(
    session: Session, call: Call
) -> None:
    await run_one(call, "sleep 3358 &")
    typed = await call("shell_type", id="sleep", text="x")
    assert typed["error"]["code"] == "no_keyboard"
    again = await call("shell_background", commands=["sleep 3358 &"])
    assert not again["is_already_running"]
    assert again["id"] != "sleep"


async def test_a_leader_killed_by_its_command_ends_that_command(call: Call) -> None:
    with trio.fail_after(10):
        row = await run_one(call, "echo before; kill -9 $PPID; sleep 3359")
    assert row["note"]
    assert not running("sleep 3359")
    assert (await run_one(call, "echo after"))["stdout"] == "after\n"


# --- arguments


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_arguments"),
        ({"commands": []}, "out_of_bounds"),
        ({"commands": [""]}, "out_of_bounds"),
        ({"commands": ["true"], "timeout": 5}, "invalid_arguments"),
        ({"commands": 5}, "invalid_arguments"),
        ({"commands": ["true", 5]}, "invalid_arguments"),
        ({"commands": None}, "invalid_arguments"),
        ({"commands": ["true"], "cwd": 5}, "invalid_arguments"),
    ],
    ids=repr,
)
async def test_wrong_arguments_are_told_with_the_right_call(
    call: Call, arguments: dict[str, Any], code: str
) -> None:
    answer = await call("shell_run", **arguments)
    assert set(answer) == {"error"}
    assert answer["error"]["code"] == code
    assert "await shell_run(commands, *, cwd=None)" in answer["error"]["message"]


@pytest.mark.parametrize(
    "line",
    ["echo a\0b", "echo \udc80", "echo '" + "x" * 200_000 + "' | wc -c"],
    ids=["NUL", "lone surrogate", "long line"],
)
async def test_a_line_that_cannot_be_started_is_an_error_of_that_call(
    call: Call, line: str
) -> None:
    answer = await call("shell_run", commands=[line])
    if "error" not in answer:
        assert answer["commands"][0]["exit"] is not None
    else:
        assert answer["error"]["code"] != "internal"
        assert answer["error"]["message"]
    assert (await run_one(call, "echo on"))["stdout"] == "on\n"


async def test_a_line_that_the_kernel_does_not_take_is_refused_with_the_mend(
    session: Session,
) -> None:
    for verb in ("shell_run", "shell_background"):
        told = await session.execute(f"await {verb}('echo ' + 'z' * 200_000)")
        assert told.error is not None and told.error["type"] == "ValueError"
        assert "write it to a file" in told.error["message"]

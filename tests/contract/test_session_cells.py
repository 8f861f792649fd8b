"""What the contract says of a cell's result: value, streams, clipping, notices, calls, events."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import trio

from awaitbox import CellResult, Output
from awaitbox.host.session import Session
from tests.product import Call, OpenHost, ok, value

FIELDS = [
    "status",
    "stdout",
    "stderr",
    "value",
    "display",
    "error",
    "notices",
    "calls",
    "duration_ms",
    "is_clipped",
]
CLIP = 64 << 10


async def test_a_result_has_these_fields_and_is_frozen(session: Session) -> None:
    result = await session.execute("import sys\nprint('o'); print('e', file=sys.stderr)\n40 + 2")
    assert isinstance(result, CellResult)
    assert [field.name for field in dataclasses.fields(result)] == FIELDS
    assert result == dataclasses.replace(
        CellResult(status="ok", stdout="o\n", stderr="e\n", value="42"),
        duration_ms=result.duration_ms,
    )
    assert result.duration_ms > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.status = "error"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1 + 1", "2"),
        ("x = 1", None),
        ("None", None),
        ("'a'", "'a'"),
        ("1 + 1;", "2"),
        ("await sleep(0.001, reason='x')", "{'seconds': 0.001}"),
        ("def f(): return 1\nf()", "1"),
        ("for i in range(3):\n    i", None),
    ],
)
async def test_the_value_is_that_of_the_last_expression(
    session: Session, code: str, shown: str | None
) -> None:
    assert (await ok(session, code)).value == shown


async def test_the_namespace_is_kept_and_underscore_is_the_last_value(session: Session) -> None:
    await ok(session, "x = 20")
    await ok(session, "x + 1")
    assert (await ok(session, "_ * 2")).value == "42"


async def test_an_error_keeps_what_was_done_before_it(session: Session) -> None:
    result = await session.execute("x = 1\nprint('before')\nraise KeyError('k')\nx = 2")
    assert (result.status, result.stdout, result.value) == ("error", "before\n", None)
    assert result.error is not None
    assert list(result.error) == ["type", "message", "traceback", "line"]
    assert (result.error["type"], result.error["message"], result.error["line"]) == (
        "KeyError",
        "'k'",
        3,
    )
    assert (await ok(session, "x")).value == "1"


@pytest.mark.parametrize("code", ["x = = 1", "def f(:\n    pass", "'''open", "return 1"])
async def test_what_does_not_compile_is_an_error_with_its_line(session: Session, code: str) -> None:
    result = await session.execute(f"\n{code}")
    assert result.status == "error"
    assert result.error is not None
    assert result.error["type"] in ("SyntaxError", "IndentationError")
    assert result.error["line"] == 2
    assert (await ok(session, "1")).value == "1"


@pytest.mark.parametrize(
    ("code", "status"),
    [("import sys; sys.exit()", "ok"), ("raise SystemExit(0)", "ok"), ("exit(3)", "error")],
)
async def test_an_exit_ends_the_cell_and_not_the_session(
    session: Session, code: str, status: str
) -> None:
    await ok(session, "x = 1")
    result = await session.execute(code + "\nprint('not reached')")
    assert (result.status, result.stdout) == (status, "")
    if status == "error":
        assert result.error is not None
        assert result.error["type"] == "SystemExit"
    assert (await ok(session, "x")).value == "1"


async def test_input_is_at_its_end(session: Session) -> None:
    result = await session.execute("input('name? ')")
    assert result.error is not None
    assert result.error["type"] == "EOFError"
    assert len(result.error["message"]) > 10


# --- streaming


async def test_output_streams_in_order_while_the_cell_runs(session: Session) -> None:
    pieces: list[Output] = []
    first = trio.Event()

    def take(piece: Output) -> None:
        pieces.append(piece)
        first.set()

    code = "print('one', flush=True)\nwhile not go.exists(): await sleep(0.001)\nprint('two')"
    await ok(session, "from pathlib import Path\ngo = Path('go')")
    async with trio.open_nursery() as nursery:
        results: list[CellResult] = []

        async def run() -> None:
            results.append(await session.execute(code, on_output=take))

        nursery.start_soon(run)
        with trio.fail_after(10):
            await first.wait()
        assert results == []
        assert str(pieces[0]) == pieces[0].text == "one\n"
        assert pieces[0].stream == "stdout"
        (trio.Path(session.host.workspace) / "go")
        await (trio.Path(session.host.workspace) / "go").touch()
    assert "".join(map(str, pieces)) == results[0].stdout == "one\ntwo\n"


async def test_streamed_pieces_add_up_to_the_result(session: Session) -> None:
    pieces: list[Output] = []
    code = (
        "import sys\n"
        "for i in range(300):\n"
        "    print('o', i)\n"
        "    print('e', i, file=sys.stderr)\n"
        "print('last', end='')"
    )
    result = await session.execute(code, on_output=pieces.append)
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        assert "".join(p.text for p in pieces if p.stream == name) == text
    assert result.stdout.endswith("o 299\nlast")
    assert all(piece.text for piece in pieces)


async def test_a_programs_output_comes_in_the_order_of_the_cell(session: Session) -> None:
    code = (
        "import os, subprocess\n"
        "print('a'); subprocess.run(['echo', 'b']); print('c'); os.system('echo d'); print('e')"
    )
    assert (await ok(session, code)).stdout == "a\nb\nc\nd\ne\n"


async def test_output_between_two_cells_is_in_the_next(session: Session) -> None:
    code = (
        "import subprocess\n"
        "p = subprocess.Popen(['sh', '-c', 'read x; echo late; touch done'],"
        " stdin=subprocess.PIPE)"
    )
    assert (await ok(session, code)).stdout == ""
    code = "p.stdin.write(b'go\\n'); p.stdin.close()\ncode = p.wait()"
    first = await ok(session, code)
    second = await ok(session, "print('next')")
    assert first.stdout + second.stdout == "late\nnext\n"


async def test_control_characters_do_not_reach_the_reader(session: Session) -> None:
    result = await ok(session, r"print('\033[31mred\033[0m \x07bell \x9b1m')")
    assert result.stdout == "red bell 1m\n"


# --- clipping


@pytest.mark.parametrize("size", [CLIP - 1, CLIP])
async def test_64_kib_are_whole(session: Session, size: int) -> None:
    result = await ok(session, f"print('x' * {size - 1})\n'y' * {size - 2}")
    assert (len(result.stdout), len(result.value or "")) == (size, size)
    assert not result.is_clipped


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_longer_stream_is_clipped_in_its_middle_and_says_so(
    session: Session, stream: str
) -> None:
    code = (
        f"import sys\nf = sys.{stream}\nf.write('head' + 'x' * 199_992 + 'tail')\nf.flush()\nNone"
    )
    result = await ok(session, code)
    text = getattr(result, stream)
    assert result.is_clipped
    assert text.startswith("headxxx") and text.endswith("xxxtail")
    assert CLIP <= len(text.encode()) < CLIP + 300
    assert f"{200_000 - CLIP:,}" in text
    assert text.rstrip("\n") in result.as_text()


async def test_a_longer_value_is_clipped_and_the_variable_is_whole(session: Session) -> None:
    result = await ok(session, "v = 'a' * 100_000 + 'b' * 100_000\nv")
    assert result.is_clipped
    assert result.value is not None
    assert result.value.startswith("'aaa") and result.value.endswith("bbb'")
    assert len(result.value) < CLIP + 300
    assert await value(session, "len(v)") == 200_000


async def test_clipping_never_cuts_a_character(session: Session) -> None:
    result = await ok(session, "print('a' + '\u00e9' * 100_000)")
    assert result.is_clipped
    assert "\ufffd" not in result.stdout


@pytest.mark.slow  # 200 MB through a pipe
async def test_a_flood_of_output_is_taken_in_bounded_memory(session: Session) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await ok(session, "for _ in range(2000):\n    print('x' * 100_000)")
    assert result.is_clipped
    assert len(result.stdout) < CLIP + 300
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


# --- calls and events


async def test_calls_are_recorded_with_their_outcome(session: Session) -> None:
    result = await ok(
        session,
        "r = await shell_run(['true'], cwd='.')\n"
        "try:\n    await shell_logs('no')\nexcept KeyError:\n    pass\n"
        "try:\n    await shell_run('true', cwd='/')\nexcept PermissionError:\n    pass\n"
        "import trio\nwith trio.move_on_after(0.05):\n    await shell_run('sleep 3401')",
    )
    assert [list(entry) for entry in result.calls] == [
        ["verb", "arguments", "duration_ms", "outcome"]
    ] * 4
    assert [(entry["verb"], entry["arguments"], entry["outcome"]) for entry in result.calls] == [
        ("shell_run", {"commands": ["true"], "cwd": "."}, "ok"),
        ("shell_logs", {"id": "no", "n": 200}, "error"),
        ("shell_run", {"commands": "true", "cwd": "/"}, "denied"),
        ("shell_run", {"commands": "sleep 3401", "cwd": None}, "cancelled"),
    ]
    assert all(entry["duration_ms"] > 0 for entry in result.calls)
    assert (await ok(session, "0")).calls == []


async def test_programs_of_the_shim_are_recorded_as_shell_run(session: Session) -> None:
    result = await ok(session, "import subprocess\nsubprocess.run(['echo', 'a b'])")
    (entry,) = result.calls
    assert entry["verb"] == "shell_run"
    assert entry["arguments"]["commands"] == ["echo 'a b'"]
    assert entry["outcome"] == "ok"


async def test_events_tell_of_cells_and_calls(opened: OpenHost) -> None:
    events: list[dict[str, Any]] = []
    async with opened(on_event=events.append) as host, host.open_session() as session:
        await ok(session, "r = await shell_run('true')")
        await session.execute("await shell_logs('no')")
    assert [event["kind"] for event in events] == [
        "cell_started",
        "call_started",
        "call_ended",
        "cell_ended",
    ] * 2
    assert {event["session"] for event in events} == {session.id}
    assert events[0]["code"] == "r = await shell_run('true')"
    assert events[2] | {"at": 0, "duration_ms": 0} == {
        "kind": "call_ended",
        "session": session.id,
        "at": 0,
        "verb": "shell_run",
        "arguments": {"commands": "true", "cwd": None},
        "outcome": "ok",
        "duration_ms": 0,
        "error": None,
    }
    assert events[3]["status"] == "ok"
    assert (events[6]["outcome"], events[7]["status"]) == ("error", "error")
    assert "no" in events[6]["error"]


async def test_an_event_handler_that_fails_is_logged_and_called_no_more(
    opened: OpenHost, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def fail(event: dict[str, Any]) -> None:
        seen.append(event["kind"])
        raise RuntimeError("from the handler")

    async with opened(on_event=fail) as host, host.open_session() as session:
        assert (await session.execute("await sleep(0.001)")).status == "ok"
    assert seen == ["cell_started"]
    assert "from the handler" in caplog.text


# --- notices and the text for a model


async def test_a_task_that_fails_in_the_background_is_a_notice(session: Session) -> None:
    code = (
        "import asyncio\n"
        "async def fail():\n    raise ValueError('lost')\n"
        "t = asyncio.create_task(fail())\n"
        "await sleep(0.01)"
    )
    first = await ok(session, code)
    notices = first.notices or (await ok(session, "0")).notices
    (notice,) = notices
    assert list(notice) == ["ids", "kind", "text", "at"]
    assert "ValueError" in notice["text"] and "lost" in notice["text"]


async def test_as_text_has_all_a_model_needs(session: Session) -> None:
    await session.host.call(session, "shell_run", {"commands": ["sleep 3402 &"]})
    result = await session.execute("import sys\nprint('out'); print('err', file=sys.stderr)\n1 / 0")
    text = result.as_text()
    for part in (
        "out",
        "err",
        "1 / 0",
        "ZeroDivisionError: division by zero",
        "shell_logs('sleep')",
    ):
        assert part in text
    assert (await ok(session, "print('only')")).as_text() == "only"
    assert (await ok(session, "'v'")).as_text() == "'v'"
    assert (await ok(session, "x = 1")).as_text() == ""


async def test_notices_go_to_whoever_takes_them_first(session: Session, call: Call) -> None:
    await call("shell_run", commands=["sleep 3403 &"])
    with trio.fail_after(5):
        notice = await anext(session.notices)
    assert notice["ids"] == ["sleep"]
    assert (await ok(session, "0")).notices == []


# --- the session mapping


async def test_session_is_a_fresh_read_only_mapping(session: Session) -> None:
    state = await value(session, "{name: session[name] for name in session}")
    assert list(state) == [
        "id",
        "workspace",
        "roots",
        "mode",
        "confinement",
        "limits",
        "resources",
    ]
    assert state["id"] == session.id
    assert state["workspace"] == session.host.workspace
    assert state["mode"] == "full-access"
    assert list(state["confinement"]) == [
        "rung",
        "mode",
        "enforced",
        "not_enforced",
        "why",
        "fix",
    ]
    assert state["confinement"]["rung"] == "none"
    assert state["roots"][0] == session.host.workspace
    assert state["resources"] == {}
    await ok(session, "b = await shell_background('sleep 3404', id='dev')")
    shown = await value(session, "[session['resources']['dev'], b['pid']]")
    assert shown[0] == {
        "kind": "background",
        "status": "running",
        "pid": shown[1],
        "exit": None,
        "detail": "sleep 3404",
    }
    for code in ("session['mode'] = 'x'", "del session['mode']", "session['nothing']"):
        result = await session.execute(code)
        assert result.error is not None
        assert result.error["type"] in ("TypeError", "KeyError", "AttributeError")


async def test_variables_lists_the_users_names(session: Session) -> None:
    assert await session.variables() == {}
    await ok(session, "x = 1\nimport json\ndef f(): pass\n_hidden = 2")
    found = await session.variables()
    assert found["x"] == {"type": "int", "repr": "1"}
    assert found["f"]["type"] == "function"
    assert "shell_run" not in found


async def test_reset_gives_a_fresh_namespace(session: Session) -> None:
    await ok(session, "x = 1")
    await session.reset()
    result = await session.execute("x")
    assert result.error is not None
    assert result.error["type"] == "NameError"


async def test_traceback_is_that_of_the_newest_failure(session: Session) -> None:
    assert await session.traceback() is None
    await session.execute("1 / 0")
    await ok(session, "1")
    text = await session.traceback()
    assert text is not None
    assert "ZeroDivisionError" in text

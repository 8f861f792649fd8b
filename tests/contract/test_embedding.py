"""What an embedder passes in and calls: options, own verbs, native calls, the login profile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import pytest
import trio
from msgspec import Meta

from awaitbox import HostError, open_host
from awaitbox.host.session import Session
from tests.product import Call, OpenHost, caller, ok, running, value


async def refused(opened: OpenHost, **options: Any) -> HostError:
    with pytest.raises(HostError) as caught:
        async with opened(**options):
            pass
    return caught.value


# --- options


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
async def test_a_mode_that_cannot_be_held_is_refused(opened: OpenHost, mode: str) -> None:
    error = await refused(opened, mode=mode)
    assert error.code == "mode_unavailable"
    assert "full-access" in error.message
    async with opened() as host, host.open_session() as session:
        with pytest.raises(HostError) as caught:
            await session.set_mode(mode)
        assert caught.value.code == "mode_unavailable"
        assert (await ok(session, "session['mode']")).value == "'full-access'"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"mode": "anything"}, "full-access"),
        ({"limits": {"no_such": 1}}, "shell_run_seconds"),
        ({"limits": {"cell_seconds": 0}}, "cell_seconds"),
        ({"limits": {"cell_seconds": -1}}, "cell_seconds"),
        ({"limits": {"cell_seconds": "5"}}, "cell_seconds"),
        ({"limits": {"cell_seconds": True}}, "cell_seconds"),
        ({"limits": {"cell_seconds": float("nan")}}, "cell_seconds"),
        ({"toggles": {"sell": False}}, "shell"),
    ],
    ids=repr,
)
async def test_a_wrong_option_is_told_before_anything_starts(
    opened: OpenHost, options: dict[str, Any], part: str
) -> None:
    error = await refused(opened, **options)
    assert error.code == "invalid_option"
    assert part in error.message


async def test_the_workspace_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(HostError) as caught:
            async with open_host(path, mode="full-access"):
                pass
        assert caught.value.code == "invalid_root"
        assert str(path) in caught.value.message


async def test_options_are_keyword_only(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        open_host(tmp_path, "full-access")  # type: ignore[misc]


async def test_further_roots_are_roots(opened: OpenHost, tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
    options = {"read_roots": [tmp_path / "read"], "write_roots": [str(tmp_path / "write")]}
    async with opened(**options) as host, host.open_session() as session:
        roots = await value(session, "session['roots']")
        for name in ("read", "write"):
            assert str(tmp_path / name) in roots
            result = await caller(session)("shell_run", commands=["pwd"], cwd=tmp_path / name)
            assert result["cwd"] == str(tmp_path / name)


async def test_bytes_that_are_no_utf_8_in_names_and_values(
    opened: OpenHost, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"ODD", b"a\xffb")
    os.mkdir(os.fsencode(workspace) + b"/d\xff")
    async with opened() as host, host.open_session() as session:
        code = "(await shell_run('printf %s \"$ODD\" | od -An -tx1'))['commands'][0]['stdout']"
        assert (await value(session, code)).split() == ["61", "ff", "62"]
        code = (
            "import os, subprocess\n"
            "subprocess.run(['pwd'], cwd=b'd\\xff', capture_output=True).stdout[-3:]"
        )
        assert await value(session, code) == b"d\xff\n"
        told = await session.execute("await shell_run('pwd', cwd=os.fsdecode(b'd\\xff'))")
        assert told.error is None or told.error["type"] == "ValueError"


# --- the login profile


@pytest.mark.slow  # the bound of the login
async def test_a_login_profile_that_hangs_is_stopped_and_named(
    opened: OpenHost, tmp_path: Path
) -> None:
    profile = tmp_path / "home/.bash_profile"
    profile.write_text("export SEEN=1\nsetsid sleep 3431 &\nsleep 3431\n")
    with trio.fail_after(9):
        async with opened() as host, host.open_session() as session:
            assert "5 s" in " ".join(host.warnings)
            assert not running("sleep 3431")
            env = (await caller(session)("shell_run", commands=["echo $HOME-$SEEN-"]))["commands"]
    assert env[0]["stdout"] == f"{tmp_path}/home--\n"


@pytest.mark.parametrize("profile", ["exit 3", "kill -9 $$", "exec true", "exec 3>&-"])
async def test_a_login_profile_that_ends_early_is_named(
    opened: OpenHost, tmp_path: Path, profile: str
) -> None:
    (tmp_path / "home/.bash_profile").write_text(f"export SEEN=1\n{profile}\n")
    async with opened() as host, host.open_session() as session:
        assert (await caller(session)("shell_run", commands=["true"]))["exit"] == 0
        assert "login" in " ".join(host.warnings)


async def test_what_a_profile_starts_does_not_hold_or_outlive_the_login(
    opened: OpenHost, tmp_path: Path
) -> None:
    profile = tmp_path / "home/.bash_profile"
    profile.write_text("export SEEN=1\n(setsid sleep 3432 &)\n")
    with trio.fail_after(4):
        async with opened() as host, host.open_session() as session:
            row = (await caller(session)("shell_run", commands=["echo $SEEN"]))["commands"][0]
            assert row["stdout"] == "1\n"
            assert not running("sleep 3432")


# --- own verbs


async def greet(
    name: Annotated[str, Meta(min_length=1, description="Who.")], *, times: int = 1
) -> dict[str, str]:
    """Greet somebody."""
    await trio.lowlevel.checkpoint()
    return {"text": f"hello {name}" * times}


async def test_own_functions_are_verbs_like_ours(opened: OpenHost) -> None:
    async with opened(verbs=[greet]) as host:

        @host.verb
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        assert await add(1, 2) == 3
        async with host.open_session() as session:
            assert await value(session, "[await greet('you', times=2), await add(1, b=2)]") == [
                {"text": "hello youhello you"},
                3,
            ]
            helped = (await ok(session, "help(greet)")).stdout
            assert "Greet somebody." in helped and "Who." in helped
            call = caller(session)
            assert await call("greet", name="me") == {"text": "hello me"}
            assert await call("add", a=1, b=2) == {"value": 3}
            wrong = await call("greet", name="")
            assert wrong["error"]["code"] == "out_of_bounds"
            wrong = await call("greet", who="me")
            assert wrong["error"]["code"] == "invalid_arguments"
            lost = await session.execute("greet('x')")
            assert lost.status == "error"
            assert "await greet(" in lost.as_text()
        names = [tool["name"] for tool in host.tools("anthropic")]
        assert names[0] == "python_execution"
        assert names[-2:] == ["greet", "add"]
        assert "greet" in host.describe()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad"), "ValueError"),
        (KeyError("k"), "KeyError"),
        (FileNotFoundError("f"), "FileNotFoundError"),
        (PermissionError("p"), "PermissionError"),
        (ZeroDivisionError("z"), "RuntimeError"),
        (HostError("h", code="mine"), "RuntimeError"),
    ],
    ids=repr,
)
async def test_what_an_own_verb_raises_reaches_the_cell_and_the_caller(
    opened: OpenHost, error: Exception, kind: str
) -> None:
    async def fail() -> None:
        """Fail."""
        raise error

    async with opened(verbs=[fail]) as host, host.open_session() as session:
        result = await session.execute("await fail()")
        assert result.error is not None
        assert str(error.args[0]) in result.error["message"]
        caught = await ok(session, f"try:\n    await fail()\nexcept {kind}:\n    print('caught')")
        assert caught.stdout == "caught\n"
        answer = await caller(session)("fail")
        assert str(error.args[0]) in answer["error"]["message"]


async def test_a_cancel_reaches_an_own_verb(opened: OpenHost) -> None:
    ended: list[str] = []

    async def forever() -> None:
        """Wait."""
        try:
            await trio.sleep_forever()
        finally:
            ended.append("ended")

    async with opened(verbs=[forever]) as host, host.open_session() as session:
        result = await ok(
            session,
            "import trio\nwith trio.move_on_after(0.05) as s:\n    await forever()\n"
            "s.cancelled_caught",
        )
        assert result.value == "True"
        assert ended == ["ended"]


@pytest.mark.parametrize("name", ["shell_run", "session", "print", "gather", "_private"])
async def test_a_name_that_is_taken_is_refused(opened: OpenHost, name: str) -> None:
    async def own() -> None:
        """Own."""

    own.__name__ = name
    assert (await refused(opened, verbs=[own])).code == "invalid_verb"


# --- native calls


@pytest.mark.parametrize(
    ("verb", "arguments", "code"),
    [
        ("no_such_verb", {}, "unknown_verb"),
        ("process.start", {"argv": ["true"]}, "unknown_verb"),
        ("session.state", {}, "unknown_verb"),
        ("shell_logs", {}, "invalid_arguments"),
        ("shell_logs", {"id": "x", "m": 1}, "invalid_arguments"),
        ("shell_logs", {"id": "x", "n": "many"}, "invalid_arguments"),
        ("shell_logs", {"id": "x", "n": 0}, "out_of_bounds"),
        ("shell_logs", {"id": "x"}, "unknown_id"),
        ("python_execution", {"cod": "1"}, "invalid_arguments"),
        ("python_execution", {"code": 1}, "invalid_arguments"),
    ],
)
async def test_a_native_call_returns_the_verbs_own_failure(
    call: Call, verb: str, arguments: dict[str, Any], code: str
) -> None:
    answer = await call(verb, **arguments)
    assert list(answer) == ["error"]
    assert list(answer["error"]) == ["code", "message"]
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]


async def test_python_execution_is_a_native_tool(session: Session, call: Call) -> None:
    answer = await call("python_execution", code="x = 20\nprint('hi')\nx + 1")
    assert answer["status"] == "ok"
    assert answer["text"] == "hi\n21"
    assert (await ok(session, "x")).value == "20"


@pytest.mark.parametrize("format", ["anthropic", "openai", "mcp"])
async def test_tools_begin_with_python_execution(opened: OpenHost, format: str) -> None:
    async with opened() as host:
        first, *rest = host.tools(format)
    assert "python_execution" in repr(first)
    assert "'code'" in repr(first)
    for name in ("shell_run", "shell_background", "shell_logs", "shell_type", "shell_stop"):
        assert any(name in repr(tool) for tool in rest)
    async with opened() as host:
        with pytest.raises(HostError):
            host.tools("no such format")


# --- packages of the host's environment


async def test_a_cell_imports_what_the_embedder_allows_and_nothing_else(opened: OpenHost) -> None:
    async with opened(imports=["msgspec"]) as host, host.open_session() as session:
        assert await value(session, "import msgspec\nmsgspec.json.encode(1)") == b"1"
        refused = await session.execute("import click")
        assert refused.error is not None and refused.error["type"] == "ImportError"
        assert "imports=['click']" in refused.error["message"]


@pytest.mark.parametrize(
    "options", [{"approve": 5}, {"on_event": "x"}, {"env": {"A=": "b"}}, {"env": {"": "b"}}]
)
def test_options_that_can_t_be_are_refused_at_once(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(HostError) as refusal:
        open_host(tmp_path, **options)
    assert refusal.value.code == "invalid_option"

"""Approval: what asks, what an approver may answer, and what a refusal looks like at every door."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from awaitbox import Request
from awaitbox.host.approval import Deny
from tests.product import OpenHost, caller, ok, value


class Asked:
    """An approver that notes what it was asked and gives one answer."""

    def __init__(self, answer: str | Deny) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> str | Deny:
        self.requests.append(request)
        return self.answer


async def test_a_delete_asks_with_what_will_happen(opened: OpenHost, workspace: Path) -> None:
    (workspace / "a").touch()
    asked = Asked("allow_once")
    async with opened(approve=asked) as host, host.open_session() as session:
        assert await value(session, "(await delete(['a']))['paths'][0]['is_deleted']")
    (request,) = asked.requests
    assert (request.session, request.verb) == (session.id, "delete")
    assert request.arguments == {"paths": ["a"]}
    assert "a" in request.text
    assert not (workspace / "a").exists()


async def test_other_verbs_do_not_ask(opened: OpenHost) -> None:
    asked = Asked("deny")
    async with opened(approve=asked) as host, host.open_session() as session:
        await ok(
            session,
            "r = await shell_run('true')\n"
            "b = await shell_background('sleep 3421', id='dev')\n"
            "r = await shell_logs('dev')\nr = await shell_stop('dev')\n"
            "r = await create_directory(['d'])\nr = await file_exists(['d'])\n"
            "r = await sleep(0.001)",
        )
    assert asked.requests == []


@pytest.mark.parametrize(
    ("answer", "reason"), [("deny", ""), (Deny("not on a Friday"), "not on a Friday")]
)
async def test_a_denial_is_a_permission_error_with_its_reason(
    opened: OpenHost, workspace: Path, answer: str | Deny, reason: str
) -> None:
    (workspace / "a").touch()
    async with opened(approve=Asked(answer)) as host, host.open_session() as session:
        result = await session.execute(
            "try:\n    await delete(['a'])\nexcept PermissionError as e:\n    print(e.code, e)"
        )
        assert result.stdout.startswith("denied ")
        assert reason in result.stdout
        assert [entry["outcome"] for entry in result.calls] == ["denied"]
        answered = await caller(session)("delete", paths=["a"])
        assert answered["error"]["code"] == "denied"
        assert reason in answered["error"]["message"]
    assert (workspace / "a").exists()


async def test_without_an_approver_the_refusal_names_the_option(
    opened: OpenHost, workspace: Path
) -> None:
    (workspace / "a").touch()
    async with opened(approve=None) as host, host.open_session() as session:
        answer = await caller(session)("delete", paths=["a"])
        assert answer["error"]["code"] == "no_approver"
        assert "open_host(approve=" in answer["error"]["message"]
        result = await session.execute("await delete(['a'])")
        assert result.error is not None
        assert result.error["type"] == "PermissionError"
    assert (workspace / "a").exists()


async def test_allow_always_is_bound_to_the_same_arguments(
    opened: OpenHost, workspace: Path
) -> None:
    asked = Asked("allow_always")
    async with opened(approve=asked) as host:
        async with host.open_session() as session:
            for paths, count in ((["a"], 1), (["a"], 1), (["b"], 2), (["a", "b"], 3), (["a"], 3)):
                await caller(session)("delete", paths=paths)
                assert len(asked.requests) == count
        async with host.open_session() as session:
            await caller(session)("delete", paths=["a"])
            assert len(asked.requests) == 4


async def test_allow_once_asks_again(opened: OpenHost) -> None:
    asked = Asked("allow_once")
    async with opened(approve=asked) as host, host.open_session() as session:
        for _ in range(2):
            await caller(session)("delete", paths=["a"])
    assert len(asked.requests) == 2


async def test_an_answer_that_is_none_is_an_error_and_not_a_yes(
    opened: OpenHost, workspace: Path
) -> None:
    (workspace / "a").touch()
    async with opened(approve=Asked("yes")) as host, host.open_session() as session:
        answer = await caller(session)("delete", paths=["a"])
        assert "'yes'" in answer["error"]["message"]
    assert (workspace / "a").exists()


async def test_an_approver_that_fails_is_an_error_and_not_a_yes(
    opened: OpenHost, workspace: Path
) -> None:
    async def fail(request: Request) -> str:
        raise RuntimeError("the approver broke")

    (workspace / "a").touch()
    async with opened(approve=fail) as host, host.open_session() as session:
        result = await session.execute("await delete(['a'])")
        assert result.status == "error"
        assert "the approver broke" in result.as_text()
        assert (await ok(session, "1")).value == "1"
    assert (workspace / "a").exists()


async def test_time_with_the_approver_counts_against_no_bound(opened: OpenHost) -> None:
    async def slow(request: Request) -> str:
        await trio.sleep(0.4)  # longer than the bound of a cell, which is what is tested
        return "allow_once"

    async with opened(approve=slow, limits={"cell_seconds": 0.2}) as host:
        async with host.open_session() as session:
            result = await session.execute("await delete(['a'])\nawait sleep(0.01)\n'through'")
            assert (result.status, result.value) == ("ok", "'through'")
            result = await session.execute("await delete(['a'])\nawait sleep(300)")
            assert result.status == "deadline"


async def test_a_cancel_reaches_the_approver_and_nothing_is_remembered(
    opened: OpenHost, workspace: Path
) -> None:
    (workspace / "a").touch()
    begun, ended = trio.Event(), trio.Event()

    async def wait(request: Request) -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with opened(approve=wait) as host, host.open_session() as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.execute, "await delete(['a'])")
            with trio.fail_after(10):
                await begun.wait()
                await session.interrupt()
                await ended.wait()
    assert (workspace / "a").exists()

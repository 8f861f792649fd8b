"""Fixtures of the tests that open a host: a workspace, the host, a session, calls of its verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from awaitbox import open_host
from awaitbox.host.host import Host
from awaitbox.host.session import Session
from tests.product import Call, OpenHost, allow, caller, processes_of


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty workspace beside an empty home. At the end no process stands there any more."""
    for name in ("ws", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield tmp_path / "ws"
    assert processes_of(tmp_path) == []


@pytest.fixture
def opened(workspace: Path) -> OpenHost:
    """`open_host` on the workspace, with an approver that allows all unless told otherwise."""

    def opened(**options: Any) -> AbstractAsyncContextManager[Host]:
        return open_host(workspace, **{"mode": "full-access", "approve": allow, **options})

    return opened


@pytest.fixture
async def host(opened: OpenHost) -> AsyncIterator[Host]:
    async with opened() as host:
        yield host


@pytest.fixture
async def session(host: Host) -> AsyncIterator[Session]:
    async with host.open_session() as session:
        yield session


@pytest.fixture
def call(session: Session) -> Call:
    """Native calls of the session: `await call("shell_logs", id="dev")`."""
    return caller(session)

"""What `toggles={"shell": False}` takes away."""

from __future__ import annotations

import pytest

from tests.product import OpenHost, caller, ok

VERBS = ["shell_run", "shell_background", "shell_logs", "shell_type", "shell_stop"]


async def test_the_verbs_are_offered_nowhere(opened: OpenHost) -> None:
    async with opened(toggles={"shell": False}) as host, host.open_session() as session:
        for format in ("anthropic", "openai", "mcp"):
            assert "shell_" not in repr(host.tools(format))
        assert "shell_" not in host.describe()
        names = (await ok(session, f"[name in globals() for name in {VERBS}]")).value
        assert names == repr([False] * 5)
        for verb in VERBS:
            answer = await caller(session)(verb, commands=["true"])
            assert answer["error"]["code"] == "toggled_off"
            assert "'shell'" in answer["error"]["message"]


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess; subprocess.run(['touch', 'made'])",
        "import subprocess; subprocess.Popen('touch made', shell=True)",
        "import os; os.system('touch made')",
        "import os; os.popen('touch made').read()",
        "import asyncio; await asyncio.create_subprocess_exec('touch', 'made')",
        "import asyncio; await asyncio.create_subprocess_shell('touch made')",
    ],
)
async def test_the_shim_says_which_toggle(opened: OpenHost, code: str) -> None:
    async with opened(toggles={"shell": False}) as host, host.open_session() as session:
        result = await session.execute(code)
        assert result.status == "error"
        assert result.error is not None
        assert "toggle" in result.error["message"] and "'shell'" in result.error["message"]
        caught = await session.execute(
            "try:\n"
            + "".join(f"    {part.strip()}\n" for part in code.split(";"))
            + "except PermissionError as e:\n    print('refused')"
        )
        assert caught.stdout == "refused\n"
        assert (await ok(session, "import os; os.path.exists('made')")).value == "False"


async def test_on_is_the_default_and_can_be_said(opened: OpenHost) -> None:
    for toggles in (None, {"shell": True}):
        async with opened(toggles=toggles) as host, host.open_session() as session:
            assert (await ok(session, "(await shell_run('true'))['exit']")).value == "0"

"""What the contract says of `shell_type`, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from awaitbox.host.session import Session
from tests.product import Call, OpenHost, caller, until_ended, until_printed


async def asking(call: Call, script: str) -> None:
    """Start a script under the id `ask` that prints a `?` when it reads."""
    await call("shell_background", commands=[script], id="ask")
    await until_printed(call, "ask", "?")


async def test_the_result_has_these_keys_and_no_others(call: Call) -> None:
    await asking(call, "printf '? '; read -r x; echo got:$x")
    result = await call("shell_type", id="ask", text="a b")
    assert list(result) == ["id", "text", "is_enter", "status"]
    assert result == {"id": "ask", "text": "a b", "is_enter": True, "status": "running"}
    logs = await until_ended(call, "ask")
    assert logs["lines"] == ["? a b", "got:a b"]


async def test_without_enter_nothing_is_finished(call: Call) -> None:
    await asking(call, "printf '? '; read -r x; echo got:$x")
    result = await call("shell_type", id="ask", text="one ", is_enter=False)
    assert not result["is_enter"]
    logs = await until_printed(call, "ask", "? one ")
    assert logs["partial_line"] == "? one "
    await call("shell_type", id="ask", text="two")
    assert (await until_ended(call, "ask"))["lines"] == ["? one two", "got:one two"]


async def test_enter_is_the_key_in_a_write_of_its_own(call: Call) -> None:
    script = (
        "stty raw -echo; printf '?'; "
        "dd bs=100 count=1 2>/dev/null | od -An -tx1; dd bs=100 count=1 2>/dev/null | od -An -tx1"
    )
    await asking(call, script)
    await call("shell_type", id="ask", text="ab", is_enter=False)
    await until_printed(call, "ask", "61 62")
    await call("shell_type", id="ask", text="")
    logs = await until_ended(call, "ask")
    assert "0d" in "".join([*logs["lines"], logs["partial_line"]])


async def test_control_characters_are_keys(call: Call) -> None:
    await asking(call, "trap 'echo interrupted; exit 9' INT; printf '?'; read x")
    await call("shell_type", id="ask", text="\x03", is_enter=False)
    logs = await until_ended(call, "ask")
    assert logs["exit"] == 9


async def test_an_end_of_file_key_ends_the_input(call: Call) -> None:
    await asking(call, "printf '?'; cat; echo over")
    await call("shell_type", id="ask", text="\x04", is_enter=False)
    assert (await until_ended(call, "ask"))["lines"][-1].endswith("over")


async def test_at_a_hidden_prompt_nothing_of_it_is_kept_anywhere(opened: OpenHost) -> None:
    events: list[dict[str, Any]] = []
    async with opened(on_event=events.append) as host, host.open_session() as session:
        call = caller(session)
        await asking(
            call,
            "stty -echo; printf 'password? '; read -r x; stty echo; echo; echo ${#x} characters",
        )
        typed = await session.execute("await shell_type('ask', 'hun' + 'ter2')")
        native = await call("shell_logs", id="ask")
        assert typed.value is not None
        assert "'text': None" in typed.value
        logs = await until_ended(call, "ask")
        assert logs["lines"] == ["password? ", "7 characters"]
        calls = [entry for entry in typed.calls if entry["verb"] == "shell_type"]
        assert "hunter2" not in repr((typed, calls, native, logs))
    assert "hunter2" not in repr(events)


async def test_a_native_call_at_a_hidden_prompt_is_kept_nowhere_either(opened: OpenHost) -> None:
    events: list[dict[str, Any]] = []
    async with opened(on_event=events.append) as host, host.open_session() as session:
        call = caller(session)
        await asking(call, "stty -echo; printf 'password? '; read -r x; echo")
        assert (await call("shell_type", id="ask", text="hunter2"))["text"] is None
        await until_ended(call, "ask")
    assert "hunter2" not in repr(events)


@pytest.mark.parametrize("size", [4095, 4096, 20_000])
async def test_a_line_longer_than_the_terminal_takes_is_refused_and_never_cut(
    session: Session, call: Call, size: int
) -> None:
    await asking(call, "printf '?'; read -r x; echo ${#x}")
    answer = await call("shell_type", id="ask", text="x" * size)
    if size > 4095:
        assert answer["error"]["code"] == "out_of_bounds"
        assert "4,095" in answer["error"]["message"]
        answer = await call("shell_type", id="ask", text="short")
        size = 5
    assert answer["text"] is not None
    assert (await until_ended(call, "ask"))["lines"][-1] == str(size)


async def test_many_lines_go_in_as_lines(call: Call) -> None:
    await asking(call, "stty -echo; printf '?'; for i in $(seq 1 200); do read -r x; done; echo $x")
    text = "\n".join(f"{n:050d}" for n in range(1, 201))
    with trio.fail_after(10):
        await call("shell_type", id="ask", text=text)
    assert (await until_ended(call, "ask"))["lines"][-1].endswith(f"{200:050d}")


async def test_one_that_is_over_takes_no_keys(call: Call) -> None:
    await call("shell_background", commands=["true"], id="ask")
    await until_ended(call, "ask")
    answer = await call("shell_type", id="ask", text="x")
    assert "exited" in answer["error"]["message"]
    answer = await call("shell_type", id="no such", text="x")
    assert answer["error"]["code"] == "unknown_id"

"""What the contract says of `shell_logs`, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest

from awaitbox.host.session import Session
from tests.product import Call, ok, until, until_ended, until_printed, value

KEYS = [
    "id",
    "lines",
    "partial_line",
    "total_lines",
    "dropped_lines",
    "status",
    "exit",
    "uptime_ms",
]


async def logs_of(call: Call, *script: str, n: int = 2_000) -> dict[str, Any]:
    """Run a script to its end and read its log."""
    started = await call("shell_background", commands=list(script), id="it")
    assert started["status"] == "running"
    return await until_ended(call, "it", n=n)


async def test_the_result_has_these_keys_and_no_others(call: Call) -> None:
    logs = await logs_of(call, "echo one; echo two; exit 3")
    assert list(logs) == KEYS
    assert logs | {"uptime_ms": 0} == {
        "id": "it",
        "lines": ["one", "two"],
        "partial_line": "",
        "total_lines": 2,
        "dropped_lines": 0,
        "status": "exited",
        "exit": 3,
        "uptime_ms": 0,
    }


async def test_n_is_200_unless_told_and_counts_the_newest(call: Call) -> None:
    await logs_of(call, "seq 1 1000")
    for arguments, n in (({}, 200), ({"n": 1}, 1), ({"n": 2000}, 1000)):
        logs = await call("shell_logs", id="it", **arguments)
        assert logs["lines"] == [str(line) for line in range(1001 - n, 1001)]
        assert (logs["total_lines"], logs["dropped_lines"]) == (1000, 0)


@pytest.mark.parametrize("n", [0, -1, 2001])
async def test_n_has_bounds(session: Session, call: Call, n: int) -> None:
    await logs_of(call, "true")
    answer = await call("shell_logs", id="it", n=n)
    assert answer["error"]["code"] == "out_of_bounds"
    caught = await ok(
        session,
        f"try:\n    await shell_logs('it', n={n})\nexcept ValueError as e:\n    print(e.code)",
    )
    assert caught.stdout == "out_of_bounds\n"


async def test_the_counters_show_what_left_the_ring(call: Call) -> None:
    logs = await logs_of(call, "seq 1 5000")
    assert logs["lines"] == [str(line) for line in range(3001, 5001)]
    assert (logs["total_lines"], logs["dropped_lines"]) == (5000, 3000)


async def test_a_loop_misses_nothing_by_the_counters(session: Session) -> None:
    code = (
        "b = await shell_background('for i in $(seq 1 3000); do echo $i; done')\n"
        "seen, missed, got = 0, 0, []\n"
        "while True:\n"
        "    log = await shell_logs(b['id'], n=2000)\n"
        "    new = log['total_lines'] - seen\n"
        "    missed += max(0, new - len(log['lines']))\n"
        "    got += log['lines'][-new:] if new else []\n"
        "    seen = log['total_lines']\n"
        "    if log['status'] != 'running':\n"
        "        break\n"
        "    await sleep(0.001)\n"
        "[seen, missed + len(got), got == [str(n) for n in range(1, 3001)] or missed]"
    )
    seen, counted, exact = await value(session, code)
    assert (seen, counted) == (3000, 3000)
    assert exact


async def test_the_ring_is_bound_in_bytes_too(call: Call) -> None:
    logs = await logs_of(call, "for i in $(seq 1 400); do printf '%015000d\\n' $i; done")
    assert logs["total_lines"] == 400
    assert logs["dropped_lines"] == 400 - len(logs["lines"])
    assert len(logs["lines"]) == (4 << 20) // 15_000
    assert logs["lines"][-1].endswith("0400")


async def test_a_line_is_kept_to_16_000_characters(call: Call) -> None:
    logs = await logs_of(call, "head -c 20000 /dev/zero | tr '\\0' x; echo; echo next")
    long, after = logs["lines"]
    assert long.startswith("x" * 16_000)
    assert "4,000" in long[16_000:]
    assert after == "next"


async def test_a_prompt_is_the_partial_line(call: Call) -> None:
    await call("shell_background", commands=["echo hello; printf 'name? '; read x"], id="ask")
    logs = await until_printed(call, "ask", "name? ")
    assert (logs["lines"], logs["partial_line"]) == (["hello"], "name? ")
    assert (logs["total_lines"], logs["status"], logs["exit"]) == (1, "running", None)


async def test_an_unfinished_last_line_stays_partial_after_the_end(call: Call) -> None:
    logs = await logs_of(call, "echo one; printf two")
    assert (logs["lines"], logs["partial_line"], logs["total_lines"]) == (["one"], "two", 1)


async def test_stderr_and_utf_8_are_in_it(call: Call) -> None:
    logs = await logs_of(call, "echo out; echo err >&2; printf 'caf\\303\\251 \\377\\n'")
    assert logs["lines"] == ["out", "err", "caf\u00e9 \ufffd"]


@pytest.mark.slow  # thirty backgrounds
async def test_exited_is_said_only_when_all_output_was_taken_in(call: Call) -> None:
    for _ in range(30):
        logs = await logs_of(call, "seq 1 20000", n=1)
        assert (logs["status"], logs["total_lines"], logs["lines"]) == ("exited", 20_000, ["20000"])


async def test_uptime_grows_and_stands_still_at_the_end(call: Call) -> None:
    await call("shell_background", commands=["read x"], id="it")
    first = await call("shell_logs", id="it")

    async def later() -> bool:
        return bool((await call("shell_logs", id="it"))["uptime_ms"] > first["uptime_ms"])

    await until(later)
    await call("shell_type", id="it", text="")
    ended = await until_ended(call, "it")
    assert ended["uptime_ms"] >= first["uptime_ms"]
    assert (await call("shell_logs", id="it"))["uptime_ms"] == ended["uptime_ms"]


async def test_a_log_stays_readable_until_16_newer_ones_finished(call: Call) -> None:
    for number in range(17):
        await call("shell_background", commands=[f"echo {number}"], id=f"b{number}")
        logs = await until_ended(call, f"b{number}")
        assert logs["lines"] == [str(number)]
        first = await call("shell_logs", id="b0")
        assert ("error" in first) == (number == 16)
    assert (await call("shell_logs", id="b1"))["lines"] == ["1"]
    assert (await call("shell_logs", id="b0"))["error"]["code"] == "unknown_id"


async def test_an_unknown_id_names_those_that_live_and_how_to_start_one(
    session: Session, call: Call
) -> None:
    none = await call("shell_logs", id="dev")
    assert none["error"]["code"] == "unknown_id"
    assert "live: none" in none["error"]["message"]
    started = await call("shell_background", commands=["sleep 3381"], id="web")
    await logs_of(call, "true")
    for verb in ("shell_logs", "shell_stop"):
        answer = await call(verb, id="dev")
        assert answer["error"]["code"] == "unknown_id"
        for part in ("'dev'", "web", str(started["pid"]), "shell_background"):
            assert part in answer["error"]["message"]
        assert "it (" not in answer["error"]["message"]
    caught = await ok(
        session, "try:\n    await shell_logs('dev')\nexcept KeyError as e:\n    print(e.code, e)"
    )
    assert caught.stdout.startswith("unknown_id ")
    assert "shell_background" in caught.stdout

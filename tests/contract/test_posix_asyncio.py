"""`asyncio.create_subprocess_*` under the shim, on asyncio's own loop and on trio-asyncio's."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import warnings
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
import trio_asyncio

from tests.posix_link import DirectLink, Programs, Refusal, WiredLink, installed, processes

AnyLink = DirectLink | WiredLink
Main = Callable[[], Awaitable[None]]


@pytest.fixture
def programs() -> Programs:
    return Programs()


@pytest.fixture(params=[DirectLink, WiredLink])
def link(request: pytest.FixtureRequest, programs: Programs) -> Iterator[AnyLink]:
    link = request.param(programs)
    with installed(link):
        yield link
    link.close()


def on_asyncio(main: Main) -> None:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())  # type: ignore[arg-type]


def on_trio_asyncio(main: Main) -> None:
    async def in_trio() -> None:
        async with trio_asyncio.open_loop():
            await trio_asyncio.aio_as_trio(main)()

    trio.run(in_trio)


@pytest.fixture(params=[on_asyncio, on_trio_asyncio], ids=lambda run: run.__name__)
def run_main(request: pytest.FixtureRequest, link: AnyLink) -> Callable[[Main], None]:
    runner: Callable[[Main], None] = request.param
    return runner


def test_output_and_return_codes(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        program = await asyncio.create_subprocess_exec(
            *("sh", "-c", "cat; echo e >&2; exit 3"), stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert program.returncode is None
        assert await program.communicate(b"x" * 300_000) == (b"x" * 300_000, b"e\n")
        assert program.returncode == await program.wait() == 3
        program = await asyncio.create_subprocess_shell("kill -9 $$")
        assert await program.wait() == -9
        program = await asyncio.create_subprocess_shell(
            "echo o; echo e >&2; cat", stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        assert (await program.communicate())[0] == b"o\ne\n"

    run_main(main)


def test_a_dialogue(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        program = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        assert program.stdin is not None and program.stdout is not None
        for line in (b"a\n", b"b\n"):
            program.stdin.write(line)
            await program.stdin.drain()
            assert await program.stdout.readline() == line
        program.stdin.close()
        assert await program.stdout.read() == b""
        assert await program.wait() == 0

    run_main(main)


def test_signals(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        for end, code in (("terminate", -15), ("kill", -9)):
            program = await asyncio.create_subprocess_exec("sleep", "681")
            getattr(program, end)()
            assert await program.wait() == code
        program = await asyncio.create_subprocess_exec("sleep", "681")
        program.send_signal(signal.SIGUSR1)
        assert await program.wait() == -signal.SIGUSR1
        with pytest.raises(ProcessLookupError):
            program.kill()

    run_main(main)


def test_many_at_once(run_main: Callable[[Main], None]) -> None:
    async def one(number: int) -> int | None:
        program = await asyncio.create_subprocess_exec("sh", "-c", f"exit {number}")
        return await program.wait()

    async def main() -> None:
        assert await asyncio.gather(*map(one, range(8))) == list(range(8))

    run_main(main)


def test_a_wait_with_a_bound_leaves_the_program(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        program = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(program.wait(), 0.02)
        assert program.returncode is None
        assert program.stdin is not None
        program.stdin.close()
        assert await program.wait() == 0

    run_main(main)


def test_errors(run_main: Callable[[Main], None], programs: Programs) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError) as missing:
            await asyncio.create_subprocess_exec("nope", stdout=PIPE)
        assert missing.value.filename == "nope"
        with pytest.raises(ValueError, match="preexec_fn cannot be honoured"):
            await asyncio.create_subprocess_exec("true", preexec_fn=os.getpid)
        text: Any = {"text": True}
        with pytest.raises(ValueError, match="text must be False"):
            await asyncio.create_subprocess_exec("true", **text)
        programs.refusal = Refusal("the toggle shell is off")
        with pytest.raises(PermissionError, match="the toggle shell is off"):
            await asyncio.create_subprocess_shell("true")

    run_main(main)


def test_a_loop_s_end_leaves_a_program_running_and_says_nothing(
    link: AnyLink, programs: Programs
) -> None:
    async def main() -> None:
        await asyncio.create_subprocess_exec("sleep", "682", stdin=PIPE)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # asyncio's own, of the pipe
        on_asyncio(main)
        gc.collect()
    assert processes("sleep 682")
    assert {verb for verb, _ in programs.calls} <= {"process.start", "process.wait"}


def test_the_cancel_of_all_tasks_of_a_cell_does_not_lose_an_end(link: AnyLink) -> None:
    async def main() -> None:
        program = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        assert program.stdin is not None
        program.stdin.close()
        assert await program.wait() == 0

    on_trio_asyncio(main)


def test_an_end_that_cannot_be_told_is_reported(
    run_main: Callable[[Main], None], link: AnyLink, caplog: pytest.LogCaptureFixture
) -> None:
    async def lost(verb: str, args: dict[str, Any]) -> Any:
        raise RuntimeError("the session is over")

    async def main() -> None:
        link.call = lost  # type: ignore[method-assign]
        program = await asyncio.create_subprocess_exec("true")
        assert await program.wait() == 255

    run_main(main)
    assert "its return code is lost: RuntimeError('the session is over')" in caplog.text


def test_trio_run_process_goes_the_same_way(link: AnyLink, programs: Programs) -> None:
    async def main() -> None:
        command = ["sh", "-c", "cat; exit 3"]
        done = await trio.run_process(command, stdin=b"x", capture_stdout=True, check=False)
        assert (done.returncode, done.stdout) == (3, b"x")

    trio.run(main)
    assert programs.calls[0][0] == "process.start"

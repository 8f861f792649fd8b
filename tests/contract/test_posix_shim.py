"""Where the shim is by design not CPython: trees, refusals, interrupts, its calls of the host."""

from __future__ import annotations

import gc
import os
import subprocess
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.posix_link import DirectLink, Programs, Refusal, installed, processes


@pytest.fixture
def programs() -> Programs:
    return Programs()


@pytest.fixture(autouse=True)
def link(programs: Programs) -> Iterator[DirectLink]:
    link = DirectLink(programs)
    with installed(link):
        yield link
    link.close()


def verbs(programs: Programs) -> list[str]:
    return [verb.removeprefix("process.") for verb, _ in programs.calls]


@pytest.mark.slow
def test_a_bound_of_run_ends_the_tree_and_keeps_what_was_printed() -> None:
    # 1 s as in the everyday case: less, and a loaded machine may not have printed yet.
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        subprocess.run("echo start; sleep 671 | cat", shell=True, capture_output=True, timeout=1)
    error = caught.value
    assert (error.output, error.stdout, error.timeout) == (b"start\n", b"start\n", 1)
    assert error.cmd == "echo start; sleep 671 | cat"
    assert not processes("sleep 671")


@pytest.mark.parametrize(
    "start",
    [
        lambda script, seconds: subprocess.call(script, shell=True, timeout=seconds),
        lambda script, seconds: subprocess.check_call(script, shell=True, timeout=seconds),
        lambda script, seconds: subprocess.check_output(script, shell=True, timeout=seconds),
        lambda script, seconds: subprocess.run(script, shell=True, timeout=seconds),
    ],
    ids=["call", "check_call", "check_output", "run"],
)
def test_a_bound_ends_the_tree(programs: Programs, start: Callable[[str, float], Any]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        start("sleep 672 & wait", 0.05)
    assert "kill_tree" in verbs(programs)
    assert not processes("sleep 672")


def test_a_bound_ends_what_outlived_the_first_process() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run("sleep 673 & exit 0", shell=True, stdout=subprocess.PIPE, timeout=0.05)
    assert not processes("sleep 673")


def test_kill_of_a_popen_reaches_the_process_alone(programs: Programs) -> None:
    script = "sleep 674 & echo $!; wait"
    with subprocess.Popen(script, shell=True, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        sleeper = int(program.stdout.readline())
        program.kill()
    assert program.returncode == -9
    assert processes("sleep 674") == [sleeper]
    assert "kill_tree" not in verbs(programs)


@pytest.mark.parametrize("verb", ["process.wait", "process.start"])
def test_an_interrupt_of_run_ends_the_tree(link: DirectLink, verb: str) -> None:
    link.interrupt_next = verb
    before = os.listdir("/proc/self/fd")
    with pytest.raises(KeyboardInterrupt):
        subprocess.run("sleep 675 & sleep 0", shell=True)
    assert not processes("sleep 675")
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.slow  # CPython gives a program a quarter of a second after an interrupt
def test_an_interrupt_of_os_system_ends_the_tree(link: DirectLink) -> None:
    link.interrupt_next = "process.wait"
    with pytest.raises(KeyboardInterrupt):
        os.system("sleep 676 & wait")
    assert not processes("sleep 676")


def test_an_interrupted_wait_can_be_repeated(link: DirectLink) -> None:
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    program._sigint_wait_secs = 0  # type: ignore[attr-defined]
    link.interrupt_next = "process.wait"
    with pytest.raises(KeyboardInterrupt):
        program.wait()
    assert program.returncode is None
    program.communicate()
    assert program.returncode == 0


def test_each_start_is_preceded_by_a_flush(link: DirectLink, programs: Programs) -> None:
    order: list[str] = []
    with installed(link, lambda: order.append(f"flush before call {len(programs.calls)}")):
        subprocess.run(["true"])
        os.system("true")
    assert verbs(programs) == ["start", "wait", "start", "wait"]
    assert order == ["flush before call 0", "flush before call 2"]


def test_a_poll_asks_until_the_end_is_known_and_then_no_more(programs: Programs) -> None:
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert (program.poll(), program.poll()) == (None, None)
    program.communicate()
    assert (program.poll(), program.wait(), program.wait(1)) == (0, 0, 0)
    program.kill()
    assert verbs(programs) == ["start", "poll", "poll", "wait"]


def test_a_lost_status_is_no_success(link: DirectLink, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = link.call_sync

    def lost(verb: str, args: dict[str, Any], **options: Any) -> Any:
        answered = answer(verb, args, **options)
        return {"status": None} if verb == "process.wait" else answered

    monkeypatch.setattr(link, "call_sync", lost)
    assert subprocess.run(["true"]).returncode == 255


def test_an_unwaited_popen_is_collected_in_silence(programs: Programs) -> None:
    program = subprocess.Popen(["sleep", "677"])
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None
    subprocess.run(["true"])  # its clean-up of forgotten ones finds none
    assert verbs(programs) == ["start", "start", "wait"]
    assert processes("sleep 677")


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["true"], capture_output=True),
        lambda: subprocess.getoutput("true"),
        lambda: os.system("true"),
        lambda: os.popen("true"),
    ],
    ids=["run", "getoutput", "system", "popen"],
)
def test_a_refusal_is_raised_as_it_is(programs: Programs, start: Callable[[], Any]) -> None:
    programs.refusal = Refusal("the toggle shell is off")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(PermissionError, match="the toggle shell is off") as caught:
        start()
    assert caught.value is programs.refusal
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    "options",
    [
        {"preexec_fn": os.getpid},
        {"pass_fds": (0,)},
        {"user": 0},
        {"group": 0},
        {"extra_groups": [0]},
        {"umask": 0o77},
        {"process_group": 5},
        {"restore_signals": False},
    ],
    ids=lambda options: next(iter(options)),
)
def test_an_option_that_cannot_be_honoured_raises_and_leaks_nothing(
    programs: Programs, options: dict[str, Any]
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ValueError, match=f"^{next(iter(options))}.* cannot be honoured here"):
        subprocess.Popen(["true"], stdin=-1, stdout=-1, stderr=-3, **options)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert not programs.calls


def test_a_session_of_its_own_is_what_every_program_has() -> None:
    script = "ps -o sid= -p $$"
    for options in ({}, {"start_new_session": True}, {"process_group": 0}):
        program = subprocess.Popen(["sh", "-c", script], stdout=-1, **options)
        assert int(program.communicate()[0]) == program.pid


def test_the_shim_is_the_same_class_everywhere() -> None:
    import asyncio.unix_events as events

    assert events.subprocess.Popen is subprocess.Popen  # type: ignore[attr-defined]
    assert subprocess.Popen.__mro__[1] is not subprocess.Popen
    with subprocess.Popen(["true"]) as program:
        assert isinstance(program, subprocess.Popen)
        assert repr(program) == "<Popen: returncode: None args: ['true']>"

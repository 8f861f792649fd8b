"""What a cell prints: order, timeliness, text that is none, and a reader that does not read."""

from __future__ import annotations

import time

import pytest

from tests.worker_driver import Driver


def test_text_comes_while_the_cell_runs(driver: Driver) -> None:
    id = driver.start("print('one')\nprint('two')\nimport time\ntime.sleep(60)")
    began = time.monotonic()
    driver.printed("one\ntwo\n")
    assert time.monotonic() - began < 5
    driver.stopped(id)


def test_everything_is_there_before_a_call_and_before_the_end(driver: Driver) -> None:
    seen = []
    driver.verbs["echo"] = lambda x: seen.append(x) or x
    driver.ok(
        "import sys\nprint('a')\nprint('b', file=sys.stderr)\nawait echo(1)\nprint('c', end='')"
    )
    driver.printed("c")
    assert driver.output == {"stdout": b"a\nc", "stderr": b"b\n"}


def test_streams_keep_their_order(driver: Driver) -> None:
    """Both ends at one pipe, as a program that inherits them has it."""
    driver.ok(
        "import os, sys\nr, w = os.pipe()\nkept = [os.dup(1), os.dup(2)]\n"
        "for n in (1, 2): os.dup2(w, n)\n"
    )
    assert driver.ok("sys.stdout.fileno(), sys.stderr.fileno()") == "(1, 2)"


def test_what_a_text_stream_also_is(driver: Driver) -> None:
    driver.ok("import sys, io\nout = sys.stdout")
    assert driver.ok("out.isatty(), out.encoding, out.writable(), out.closed, out.fileno()") == (
        "(False, 'utf-8', True, False, 1)"
    )
    assert driver.ok("isinstance(out, io.TextIOBase), out.name, out.mode") == (
        "(True, '<stdout>', 'w')"
    )
    driver.ok("out.reconfigure(line_buffering=True)\nout.writelines(['a', 'b'])\nout.flush()")
    driver.ok("out.write('c')\nout.buffer.write(b'\\xff\\n')\nout.buffer.flush()\nout.close()")
    driver.ok("print('d', flush=True)")
    driver.printed("d")
    assert driver.output["stdout"] == b"abc\xff\nd\n"
    assert driver.error("out.write(b'x')").type == "TypeError"
    assert driver.ok("out.write('xyz')") == "3"


def test_lone_surrogates_are_replaced(driver: Driver) -> None:
    driver.ok("print('a\\ud800b')")
    driver.printed("b\n")
    assert driver.output["stdout"].decode() == "a\ufffdb\n"


def test_redirection_is_the_users(driver: Driver) -> None:
    assert (
        driver.ok(
            "import io, contextlib\nb = io.StringIO()\n"
            "with contextlib.redirect_stdout(b): print('inside')\nb.getvalue()"
        )
        == "'inside\\n'"
    )
    assert driver.output["stdout"] == b""


def test_threads_print_whole_lines(driver: Driver) -> None:
    driver.ok(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def f(i):\n    for _ in range(2000): print(f'line {i}\\n', end='')\n"
        "with ThreadPoolExecutor(4) as e: list(e.map(f, range(4)))"
    )
    driver.until_true(lambda: driver.output["stdout"].count(b"\n") == 8000)
    lines = driver.output["stdout"].decode().split("\n")
    assert {line: lines.count(line) for line in set(lines)} == {
        **{f"line {i}": 2000 for i in range(4)},
        "": 1,
    }


def test_a_long_text_and_many_short_ones(driver: Driver) -> None:
    driver.ok("print('x' * (3 << 20))\nfor i in range(20_000): print(i)")
    expected = b"x" * (3 << 20) + b"\n" + b"".join(b"%d\n" % i for i in range(20_000))
    driver.until_true(lambda: len(driver.output["stdout"]) == len(expected))
    assert driver.output["stdout"] == expected


def test_background_text_comes_without_a_cell(driver: Driver) -> None:
    driver.ok(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.02)\n    print('later')\n"
        "t = asyncio.create_task(f())"
    )
    driver.printed("later")


@pytest.mark.slow
def test_a_flood_that_nobody_reads_can_be_stopped(driver: Driver) -> None:
    driver.is_reading.clear()
    id = driver.start("while True: print('y' * 1000)")
    driver.until_true(lambda: driver.is_parked())
    driver.interrupt()
    driver.is_reading.set()
    assert driver.result(id).status == "interrupted"
    assert driver.ok("1") == "1"


def test_warnings_are_shown_once(driver: Driver) -> None:
    driver.ok("import warnings\nwarnings.warn('careful')")
    driver.printed("careful", "stderr")
    assert driver.output["stderr"].count(b"UserWarning: careful") == 1

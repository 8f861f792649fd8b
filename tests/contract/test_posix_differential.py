"""Each case runs under CPython's own subprocess and under the shim, and must look the same."""

from __future__ import annotations

import importlib
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import pytest

from tests.posix_link import DirectLink, Programs, WiredLink, installed

# The real module, untyped: many cases hand it what its types forbid.
subprocess: Any = importlib.import_module("subprocess")

Show = Callable[..., None]
Case = Callable[[Show], None]

CASES: list[Any] = []


def case(function: Case) -> Case:
    CASES.append(pytest.param(function, id=function.__name__))
    return function


def slow_case(function: Case) -> Case:
    CASES.append(pytest.param(function, id=function.__name__, marks=pytest.mark.slow))
    return function


@pytest.fixture
def programs() -> Programs:
    return Programs()


@pytest.fixture(params=[DirectLink, WiredLink])
def link(request: pytest.FixtureRequest, programs: Programs) -> Iterator[DirectLink | WiredLink]:
    link = request.param(programs)
    yield link
    link.close()


def observe(
    case: Case,
    capfd: pytest.CaptureFixture[str],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[list[str], str, str]:
    """What a case shows, and what it and its programs print."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    seen: list[str] = []
    case(lambda *values: seen.append(repr(values)))
    captured = capfd.readouterr()
    return seen, captured.out, captured.err


def failing(show: Show, function: Callable[[], Any], *hidden: str) -> None:
    """Show an exception with all that its attributes hold."""
    with pytest.raises(Exception) as caught:
        function()
    error = caught.value
    names = "errno strerror filename cmd returncode output stdout stderr timeout start".split()
    held = {name: getattr(error, name, None) for name in names if name not in hidden}
    show(type(error), str(error) if not hidden else "", held, error.__cause__)


def sh(script: str, **options: Any) -> Any:
    return subprocess.run(["sh", "-c", script], **options)


@case
def run_captures(show: Show) -> None:
    show(subprocess.run(["printf", "a\\nb"], capture_output=True))
    show(sh("echo out; echo err >&2; exit 3", capture_output=True, text=True))
    show(sh("cat", input=b"x\0y", stdout=subprocess.PIPE))
    show(sh("cat", input="\xe9\n", stdout=subprocess.PIPE, encoding="latin-1"))
    show(sh("exit 4", stdin=subprocess.DEVNULL), sh("cat", stdin=subprocess.DEVNULL))


@case
def uncaptured_output_is_in_order(show: Show) -> None:
    print("one")
    subprocess.run(["echo", "two"])
    print("three")
    subprocess.run("echo four >&2; echo five", shell=True, stderr=subprocess.STDOUT)
    show(os.system("echo six"), subprocess.call(["echo", "seven"]))
    print("eight")
    subprocess.run(["echo", "lost"], stdout=subprocess.DEVNULL)


@case
def checks(show: Show) -> None:
    failing(show, lambda: sh("echo o; echo e >&2; exit 3", check=True, capture_output=True))
    failing(show, lambda: subprocess.check_output("echo o; exit 200", shell=True))
    failing(show, lambda: subprocess.check_call(["false"]))
    failing(show, lambda: subprocess.check_output(["true"], stdout=1))
    show(subprocess.check_call(["true"]), subprocess.check_output(["echo", "a"]))
    show(
        subprocess.check_output(["cat"], input=None),
        subprocess.check_output("cat", input="x", text=True),
    )


@case
def death_by_a_signal(show: Show) -> None:
    finished = sh("kill -9 $$")
    show(finished)
    failing(show, finished.check_returncode)
    failing(show, lambda: subprocess.check_call(["sh", "-c", "kill -TERM $$"]))


@case
def outputs(show: Show) -> None:
    show(subprocess.getoutput("echo x; echo y >&2"))
    show(subprocess.getstatusoutput("echo z; exit 5"), subprocess.getstatusoutput("kill $$"))
    show(subprocess.getoutput("printf '\\351'", encoding="latin-1"))


@case
def text_modes(show: Show) -> None:
    odd: Any = {"universal_newlines": False}
    words = ["printf", "a\\r\\nb\\377"]
    show(subprocess.run(words, capture_output=True).stdout)
    show(subprocess.run(words, capture_output=True, text=True, errors="replace").stdout)
    show(subprocess.run(words, capture_output=True, encoding="latin-1").stdout)
    show(subprocess.check_output(["echo", "q"], universal_newlines=True))
    failing(show, lambda: subprocess.run(words, capture_output=True, text=True))
    failing(show, lambda: subprocess.run(words, **{**odd, "text": True}))


@case
def two_streams_in_one(show: Show) -> None:
    script = "echo o1; echo e1 >&2; echo o2; echo e2 >&2"
    show(sh(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    with open("log", "w+b") as log:
        show(sh(script, stdout=log, stderr=log))
        log.seek(0)
        show(log.read())
    with open_text("in") as text:
        show(sh("echo e >&2", stderr=subprocess.PIPE), sh("cat", stdin=text.fileno(), stdout=1))


def open_text(name: str) -> IO[str]:
    path = pathlib.Path(name)
    path.write_text("text\n")
    return path.open()


@case
def environment(show: Show) -> None:
    show(subprocess.check_output(["/usr/bin/env"], env={"A": "1"}))
    show(subprocess.check_output(["/usr/bin/env"], env={}))
    show(subprocess.check_output(["/usr/bin/env"], env={b"B": b"\xff", "P": pathlib.Path("/p")}))
    os.environ["SEEN"] = "yes"
    show(sh("echo $SEEN", capture_output=True), subprocess.getoutput("echo $SEEN"))
    show(os.system("test $SEEN = yes"))
    del os.environ["SEEN"]
    show(sh("echo $SEEN", capture_output=True))
    show(
        subprocess.check_output(
            "env -u PWD -u OLDPWD -u _", shell=True, env={"PATH": os.environ["PATH"]}
        )
    )


@case
def the_program_is_found_in_the_given_path(show: Show) -> None:
    program = pathlib.Path("bin/prog")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found $1\n")
    failing(show, lambda: subprocess.run(["prog"]))
    failing(show, lambda: subprocess.run(["bin/prog"]))
    program.chmod(0o755)
    path = {"PATH": f"/nowhere:{program.parent.absolute()}"}
    show(
        subprocess.check_output(["prog", "1"], env=path), subprocess.check_output(["bin/prog", "2"])
    )
    show(subprocess.check_output([program, "3"]), subprocess.check_output(program))


@case
def folder(show: Show) -> None:
    os.makedirs("sub/deep")
    for cwd in ("sub", b"sub", pathlib.Path("sub/deep"), os.path.abspath("sub"), "sub/..", None):
        place = subprocess.check_output(["pwd"], cwd=cwd, text=True)
        show(os.path.relpath(place.strip()))
    os.chdir("sub")
    show(os.path.basename(subprocess.getoutput("pwd")))
    os.chdir("..")
    failing(show, lambda: subprocess.run(["true"], cwd="nope"))
    failing(show, lambda: subprocess.run(["true"], cwd=pathlib.Path("nope")))
    failing(show, lambda: subprocess.run(["nope"], cwd="nope2"))
    failing(show, lambda: subprocess.run(["true"], cwd=""))
    failing(show, lambda: subprocess.run(["true"], cwd=__file__))


@case
def what_cannot_start(show: Show) -> None:
    failing(show, lambda: subprocess.run(["nope", "a"]))
    failing(show, lambda: subprocess.run("nope a", capture_output=True))
    failing(show, lambda: subprocess.run([b"nope"]))
    failing(show, lambda: subprocess.run([pathlib.Path("./nope")]))
    failing(show, lambda: subprocess.run(["x"], executable="/nope"))
    failing(show, lambda: subprocess.run(["/etc/passwd"]))
    failing(show, lambda: subprocess.run(["/tmp"], text=True, stdin=subprocess.PIPE))
    failing(show, lambda: subprocess.run(["true", "x" * (200 << 10)]))
    failing(show, lambda: subprocess.run("x", shell=True, executable="/nope"))
    failing(show, lambda: subprocess.run(["true"], bufsize="1"))
    failing(show, lambda: subprocess.run(["true"], creationflags=1))
    failing(show, lambda: subprocess.run(["true"], startupinfo=1))
    failing(show, lambda: subprocess.run(["true"], capture_output=True, stdout=1))
    failing(show, lambda: subprocess.run(["true"], input="x", stdin=0))
    show(subprocess.run(["true"]))


@case
def words_are_not_read_again(show: Show) -> None:
    words = ["a b", "$HOME", "*", "'\"", "", "\n", "\xe9", "-n"]
    show(subprocess.check_output(["printf", "<%s>", *words]))
    show(subprocess.check_output([b"printf", b"<%s>", b"\xff"]))
    show(subprocess.check_output(["echo $0 $1", "zero", "one"], shell=True))
    show(subprocess.check_output(["me", "-c", "echo $0"], executable="/bin/sh"))
    show(
        subprocess.check_output("echo $BASH_VERSION | wc -c", shell=True, executable="/bin/bash")
        > b"1"
    )


@case
def pipelines(show: Show) -> None:
    one = subprocess.Popen(["seq", "1", "1000000"], stdout=subprocess.PIPE)
    two = subprocess.Popen(["head", "-n", "2"], stdin=one.stdout, stdout=-1, text=True)
    one.stdout.close()
    show(two.communicate(), one.wait(timeout=5), two.returncode)
    yes = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
    show(sh("head -n 1", stdin=yes.stdout, capture_output=True))
    yes.stdout.close()
    show(yes.wait(timeout=5))


@case
def a_dialogue(show: Show) -> None:
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], text=True, bufsize=1, **pipes) as cat:
        cat.stdin.write("a\n")
        show(cat.stdout.readline(), cat.poll(), cat.returncode)
        cat.stdin.write("b\n")
        cat.stdin.close()
        show(cat.stdout.read())
    show(cat.returncode, cat, cat.args, cat.universal_newlines)
    with subprocess.Popen(["cat"], bufsize=0, **pipes) as raw:
        show(type(raw.stdin), raw.stdin.write(b"xyz"), raw.stdout.read(2), raw.stderr)


@case
def much_input(show: Show) -> None:
    data = bytes(range(256)) * 800
    cat = subprocess.Popen(["cat"], stdin=-1, stdout=-1)
    show(cat.communicate(data)[0] == data, cat.returncode)
    show(sh("cat >&2; seq 20000", input=data, capture_output=True).stderr == data)
    deaf = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    show(deaf.communicate(data), deaf.returncode)


@case
def pipe_sizes(show: Show) -> None:
    import fcntl

    with subprocess.Popen(["cat"], stdin=-1, stdout=-1, pipesize=16384) as cat:
        show(fcntl.fcntl(cat.stdin, fcntl.F_GETPIPE_SZ), cat.pipesize)
        cat.stdin.close()


@case
def bounds(show: Show) -> None:
    sleeper = subprocess.Popen(["sleep", "67"])
    failing(show, lambda: sleeper.wait(timeout=0.01))
    failing(show, lambda: sleeper.wait(0))
    failing(show, lambda: sleeper.wait(-1))
    failing(show, lambda: sleeper.communicate(timeout=0.01), "timeout")
    failing(show, lambda: sleeper.wait("x"))
    show(sleeper.poll(), sleeper.returncode, sleeper)
    sleeper.kill()
    show(sleeper.wait(float("inf")), sleeper.wait(timeout=0), sleeper.poll(), sleeper)
    failing(show, lambda: subprocess.run(["sleep", "67"], timeout=0.01), "timeout")
    failing(show, lambda: subprocess.call(["sleep", "67"], timeout=0.01))
    failing(show, lambda: subprocess.check_call("exec sleep 67", shell=True, timeout=0.01))
    finished = subprocess.Popen(["true"])
    finished.wait()
    show(finished.wait(timeout=0), finished.communicate(timeout=0))


@slow_case
def partial_output(show: Show) -> None:
    options: Any = {"capture_output": True, "timeout": 1}
    failing(show, lambda: sh("echo start; echo e >&2; exec sleep 67", **options))
    failing(show, lambda: sh("echo start; exec sleep 67", text=True, **options))
    failing(show, lambda: subprocess.check_output("echo o; exec sleep 67", shell=True, timeout=1))


@case
def communicate_again_after_a_bound(show: Show) -> None:
    program = subprocess.Popen(["sleep", "67"], stdout=-1, stderr=-1)
    failing(show, lambda: program.communicate(timeout=0.01), "timeout")
    failing(show, lambda: program.communicate(b"late", timeout=0.01))
    program.terminate()
    show(program.communicate(), program.returncode)


@case
def signals(show: Show) -> None:
    script = "trap 'exit 7' USR1; echo ready; while :; do :; done"
    with subprocess.Popen(["sh", "-c", script], stdout=-1, text=True) as program:
        show(program.stdout.readline())
        failing(show, lambda: program.send_signal(99))
        failing(show, lambda: program.send_signal("x"))
        program.send_signal(0)
        program.send_signal(signal.SIGUSR1)
    show(program.returncode)
    program.send_signal(signal.SIGKILL)
    program.kill()
    show(program.returncode)
    for end in (subprocess.Popen.terminate, subprocess.Popen.kill):
        sleeper = subprocess.Popen(["sleep", "67"])
        end(sleeper)
        show(sleeper.wait())


@case
def os_system(show: Show) -> None:
    show([os.system(line) for line in ("exit 0", "exit 3", "kill -9 $$", "nope 2>/dev/null")])
    show(os.system(b"exit 5"), os.system("echo $0"), os.system("nope"))
    show(os.system("cat"))
    failing(show, lambda: os.system(5))  # type: ignore[arg-type]
    failing(show, lambda: os.system("a\0b"))


@case
def os_popen(show: Show) -> None:
    pipe = os.popen('printf "a\\nb\\n"; exit 2')
    show(pipe.readline(), list(pipe), pipe.close())
    show(os.popen("echo hi").read(), os.popen("true").close(), os.popen("kill -9 $$").close())
    with os.popen("cat > got", "w") as writer:
        writer.write("x\xe9\n")
    show(pathlib.Path("got").read_bytes(), [line.strip() for line in os.popen("seq 3")])
    failing(show, lambda: os.popen(b"true"))  # type: ignore[arg-type]
    failing(show, lambda: os.popen("true", "rw"))
    failing(show, lambda: os.popen("true", buffering=0))


@case
def a_subclass_and_a_generic(show: Show) -> None:
    class Mine(subprocess.Popen):  # type: ignore[misc]
        def terminate(self) -> None:
            show("terminate")
            super().terminate()

    with Mine(["sleep", "67"], text=True) as program:
        program.terminate()
    show(program, isinstance(program, subprocess.Popen), subprocess.Popen[bytes])
    show(type(subprocess.Popen(["true"])), subprocess.run.__name__, subprocess.run.__module__)


@case
def a_replaced_popen(show: Show) -> None:
    class Recorder(subprocess.Popen):  # type: ignore[misc]
        def kill(self) -> None:
            show("kill")
            super().kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Recorder)
        failing(show, lambda: subprocess.call(["sleep", "67"], timeout=0.01))
        show(subprocess.run(["true"]), subprocess.getoutput("echo a"))


@case
def many_threads(show: Show) -> None:
    def work(number: int) -> Any:
        return sh(f"cat; exit {number}", input=b"%d" % number, capture_output=True)

    with ThreadPoolExecutor(8) as pool:
        show(list(pool.map(work, range(16))))
    shared = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    codes: list[int] = []
    waiters = [threading.Thread(target=lambda: codes.append(shared.wait())) for _ in range(4)]
    for waiter in waiters:
        waiter.start()
    shared.stdin.close()
    for waiter in waiters:
        waiter.join()
    show(codes)


@case
def descriptors_are_closed(show: Show) -> None:
    sh("true")  # a link may keep one descriptor a thread
    before = os.listdir("/proc/self/fd")
    sh("cat", input=b"x", capture_output=True)
    sh("true", stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    failing(show, lambda: subprocess.Popen(["nope"], stdin=-1, stdout=-1, stderr=-3))
    with subprocess.Popen(["true"], stdin=-1, stdout=-1, stderr=-1):
        pass
    show(len(os.listdir("/proc/self/fd")) - len(before))
    show(subprocess.check_output(["ls", "/proc/self/fd"], close_fds=False).split()[:3])


# CPython warns of programs and pipes that a case leaves to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("case", CASES)
def test_case(
    case: Case,
    link: DirectLink | WiredLink,
    programs: Programs,
    capfd: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    plain = observe(case, capfd, tmp_path / "plain", monkeypatch)
    with installed(link, sys.stdout.flush):
        shim = observe(case, capfd, tmp_path / "shim", monkeypatch)
    assert shim == plain
    assert any(verb == "process.start" for verb, _ in programs.calls)

"""What the posix shim asks of the host for the arguments of a Popen, and what it refuses."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
from typing import Any

import pytest

from awaitbox.shims.posix.request import (
    ARGUMENT_BYTES,
    CHILD_ARGUMENTS,
    Request,
    inheritable_descriptors,
    make_request,
)

DEFAULTS: dict[str, Any] = {
    "args": ["prog"],
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "cwd": None,
    "env": {},
    "startupinfo": None,
    "creationflags": 0,
    "shell": False,
    **dict.fromkeys(("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"), -1),
    "restore_signals": True,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "start_new_session": False,
    "process_group": -1,
}


def request(**given: Any) -> Request:
    return make_request({**DEFAULTS, **given})


def test_the_names_are_those_of_this_python() -> None:
    code = subprocess.Popen._execute_child.__code__  # type: ignore[attr-defined]
    assert code.co_varnames[1 : code.co_argcount] == CHILD_ARGUMENTS
    assert tuple(DEFAULTS) == CHILD_ARGUMENTS


@pytest.mark.parametrize(
    ("given", "argv", "executable"),
    [
        ({"args": ["a b", "c"]}, ["a b", "c"], None),
        ({"args": ("a",)}, ["a"], None),
        ({"args": "a b"}, ["a b"], None),
        ({"args": b"a"}, ["a"], None),
        ({"args": pathlib.Path("/bin/a")}, ["/bin/a"], None),
        ({"args": [b"a", pathlib.Path("b"), "\xe9"]}, ["a", "b", "\xe9"], None),
        ({"args": [b"\xff", "\udcfe"]}, [b"\xff", b"\xfe"], None),
        ({"args": "a | b", "shell": True}, ["/bin/sh", "-c", "a | b"], None),
        ({"args": ["a $0", "b"], "shell": True}, ["/bin/sh", "-c", "a $0", "b"], None),
        ({"args": "a", "shell": True, "executable": "/x"}, ["/x", "-c", "a"], "/x"),
        ({"args": ["a"], "executable": b"/x"}, ["a"], "/x"),
    ],
)
def test_commands(given: dict[str, Any], argv: list[Any], executable: str | None) -> None:
    made = request(**given)
    assert (made.args["argv"], made.args["executable"]) == (argv, executable)


def test_the_environment_is_exact_or_this_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEN", "yes")
    assert request(env=None).args["env"] == dict(os.environ)
    made = request(env={"A": pathlib.Path("1"), b"B": b"\xff"})
    assert made.args["env"] == {"A": "1", "B": b"\xff"}


def test_a_folder_becomes_absolute_and_is_named_as_it_was_written() -> None:
    made = request(cwd=pathlib.Path("sub"))
    assert made.args["cwd"] == os.path.join(os.getcwd(), "sub")
    assert made.folder == pathlib.Path("sub")
    assert request().args["cwd"] == os.getcwd()
    assert request(cwd=b"/").args["cwd"] == "/"


def test_descriptors_that_are_not_redirected_are_this_process_s_own() -> None:
    assert request().fds == (0, 1, 2)
    assert request(errwrite=1).fds == (0, 1, 1)
    assert request(c2pwrite=-2).fds == (0, 1, 2)  # STDOUT for stdout, before 3.13


@pytest.mark.parametrize(
    ("given", "type", "text"),
    [
        ({"args": []}, IndexError, "list index out of range"),
        ({"args": 5}, TypeError, "'int' object is not iterable"),
        ({"args": ["a", 1]}, TypeError, "expected str, bytes or os.PathLike object, not int"),
        ({"args": pathlib.Path("a"), "shell": True}, TypeError, "path-like args is not allowed"),
        ({"args": ["a\0"]}, ValueError, "embedded null byte"),
        ({"cwd": "a\0"}, ValueError, "embedded null byte"),
        ({"cwd": 1}, TypeError, "expected str, bytes or os.PathLike object, not int"),
        ({"cwd": ""}, FileNotFoundError, "No such file or directory: ''"),
        ({"env": {"a": "\0"}}, ValueError, "embedded null byte"),
        ({"env": {"a=": ""}}, ValueError, "illegal environment variable name"),
        ({"env": {"a": 1}}, TypeError, "expected str, bytes or os.PathLike object, not int"),
        ({"c2pwrite": 9999}, OSError, "Bad file descriptor"),
        ({"args": ["a", "x" * ARGUMENT_BYTES]}, OSError, "Argument list too long: 'a'"),
    ],
)
def test_mistakes_are_the_errors_of_cpython(
    given: dict[str, Any], type: type[Exception], text: str
) -> None:
    with pytest.raises(type, match=text):
        request(**given)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"preexec_fn": print}, "preexec_fn"),
        ({"pass_fds": (5,)}, "pass_fds"),
        ({"restore_signals": False}, "restore_signals=False"),
        ({"gid": 0}, "group"),
        ({"gids": []}, "extra_groups"),
        ({"uid": 0}, "user"),
        ({"umask": 0}, "umask"),
        ({"process_group": 7}, "process_group"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} cannot be honoured here: "):
        request(**given)


def test_close_fds_matters_only_beside_an_inheritable_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unlisted(path: str) -> list[str]:
        raise FileNotFoundError(path)

    read, write = os.pipe()
    for fd in map(int, os.listdir("/proc/self/fd")):  # of whoever started the tests
        if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}"):
            os.set_inheritable(fd, False)
    request(close_fds=False)
    os.set_inheritable(write, True)
    with pytest.raises(ValueError, match=r"^close_fds=False beside an inheritable descriptor"):
        request(close_fds=False)
    monkeypatch.setattr(os, "listdir", unlisted)
    assert inheritable_descriptors() == [write]
    os.close(read)
    os.close(write)


def test_what_every_program_has_anyway_is_taken() -> None:
    request(start_new_session=True)
    request(process_group=0)


class Coded(Exception):
    def __init__(self, code: str) -> None:
        self.code = code


@pytest.mark.parametrize(
    ("code", "type", "filename"),
    [
        ("errno:2:argv0", FileNotFoundError, "prog"),
        ("errno:2:cwd", FileNotFoundError, "/folder"),
        ("errno:13:argv0", PermissionError, "prog"),
        ("errno:8:argv0", OSError, "prog"),
    ],
)
def test_failures_of_a_start_become_cpython_s(
    code: str, type: type[OSError], filename: str
) -> None:
    number = int(code.split(":")[1])
    native = request(cwd="/folder").native(Coded(code))
    assert native.__class__ is type
    assert native is not None
    assert (native.errno, native.strerror, native.filename) == (
        number,
        os.strerror(number),
        filename,
    )


@pytest.mark.parametrize("code", ["toggled_off", "", "errno:", "errno:x:cwd"])
def test_other_failures_are_left_as_they_are(code: str) -> None:
    assert request().native(Coded(code)) is None
    assert request().native(OSError(errno.EIO, "no code at all")) is None

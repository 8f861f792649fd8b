"""A worker that says what it finds, instead of the real one."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from typing import NoReturn

IS_BROKEN = "awaitbox_test_broken"  # a name on sys.path makes `warm` fail


def warm() -> None:
    if any(IS_BROKEN in entry for entry in sys.path):
        raise RuntimeError("warming failed on purpose")


def _answer(question: str) -> object:
    match question:
        case "fds":
            return {n: os.readlink(f"/proc/self/fd/{n}") for n in range(4)}, _others()
        case "signals":
            caught = [n for n in range(1, 32) if signal.getsignal(n) is not signal.SIG_DFL]
            return caught, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        case "self":
            return os.getpid(), os.getsid(0), os.getppid(), threading.active_count(), os.getcwd()
        case "environ":
            return dict(os.environ)
        case "path":
            return sys.path, sys.prefix, sorted(sys.modules)
    return None


def _others() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 3 and os.path.exists(f"/proc/self/fd/{name}"):
            found.append(int(name))
    return found


def main(fd: int) -> NoReturn:
    sock = socket.socket(fileno=fd)
    while question := sock.recv(1000):
        match question.split():
            case [b"exit", status]:
                os._exit(int(status))
            case [b"print"]:
                os.write(1, b"to stdout")
                os.write(2, b"to stderr")
                sock.sendall(b"None")
            case _:
                sock.sendall(repr(_answer(question.decode())).encode())
    os._exit(0)

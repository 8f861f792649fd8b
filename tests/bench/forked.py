"""The floor of a session's start: a process with the very image of the zygote that only forks.

Run by path, `python -I -S forked.py MODULE SYS.PATH...`, so that it holds what the zygote holds and
nothing more: the worker's modules, warmed, collected, frozen. It answers lines on stdin with lines
on stdout:

| line | answer |
| --- | --- |
| fork | seconds from before the fork until the child's byte was read, and until it was reaped |
| hold | pid of a child that waits, bare |
| drop | 0, when that child is reaped |
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from importlib import import_module


def main() -> None:
    sys.path[:] = sys.argv[2:]
    import_module(sys.argv[1]).warm()
    gc.collect()
    gc.freeze()
    held = 0
    print("up", flush=True)
    for line in sys.stdin:
        if line == "fork\n":
            answer = "{} {}".format(*fork_and_one_byte())
        elif line == "hold\n":
            held = hold()
            answer = f"{held}"
        else:
            os.kill(held, signal.SIGKILL)
            os.waitpid(held, 0)
            answer = "0"
        print(answer, flush=True)


def fork_and_one_byte() -> tuple[float, float]:
    began = time.perf_counter()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        theirs.send(b"1")
        os._exit(0)
    ours.recv(1)
    answered = time.perf_counter() - began
    os.waitpid(pid, 0)
    reaped = time.perf_counter() - began
    ours.close()
    theirs.close()
    return answered, reaped


def hold() -> int:
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    return pid


if __name__ == "__main__":
    main()

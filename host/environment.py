"""The environment of every process of a session.

It is the login environment (`bash -lc`, captured once when the host opens, before any model code
ran), minus names that carry secrets or hijack the start of a program, plus what the embedder
passes. So no line runs a profile again, and none hands anything to the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import trio

from awaitbox.host.custody.machine import Machine
from awaitbox.host.limits import KILL_GRACE_SECONDS, LOGIN_SECONDS, MIB

LOGIN_BYTES = 1 * MIB  # of a login environment; the kernel takes about 2 MiB with the arguments
_SECRET_PARTS = frozenset("KEY TOKEN SECRET PASSWORD PASSWD CREDENTIAL CREDENTIALS".split())
_HIJACKS = frozenset(
    """BASH_ENV ENV PROMPT_COMMAND PS4 SHELLOPTS BASHOPTS BASH_XTRACEFD
    PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS SSH_ASKPASS
    GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_SEQUENCE_EDITOR GIT_CONFIG_PARAMETERS
    GIT_CONFIG_COUNT LESSOPEN LESSCLOSE""".split()
)
_OWN = {"_", "SHLVL", "PWD", "OLDPWD"}  # bash's bookkeeping of the capture itself

ON_PIPES = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_EDITOR": "false"}
ON_A_TERMINAL = {"TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat"}


def carries_a_secret(name: str) -> bool:
    """True for API_KEY and DB_PASSWORD_2, false for MONKEY and KEYBOARD: whole parts count."""
    return not _SECRET_PARTS.isdisjoint(re.split(r"[^A-Z]+", name.upper()))


def hijacks_a_start(name: str) -> bool:
    """True for names by which an environment makes a program run something else first."""
    return name in _HIJACKS or name.startswith(("LD_", "BASH_FUNC_", "GIT_CONFIG_KEY_"))


def clean(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without the names above."""
    return {
        name: value
        for name, value in env.items()
        if not carries_a_secret(name) and not hijacks_a_start(name) and name not in _OWN
    }


async def capture_login(
    machine: Machine, home_env: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """The login environment, and "" or a warning if it could not be had.

    Runs `bash -lc` in `machine`, bounded by LOGIN_SECONDS; a profile that hangs is ended with all
    it started, and the host's own environment stands in. A cancel ends it likewise.
    """
    base = clean(home_env)
    text, is_late = b"", True
    with trio.move_on_after(LOGIN_SECONDS):
        try:
            text = await _login_output(machine, base)
        except OSError as error:
            return base, f"no login environment: {error}"
        is_late = False
    warning = "the login profile ended before it gave an environment"
    if is_late:
        warning = f"the login profile did not end within {LOGIN_SECONDS:g} s and was stopped"
    login = _parse(text)
    if not login:
        return base, warning
    login["PATH"] = _joined_path(login.get("PATH", ""), base.get("PATH", ""))
    return clean(login), ""


async def _login_output(machine: Machine, base: Mapping[str, str]) -> bytes:
    """What `env -0` prints at the end of a login, into a file that no profile writes to: a daemon
    that a profile starts may hold it open for as long as it likes."""
    found = os.memfd_create("login", os.MFD_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        command = await machine.spawn(
            ["bash", "-lc", "exec env -0 >&3"], env=base, cwd="/", fds=[null, null, null, found]
        )
        try:
            await command.ended.wait()
            return os.pread(found, LOGIN_BYTES, 0)
        finally:
            await command.stop(KILL_GRACE_SECONDS)
            command.close()
    finally:
        os.close(null)
        os.close(found)


def _parse(text: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in text.split(b"\0") if item)
    return {name: value for name, found, value in pairs if found and name}


def _joined_path(login: str, host: str) -> str:
    """The login PATH, behind those entries of the host's that it dropped (a virtualenv)."""
    known = login.split(":")
    dropped = [entry for entry in host.split(":") if entry and entry not in known]
    return ":".join([*dropped, *[entry for entry in known if entry]])

"""What can be read about this machine without starting anything."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

_UNUSED = "this release makes no use of it"
_LANDLOCK_CREATE_RULESET, _LANDLOCK_VERSION = 444, 1  # the same number on all architectures
_OPEN_FILES_WANTED = 4096  # 2 or 3 a background, and room for the embedder


@dataclass(frozen=True)
class Check:
    """`state` is `works`, `fails` (awaitbox needs it), `warning` or `info`."""

    what: str
    state: str
    found: str
    fix: str | None = None


def facts(open_files: tuple[int, int]) -> list[Check]:
    """`open_files`: the soft and the hard limit that this process was started with."""
    return [
        _python(),
        _kernel(),
        _architecture(),
        _open_files(*open_files),
        Check("user namespaces", "info", f"{_user_namespaces()}; {_UNUSED}"),
        Check("Landlock", "info", f"{_landlock()}; {_UNUSED}"),
        Check("seccomp", "info", f"{_seccomp()}; {_UNUSED}"),
    ]


def _python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.version_info >= (3, 11) and sys.implementation.name == "cpython":
        return Check("Python", "works", found)
    return Check("Python", "fails", found, "use CPython 3.11 or newer")


def _kernel() -> Check:
    release = platform.release()
    found = f"{platform.system()} {release}"
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers >= (5, 9):
        return Check("kernel", "works", found)
    return Check("kernel", "fails", found, "pidfds that can be waited for need Linux 5.9")


def _architecture() -> Check:
    machine = platform.machine()
    if machine == "x86_64":
        return Check("architecture", "works", machine)
    if machine == "aarch64":
        return Check("architecture", "warning", f"{machine}: its tables were tested as data only")
    return Check("architecture", "warning", f"{machine}: not tested")


def _open_files(soft: int, hard: int) -> Check:
    found = f"soft {_limit(soft)}, hard {_limit(hard)}; awaitbox raises its own soft limit"
    if hard == -1 or hard >= _OPEN_FILES_WANTED:
        return Check("open files", "works", found)
    fix = f"ulimit -Hn {_OPEN_FILES_WANTED}: each background holds two or three of them"
    return Check("open files", "warning", found, fix)


def _limit(value: int) -> str:
    return "unlimited" if value == -1 else f"{value:,}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _user_namespaces() -> str:
    if not os.path.exists("/proc/self/ns/user"):
        return "not in this kernel"
    if _read("/proc/sys/user/max_user_namespaces") == "0":
        return "switched off (user.max_user_namespaces)"
    if _read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "switched off for users (kernel.unprivileged_userns_clone)"
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "restricted by AppArmor"
    return "in this kernel"


def _landlock() -> str:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    version = syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    if version > 0:
        return f"ABI {version}"
    return f"not there ({os.strerror(ctypes.get_errno())})"


def _seccomp() -> str:
    has_filters = "\nSeccomp_filters:" in _read("/proc/self/status")
    return "in this kernel" if has_filters else "not in this kernel"

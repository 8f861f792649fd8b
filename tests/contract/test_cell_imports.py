"""Imports: the standard library, the workspace, and clear errors for the rest; closed doors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker_driver import Driver, opened


def test_the_workspace_is_importable(tmp_path: Path) -> None:
    package = tmp_path / "pack" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("from .inner import deep\nx = deep.y + 1\n")
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("import math\ny = 1\n")
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "part.py").write_text("z = 3\n")
    with opened(tmp_path) as driver:
        assert driver.ok("import pack\npack.x") == "2"
        assert driver.ok("from pack.inner.deep import y\ny") == "1"
        assert driver.ok("from space import part\npart.z") == "3"
        driver.ok("open('new.py', 'w').write('a = 1\\n')\nimport new")
        driver.ok("open('new.py', 'w').write('a = 2\\n')")
        assert driver.ok("import importlib\nimportlib.reload(new).a") == "2"
        assert not list(tmp_path.rglob("__pycache__"))


def test_its_modules_keep_the_policy(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1\ndef f(): return f.__globals__\n")
    (tmp_path / "worse.py").write_text("import ctypes\n")
    (tmp_path / "verbs.py").write_text("async def f(): return await echo(3)\n")
    with opened(tmp_path) as driver:
        error = driver.error("import bad")
        assert error.type == "SyntaxError" and "bad.py" in error.traceback
        assert "shell_run" in driver.error("import worse").message
        assert driver.ok("import verbs\nawait verbs.f()") == "3"


def test_names_of_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("x = 'mine'\n")
    (tmp_path / "chunk_of_mine.py").write_text("")
    (tmp_path / "this.py").write_text("x = 'mine'\n")
    with opened(tmp_path) as driver:
        assert driver.ok("import json\njson.loads('1')") == "1"
        assert driver.ok("import this\nthis.x") == "'mine'"  # not loaded yet: as beside a script


@pytest.mark.parametrize("name", ["msgspec", "pytest", "awaitbox", "RestrictedPython", "psutil"])
def test_site_packages_are_named(driver: Driver, name: str) -> None:
    for code in (f"import {name}", f"from {name} import x", f"__import__('{name}')"):
        error = driver.error(code)
        assert error.type == "ImportError" and f"imports=['{name}']" in error.message


def test_what_is_nowhere_is_a_module_not_found(driver: Driver) -> None:
    assert driver.error("import no_such_module_anywhere").type == "ModuleNotFoundError"
    assert driver.error("import json.nope").type == "ModuleNotFoundError"
    assert driver.error("from json import nope").type == "ImportError"
    assert driver.ok("try: import numpy\nexcept ImportError: r = 1\nr") == "1"


@pytest.mark.parametrize(
    "code",
    [
        "import os.path, collections.abc as c, xml.etree.ElementTree, concurrent.futures",
        "import sqlite3, urllib.request, http.client, decimal, uuid, multiprocessing",
        "import trio, trio_asyncio, sniffio, outcome",
        "from math import *\nsqrt(4)",
        "import logging\nlogging.getLogger('x').warning('seen')",
        "import unittest, doctest, pdb, timeit, cProfile, tracemalloc",
    ],
)
def test_ordinary_imports(driver: Driver, code: str) -> None:
    driver.ok(code)


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.fork()",
        "import os\nos.forkpty()",
        "import os\nos.execv('/bin/true', ['true'])",
        "import os\nos.execvp('true', ['true'])",
        "import os\nos.spawnlp(os.P_WAIT, 'true', 'true')",
        "import os\nos.posix_spawn('/bin/true', ['true'], {})",
        "import posix\nposix.fork()",
        "import pty\npty.fork()",
        "import pty\npty.spawn('true')",
        "import multiprocessing\nmultiprocessing.Process(target=print).start()",
        "import multiprocessing\nmultiprocessing.Pool(2)",
        "import concurrent.futures as c\n"
        "with c.ProcessPoolExecutor() as e: e.submit(print).result()",
        "import ctypes",
        "import ctypes.util",
        "import _ctypes",
        "import _posixsubprocess",
        "import importlib\nimportlib.import_module('ctypes')",
        "import subprocess\nsubprocess._fork_exec()",
    ],
)
def test_closed_doors_name_the_verb(driver: Driver, code: str) -> None:
    error = driver.error(code)
    assert error.type == "PermissionError", error
    assert "shell_run" in error.message and "shell_background" in error.message

"""The shape of the code: arrows between the folders, no cycle, nothing too long, no vague names.

Imports count wherever they stand, in functions and under TYPE_CHECKING too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("host", "shims", "tools")
FILE_LINES = 400
FUNCTION_LINES = 60
VAGUE = {
    f"{name}{s}" for name in ("util", "helper", "common", "manager", "misc") for s in ("", "s")
}
ZYGOTE = "awaitbox.host.custody.zygote"  # its child becomes the worker
FRONT = "awaitbox.host.front"


def sources() -> dict[str, str]:
    """module name -> source, for all of ours."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("awaitbox", *parts)).removesuffix(".__init__")
            found[name] = path.read_text()
    return found


def imports(module: str, tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """The modules of ours that are imported; for `from package import name`, the one meant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("awaitbox"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("awaitbox"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module or ""


def is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def is_allowed(module: str, target: str) -> bool:
    """Whether the arrows of the folders let one module import the other."""
    if is_below(module, "awaitbox.shims"):
        return is_below(target, "awaitbox.shims")
    if is_below(target, "awaitbox.tools"):
        return is_below(module, "awaitbox.tools") or is_below(module, FRONT)
    if is_below(target, "awaitbox.shims"):
        is_child = module == ZYGOTE and target == "awaitbox.shims.worker"
        return is_child or (
            is_below(module, "awaitbox.host") and is_below(target, "awaitbox.shims.wire")
        )
    if is_below(target, FRONT):
        return is_below(module, FRONT)
    return is_below(target, "awaitbox.host") or is_below(module, FRONT)


def breaches(modules: Mapping[str, str]) -> list[str]:
    """Every breach in these sources, in words."""
    trees = {module: ast.parse(source) for module, source in modules.items()}
    found = []
    for module, tree in trees.items():
        for target in imports(module, tree, modules):
            if not is_allowed(module, target):
                found.append(f"{module} imports {target}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                found.append(f"{module}:{node.lineno} imports relatively")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    found.append(f"{module}.{node.name} has {lines} lines")
        lines = modules[module].count("\n")
        if lines > FILE_LINES:
            found.append(f"{module} has {lines} lines")
        if module.rpartition(".")[2] in VAGUE:
            found.append(f"{module} has a name that says nothing")
    edges = {
        module: sorted({t for t in imports(module, tree, modules) if t in modules and t != module})
        for module, tree in trees.items()
    }
    return found + [f"cycle: {' -> '.join(cycle)}" for cycle in cycles(edges)]


def cycles(edges: Mapping[str, list[str]]) -> list[list[str]]:
    """One cycle for each import that closes one, found depth first."""
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append([*path[path.index(module) :], module])
        elif module not in done:
            for target in edges[module]:
                visit(target, [*path, module])
            done.add(module)

    for module in edges:
        visit(module, [])
    return found


def test_no_breach() -> None:
    found = breaches(sources())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("modules", "breach"),
    [
        ({"shims.a": "import awaitbox.host.b"}, "awaitbox.shims.a imports awaitbox.host.b"),
        ({"shims.a": "from awaitbox.tools import b"}, "awaitbox.shims.a imports awaitbox.tools"),
        ({"shims.a": "import awaitbox"}, "awaitbox.shims.a imports awaitbox"),
        (
            {"host.a": "from awaitbox.shims import stub", "shims.stub": ""},
            "awaitbox.host.a imports awaitbox.shims.stub",
        ),
        (
            {"host.a": "def f():\n    import awaitbox.shims.worker"},
            "awaitbox.host.a imports awaitbox.shims.worker",
        ),
        ({"host.a": "from awaitbox import open_host"}, "awaitbox.host.a imports awaitbox"),
        ({"host.a": "import awaitbox.tools"}, "awaitbox.host.a imports awaitbox.tools"),
        (
            {"host.a": "if TYPE_CHECKING:\n    from awaitbox.host.front.cli import main"},
            "awaitbox.host.a imports awaitbox.host.front.cli",
        ),
        (
            {"tools.a": "from awaitbox.shims.wire import Call"},
            "awaitbox.tools.a imports awaitbox.shims.wire",
        ),
        ({"host.a": "from . import b"}, "awaitbox.host.a:1 imports relatively"),
        ({"host.a": "x = 1\n" * 401}, "awaitbox.host.a has 401 lines"),
        ({"host.a": "def f():\n" + "    x\n" * 60}, "awaitbox.host.a.f has 61 lines"),
        ({"host.utils": ""}, "awaitbox.host.utils has a name that says nothing"),
        (
            {
                "host.a": "import awaitbox.host.b",
                "host.b": "from awaitbox.host import c",
                "host.c": "def f():\n    from awaitbox.host.a import x",
            },
            "cycle: awaitbox.host.a -> awaitbox.host.b -> awaitbox.host.c -> awaitbox.host.a",
        ),
    ],
)
def test_each_breach_is_named(modules: dict[str, str], breach: str) -> None:
    assert breaches({f"awaitbox.{name}": text for name, text in modules.items()}) == [breach]


def test_what_is_allowed_is_no_breach() -> None:
    modules = {
        "awaitbox.shims.wire": "import msgspec",
        "awaitbox.shims.worker": "from awaitbox.shims.wire import Call",
        "awaitbox.host.verb": "from awaitbox.shims.wire import VerbSpec",
        ZYGOTE: "def child():\n    from awaitbox.shims.worker import main",
        f"{FRONT}.open": "from awaitbox.tools import ALL\nfrom awaitbox import __version__",
        "awaitbox.tools": "from awaitbox.tools.sleep import sleep",
        "awaitbox.tools.sleep": "from awaitbox.host.verb import verb",
    }
    assert breaches(modules) == []

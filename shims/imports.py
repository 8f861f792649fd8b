"""What a cell may import: the standard library, trio, and modules below the workspace.

Modules of the workspace are compiled by the same policy as cells, from their source each time, so
an edit shows after `importlib.reload` and no `__pycache__` appears beside them.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import decode_source
from types import CodeType, ModuleType
from typing import Any

from awaitbox.shims import doors
from awaitbox.shims.policy import check

HELPERS = frozenset(("trio", "trio_asyncio", "sniffio", "outcome"))
_STANDARD = sys.stdlib_module_names | {"__main__", "__future__"}


def _is_standard(top: str) -> bool:
    """Of the standard library; the list of its names lacks the build's facts, one a platform."""
    return top in _STANDARD or top.startswith("_sysconfigdata_")


class Imports(MetaPathFinder):
    """Judges names. `names` are packages of the host's environment that the embedder allows."""

    def __init__(self, workspace: str, scope: dict[str, Any], names: Iterable[str] = ()) -> None:
        self._workspace = workspace
        self._scope = scope  # the builtins of modules below the workspace
        self._allowed = _STANDARD | HELPERS | frozenset(names)
        self._ours: set[str] = set()  # modules that shadow the standard library from the workspace
        self._finders: dict[str, FileFinder] = {}
        self._import = builtins.__import__

    def install(self) -> None:
        """For this process and for good: the workspace comes first, as beside a script."""
        sys.path.insert(0, self._workspace)
        sys.meta_path.insert(0, self)
        sys.dont_write_bytecode = True
        self._scope["__import__"] = self.guarded

    def guarded(
        self,
        name: str,
        globals: dict[str, Any] | None = None,
        locals: dict[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`__import__` of cells and of the workspace's modules."""
        top = name.partition(".")[0] if isinstance(name, str) and not level else ""
        is_pickle = type(fromlist) is list and name in sys.modules  # C code that looks a class up
        if top and (not is_pickle or top in doors.MODULES):
            self._judge(top)
        return self._import(name, globals, locals, fromlist or (), level)

    def _judge(self, top: str) -> None:
        if top in doors.MODULES:
            raise doors.refusal(top)
        if _is_standard(top):
            if top not in sys.modules and self._in_workspace(top, None) is not None:
                self._ours.add(top)
            return
        if top in self._allowed:
            return
        if top in sys.modules and not self._is_below(sys.modules[top]):
            raise _not_allowed(top)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Called for every module that is not loaded yet, whoever imports it."""
        top = fullname.partition(".")[0]
        if top in doors.MODULES:
            raise doors.refusal(top)
        if _is_standard(top) and top not in self._ours:
            return None
        spec = self._in_workspace(fullname, path)
        if spec is not None:
            return spec
        if path is None and top not in self._allowed and self._is_site(top):
            raise _not_allowed(top)
        return None

    def _in_workspace(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        for entry in [self._workspace] if path is None else path:
            if entry != self._workspace and not entry.startswith(self._workspace + os.sep):
                continue
            finder = self._finders.get(entry)
            if finder is None:
                loaders: Any = (self._loader, SOURCE_SUFFIXES)
                finder = self._finders[entry] = FileFinder(entry, loaders)
            finder.invalidate_caches()  # a folder's time stamp is too coarse for a file just made
            spec = finder.find_spec(fullname)
            if spec is not None:
                return spec
        return None

    def _loader(self, fullname: str, path: str) -> PolicyLoader:
        return PolicyLoader(fullname, path, self._scope)

    def _is_below(self, module: ModuleType) -> bool:
        places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
        return any(str(place).startswith(self._workspace + os.sep) for place in places)

    def _is_site(self, top: str) -> bool:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(top, None)
                if spec is not None:
                    return True
        return False


class PolicyLoader(SourceFileLoader):
    """Source below the workspace."""

    def __init__(self, fullname: str, path: str, scope: dict[str, Any]) -> None:
        super().__init__(fullname, path)
        self._scope = scope

    def path_stats(self, path: Any) -> Any:
        raise OSError("bytecode of another compiler is not looked at")

    def source_to_code(  # type: ignore[override]
        self, data: Any, path: str, *, _optimize: int = -1
    ) -> CodeType:
        tree = ast.parse(data, path)
        check(tree, decode_source(data), path)
        code: CodeType = compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._scope
        super().exec_module(module)


def _not_allowed(top: str) -> ImportError:
    return ImportError(
        f"{top} is not importable in a cell: the standard library, trio and modules below the "
        f"workspace are. The host's owner can allow it with the option imports=[{top!r}]; "
        f"a program that needs it can be run with `await shell_run([...])`",
        name=top,
    )

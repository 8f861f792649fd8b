"""What tests of the file verbs share: a small world of folders, and calling a verb in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from awaitbox.host.context import Context
from awaitbox.host.descent import Descent
from awaitbox.host.paths import Roots
from awaitbox.host.verb import Verb


class World:
    """Workspace `ws`, scratch folder `tmp`, read root `read`, and `out`, which is out of reach."""

    def __init__(self, base: Path, *write_roots: Path) -> None:
        self.base = base.resolve()
        for name in ("ws", "tmp", "read", "out"):
            (self.base / name).mkdir()
        (self.base / "out/secret").write_text("s")
        (self.base / "read/r").write_text("r")
        self.ws = self.base / "ws"
        roots = Roots(
            self.ws,
            read_roots=[self.base / "read"],
            write_roots=write_roots,
            scratch=self.base / "tmp",
        )
        self.ctx = Context(session=None, backgrounds=None, machine=None, roots=roots)

    @classmethod
    @contextmanager
    def opened(cls, base: Path, *write_roots: Path) -> Iterator[World]:
        """A world that fails the test if a descriptor is left open at its end."""
        before = os.listdir("/proc/self/fd")
        yield cls(base, *write_roots)
        assert os.listdir("/proc/self/fd") == before

    async def __call__(self, verb: Verb, *values: Any, **arguments: Any) -> Any:
        """Call a verb as a cell does: positional values by the order of its parameters."""
        names = [parameter.name for parameter in verb.spec.parameters]
        given = {**dict(zip(names, values, strict=False)), **arguments}
        return await verb.run(self.ctx, verb.convert(given))

    def asked(self, verb: Verb, **arguments: Any) -> str | None:
        """What an approver would be asked."""
        assert verb.asks is not None
        return verb.asks(self.ctx, verb.convert(arguments))

    def build(self, *files: str) -> None:
        """Make files below the workspace, each with its own path as content; `a/` is a folder and
        `a -> b` a link."""
        for spec in files:
            name, arrow, target = spec.partition(" -> ")
            path = self.ws / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if arrow:
                path.symlink_to(target)
            elif name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.write_text(name)

    def deep(self, name: str, depth: int) -> None:
        """Make a folder that holds `depth` more, one in the other, deeper than any path can say."""
        with Descent(str(self.ws)) as at:
            for step in [name, *["d"] * depth]:
                os.mkdir(step, dir_fd=at.fd)
                at.down(step)

    def tree(self, below: str = "ws") -> dict[str, str]:
        """All that is below a folder: a file with its content, a link with its target, a folder as
        `/`, anything else as `?`."""
        found = {}
        top = self.base / below
        for folder, folders, files in os.walk(top):
            for name in folders + files:
                path = Path(folder, name)
                found[str(path.relative_to(top))] = shown(path)
        return found


def shown(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"-> {os.readlink(path)}"
    if stat.S_ISDIR(mode):
        return "/"
    return path.read_text() if stat.S_ISREG(mode) else "?"

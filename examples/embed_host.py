"""A host inside a trio program of your own.

    python examples/embed_host.py

open_host gives a host on a folder, open_session a namespace that lasts. on_output gets a cell's
output as it comes, approve is asked before anything is deleted, and host.call runs a verb without
a cell, as a model's native tool call would.
"""

import tempfile
from pathlib import Path

import trio

from awaitbox import Output, Request, open_host


def show(piece: Output) -> None:
    print(f"[{piece.stream}] {piece.text}", end="")


async def approve(request: Request) -> str:
    """Here a person would be asked; the text says what will happen."""
    print(f"asked: {request.text}")
    return "allow_once" if "old.log" in request.text else "deny"


async def main(workspace: Path) -> None:
    (workspace / "old.log").write_text("delete me\n")
    (workspace / "keep.txt").write_text("keep me\n")
    async with open_host(workspace, approve=approve) as host, host.open_session() as session:
        await session.execute("print('hello from a cell')", on_output=show)

        result = await session.execute("r = await shell_run('ls'); r['commands'][0]['stdout']")
        print("status:", result.status, "value:", result.value)

        result = await session.execute("await delete('old.log')\nawait delete('keep.txt')")
        assert result.error is not None
        print("status:", result.status, "error:", result.error["type"])

        answer = await host.call(session, "file_exists", {"paths": ["old.log", "keep.txt"]})
        print("left:", [row["path"] for row in answer["paths"] if row["is_exists"]])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, Path(folder))

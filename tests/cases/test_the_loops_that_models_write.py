"""The two waiting loops that the documentation teaches, word for word, on a real server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from awaitbox.host.session import Session
from tests.product import ok

SERVER = """\
const server = require("http").createServer((q, a) => a.end("served"));
server.listen(Number(process.env.PORT || 0), "127.0.0.1", () => {
  console.log("  Local:   http://127.0.0.1:" + server.address().port + "/");
});
"""
BOUNDED = """\
await shell_background(["npm run dev"], id="dev")
for _ in range(60):
    r = await shell_logs("dev")
    if any("Local:" in l for l in r["lines"]):
        break
    await sleep(1)
"""
OBSERVING = """\
await shell_background(["npm run dev"], id="dev")
while True:
    r = await shell_logs("dev")
    if any("Local:" in l for l in r["lines"]):
        break
    if any("EADDRINUSE" in l for l in r["lines"]):
        raise RuntimeError("port taken")   # <- what `until=` could never do
    await sleep(1)
"""
REQUEST = """\
import re, urllib.request
url = re.search(r"http://[^ ]+", "\\n".join(r["lines"]))[0]
urllib.request.urlopen(url, timeout=5).read()
"""

pytestmark = [
    pytest.mark.slow,  # a start of npm
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


@pytest.fixture(autouse=True)
def project(workspace: Path) -> None:
    (workspace / "package.json").write_text(json.dumps({"scripts": {"dev": "node server.js"}}))
    (workspace / "server.js").write_text(SERVER)


@pytest.mark.parametrize("loop", [BOUNDED, OBSERVING])
async def test_it_ends_when_the_server_is_up(session: Session, loop: str) -> None:
    await ok(session, loop)
    assert (await ok(session, REQUEST)).value == "b'served'"
    assert (await ok(session, "(await shell_stop('dev'))['status']")).value == "'stopped'"


async def test_it_gives_up_early_on_an_error_line(session: Session) -> None:
    await ok(session, "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()")
    port = (await ok(session, "s.getsockname()[1]")).value
    dev = f'["PORT={port} npm run dev"]'
    result = await session.execute(OBSERVING.replace('["npm run dev"]', dev))
    assert result.error is not None
    assert (result.error["type"], result.error["message"]) == ("RuntimeError", "port taken")

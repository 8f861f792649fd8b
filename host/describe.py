"""The prose that teaches a model the verbs, derived from those on offer: one that is toggled off is
named nowhere. Routing stands here, what one verb does in its own docstring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


class Offered(Protocol):
    """What is read of a verb here and in `host/schema.py`."""

    @property
    def name(self) -> str: ...
    @property
    def call(self) -> str: ...
    @property
    def result(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...


_FILE_VERBS = ("copy", "move", "delete", "create_directory", "file_exists")

_CELLS = (
    "Run one cell of Python. Names stay for later cells, `await` works at the top level, and the "
    "value of a last expression is shown. Every verb is a bare async function here that returns a "
    "plain dict; `help(verb)` prints its contract."
)
# Each sentence with the verbs it speaks of: it is said where all of them are offered.
_WAITING = (
    ("shell_background", "shell_logs"),
    "Waiting is control flow that you write here: shell_background, then shell_logs in a bounded "
    "loop that breaks on what it read (an error line, a parsed port), never a fixed sleep.",
)
_INDEPENDENT = ((), "Calls that do not need each other go together: `await gather(a, b)`.")
_POSIX = (
    ("shell_run",),
    "subprocess, os.system and asyncio.create_subprocess_* work and pass through the same door as "
    "shell_run.",
)

_ROUTES = (
    ((), "Read and write files in Python: open, pathlib."),
    (
        ("shell_run",),
        "Batch commands: one shell_run with all of them, never one call for each; then read "
        'r["commands"][i]["stdout"] in Python and print only what you need.',
    ),
    (
        ("shell_background", "shell_logs"),
        "Long-running work: shell_background, then poll shell_logs inside python_execution, in a "
        "bounded loop that breaks on what it read (an error line, a parsed port), never a fixed "
        "sleep; no verb waits for you.",
    ),
    (
        ("shell_background",),
        'session["resources"] maps each live or retained id to its kind and status.',
    ),
    _INDEPENDENT,
    _POSIX,
)

_LOOP = (
    ("shell_background", "shell_logs", "sleep"),
    """
    await shell_background(["npm run dev"], id="dev")
    for _ in range(60):
        r = await shell_logs("dev")
        if any("Local:" in line for line in r["lines"]) or r["status"] != "running":
            break
        await sleep(1)""",
)


def execution(verbs: Iterable[Offered]) -> str:
    """The description of the tool `python_execution`."""
    names = {verb.name for verb in verbs}
    return " ".join([_CELLS, *_said((_WAITING, _INDEPENDENT, _POSIX), names)])


def describe(verbs: Sequence[Offered]) -> str:
    """The text that teaches a model this tool: where which work goes, then each verb in a line."""
    names = {verb.name for verb in verbs}
    routes = [_files_route(names), *_said(_ROUTES, names)]
    return "\n".join(
        [
            f"python_execution(code): {_CELLS}",
            *(f"- {route}" for route in routes if route),
            *_said((_LOOP,), names),
            "",
            "Verbs, each a tool of its own too:",
            *(f"- {verb.call}{_arrow(verb)}: {verb.summary}" for verb in verbs),
            "",
        ]
    )


def verb_table(verbs: Iterable[Offered]) -> str:
    """A Markdown table of verbs: name, call, result keys, one line."""
    rows = [("verb", "call", "result", "what it does"), ("---",) * 4]
    for verb in verbs:
        result = f"`{verb.result}`" if verb.result else ""
        rows.append((f"`{verb.name}`", f"`{verb.call}`", result, verb.summary))
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "".join(f"| {line} |\n" for line in lines)


def _files_route(names: set[str]) -> str:
    """Names every file verb on offer: one that is left out gets done in a shell instead."""
    there = [f"`{name}`" for name in _FILE_VERBS if name in names]
    if not there:
        return ""
    programs = "; keep shell_run for running programs" if "shell_run" in names else ""
    return f"{'/'.join(there)} change and probe the file system{programs}."


def _said(sentences: Iterable[tuple[tuple[str, ...], str]], names: set[str]) -> list[str]:
    return [text for needed, text in sentences if names.issuperset(needed)]


def _arrow(verb: Offered) -> str:
    return f" -> {verb.result}" if verb.result else ""

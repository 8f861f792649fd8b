"""The prompt of the REPL: prompt_toolkit, with what it knows of Python. Runs in a thread.

Its event loop lives in that thread, and Ctrl-C at it is a key, not a signal: the terminal is in raw
mode there.
"""

from __future__ import annotations

import ast
import codeop
import contextlib
import keyword
import os
import re
from collections.abc import Iterable
from pathlib import Path

import platformdirs
import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from awaitbox.host.nursery import own_tasks

INDENT = "    "
_WORD = re.compile(r"(?<![.\w])[^\W\d]\w*$")
_compile = codeop.CommandCompiler()
_compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def is_incomplete(text: str) -> bool:
    """True if Enter shall start another line: the source goes on, or its last line is indented (a
    block ends with an empty line). What is wrong is complete; the worker says what is wrong."""
    if text.startswith(("!", ":")):
        return False
    try:
        if _compile(text, "<prompt>", "exec") is None:
            return True
    except (SyntaxError, ValueError, OverflowError):
        return False
    first, *more = text.split("\n")
    last = more[-1] if more else first
    return bool(more) and last[:1].isspace() and bool(last.strip())


class Names(Completer):
    """Completes a name that stands by itself from `names`, which another thread may replace."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset(keyword.kwlist)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        word = _WORD.search(document.text_before_cursor)
        if word is not None and not document.text.startswith(("!", ":")):
            for name in sorted(self.names):
                if name.startswith(word[0]):
                    yield Completion(name, start_position=-len(word[0]))


class _File(FileHistory):
    """A history file that may stop taking lines (a full disk); they stay in memory then."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


def open_history(folder: Path | None = None) -> History:
    """The history of this user, readable by nobody else; in memory where it can't be written."""
    folder = folder or Path(platformdirs.user_state_dir("awaitbox", appauthor=False))
    path = folder / "history"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return _File(str(path))


class Prompt:
    """One line editor, used again and again."""

    def __init__(self) -> None:
        self.completer = Names()
        self._session: PromptSession[str] = PromptSession(
            history=open_history(),
            completer=self.completer,
            complete_while_typing=False,
            multiline=True,
            prompt_continuation=lambda width, number, soft: "... ".rjust(width),
            key_bindings=_keys(),
        )

    async def read(self) -> str | None:
        """The next input: "" after Ctrl-C, None after Ctrl-D. A cancel ends the prompt and gives
        the terminal back."""
        async with own_tasks() as nursery:
            nursery.start_soon(self._leave_when_cancelled)
            text = await trio.to_thread.run_sync(self._prompt)
        return text

    def _prompt(self) -> str | None:
        try:
            return self._session.prompt(">>> ", handle_sigint=False)
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    async def _leave_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            app = self._session.app
            if app.loop is not None and app.is_running:
                app.loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=EOFError())


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_incomplete(buffer.text):
            buffer.insert_text("\n" + _indent(buffer))
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def another_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("tab", filter=Condition(_is_at_indent))
    def indent(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(INDENT)

    return keys


def _is_at_indent() -> bool:
    return not get_app().current_buffer.document.current_line_before_cursor.strip()


def _indent(buffer: Buffer) -> str:
    """The indent of the line that the cursor leaves, one step deeper behind a colon."""
    line = buffer.document.current_line_before_cursor
    indent = line[: len(line) - len(line.lstrip())]
    return indent + INDENT if line.rstrip().endswith(":") else indent

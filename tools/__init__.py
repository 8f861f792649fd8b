"""The verbs, one file each, in the order in which they are shown."""

from __future__ import annotations

from awaitbox.host.verb import Verb
from awaitbox.tools.files.copy import copy
from awaitbox.tools.files.create_directory import create_directory
from awaitbox.tools.files.delete import delete
from awaitbox.tools.files.file_exists import file_exists
from awaitbox.tools.files.move import move
from awaitbox.tools.shell.shell_background import shell_background
from awaitbox.tools.shell.shell_logs import shell_logs
from awaitbox.tools.shell.shell_run import shell_run
from awaitbox.tools.shell.shell_stop import shell_stop
from awaitbox.tools.shell.shell_type import shell_type
from awaitbox.tools.sleep import sleep

ALL: tuple[Verb, ...] = (
    shell_run,
    shell_background,
    shell_logs,
    shell_type,
    shell_stop,
    copy,
    move,
    delete,
    create_directory,
    file_exists,
    sleep,
)

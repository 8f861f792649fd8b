"""The options that every command with a session takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Common:
    """`cell_seconds` is None where the host's own bound holds."""

    workspace: str
    mode: str
    is_approving: bool
    is_json: bool
    cell_seconds: float | None


_OPTIONS = [
    click.option("--workspace", metavar="DIR", default=".", help="Its folder; here if not given."),
    click.option("--mode", default="full-access", help="full-access: nothing is confined."),
    click.option("--yes", is_flag=True, help="Allow everything that asks."),
    click.option("--json", is_flag=True, help="One JSON object a cell, output in it."),
    click.option(
        "--cell-seconds",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Stop a cell that runs longer.",
    ),
]


def common_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options above, as its first argument `common`."""

    @functools.wraps(function)
    def command(
        *, workspace: str, mode: str, yes: bool, json: bool, cell_seconds: float | None, **own: Any
    ) -> int:
        return function(Common(workspace, mode, yes, json, cell_seconds), **own)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command

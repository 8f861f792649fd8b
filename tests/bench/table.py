"""The table that a person reads, and the JSON that a program does."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.bench.statistic import Row

_SCALES = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def amount(value: float | None, unit: str) -> str:
    """Three significant digits; seconds in the unit that suits them."""
    if value is None:
        return ""
    if unit == "s":
        unit, scale = next((s for s in _SCALES if value * s[1] >= 1), _SCALES[-1])
        value *= scale
    return f"{value:.3g} {unit}".rstrip()


def show(rows: Sequence[Row], facts: dict[str, str]) -> None:
    table = Table(box=None)
    for heading in ("row", "what", "product", "floor", "ratio", "bound", "", "n"):
        table.add_column(heading, no_wrap=heading != "what")
    for row in rows:
        sign = "≥" if row.is_at_least else "≤"
        table.add_row(
            row.name,
            row.text,
            amount(row.product, row.unit),
            amount(row.floor, row.unit),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            "" if row.bound is None else f"{sign} {row.bound:g}",
            row.verdict,
            f"{row.rounds}",
        )
    console = Console()
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), style="dim")


def as_json(rows: Sequence[Row], facts: dict[str, str]) -> str:
    document = {
        "machine": facts,
        "rows": [row.as_json() for row in rows],
        "is_met": all(row.is_met for row in rows),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)

"""What a row of the table is made of: quartiles, ratios, verdicts.

The lower quartile is compared and not the mean: whatever disturbs a run only ever makes it slower,
so the lower end of the samples is what the code costs, while the very lowest one is luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


def lower_quartile(samples: Sequence[float]) -> float:
    """The value below which a quarter of `samples` lies, interpolated between neighbours."""
    return _quantile(samples, 0.25)


def upper_quartile(samples: Sequence[float]) -> float:
    """Of rates, where more is better, this is the undisturbed end."""
    return _quantile(samples, 0.75)


def _quantile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("no samples")
    at = (len(ordered) - 1) * share
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


@dataclass(frozen=True)
class Row:
    """One line of the table. `floor` is None for what is compared with nothing; then `bound` is one
    of `product` itself. `bound` is None for what is only printed."""

    name: str
    text: str
    unit: str
    product: float
    floor: float | None
    bound: float | None
    is_at_least: bool = False  # the bound is one from below: a rate
    rounds: int = 1

    @classmethod
    def of_samples(
        cls,
        name: str,
        text: str,
        unit: str,
        products: Sequence[float],
        floors: Sequence[float],
        *,
        bound: float | None,
        is_at_least: bool = False,
    ) -> Row:
        """Compare two equally long lists of samples, taken in turns."""
        if len(products) != len(floors):
            raise ValueError(f"{len(products)} samples beside {len(floors)} of the floor")
        quartile = upper_quartile if is_at_least else lower_quartile
        product, floor = quartile(products), quartile(floors)
        return cls(name, text, unit, product, floor, bound, is_at_least, len(products))

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.product / self.floor

    @property
    def is_met(self) -> bool:
        """Whether it holds its bound; exactly at it does."""
        if self.bound is None:
            return True
        value = self.product if self.ratio is None else self.ratio
        return value >= self.bound if self.is_at_least else value <= self.bound

    @property
    def verdict(self) -> str:
        if self.bound is None:
            return ""
        return "PASS" if self.is_met else "FAIL"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "verdict": self.verdict or None}

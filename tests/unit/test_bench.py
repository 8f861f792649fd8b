"""What the benchmarks say can be trusted as far as their arithmetic."""

from __future__ import annotations

import pytest

from tests.bench.pair import Pair, measure
from tests.bench.statistic import Row, lower_quartile, upper_quartile
from tests.bench.table import amount


@pytest.mark.parametrize(
    ("samples", "lower", "upper"),
    [
        ([7.0], 7.0, 7.0),
        ([4.0, 2.0], 2.5, 3.5),
        ([5.0, 1.0, 4.0, 2.0, 3.0], 2.0, 4.0),
        ([1.0, 1.0, 1.0, 100.0], 1.0, 25.75),
    ],
)
def test_quartiles_lie_between_neighbours(samples: list[float], lower: float, upper: float) -> None:
    assert lower_quartile(samples) == lower
    assert upper_quartile(samples) == upper


def test_no_samples_have_no_quartile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        lower_quartile([])


def test_times_are_compared_at_the_lower_end() -> None:
    row = Row.of_samples("x", "", "s", [6.0, 90.0, 6.0], [2.0, 2.0, 30.0], bound=3.0)
    assert (row.product, row.floor, row.ratio, row.rounds) == (6.0, 2.0, 3.0, 3)


def test_rates_are_compared_at_the_upper_end() -> None:
    row = Row.of_samples("x", "", "MB/s", [50, 50, 5], [100, 9, 100], bound=0.5, is_at_least=True)
    assert (row.product, row.floor, row.ratio, row.verdict) == (50, 100, 0.5, "PASS")


def test_samples_are_taken_in_turns_or_not_compared() -> None:
    with pytest.raises(ValueError, match="2 samples beside 1"):
        Row.of_samples("x", "", "s", [1.0, 2.0], [1.0], bound=None)


@pytest.mark.parametrize(
    ("product", "floor", "bound", "is_at_least", "verdict"),
    [
        (4.0, 1.0, 4.0, False, "PASS"),
        (4.01, 1.0, 4.0, False, "FAIL"),
        (0.5, 1.0, 0.5, True, "PASS"),
        (0.49, 1.0, 0.5, True, "FAIL"),
        (3.0, None, 3.0, False, "PASS"),
        (3.1, None, 3.0, False, "FAIL"),
        (99.0, 1.0, None, False, ""),
    ],
)
def test_a_verdict_holds_the_bound(
    product: float, floor: float | None, bound: float | None, is_at_least: bool, verdict: str
) -> None:
    row = Row("x", "", "s", product, floor, bound, is_at_least)
    assert row.verdict == verdict
    assert row.is_met is (verdict != "FAIL")
    assert row.as_json()["verdict"] == (verdict or None)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", ""),
        (1.5, "s", "1.5 s"),
        (0.00123, "s", "1.23 ms"),
        (24.04e-6, "s", "24 µs"),
        (0.0, "s", "0 µs"),
        (171.2, "MB/s", "171 MB/s"),
        (3.0, "", "3"),
    ],
)
def test_amounts(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text


async def test_product_and_floor_alternate() -> None:
    taken: list[str] = []

    def sample(name: str, value: float):
        async def take() -> float:
            taken.append(name)
            return value

        return take

    pairs = [
        Pair("a", "", "s", sample("a", 2.0), sample("A", 1.0), 2.0),
        Pair("b", "", "s", sample("b", 9.0), sample("B", 3.0), 2.0, most_rounds=1),
    ]
    rows = await measure(pairs, 2)
    assert "".join(taken) == "AaBb" + "aAbB" + "Aa"  # the first round only warms
    assert [(row.ratio, row.rounds, row.verdict) for row in rows] == [
        (2.0, 2, "PASS"),
        (3.0, 1, "FAIL"),
    ]

"""A product and its floor, measured in turns."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import trio

from tests.bench.statistic import Row

_REST_SECONDS = 0.003

Sample = Callable[[], Awaitable[float]]


@dataclass(frozen=True)
class Pair:
    """`product` and `floor` each take one sample, in `unit`."""

    name: str
    text: str
    unit: str
    product: Sample
    floor: Sample
    bound: float | None = None  # None: only printed
    is_at_least: bool = False
    most_rounds: int | None = None  # of what takes seconds a sample


@dataclass(frozen=True)
class Group:
    """Rows that share a host. `open` yields pairs, or rows that are no pairs; `wanted` are those
    names that somebody will look at."""

    names: tuple[str, ...]
    open: Callable[[str], AbstractAsyncContextManager[list[Pair] | list[Row]]]


async def measure(pairs: Sequence[Pair], rounds: int) -> list[Row]:
    """One sample of each pair in each round, so that what disturbs the machine meanwhile falls on
    product and floor alike; who is first changes from round to round. A round ahead warms both."""
    samples: dict[str, tuple[list[float], list[float]]] = {pair.name: ([], []) for pair in pairs}
    for number in range(rounds + 1):
        for pair in pairs:
            if pair.most_rounds is not None and number > pair.most_rounds:
                continue
            products, floors = samples[pair.name]
            order = [(pair.product, products), (pair.floor, floors)]
            for sample, kept in order if number % 2 else reversed(order):
                await _rest()
                value = await sample()
                if number:
                    kept.append(value)
    return [_row(pair, *samples[pair.name]) for pair in pairs]


async def _rest() -> None:
    """Until what a sample left to do, e.g. a fork ahead, is done. Busy, for a processor that idles
    is given other people's tasks."""
    until = time.perf_counter() + _REST_SECONDS
    while time.perf_counter() < until:
        await trio.lowlevel.checkpoint()


def _row(pair: Pair, products: list[float], floors: list[float]) -> Row:
    return Row.of_samples(
        pair.name,
        pair.text,
        pair.unit,
        products,
        floors,
        bound=pair.bound,
        is_at_least=pair.is_at_least,
    )

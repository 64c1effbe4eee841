"""Sums and differences of weighted sums of cell means, each of which is {cell: weight}."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def minus(of: Mapping[K, float], to: Mapping[K, float]) -> dict[K, float]:
    """Return the weights of the difference of two weighted sums: `of` minus `to`."""
    return weighted_sum([(of, 1.0), (to, -1.0)])


def weighted_sum(terms: Iterable[tuple[Mapping[K, float], float]]) -> dict[K, float]:
    """Return the weights of a sum of weighted sums; `terms` are (weights, factor)."""
    total: dict[K, list[float]] = {}
    for weights, factor in terms:
        for key, weight in weights.items():
            total.setdefault(key, []).append(factor * weight)
    return {key: math.fsum(parts) for key, parts in total.items()}

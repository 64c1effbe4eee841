"""Products of parameters. `make test` takes each level of each factor once; `make test-all` takes every combination."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def combinations(*factors: Iterable[Any]) -> list[Any]:
    """Every combination, with the mark `slow` on those that are not needed for each level to occur.

    Those without it lie on the diagonal: as many as the longest factor has levels."""
    levels = [list(factor) for factor in factors]
    diagonal = {tuple(each[step % len(each)] for each in levels) for step in range(max(map(len, levels)))}
    return [pytest.param(*values, marks=() if values in diagonal else pytest.mark.slow) for values in product(*levels)]


def one_of(levels: Iterable[Any], chosen: Any = None) -> list[Any]:
    """The levels of one factor, of which `make test` takes one: the first unless it is said."""
    every = list(levels)
    kept = every[0] if chosen is None else chosen
    assert kept in every
    return [level if level == kept else pytest.param(level, marks=pytest.mark.slow) for level in every]


def some(levels: Iterable[Any], every: int) -> list[Any]:
    """The levels of one long factor, of which `make test` takes one in so many."""
    return [
        level if at % every == 0 else pytest.param(level, marks=pytest.mark.slow) for at, level in enumerate(levels)
    ]

"""p-values of a family of tests, adjusted for the number of tests.

None stands for a test that could not be made: it stays None, and does not count towards the family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted to bound the probability of any false rejection; for planned comparisons.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979) 65-70."""

    def step_down(ordered: list[float]) -> list[float]:
        m = len(ordered)
        return list(accumulate(((m - rank) * p for rank, p in enumerate(ordered)), max))

    return _adjust_in_order(ps, step_down)


def benjamini_hochberg(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted to bound the expected fraction of false rejections among all; for screening.

    Source: Benjamini and Hochberg, Controlling the false discovery rate, J. R. Stat. Soc. B 57 (1995) 289-300."""

    def step_up(ordered: list[float]) -> list[float]:
        m = len(ordered)
        # Not `scipy.stats.false_discovery_control`: importing it takes longer than any table.
        return list(accumulate((m / rank * ordered[rank - 1] for rank in range(m, 0, -1)), min))[::-1]

    return _adjust_in_order(ps, step_up)


def _adjust_in_order(ps: Sequence[float | None], step: Callable[[list[float]], list[float]]) -> list[float | None]:
    """Apply `step` to the existing p-values in ascending order, and return the results in the original order."""
    ascending = sorted((p, at) for at, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    for (_, at), p in zip(ascending, step([p for p, _ in ascending]), strict=True):
        adjusted[at] = min(1.0, p)
    return adjusted

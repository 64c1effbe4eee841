"""Student's test, and the least p that it gives where nothing varies.

Measured values are quantised: by a clock, a counter, a format. A few of them are then easily equal by chance, and t is
infinite. Its p would be 0, which no correction for many tests can raise, and a family of tests would break its rate. In
that case p is the one of the exact permutation test instead: of all the ways to distribute the values over the two
sides, the observed one and its mirror image. Nothing is more extreme, so p is the least that this design can give, and
where both sides come from one distribution it is below any x with probability x at most.

Source: Fisher, The Design of Experiments (1935), section 21; Lehmann and Romano, Testing Statistical Hypotheses (3rd
ed., 2005), section 15.2."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Literal

Side = Literal["above", "below", "either"]


def t_p(estimate: float, error: float, df: float, least: float, side: Side = "either") -> float:
    """Return p by Student's t for an estimate being truly zero or, one-sided, being not above (not below) zero.

    `error` is the standard error. Where it is zero p is `least`, the two-sided p of `least_paired_p` or
    `least_unpaired_p`, and half of it one-sided; but 1 for an estimate of zero, or on the other side."""
    if error == 0:
        if side == "either":
            return least if estimate else 1.0
        return least / 2 if estimate and (estimate > 0) == (side == "above") else 1.0
    from scipy.special import stdtr

    if side == "either":
        return min(1.0, 2 * float(stdtr(df, -abs(estimate) / error)))
    return float(stdtr(df, (-estimate if side == "above" else estimate) / error))


def least_paired_p(n: int) -> float:
    """Return the least two-sided p of n differences within blocks, each of which might have either sign: 2^(1-n)."""
    return 2.0 ** (1 - n)


def least_unpaired_p(sizes: Sequence[int]) -> float:
    """Return the least two-sided p of independent samples: those of two sizes can be drawn in C(n + m, n) ways.

    For more samples, as in a contrast, the two smallest count: it is never more probable that all are constant but not
    all equal. One sample alone has signs only, as pairs do."""
    smallest = sorted(sizes)[:2]
    if len(smallest) < 2:
        return least_paired_p(*smallest)
    return min(1.0, 2 / math.comb(sum(smallest), smallest[0]))


def without_rounding(values: Sequence[float], size: float) -> list[float]:
    """Return sums and differences of numbers as large as `size`, made equal, or zero, where only rounding differs.

    0.012 - 0.013 and 0.010 - 0.011 differ in binary by the sixteenth digit, which is not a spread."""
    rounding = 4 * sys.float_info.epsilon * size
    if max(map(abs, values), default=0.0) <= rounding:
        return [0.0] * len(values)
    if max(values) - min(values) <= rounding:
        return [values[0]] * len(values)
    return list(values)

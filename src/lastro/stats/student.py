"""Student's test, and its p if nothing varies.

Measured values are quantised by a clock, a counter or a format. A few of them may be equal by chance, which makes t
infinite. Its p would be 0, which no correction for many tests can raise, so a family of tests would exceed its error
rate. In this case, p comes from the exact permutation test: 2 (the observed assignment of the values to the two sides,
and its mirror image), divided by the number of possible assignments. No assignment is more extreme, so this is the
least p that the design can give. If both sides have the same distribution, the probability of a p of at most x is at
most x.

Source: Fisher, The Design of Experiments (1935), section 21; Lehmann and Romano, Testing Statistical Hypotheses (3rd
ed., 2005), section 15.2."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Literal

Side = Literal["above", "below", "either"]


def t_p(estimate: float, error: float, df: float, least: float, side: Side = "either") -> float:
    """Return the p of Student's test of the hypothesis that the truth is zero or, if one-sided, not on this `side`.

    `error` is the standard error. If it is 0, p is `least` (of `least_paired_p` or `least_unpaired_p`) for a two-sided
    test, and half of `least` for a one-sided test. It is then 1 if the estimate is zero or on the other side."""
    if error == 0:
        if side == "either":
            return least if estimate else 1.0
        return least / 2 if estimate and (estimate > 0) == (side == "above") else 1.0
    from scipy.special import stdtr

    if side == "either":
        return min(1.0, 2 * float(stdtr(df, -abs(estimate) / error)))
    return float(stdtr(df, (-estimate if side == "above" else estimate) / error))


def least_paired_p(n: int) -> float:
    """Return the least two-sided p of n differences within blocks, whose signs are random: 2^(1-n)."""
    return 2.0 ** (1 - n)


def least_unpaired_p(sizes: Sequence[int]) -> float:
    """Return the least two-sided p of independent samples of these sizes: 2 / C(n + m, n) for two.

    For more than two samples, as in a contrast, the result is for the two smallest samples: an upper bound for the
    probability that all samples are constant but not all equal. For a single sample, only the signs of its values can
    vary, as for pairs."""
    smallest = sorted(sizes)[:2]
    if len(smallest) < 2:
        return least_paired_p(*smallest)
    return min(1.0, 2 / math.comb(sum(smallest), smallest[0]))


def without_rounding(values: Sequence[float], size: float) -> list[float]:
    """Return the values, which are sums or differences of numbers up to `size`, without rounding errors.

    All values become 0 if none exceeds the rounding error. All become equal if they differ only by the rounding error,
    as 0.012 - 0.013 and 0.010 - 0.011 do in the sixteenth digit."""
    rounding = 4 * sys.float_info.epsilon * size
    if max(map(abs, values), default=0.0) <= rounding:
        return [0.0] * len(values)
    if max(values) - min(values) <= rounding:
        return [values[0]] * len(values)
    return list(values)

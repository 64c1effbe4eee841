"""How much of a loss a protection recovers, over several hosts. Each host is one observation of a loss and of a gain.

Both are fractions of the larger of the host's two unprotected means, so that fast and slow hosts count equally; a host
that loses a larger fraction counts more. The spread over hosts includes both their true differences and the error of
each host. So no errors of single hosts are needed, and Student's test keeps its level (up to 5 %) even if these errors
are unequal.

The recovered fraction is the mean gain over the mean loss, with Fieller's interval of pairs (`ratios`).

Source: Ibragimov and Mueller, J. Bus. Econ. Stat. 28 (2010) 453-468, for the test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.stats.contrasts import NO_SPREAD
from lastro.stats.intervals import Estimate, describe
from lastro.stats.notes import UNBOUNDED, ZERO_DENOMINATOR, Note
from lastro.stats.ratios import paired_ratio
from lastro.stats.student import least_paired_p, t_p, without_rounding


@dataclass(frozen=True, slots=True)
class RecoveryEstimate:
    """A loss, a gain, and the fraction gain / loss; `n` of these estimates counts blocks of a campaign, or hosts."""

    loss: Estimate
    gain: Estimate
    fraction: Estimate


def estimate_recovery(losses: Sequence[float], gains: Sequence[float], confidence: float) -> RecoveryEstimate:
    """Return the mean loss, the mean gain and their ratio over hosts; `losses[i]` and `gains[i]` come from one host.

    Raises: ValueError for fewer than two hosts, or unequal lengths."""
    n = len(gains)
    if n < 2 or n != len(losses):
        raise ValueError(f"{len(losses)} losses and {n} gains: it takes two hosts, with one of each")
    size = max(1.0, *map(abs, losses), *map(abs, gains))
    losses, gains = without_rounding(losses, size), without_rounding(gains, size)
    gain, ratio = _mean(gains, confidence), paired_ratio(gains, losses, confidence)
    why = Note(ZERO_DENOMINATOR if ratio.value is None else UNBOUNDED) if ratio.unbounded else gain.absent_because
    ends = None if why else ratio.interval
    fraction = Estimate(ratio.value, ends, n, why, p=gain.p, df=gain.df)
    return RecoveryEstimate(_mean(losses, confidence), gain, fraction)


def _mean(values: Sequence[float], confidence: float) -> Estimate:
    """Return the mean with its interval and the p of a mean of zero; without an interval if the values are equal."""
    summary, n = describe(values, confidence), len(values)
    error = (summary.sd or 0.0) / math.sqrt(n)
    p = t_p(summary.mean, error, n - 1.0, least_paired_p(n))
    why = None if error else Note(NO_SPREAD)
    return Estimate(summary.mean, summary.interval if error else None, n, why, p=p, df=n - 1.0)

"""How much of a loss several hosts recover: each host is one observation, a pair of its gain and its loss.

Both are fractions of the host's own undisturbed mean, so that a fast host counts no more than a slow one. The spread of
the pairs has both parts in it: what hosts differ by, and the error of each. So no error of a single host is needed, and
hosts of unequal errors make the tests more conservative, not less (Benjamini, Commun. Stat. A 12 (1983) 2045-2063).

The recovered fraction is the mean gain over the mean loss, with Fieller's interval of pairs (`ratios`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.stats.contrasts import NO_SPREAD, UNBOUNDED, ZERO_DENOMINATOR, Contrast
from lastro.stats.intervals import Interval, sample_covariance, sample_mean, t_quantile
from lastro.stats.notes import Note
from lastro.stats.ratios import paired_ratio
from lastro.stats.student import least_paired_p, t_p, without_rounding


@dataclass(frozen=True, slots=True)
class Recovered:
    """The mean of the gains, and what fraction of the mean loss it is; `n` of both counts hosts."""

    gain: Contrast
    fraction: Contrast


def recovered(gains: Sequence[float], losses: Sequence[float], confidence: float) -> Recovered:
    """Return what hosts recover; `gains[i]` and `losses[i]` are those of one host. Raises: ValueError below two."""
    n, df = len(gains), len(gains) - 1.0
    if n < 2 or n != len(losses):
        raise ValueError(f"{n} gains and {len(losses)} losses: it takes two hosts, with one of each")
    gains = without_rounding(gains, 1.0)
    mean, error = sample_mean(gains), math.sqrt(sample_covariance(gains, gains) / n)
    p, half = t_p(mean, error, df, least_paired_p(n)), t_quantile(confidence, df) * error
    interval = Interval(mean - half, mean + half, confidence) if error else None
    gain = Contrast(mean, interval, p, df, n, "unpaired", None if error else Note(NO_SPREAD))
    ratio = paired_ratio(gains, losses, confidence)
    why = Note(ZERO_DENOMINATOR if ratio.value is None else UNBOUNDED) if ratio.unbounded else gain.absent_because
    return Recovered(gain, Contrast(ratio.value, ratio.interval if error else None, p, df, n, "unpaired", why))

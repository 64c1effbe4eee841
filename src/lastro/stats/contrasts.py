"""Weighted sums of cell means, and ratios of two of them, with their intervals: the base of every claim.

A cell holds the measurements of one treatment: {block: value}. Where the cells share their blocks, a contrast is
computed inside each block and only then averaged, so that effects of a block on all of its trials cancel. Else the
cells are independent samples whose variances may differ. Sources: Montgomery, Design and Analysis of Experiments (8th
ed.), sections 3.5 and 4.1; Welch, Biometrika 34 (1947) 28-35; Satterthwaite, Biometrics Bulletin 2 (1946) 110-114;
Fieller, J. R. Stat. Soc. B 16 (1954) 175-185."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lastro.stats.intervals import Interval, sample_covariance, sample_mean, satterthwaite, t_quantile
from lastro.stats.notes import Note
from lastro.stats.pairing import Pairing, blocks_to_pair
from lastro.stats.ratios import Moments, fieller_interval
from lastro.stats.student import least_paired_p, least_unpaired_p, t_p, without_rounding

if TYPE_CHECKING:
    from lastro.stats._cell_fit import CellFit

K = TypeVar("K", bound=Hashable)

# Why something is absent; the report's catalogues translate these.
NO_VALUES = "no values of {cells}"
NO_WEIGHT = "no cell has a weight"
ONE_VALUE = "a cell with one value: an interval needs 2 trials or more in each"
ZERO_DENOMINATOR = "the difference to compare with is zero"
UNBOUNDED = "unbounded: the difference to compare with is not distinguishable from zero"


@dataclass(frozen=True, slots=True)
class Contrast:
    """A weighted sum of cell means, in the unit of the values, or a ratio of two such sums, dimensionless.

    `p` is that of the null hypothesis that the sum (for a ratio: its numerator) is zero. `n` counts blocks when paired,
    else the values in all cells that have a weight. `absent_because` explains what is None."""

    value: float | None
    interval: Interval | None
    p: float | None
    df: float | None
    n: int
    pairing: Pairing
    absent_because: Note | None = None


def linear(weights: Mapping[K, float], cells: Mapping[K, Mapping[int, float]], confidence: float) -> Contrast:
    """Return the sum of weight times mean over the cells: {treated: 1, baseline: -1} is a difference of two means.

    Paired within blocks, with n - 1 degrees of freedom, when at least two blocks, and half of the blocks of each cell,
    hold every cell with a weight, as in `ratios.ratio_to_baseline`. Where three cells or more share blocks that are
    less complete, the effect of each block is estimated from all of them and removed (`_cell_fit.CellFit.separate`).
    Else unpaired, with the degrees of freedom of Welch and Satterthwaite. A cell without values makes the contrast
    absent, and its reason says so."""
    keys = _weighted(weights)
    if missing := _missing(keys, cells):
        return _absent(missing)
    blocks = blocks_to_pair([cells[key] for key in keys])
    if not blocks:
        adjusted = _block_adjusted(weights, keys, cells, confidence)
        return adjusted or _unpaired_linear(weights, _samples(keys, cells), confidence)
    return _paired_linear(_within_blocks(weights, cells, blocks), confidence)


def ratio_of_linears(
    numerator: Mapping[K, float],
    denominator: Mapping[K, float],
    cells: Mapping[K, Mapping[int, float]],
    confidence: float,
) -> Contrast:
    """Return the ratio of two weighted sums of cell means, with Fieller's interval; paired by the rule of `linear`.

    A cell may be in both sums: the covariance that it causes is accounted for. The interval is absent where the
    denominator is not distinguishable from zero, since the ratio is then unbounded."""
    keys = _weighted(numerator, denominator)
    if missing := _missing(keys, cells):
        return _absent(missing)
    blocks = blocks_to_pair([cells[key] for key in keys])
    if not blocks:
        adjusted = _block_adjusted_ratio(numerator, denominator, keys, cells, confidence)
        return adjusted or share(numerator, denominator, _samples(keys, cells), confidence)
    n = len(blocks)
    above, below = (_within_blocks(weights, cells, blocks) for weights in (numerator, denominator))
    var_a, var_b, cov = (sample_covariance(x, y) / n for x, y in ((above, above), (below, below), (above, below)))
    moments = Moments(sample_mean(above), sample_mean(below), var_a, var_b, cov, n - 1)
    return _ratio(_paired_linear(above, confidence), moments, confidence)


def share(
    numerator: Mapping[K, float],
    denominator: Mapping[K, float],
    cells: Mapping[K, Sequence[float]],
    confidence: float,
) -> Contrast:
    """Return the ratio of two weighted sums of means of independent cells, {key: values}, with Fieller's interval.

    Degrees of freedom by Satterthwaite's approximation for numerator - r denominator at the estimated ratio r (Tamhane
    and Logan, Biometrical Journal 46 (2004) 389-402)."""
    keys = _weighted(numerator, denominator)
    if missing := _missing(keys, cells):
        return _absent(missing)
    top, bottom = (_unpaired_linear(weights, cells, confidence) for weights in (numerator, denominator))
    top = replace(top, n=sum(len(cells[key]) for key in keys))
    a, b = top.value or 0.0, bottom.value or 0.0
    if b == 0 or min(len(cells[key]) for key in keys) < 2:
        absent = None if b == 0 else a / b
        why = Note(ZERO_DENOMINATOR if b == 0 else ONE_VALUE)
        return replace(top, value=absent, interval=None, df=None, absent_because=why)
    variances = {key: sample_covariance(cells[key], cells[key]) / len(cells[key]) for key in keys}
    w, v = ({key: weights.get(key, 0.0) for key in keys} for weights in (numerator, denominator))
    var_a, var_b, cov = (
        math.fsum(x[key] * y[key] * variances[key] for key in keys) for x, y in ((w, w), (v, v), (w, v))
    )
    parts = [(w[key] - a / b * v[key]) ** 2 * variances[key] for key in keys]
    df = satterthwaite(parts, [len(cells[key]) for key in keys])
    return _ratio(top, Moments(a, b, var_a, var_b, cov, df), confidence)


def from_standard_error(
    value: float, error: float, df: float, confidence: float, n: int, least: float, pairing: Pairing = "unpaired"
) -> Contrast:
    """Return a contrast with Student's interval, value ± t times its standard error, and the p of zero.

    Without any spread p is `least`, or 1 when the value is zero too (`student.t_p`)."""
    half = t_quantile(confidence, df) * error
    p = t_p(value, error, df, least)
    return Contrast(value, Interval(value - half, value + half, confidence), p, df, n, pairing)


def _weighted(*sums: Mapping[K, float]) -> list[K]:
    return list(dict.fromkeys(key for weights in sums for key, weight in weights.items() if weight))


def _missing(keys: Sequence[K], cells: Mapping[K, Sized]) -> Note | None:
    empty = [key for key in keys if not cells.get(key)]
    if not keys:
        return Note(NO_WEIGHT)
    return Note(NO_VALUES, cells="; ".join(map(_spoken, empty))) if empty else None


def _spoken(key: object) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _absent(why: Note) -> Contrast:
    return Contrast(None, None, None, None, 0, "unpaired", why)


def _within_blocks(
    weights: Mapping[K, float], cells: Mapping[K, Mapping[int, float]], blocks: Sequence[int]
) -> list[float]:
    terms = [[(weight, cells[key][block]) for key, weight in weights.items() if weight] for block in blocks]
    size = max((math.fsum(abs(weight * value) for weight, value in block) for block in terms), default=0.0)
    return without_rounding([_sum_of(block) for block in terms], size)


def _sum_of(terms: Iterable[tuple[float, float]]) -> float:
    """Return the sum of the products; zero when the rest is rounding alone, as with thirds of equal values."""
    products = [weight * value for weight, value in terms]
    total = math.fsum(products)
    return 0.0 if abs(total) <= 2 * sys.float_info.epsilon * math.fsum(map(abs, products)) else total


def _block_adjusted(
    weights: Mapping[K, float], keys: Sequence[K], cells: Mapping[K, Mapping[int, float]], confidence: float
) -> Contrast | None:
    """Return the contrast adjusted for blocks; None where the cells do not share enough blocks to estimate them."""
    if not (fit := _fit_of_shared_blocks(keys, cells)):
        return None
    estimate = fit.separate(weights)
    if estimate.apart or estimate.error is None or estimate.df is None:
        return None
    least = _least_of_shared_blocks(keys, cells)
    return from_standard_error(estimate.value, estimate.error, estimate.df, confidence, fit.n_blocks, least, "paired")


def _block_adjusted_ratio(
    numerator: Mapping[K, float],
    denominator: Mapping[K, float],
    keys: Sequence[K],
    cells: Mapping[K, Mapping[int, float]],
    confidence: float,
) -> Contrast | None:
    if not (fit := _fit_of_shared_blocks(keys, cells)) or not (moments := fit.ratio(numerator, denominator)):
        return None
    top = fit.separate(numerator)
    p = t_p(top.value, top.error or 0.0, top.df or moments.df, _least_of_shared_blocks(keys, cells))
    return _ratio(Contrast(None, None, p, None, fit.n_blocks, "paired"), moments, confidence)


def _fit_of_shared_blocks(keys: Sequence[K], cells: Mapping[K, Mapping[int, float]]) -> CellFit | None:
    """Return the fit for three cells or more: two show the effect of a block only where both were measured in it."""
    rows = [(key, block, value) for key in keys for block, value in cells[key].items()]
    if len(keys) < 3 or len({block for _, block, _ in rows}) == len(rows):
        return None
    from lastro.stats._cell_fit import CellFit

    of_cell, blocks, values = zip(*rows, strict=True)
    return CellFit.of(values, of_cell, blocks)


def _least_of_shared_blocks(keys: Sequence[K], cells: Mapping[K, Mapping[int, float]]) -> float:
    """Return the least p: where not every block holds every cell, the cell in the fewest blocks counts."""
    return least_paired_p(min(len(cells[key]) for key in keys))


def _samples(keys: Sequence[K], cells: Mapping[K, Mapping[int, float]]) -> dict[K, list[float]]:
    return {key: list(cells[key].values()) for key in keys}


def _paired_linear(by_block: Sequence[float], confidence: float) -> Contrast:
    n = len(by_block)
    error = math.sqrt(sample_covariance(by_block, by_block) / n)
    return from_standard_error(sample_mean(by_block), error, n - 1, confidence, n, least_paired_p(n), "paired")


def _unpaired_linear(weights: Mapping[K, float], cells: Mapping[K, Sequence[float]], confidence: float) -> Contrast:
    keys = _weighted(weights)
    n = sum(len(cells[key]) for key in keys)
    value = _sum_of((weights[key], sample_mean(cells[key])) for key in keys)
    if min((len(cells[key]) for key in keys), default=0) < 2:
        return Contrast(value, None, None, None, n, "unpaired", Note(ONE_VALUE))
    parts = [weights[key] ** 2 * sample_covariance(cells[key], cells[key]) / len(cells[key]) for key in keys]
    sizes = [len(cells[key]) for key in keys]
    error = math.sqrt(math.fsum(parts))
    return from_standard_error(value, error, satterthwaite(parts, sizes), confidence, n, least_unpaired_p(sizes))


def _ratio(numerator: Contrast, m: Moments, confidence: float) -> Contrast:
    """Return a contrast with the value, interval and df of the ratio, and p, n and pairing of its numerator."""
    if m.b == 0:
        return replace(numerator, value=None, interval=None, df=None, absent_because=Note(ZERO_DENOMINATOR))
    interval = fieller_interval(m, confidence)
    why = None if interval else Note(UNBOUNDED)
    return replace(numerator, value=m.a / m.b, interval=interval, df=m.df, absent_because=why)

"""One model for every comparison within a metric: a mean for each cell, additive blocks, and noise that may differ.

A cell holds the measurements of one treatment: {block: value}. If the logarithms of the values fit significantly better
(`LOGS_FIT_BETTER`), the logarithms are modelled: effects of cells and blocks then multiply. For values that cannot be
negative, any better fit is enough if otherwise the interval of some mean includes zero.

Means and blocks are fitted by least squares. With D the counts of the cells, B those of the blocks and N their table,
the blocks are solved first, from S = B - N' D^-1 N: one equation for each block, regardless of the number of cells.

Each cell has its own variance, estimated from its residuals and shrunk towards the pooled variance (`moderation`). So a
noisy third cell does not disturb a comparison of two quiet cells, which still has more degrees of freedom than these
two cells alone give.

Blocks of several campaigns are compared through cells that the campaigns have in common, or not at all.

Sources: Searle, Linear Models for Unbalanced Data (1987), section 9.3, for the fit; Grubbs, J. Am. Stat. Assoc. 43
(1948) 243-264, for a variance of each cell from residuals that all cells share; Satterthwaite, Biometrics Bulletin 2
(1946) 110-114, for degrees of freedom. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from lastro.stats._block_columns import BlockColumns, noise_of_cells
from lastro.stats._projections import ALIASED, ROUNDING, CentredValues, Codes, Floats, level_codes, sum_of_squares
from lastro.stats.intervals import Interval, t_quantile
from lastro.stats.ratios import ends_of_ratio
from lastro.stats.resolution import resolution, rounding
from lastro.stats.student import least_paired_p, least_unpaired_p
from lastro.stats.weights import minus

K = TypeVar("K", bound=Hashable)
Weights = Mapping[Any, float]
Cells = Mapping[K, Mapping[int, float]]

# Half the 95 % quantile of chi-squared with one degree of freedom: an advantage of logarithms that is not chance.
LOGS_FIT_BETTER = 1.92
# Blocks are left out of a comparison if, with equal noise, they would multiply its variance by more than this.
_COST_OF_BLOCKS = 2.0
_CONFIDENCE = 0.95  # of the intervals that show whether a mean is distinguishable from zero (`reaches_zero`)


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """A weighted sum of cell means, in the unit of the modelled values, which may be logarithms.

    `error` and `error_direction` are None if a cell has only one value, so that its noise is not known."""

    value: float
    error: float | None  # the standard error
    df: float  # degrees of freedom of `error`
    # A unit vector in the space of all noise: the scalar product of the vectors of two estimates is the correlation of
    # their errors.
    error_direction: Floats | None
    bias: float  # the most that rounding to the resolution of the tool may have added
    least_p: float  # the p to use if nothing varies (`student`)
    # Number of values; if `paired`, of the blocks that have values both of cells with positive weights and of cells
    # with negative weights.
    n: int
    paired: bool
    unlinked: bool = False  # no common cells link the campaigns that measured the cells, so there is no error


@dataclass(frozen=True, slots=True)
class BlockModel:
    """The fitted model of one metric: of the logarithms of the values if `log`, else of the values."""

    log: bool
    blocked: _Fit  # the fit with an effect for each block
    unblocked: _Fit  # the fit with an effect for each campaign instead
    step: float  # resolution of the values; 0 if they are exact
    raw: BlockModel | None = None  # the model of the values themselves; None unless `log`
    # The values are so by nature; then intervals of means and ratios do not extend below zero.
    non_negative: bool = False

    @classmethod
    def of(
        cls,
        cells: Cells[K],
        *,
        log: bool | None = None,
        campaigns: Mapping[int, int] | None = None,
        non_negative: bool = False,
        widths: Mapping[K, float] | None = None,
    ) -> BlockModel | None:
        """Fit the model to `cells`, which are {cell: {block: value}}; None if there are no values.

        `log` is True to model logarithms if all values are above zero, False never to model them, and None to model
        them if they fit better. `campaigns` are {block: campaign} if there are several. `widths` is for cells whose
        values are the middles of the grid intervals in which a search ended: {cell: mean width of these intervals}."""
        rows = [(cell, block, value) for cell, by_block in cells.items() for block, value in by_block.items()]
        if not rows:
            return None
        of_cell, of_block, values = zip(*rows, strict=True)
        index = {cell: at for at, cell in enumerate(dict.fromkeys(of_cell))}
        of_campaign = [campaigns[block] if campaigns else 0 for block in of_block]
        codes = _ValueCodes(index, level_codes(of_cell), level_codes(of_block), level_codes(of_campaign))
        step = resolution(values)
        grid = np.array([(widths or {}).get(cell, 0.0) / 2 for cell in index])
        linear = replace(cls._fit(values, codes, step, grid), non_negative=non_negative)
        if min(values) <= 0 or log is False:
            return linear
        logs = cls._fit([math.log(value) for value in values], codes, 0.0, grid)
        if log is None:
            gain = _gain_of_logs(linear.blocked, logs.blocked, values)
            needed = 0.0 if non_negative and linear.blocked.reaches_zero() else LOGS_FIT_BETTER
            if gain <= needed:
                return linear
        sizes = np.exp(logs.blocked.all_means)
        blocked, unblocked = (
            replace(fit, steps=step / sizes, grid=grid / sizes) for fit in (logs.blocked, logs.unblocked)
        )
        return cls(True, blocked, unblocked, step, raw=linear)

    @classmethod
    def _fit(cls, values: Sequence[float], codes: _ValueCodes, step: float, grid: Floats) -> BlockModel:
        """Fit the values as they are (which may be logarithms), with and without blocks.

        `grid` has for each cell half the step of the grid in which a search found its values."""
        blocked = _Fit.of(values, codes, step, grid)
        if blocked.n_blocks == 1:
            return cls(False, blocked, blocked, step)
        return cls(False, blocked, _Fit.of(values, replace(codes, block=codes.campaign), step, grid), step)

    @property
    def linear(self) -> BlockModel:
        """The model of the values themselves, whose means are arithmetic; this model itself unless `log`."""
        return self.raw or self

    def is_bounded_by_zero(self, weights: Weights) -> bool:
        """Return whether a weighted sum of cell means cannot be negative."""
        return self.non_negative and min(weights.values(), default=0.0) >= 0

    def estimate(self, weights: Weights) -> CellEstimate:
        """Estimate a weighted sum of cell means. Raises: KeyError for a cell without values."""
        fit, weighted = self._fit_and_sum(weights)
        return fit.estimate(weighted)

    def ratio(self, of: Weights, to: Weights, critical: float) -> tuple[float | None, Interval | None]:
        """Return the ratio of the weighted sums `of` and `to`, and its interval by Fieller's method; not on logarithms.

        The interval is the set of ratios r for which `of` - r `to` is within `critical` standard errors of zero, plus
        what rounding may have added. The ratio is None if `to` is zero; the interval is None if `to` is not
        distinguishable from zero. The confidence of the interval is NaN: only the caller knows it."""
        fit, _ = self._fit_and_sum(minus(of, to))
        value, interval = fit.ratio(fit.sum_of(of), fit.sum_of(to), critical)
        if interval is not None and self.is_bounded_by_zero(of) and self.is_bounded_by_zero(to):
            interval = interval.above_zero()
        return value, interval

    def difference(self, of: Weights, to: Weights) -> CellEstimate:
        """Estimate the difference of the weighted sums `of` and `to`, with the degrees of freedom of their ratio.

        Not on logarithms. The degrees of freedom of `of` - r `to` depend on the ratio r. The smaller number of r = 1
        and r = the estimated ratio is used, so that the test and the interval agree."""
        fit, weighted = self._fit_and_sum(minus(of, to))
        estimate = fit.estimate(weighted)
        a, b = fit.sum_of(of), fit.sum_of(to)
        if estimate.error is None or b.value == 0:
            return estimate
        at_ratio = fit.sum_of(minus(of, {key: a.value / b.value * weight for key, weight in to.items()}))
        return replace(estimate, df=min(estimate.df, fit.freedom_of(at_ratio)))

    def _fit_and_sum(self, weights: Weights) -> tuple[_Fit, _WeightedSum]:
        """Return the fit to use for a weighted sum, and the sum by that fit.

        It is the fit without blocks if the blocks do not link the cells, or if they cost too much precision. Only the
        design decides, never the values."""
        blocked = self.blocked.sum_of(weights)
        if not blocked.unlinked and (self.blocked.design.complete or not np.any(blocked.block_weights)):
            return self.blocked, blocked
        unblocked = self.unblocked.sum_of(weights)
        most = (_COST_OF_BLOCKS + ROUNDING) * self.unblocked.cost(unblocked)
        if blocked.unlinked or self.blocked.cost(blocked) > most:
            return self.unblocked, unblocked
        return self.blocked, blocked


def _gain_of_logs(linear: _Fit, logs: _Fit, values: Sequence[float]) -> float:
    """Return how much better the logarithms fit than the values, as a difference of log-likelihoods.

    The log-likelihoods are those of Box and Cox's transformation with lambda 0 (logarithms) and 1 (values). If the
    difference is above `LOGS_FIT_BETTER`, the 95 % interval of lambda excludes 1: effects and errors multiply rather
    than add. It is minus infinity without degrees of freedom, or where one of the two models leaves no residuals.

    Source: Box and Cox, An analysis of transformations, J. R. Stat. Soc. B 26 (1964) 211-252, section 3."""
    squares = [fit.squares for fit in (linear, logs)]
    if linear.df == 0 or min(squares) == 0:
        return -math.inf
    gain = len(values) / 2 * (math.log(squares[0]) - math.log(squares[1])) + len(values) * math.log(linear.data.scale)
    gain -= len(values) * math.log(logs.data.scale)
    return gain - math.fsum(map(math.log, values))


@dataclass(frozen=True, slots=True)
class _ValueCodes:
    """The cell, block and campaign of each value, as indices. `index` is {cell: its index}."""

    index: dict[Hashable, int]
    cell: Codes
    block: Codes
    campaign: Codes


@dataclass(frozen=True, slots=True)
class _WeightedSum:
    """A weighted sum of cell means, in the scaled unit (`CentredValues`), with the weights that determine its error."""

    value: float
    cells: Codes  # indices of the cells whose `weights` are not zero
    weights: Floats
    total: float  # sum of the weights
    # Weights of the block columns, which adjust for blocks that lack some cell; zero or empty if every block has all
    # cells.
    block_weights: Floats
    unlinked: bool  # no blocks link the cells


@dataclass(frozen=True, slots=True)
class _Fit:
    """A least-squares fit: means of cells and effects of blocks, in the scaled unit (`CentredValues`).

    `means`, `variances`, `variance_df`, `residual_df`, `steps` and `grid` are arrays over cells. `steps` and `grid` are
    in the unit of the values. The covariance of the block columns is `root` times its transpose."""

    index: dict[Hashable, int]
    means: Floats
    design: BlockColumns
    effects: Floats  # of blocks
    squares: float  # sum of squares of all residuals
    df: int  # degrees of freedom of `squares`
    data: CentredValues
    variances: Floats  # of one value
    variance_df: Floats  # degrees of freedom of `variances`
    residual_df: Floats  # degrees of freedom of the cell's residuals
    own_variances: Floats  # from the residuals of one cell only, for each cell whose `residual_df` is above zero
    root: Floats
    block_variance: float  # of the mean of the block `effects`
    steps: Floats  # resolution of readings
    grid: Floats  # how far a search may have missed the mean

    @classmethod
    def of(cls, values: Sequence[float], codes: _ValueCodes, step: float, grid: Floats) -> _Fit:
        """Fit cell means and block effects by least squares; estimate each cell's noise from its residuals."""
        data = CentredValues.of(values)
        index, cell_of, block_of = codes.index, codes.cell, codes.block  # the latter two of each value
        table = np.zeros((len(index), int(block_of.max()) + 1))
        np.add.at(table, (cell_of, block_of), 1)
        design = BlockColumns.of(table)
        counts, whiten = design.counts, design.whiten
        sums = np.bincount(cell_of, weights=data.y)
        effects = whiten @ (whiten.T @ (np.bincount(block_of, weights=data.y) - table.T @ (sums / counts)))
        means = (sums - table @ effects) / counts
        residuals = data.y - means[cell_of] - effects[block_of]
        df = len(values) - len(index) - whiten.shape[1]
        squares = sum_of_squares(residuals, len(values)) if df > 0 else 0.0
        cell_squares = np.zeros(len(index))
        if squares:
            cell_squares += np.bincount(cell_of, weights=residuals**2, minlength=len(index))
        variances, variance_df, residual_df = noise_of_cells(cell_squares, design)
        has_own = residual_df > ALIASED
        block_variance = float(np.var(effects, ddof=1)) / len(effects) if len(effects) > 1 else 0.0
        return cls(
            index, means, design, effects, squares, df, data, variances, variance_df, residual_df,
            cell_squares[has_own] / residual_df[has_own], design.root(variances), block_variance,
            np.full(len(index), step), grid,
        )  # fmt: skip

    @property
    def n_blocks(self) -> int:
        return len(self.effects)

    @property
    def all_means(self) -> list[float]:
        """The means of the cells, in the unit of the values."""
        return [self.data.mean + self.data.scale * float(mean) for mean in self.means]

    def reaches_zero(self) -> bool:
        """Return whether the interval of some cell's mean includes zero, at a confidence of `_CONFIDENCE`."""
        known = self.residual_df > ALIASED
        errors = np.sqrt(self.variances / self.design.counts + self.block_variance) * self.data.scale
        critical = [t_quantile(_CONFIDENCE, df) if df > 0 else 0.0 for df in self.variance_df.tolist()]
        return bool(np.any(known & (np.abs(self.all_means) <= errors * critical)))

    def sum_of(self, weights: Weights) -> _WeightedSum:
        """Return the weighted sum of the cell means. Raises: KeyError for a cell without values."""
        used = {cell: weight for cell, weight in weights.items() if weight}
        cells = np.fromiter((self.index[cell] for cell in used), dtype=np.intp, count=len(used))
        w = np.fromiter(used.values(), dtype=float, count=len(used))
        size, total = float(np.abs(w).sum()), float(w.sum())
        total = total if abs(total) > ROUNDING * size else 0.0
        centred, mean = float(w @ self.means[cells]), total * (self.data.mean / self.data.scale)
        centred = 0.0 if abs(centred) <= ROUNDING * size else centred
        value = centred + mean
        value = 0.0 if abs(value) <= ROUNDING * max(abs(centred), abs(mean)) else value
        if self.design.complete:
            return _WeightedSum(value, cells, w, total, np.zeros(0), unlinked=False)
        by_block = self.design.table[cells].T @ (w / self.design.counts[cells])
        block_weights = self.design.whiten.T @ by_block
        if not np.any(np.abs(block_weights) > ALIASED * size / len(self.design.counts)):
            unlinked = float(np.ptp(by_block)) > ALIASED * size
            return _WeightedSum(value, cells, w, total, np.zeros_like(block_weights), unlinked)
        effects = self.design.whiten @ block_weights
        # The part that differences of blocks cannot adjust is equal in all blocks, unless some blocks are not linked.
        adjusted = self.design.table.sum(axis=0) * effects - self.design.table.T @ (
            (self.design.table @ effects) / self.design.counts
        )
        unlinked = float(np.ptp(by_block - adjusted)) > ALIASED * size
        return _WeightedSum(value, cells, w, total, block_weights, unlinked)

    def cost(self, weighted: _WeightedSum) -> float:
        """Return the variance that a sum would have if every value had variance 1 and blocks did not vary."""
        of_blocks = weighted.block_weights @ weighted.block_weights
        return float(np.sum(weighted.weights**2 / self.design.counts[weighted.cells]) + of_blocks)

    def estimate(self, weighted: _WeightedSum) -> CellEstimate:
        """Return the sum with its error, in the unit of the values; without an error if the noise is not known."""
        value = weighted.value * self.data.scale
        blocked = self.n_blocks > 1 and float(self.design.table.max()) <= 1
        sizes = [int(count) for count in self.design.counts[weighted.cells]]
        n_paired = self._n_paired_blocks(weighted) if blocked else 0
        n, paired = n_paired or sum(sizes), n_paired > 0
        least_p = least_paired_p(min(sizes, default=1)) if blocked else least_unpaired_p(sizes or [1])
        unlinked = weighted.unlinked and not weighted.total
        if unlinked or not self._has_known_noise(weighted):
            return CellEstimate(value, None, 0.0, None, 0.0, least_p, n, paired, unlinked)
        error_parts = self._error_parts(weighted)
        error = float(np.sqrt(error_parts @ error_parts))
        direction = error_parts / error if error else np.zeros_like(error_parts)
        bias, df = self._bias(weighted) * self.data.scale, self.freedom_of(weighted)
        return CellEstimate(value, error * self.data.scale, df, direction, bias, least_p, n, paired)

    def ratio(self, a: _WeightedSum, b: _WeightedSum, critical: float) -> tuple[float | None, Interval | None]:
        """Return a / b (None if b is zero), and its interval by Fieller's method, as `BlockModel.ratio` does."""
        if b.value == 0:
            return None, None
        if not (self._has_known_noise(a) and self._has_known_noise(b)):
            return a.value / b.value, None
        x, y = self._error_parts(a), self._error_parts(b)
        covariances = [float(x @ x), float(y @ y), float(x @ y)]
        biases = self._bias(a), self._bias(b)
        ends = ends_of_ratio(a.value, b.value, covariances, critical, biases)
        return a.value / b.value, None if ends is None else Interval(*ends, math.nan)

    def _n_paired_blocks(self, weighted: _WeightedSum) -> int:
        """Return the number of blocks in which cells of both signs of weights have a value.

        If all weights have the same sign, return the number of blocks in which any weighted cell has a value."""
        if self.design.complete and len(weighted.cells):
            return self.n_blocks
        signs = [weighted.cells[sign * weighted.weights > 0] for sign in (1, -1)]
        sides = [self.design.table[cells].sum(axis=0) > 0 for cells in signs if len(cells)]
        return int(np.count_nonzero(np.logical_and.reduce(sides))) if sides else 0

    def _has_known_noise(self, weighted: _WeightedSum) -> bool:
        """Return whether every cell with a weight has residuals, from which its noise is estimated."""
        return self.df > 0 and not np.any(self.residual_df[weighted.cells] < ALIASED)

    def _bias(self, weighted: _WeightedSum) -> float:
        """Return how far rounding and searches may have moved a sum.

        Rounding moves a cell by up to half a step of its readings, if its noise is smaller than that. A search moves it
        by up to half an interval of its grid, regardless of noise, since it may miss on the same side each time."""
        moved = rounding(np.sqrt(self.variances[weighted.cells]), self.steps[weighted.cells] / self.data.scale)
        return float(np.abs(weighted.weights) @ np.maximum(moved, self.grid[weighted.cells] / self.data.scale))

    def _error_parts(self, weighted: _WeightedSum) -> Floats:
        """Return the error of a sum as a vector of independent parts, whose Euclidean norm is the standard error.

        The parts are in the scaled unit: one for each cell, then those from the adjustment for blocks, then one because
        the blocks are a sample."""
        parts = np.zeros(len(self.design.counts) + len(weighted.block_weights) + 1)
        parts[weighted.cells] = weighted.weights * np.sqrt(
            self.variances[weighted.cells] / self.design.counts[weighted.cells]
        )
        if not self.design.complete:
            parts[len(self.design.counts) : -1] = weighted.block_weights @ self.root
        parts[-1] = weighted.total * math.sqrt(self.block_variance)
        return parts

    def freedom_of(self, weighted: _WeightedSum) -> float:
        """Return Satterthwaite's degrees of freedom of a sum; for a difference, at most those of the residuals."""
        variances = self.variances[weighted.cells] if np.any(self.variances) else np.ones(len(weighted.cells))
        parts = weighted.weights**2 * variances / self.design.counts[weighted.cells]
        adjustment = 0.0 if self.design.complete else float(np.sum((weighted.block_weights @ self.root) ** 2))
        within = float(parts.sum()) + adjustment
        used = parts > 0
        if within == 0:
            return float(self.df)
        of_cells = float(np.sum(parts[used] ** 2 / self.variance_df[weighted.cells][used])) + adjustment**2 / self.df
        df = min(float(self.df), within**2 / of_cells)
        of_blocks = weighted.total**2 * self.block_variance
        if of_blocks == 0:
            return df
        return (within + of_blocks) ** 2 / (within**2 / df + of_blocks**2 / (self.n_blocks - 1))

"""One model for every comparison within a metric: a mean for each cell, additive blocks, and noise that may differ.

A cell holds the measurements of one treatment: {block: value}. Where the logarithms of the values fit significantly
better (`LOGS_FIT_BETTER`), they are modelled instead: effects of cells and blocks then multiply. Any better fit is
enough where the values would leave open whether a mean is above zero that cannot be below.

Means and blocks are fitted by least squares. With D the counts of the cells, B those of the blocks and N their table,
the blocks are solved first, from S = B - N' D^-1 N: one equation for each block, regardless of the number of cells.

Each cell has its own variance, estimated from its residuals and drawn towards the pooled one (`moderation`). So a
comparison of two quiet cells does not suffer from a noisy third one, and yet has more degrees of freedom than its own
few blocks give.

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
from lastro.stats._fieller import ends_of_ratio
from lastro.stats._projections import ALIASED, ROUNDING, CentredValues, Codes, Floats, coded, varying
from lastro.stats.intervals import Interval, t_quantile
from lastro.stats.resolution import resolution, rounding
from lastro.stats.student import least_paired_p, least_unpaired_p
from lastro.stats.weights import less

K = TypeVar("K", bound=Hashable)
Weights = Mapping[Any, float]
Cells = Mapping[K, Mapping[int, float]]

# Half the 95 % quantile of chi-squared with one degree of freedom: an advantage of logarithms that is not chance.
LOGS_FIT_BETTER = 1.92
# Blocks are left out where they would take more than this many times the variance that equal noise has without them.
_COST_OF_BLOCKS = 2.0
_CONFIDENCE = 0.95  # of an interval of a mean that shows its sign, and so does not ask for logarithms


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """A weighted sum of cell means, in the unit of the modelled values, which may be logarithms.

    `error` is the standard error; it and `loads` are None where a cell has one value, so that its noise is not known.
    `loads` is the error as a vector of length one: the scalar product of two estimates is their correlation. `bias` is
    the most that rounding to the resolution of the tool may have added. `least` is the least p without any spread
    (`student`). `n` counts the blocks with values of both signs of weights where `paired`, else the values. If `apart`,
    nothing links the campaigns that measured the cells, and there is no error."""

    value: float
    error: float | None
    df: float
    loads: Floats | None
    bias: float
    least: float
    n: int
    paired: bool
    apart: bool = False


@dataclass(frozen=True, slots=True)
class BlockModel:
    """The model of one metric; `linear` is that of the values themselves, which is `self` unless `log`.

    `unblocked` has one effect for each campaign in the place of those of its blocks. `step` is the resolution of the
    values; 0 if they are exact. Values that are `non_negative` by nature have means and ratios that are, too: their
    intervals end at zero."""

    log: bool
    blocked: _Fit
    unblocked: _Fit
    step: float
    raw: BlockModel | None = None
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
        """Fit the model: of logarithms if `log` and all values are above zero, else on the scale that fits better.

        False prevents logarithms. `campaigns` are {block: campaign} if there are several. `widths` are how wide the
        cells of a grid are in which a search found the values of each cell; values are their middles. None without a
        value."""
        rows = [(cell, block, value) for cell, own in cells.items() for block, value in own.items()]
        if not rows:
            return None
        of_cell, of_block, values = zip(*rows, strict=True)
        index = {cell: at for at, cell in enumerate(dict.fromkeys(of_cell))}
        of_campaign = [campaigns[block] if campaigns else 0 for block in of_block]
        places = _Places(index, coded(of_cell), coded(of_block), coded(of_campaign))
        step = resolution(values)
        grid = np.array([(widths or {}).get(cell, 0.0) / 2 for cell in index])
        linear = replace(cls._on(values, places, step).on_grid(grid), non_negative=non_negative)
        if min(values) <= 0 or log is False:
            return linear
        logs = cls._on([math.log(value) for value in values], places, 0.0)
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
    def _on(cls, values: Sequence[float], places: _Places, step: float) -> BlockModel:
        blocked = _Fit.of(values, places, step)
        if blocked.n_blocks == 1:
            return cls(False, blocked, blocked, step)
        return cls(False, blocked, _Fit.of(values, replace(places, block=places.campaign), step), step)

    def on_grid(self, grid: Floats) -> BlockModel:
        """Return the model of values that a search found, with half the width of its cells for each cell."""
        blocked, unblocked = (replace(fit, grid=grid) for fit in (self.blocked, self.unblocked))
        return replace(self, blocked=blocked, unblocked=unblocked)

    @property
    def linear(self) -> BlockModel:
        return self.raw or self

    @property
    def own_variances(self) -> Floats:
        """The variance of each cell by its own residuals alone, in a unit that does not matter, where it is known."""
        return self.blocked.own_variances

    def bounded_by_zero(self, weights: Weights) -> bool:
        """Return whether a weighted sum of cell means cannot be negative."""
        return self.non_negative and min(weights.values(), default=0.0) >= 0

    def estimate(self, weights: Weights) -> CellEstimate:
        """Estimate a weighted sum of cell means. Raises: KeyError for a cell without values."""
        fit, weighted = self._fitted(weights)
        return fit.estimate(weighted)

    def ratio(self, of: Weights, to: Weights, critical: float) -> tuple[float | None, Interval | None]:
        """Return the ratio of two weighted sums, not on logarithms, and its interval, by Fieller's method.

        The interval is the set of ratios r for which `of` - r `to` is within `critical` standard errors of zero, with
        what rounding may have added. None for a `to` of zero, or one that is not distinguishable from zero."""
        fit, _ = self._fitted(less(of, to))
        value, ends = fit.ratio(fit.sum_of(of), fit.sum_of(to), critical)
        bounded = ends is not None and self.bounded_by_zero(of) and self.bounded_by_zero(to)
        return value, ends.above_zero() if ends is not None and bounded else ends

    def difference(self, of: Weights, to: Weights) -> CellEstimate:
        """Estimate a difference, not on logarithms, with the degrees of freedom of the ratio.

        They are the fewest at the ratio of 1 and at the estimated one, so that a test and an interval agree."""
        fit, own = self._fitted(less(of, to))
        found = fit.estimate(own)
        a, b = fit.sum_of(of), fit.sum_of(to)
        if found.error is None or b.value == 0:
            return found
        at_ratio = fit.sum_of(less(of, {key: a.value / b.value * weight for key, weight in to.items()}))
        return replace(found, df=min(found.df, fit.freedom_of(at_ratio)))

    def _fitted(self, weights: Weights) -> tuple[_Fit, _Sum]:
        """Return the fit to use and the sum: without blocks where they keep the cells apart, or cost too much.

        That is decided by the design alone, and never by the values."""
        own = self.blocked.sum_of(weights)
        if not own.apart and (self.blocked.complete or not np.any(own.across)):
            return self.blocked, own
        alone = self.unblocked.sum_of(weights)
        dear = self.blocked.cost(own) > (_COST_OF_BLOCKS + ROUNDING) * self.unblocked.cost(alone)
        return (self.unblocked, alone) if own.apart or dear else (self.blocked, own)


def _gain_of_logs(linear: _Fit, logs: _Fit, values: Sequence[float]) -> float:
    """Return by how much better logarithms fit than values: the difference of the log-likelihoods at lambda 0 and 1.

    Above `LOGS_FIT_BETTER`, lambda 1 lies outside of its 95 % interval: effects and errors multiply rather than add. It
    is minus infinity where nothing varies on either scale.

    Source: Box and Cox, An analysis of transformations, J. R. Stat. Soc. B 26 (1964) 211-252, section 3."""
    squares = [fit.squares for fit in (linear, logs)]
    if linear.df == 0 or min(squares) == 0:
        return -math.inf
    gain = len(values) / 2 * (math.log(squares[0]) - math.log(squares[1])) + len(values) * math.log(linear.data.scale)
    gain -= len(values) * math.log(logs.data.scale)
    return gain - math.fsum(map(math.log, values))


@dataclass(frozen=True, slots=True)
class _Places:
    """The number of each cell, and for each value the numbers of its cell, of its block and of its campaign."""

    index: dict[Hashable, int]
    cell: Codes
    block: Codes
    campaign: Codes


@dataclass(frozen=True, slots=True)
class _Sum:
    """A weighted sum of cell means, in units of the centred values: its value, and where its error comes from.

    `cells` and `weights` are those that are not zero, and `total` is the sum of the weights. `across` are the weights
    of the block columns, which adjust for blocks without a value of some cell: zero where every block has all cells.
    `apart`: blocks keep its cells apart."""

    value: float
    cells: Codes
    weights: Floats
    total: float
    across: Floats
    apart: bool


@dataclass(frozen=True, slots=True)
class _Fit:
    """Means of cells and effects of blocks, in units of the centred values.

    The block columns are orthogonal to the cells, and of length one over all values. `squares` is the sum of squares of
    the residuals. `variances` and `freedom` are those of a value of each cell, and `free` the degrees of freedom of its
    own residuals; where there are any, `own_variances` has its variance by these alone. `complete`: every block has all
    cells, so that no comparison needs an adjustment for blocks. Otherwise `root` times its transpose is the covariance
    of the block columns. `of_blocks` is the variance of the mean of the blocks, `steps` the resolution of the readings
    of each cell, and `grid` how far a search may have missed its mean, in the unit of the values."""

    index: dict[Hashable, int]
    means: Floats
    counts: Floats
    table: Floats
    whiten: Floats
    effects: Floats
    squares: float
    df: int
    data: CentredValues
    variances: Floats
    freedom: Floats
    free: Floats
    own_variances: Floats
    complete: bool
    root: Floats
    of_blocks: float
    steps: Floats
    grid: Floats

    @classmethod
    def of(cls, values: Sequence[float], places: _Places, step: float) -> _Fit:
        data, index, rows, columns = CentredValues.of(values), places.index, places.cell, places.block
        table = np.zeros((len(index), int(columns.max()) + 1))
        np.add.at(table, (rows, columns), 1)
        design = BlockColumns.of(table)
        counts, whiten = design.counts, design.whiten
        sums = np.bincount(rows, weights=data.y)
        effects = whiten @ (whiten.T @ (np.bincount(columns, weights=data.y) - table.T @ (sums / counts)))
        means = (sums - table @ effects) / counts
        left = data.y - means[rows] - effects[columns]
        df = len(values) - len(index) - whiten.shape[1]
        squares = varying(left) if df > 0 else 0.0
        squares_of = np.zeros(len(index))
        if squares:
            squares_of += np.bincount(rows, weights=left**2, minlength=len(index))
        variances, freedom, free = noise_of_cells(squares_of, design)
        known = free > ALIASED
        of_blocks = float(np.var(effects, ddof=1)) / len(effects) if len(effects) > 1 else 0.0
        steps = np.full(len(index), step)
        return cls(
            index, means, counts, table, whiten, effects, squares, df, data, variances, freedom, free,
            squares_of[known] / free[known], design.complete, design.root(variances), of_blocks, steps,
            np.zeros(len(index)),
        )  # fmt: skip

    @property
    def n_blocks(self) -> int:
        return len(self.effects)

    @property
    def all_means(self) -> list[float]:
        """The means of the cells, in the unit of the values."""
        return [self.data.mean + self.data.scale * float(mean) for mean in self.means]

    def reaches_zero(self) -> bool:
        """Return whether the mean of some cell is not distinguishable from zero (`_CONFIDENCE`)."""
        known = self.free > ALIASED
        errors = np.sqrt(self.variances / self.counts + self.of_blocks) * self.data.scale
        critical = [t_quantile(_CONFIDENCE, df) if df > 0 else 0.0 for df in self.freedom.tolist()]
        return bool(np.any(known & (np.abs(self.all_means) <= errors * critical)))

    def sum_of(self, weights: Weights) -> _Sum:
        used = {cell: weight for cell, weight in weights.items() if weight}
        cells = np.fromiter((self.index[cell] for cell in used), dtype=np.intp, count=len(used))
        w = np.fromiter(used.values(), dtype=float, count=len(used))
        size, total = float(np.abs(w).sum()), float(w.sum())
        total = total if abs(total) > ROUNDING * size else 0.0
        own, mean = float(w @ self.means[cells]), total * (self.data.mean / self.data.scale)
        own = 0.0 if abs(own) <= ROUNDING * size else own
        value = own + mean
        value = 0.0 if abs(value) <= ROUNDING * max(abs(own), abs(mean)) else value
        if self.complete:
            return _Sum(value, cells, w, total, np.zeros(0), apart=False)
        by_block = self.table[cells].T @ (w / self.counts[cells])
        across = self.whiten.T @ by_block
        if not np.any(np.abs(across) > ALIASED * size / len(self.counts)):
            return _Sum(value, cells, w, total, np.zeros_like(across), float(np.ptp(by_block)) > ALIASED * size)
        effects = self.whiten @ across
        # The part that block differences do not reach is the same in every block, unless the blocks fall into parts.
        reached = self.table.sum(axis=0) * effects - self.table.T @ ((self.table @ effects) / self.counts)
        return _Sum(value, cells, w, total, across, float(np.ptp(by_block - reached)) > ALIASED * size)

    def cost(self, weighted: _Sum) -> float:
        """Return the variance of a sum if every value had the variance 1, and blocks had none."""
        return float(np.sum(weighted.weights**2 / self.counts[weighted.cells]) + weighted.across @ weighted.across)

    def estimate(self, weighted: _Sum) -> CellEstimate:
        value, blocked = weighted.value * self.data.scale, self.n_blocks > 1 and float(self.table.max()) <= 1
        sizes = [int(count) for count in self.counts[weighted.cells]]
        shared = self._n_shared(weighted) if blocked else 0
        n, paired = shared or sum(sizes), shared > 0
        least = least_paired_p(min(sizes, default=1)) if blocked else least_unpaired_p(sizes or [1])
        apart = weighted.apart and not weighted.total
        if apart or not self._known(weighted):
            return CellEstimate(value, None, 0.0, None, 0.0, least, n, paired, apart)
        loads = self._loads(weighted)
        error = float(np.sqrt(loads @ loads))
        unit = loads / error if error else np.zeros_like(loads)
        bias = self._bias(weighted) * self.data.scale
        return CellEstimate(value, error * self.data.scale, self.freedom_of(weighted), unit, bias, least, n, paired)

    def ratio(self, a: _Sum, b: _Sum, critical: float) -> tuple[float | None, Interval | None]:
        if b.value == 0:
            return None, None
        if not (self._known(a) and self._known(b)):
            return a.value / b.value, None
        x, y = self._loads(a), self._loads(b)
        covariances = [float(x @ x), float(y @ y), float(x @ y)]
        biases = self._bias(a), self._bias(b)
        ends = ends_of_ratio(a.value, b.value, covariances, critical, biases)
        return a.value / b.value, None if ends is None else Interval(*ends, math.nan)

    def _n_shared(self, weighted: _Sum) -> int:
        """Return the number of blocks with a value on both sides, or of all blocks with a value on the only side."""
        if self.complete and len(weighted.cells):
            return self.n_blocks
        signs = [weighted.cells[sign * weighted.weights > 0] for sign in (1, -1)]
        sides = [self.table[cells].sum(axis=0) > 0 for cells in signs if len(cells)]
        return int(np.count_nonzero(np.logical_and.reduce(sides))) if sides else 0

    def _known(self, weighted: _Sum) -> bool:
        """Return whether every cell with a weight has residuals, from which its noise is estimated."""
        return self.df > 0 and not np.any(self.free[weighted.cells] < ALIASED)

    def _bias(self, weighted: _Sum) -> float:
        """Return how far rounding may have moved a sum: half a step for cells whose noise does not reach that far.

        A search moves it by half a cell of its grid for any noise: it may miss on the same side each time."""
        moved = rounding(np.sqrt(self.variances[weighted.cells]), self.steps[weighted.cells] / self.data.scale)
        return float(np.abs(weighted.weights) @ np.maximum(moved, self.grid[weighted.cells] / self.data.scale))

    def _loads(self, weighted: _Sum) -> Floats:
        """Return the error as a vector: of each cell, of the adjustment for blocks, and of the blocks as a sample."""
        found = np.zeros(len(self.counts) + len(weighted.across) + 1)
        found[weighted.cells] = weighted.weights * np.sqrt(self.variances[weighted.cells] / self.counts[weighted.cells])
        if not self.complete:
            found[len(self.counts) : -1] = weighted.across @ self.root
        found[-1] = weighted.total * math.sqrt(self.of_blocks)
        return found

    def freedom_of(self, weighted: _Sum) -> float:
        """Return Satterthwaite's degrees of freedom; those of differences are at most those of the residuals."""
        variances = self.variances[weighted.cells] if np.any(self.variances) else np.ones(len(weighted.cells))
        parts = weighted.weights**2 * variances / self.counts[weighted.cells]
        across = 0.0 if self.complete else float(np.sum((weighted.across @ self.root) ** 2))
        within = float(parts.sum()) + across
        used = parts > 0
        if within == 0:
            return float(self.df)
        of_cells = float(np.sum(parts[used] ** 2 / self.freedom[weighted.cells][used])) + across**2 / self.df
        df = min(float(self.df), within**2 / of_cells)
        of_blocks = weighted.total**2 * self.of_blocks
        if of_blocks == 0:
            return df
        return (within + of_blocks) ** 2 / (within**2 / df + of_blocks**2 / (self.n_blocks - 1))

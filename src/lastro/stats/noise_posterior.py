"""The noise of each cell, as uncertain as a pilot leaves it: draws of standard deviations that its residuals allow.

A few blocks cannot show how much the noises of cells differ, so that is assumed. The standard deviation of a cell, as a
fraction of its mean, is lognormal with a spread tau, and tau is half-normal with the scale `SPREAD`. Equal noise is the
most probable, and in half of such populations two cells typically differ by more than a factor of 2.6. The overall
level of the noise is estimated from the data alone. One cell that is much noisier than all others is drawn towards
them, so that too few blocks are advised for it; where noises are equal, too many are: see benches/advice_promises.py.

Residuals hold a part of the noise of all cells, since all share the blocks: beside one noisy cell, those of all others
are the same, and together say no more than one of them. So the likelihood is that of the differences between cells,
which blocks do not affect (REML). It is exact where every block has all cells, and close where trials were lost.

Sources: Patterson and Thompson, Biometrika 58 (1971) 545-554, for the likelihood; Gelman, Bayesian Analysis 1 (2006)
515-534, for the half-normal spread; Murray, Adams and MacKay, Elliptical slice sampling, AISTATS (2010) 541-548, for
the draws. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import ROUNDING, Floats

SPREAD = 1.5
_LEAST_VARIANCE = 1e-10  # of the largest: less than it changes nothing, and costs digits
_STEPS = 100  # of the sampler: twice as many would change the advice by less than its own uncertainty
_TRIES = 8  # of each step; nearly all rows move
_GUESSES = 10


@dataclass(frozen=True, slots=True)
class Residuals:
    """What a pilot shows of the noise of each cell.

    `squares` are the sums of the squared residuals, in a unit that does not matter, and `freedom` their degrees of
    freedom; 0 where the noise is not known. `sizes` are the absolute means of the cells, in the same unit; 1 for
    logarithms. `blocks` is None if the residuals of cells are independent of each other."""

    squares: Floats
    freedom: Floats
    sizes: Floats
    blocks: Blocks | None = None

    @classmethod
    def in_blocks(cls, values: Floats, measured: Floats, freedom: Floats, sizes: Floats) -> Residuals:
        """Return the residuals from cells and blocks: `values` has a row for each cell, a column for each block.

        `measured` is 1 where a cell has a value in a block, and 0 elsewhere."""
        measured = np.where(freedom[:, None] > 0, measured, 0.0)
        used = measured.any(axis=0)
        values = (values * measured)[:, used]
        return cls((values**2).sum(axis=1), freedom, sizes, Blocks.of(values, measured[:, used]))

    @property
    def varied(self) -> bool:
        return bool(np.any(self.squares[self.freedom > 0]))

    def fit(self, variances: Floats) -> tuple[Floats, Floats]:
        """Return the logarithm of the determinant and the sum of squares / variances, for each row of variances."""
        if self.blocks is None:
            return np.log(variances) @ self.freedom, (self.squares / variances).sum(axis=1)
        largest = variances.max(axis=1, keepdims=True)
        return self.blocks.fit(np.maximum(variances, _LEAST_VARIANCE * largest), self.squares, self.freedom.sum())

    def guess(self) -> tuple[Floats, Floats]:
        """Return a first guess of the variance of each cell, and the information on the logarithm of its SD."""
        common = float(self.squares.sum() / self.freedom.sum())
        variances = (self.squares + common) / (self.freedom + 1)
        if self.blocks is None:
            return variances, 2 * self.freedom
        return self.blocks.guess(variances, self.freedom)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The residuals of blocks that share a pattern of cells: a column of `patterns` has 1 for each cell that they have.

    `values` has a row for each cell and a column for each block, and `members` is 1 where a block has a pattern."""

    values: Floats
    patterns: Floats
    members: Floats

    @classmethod
    def of(cls, values: Floats, measured: Floats) -> Blocks:
        patterns, which = np.unique(measured, axis=1, return_inverse=True)
        return cls(values, patterns, np.eye(patterns.shape[1])[which.ravel()])

    def fit(self, variances: Floats, squares: Floats, freedom: float) -> tuple[Floats, Floats]:
        """Return the same as `Residuals.fit`, for differences between the cells of each block."""
        counts = self.members.sum(axis=0)
        # The means of the cells take degrees of freedom, too: one block of n, if none is incomplete.
        left = freedom / float(counts @ (self.patterns.sum(axis=0) - 1))
        weights = 1 / variances
        sums = weights @ self.patterns
        determinant = np.log(variances) @ (self.patterns @ counts) + np.log(sums) @ counts
        whole = weights @ squares
        of_blocks = (((weights @ self.values) ** 2 @ self.members) / sums).sum(axis=1)
        return left * determinant, np.maximum(whole - of_blocks, ROUNDING * whole)

    def guess(self, variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
        """Improve the guess by the distances to the quiet cells of each block; return variances and information."""
        measured = self.patterns @ self.members.T
        n, share = np.maximum(measured.sum(axis=1), 1), np.zeros(len(variances))
        for _ in range(_GUESSES):
            weights = measured / variances[:, None]
            weights = weights / weights.sum(axis=0)
            distances = measured * (self.values - (weights * self.values).sum(axis=0))
            share = weights.sum(axis=1) / n
            typical = math.exp(float(np.log(variances[freedom > 0]).mean()))
            variances = ((distances**2).sum(axis=1) + typical) / ((n - 1) * (1 - share) + 1)
        return variances, 2 * (n - 1) * (1 - share) ** 2


def drawn_noise(pilot: Residuals, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of the standard deviations of the cells, in the unit of the values: draws x cells.

    Raises: ValueError where nothing varied."""
    if not pilot.varied:
        raise ValueError("the residuals do not vary, so their noise is not known")
    from scipy.special import chdtri

    total = float(pilot.freedom.sum())

    def log_likelihood(state: Floats) -> Floats:
        determinant, squares = pilot.fit(_noises(pilot, state) ** 2)
        return np.asarray(-(determinant + total * np.log(squares)) / 2)

    shape = _noises(pilot, _slice_sampled(_start(pilot, draws, rng), log_likelihood, rng))
    # One value from each part of equal probability of the distribution: this is most of the uncertainty.
    chance = chdtri(total, rng.permutation((np.arange(draws) + 0.5) / draws))
    return np.asarray(shape * np.sqrt(pilot.fit(shape**2)[1] / chance)[:, None])


def _noises(pilot: Residuals, state: Floats) -> Floats:
    """Return the noises of the cells, up to a common factor, for rows whose prior is standard normal.

    The first column is tau, in units of `SPREAD`, and there is one for each cell."""
    return np.asarray(pilot.sizes * np.exp(SPREAD * np.abs(state[:, :1]) * state[:, 1:]))


def _start(pilot: Residuals, draws: int, rng: np.random.Generator) -> Floats:
    """Draw rows that are roughly as probable as the data say, from a first guess of the noise of each cell."""
    variances, known = pilot.guess()
    guess = np.log(variances / pilot.sizes**2) / 2
    guess -= guess.mean()
    differ = math.sqrt(float(np.mean(guess**2))) + 1e-3
    spread = differ * np.sqrt(len(guess) / rng.chisquare(len(guess), (draws, 1)))
    state = known * spread * guess / (1 + known * spread**2)
    state = state + rng.standard_normal((draws, len(guess))) / np.sqrt(1 + known * spread**2)
    return np.hstack([spread / SPREAD, state])


def _slice_sampled(state: Floats, log_likelihood: Callable[[Floats], Floats], rng: np.random.Generator) -> Floats:
    """Move rows until they are draws from standard normals times this likelihood.

    A row that finds no better place in a few tries stays, which leaves the distribution as it is: each way to another
    place remains as probable as the way back."""
    for _ in range(_STEPS):
        level = log_likelihood(state) + np.log(rng.random(len(state)))
        other, moved = rng.standard_normal(state.shape), state.copy()
        angle, left = rng.uniform(0, 2 * math.pi, len(state)), np.arange(len(state))
        low, high = angle - 2 * math.pi, angle.copy()
        for _ in range(_TRIES):
            at = angle[left, None]
            proposed = state[left] * np.cos(at) + other[left] * np.sin(at)
            kept = log_likelihood(proposed) > level[left]
            moved[left[kept]] = proposed[kept]
            left = left[~kept]
            behind = angle[left] < 0
            low[left[behind]], high[left[~behind]] = angle[left[behind]], angle[left[~behind]]
            angle[left] = rng.uniform(low[left], high[left])
        state = moved
    return state

"""The noise of each cell, as uncertain as a pilot leaves it: draws of standard deviations that its residuals allow.

A few blocks cannot show how much the noises of cells differ, so that is assumed. The standard deviation of a cell, as a
fraction of its mean, is lognormal with a spread tau, and tau is half-normal with the scale `SPREAD`. Equal noise is the
most probable, and in half of such populations two cells typically differ by more than a factor of 2.6. How large the
noise is in all is left to the data alone. A smaller `SPREAD` would advise too few blocks where noises differ fivefold,
and saves few where they are equal: see benches/advice_promises.py.

Residuals hold a part of the noise of all cells, since all share the blocks. The sums of squares of the cells are taken
as independent, with the degrees of freedom that the blocks leave. That is exact for two cells, and close for more.

Sources: Gelman, Bayesian Analysis 1 (2006) 515-534, for the half-normal spread; Murray, Adams and MacKay, Elliptical
slice sampling, AISTATS (2010) 541-548, for the draws. Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import Floats

SPREAD = 1.5
_STEPS = 100  # of the sampler: twice as many change the advice by less than its own uncertainty
_LEAST_SHARE = 0.02  # of its mean square that a cell is taken to show as its own noise, for a first guess


@dataclass(frozen=True, slots=True)
class Residuals:
    """What a pilot shows of the noise of each cell.

    `squares` are the sums of the squared residuals, in the squared unit of the values, and `freedom` their degrees of
    freedom; 0 where the noise is not known. `sizes` are the absolute means of the cells, in the same unit; 1 for
    logarithms. `blocked` is true if the residuals are those from cells and blocks."""

    squares: Floats
    freedom: Floats
    sizes: Floats
    blocked: bool

    def expected(self, variances: Floats) -> Floats:
        """Return the expected mean squares of residuals, for variances of the values: the last axis is the cells."""
        return expected_residuals(variances) if self.blocked else variances

    @property
    def varied(self) -> bool:
        return bool(np.any(self.squares[self.freedom > 0]))


def expected_residuals(variances: Floats) -> Floats:
    """Return the expected mean squares of residuals from cells and blocks; the last axis is the cells."""
    cells = variances.shape[-1]
    own = (1 - 2 / cells) * variances + variances.mean(axis=-1, keepdims=True) / cells
    return np.asarray(own / (1 - 1 / cells))


def drawn_noise(pilot: Residuals, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of the standard deviations of the cells, in the unit of the values: draws x cells.

    Raises: ValueError where nothing varied."""
    if not pilot.varied:
        raise ValueError("residuals without a spread: their noise is not known")
    from scipy.special import chdtri

    total = float(pilot.freedom.sum())

    def log_likelihood(state: Floats) -> Floats:
        expected = pilot.expected(_noises(pilot, state) ** 2)
        fit = np.log(expected) @ pilot.freedom + total * np.log((pilot.squares / expected).sum(axis=1))
        return np.asarray(-fit / 2)

    shape = _noises(pilot, _slice_sampled(_start(pilot, draws, rng), log_likelihood, rng))
    # One value from each part of equal probability of the distribution: this is most of the uncertainty.
    chance = chdtri(total, rng.permutation((np.arange(draws) + 0.5) / draws))
    sizes = (pilot.squares / pilot.expected(shape**2)).sum(axis=1) / chance
    return np.asarray(shape * np.sqrt(sizes)[:, None])


def drawn_population(cells: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return noises of cells of the assumed population, with a median of 1: draws x cells."""
    spread = SPREAD * np.abs(rng.standard_normal((draws, 1)))
    return np.asarray(np.exp(spread * rng.standard_normal((draws, cells))))


def _noises(pilot: Residuals, state: Floats) -> Floats:
    """Return the noises of the cells, up to a common factor, for rows that are standard normal without any data.

    The first column is tau, in units of `SPREAD`, and there is one for each cell."""
    return np.asarray(pilot.sizes * np.exp(SPREAD * np.abs(state[:, :1]) * state[:, 1:]))


def _start(pilot: Residuals, draws: int, rng: np.random.Generator) -> Floats:
    """Return rows that are about as probable as the data leave them, from the noise that each cell shows as its own."""
    means = pilot.squares / np.maximum(pilot.freedom, 1e-9)
    of_all = pilot.squares.sum() / pilot.freedom.sum()
    own = np.maximum(means - of_all / len(means) * pilot.blocked, _LEAST_SHARE * np.maximum(means, of_all))
    guess = np.log(own / pilot.sizes**2) / 2
    known = 2 * pilot.freedom * np.minimum(1, own / np.maximum(means, own)) ** 2
    guess -= guess.mean()
    differ = math.sqrt(float(np.mean(guess**2))) + 1e-3
    spread = differ * np.sqrt(len(means) / rng.chisquare(len(means), (draws, 1)))
    state = known * spread * guess / (1 + known * spread**2)
    state = state + rng.standard_normal((draws, len(means))) / np.sqrt(1 + known * spread**2)
    return np.hstack([spread / SPREAD, state])


def _slice_sampled(state: Floats, log_likelihood: Callable[[Floats], Floats], rng: np.random.Generator) -> Floats:
    """Move rows until they are draws from standard normals times this likelihood."""
    for _ in range(_STEPS):
        level = log_likelihood(state) + np.log(rng.random(len(state)))
        other, moved = rng.standard_normal(state.shape), state.copy()
        angle, left = rng.uniform(0, 2 * math.pi, len(state)), np.arange(len(state))
        low, high = angle - 2 * math.pi, angle.copy()
        while len(left):
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

"""Test whether residuals are as the tests of a model assume: normal, and of equal spread in every cell. Numbers only.

Both tests detect more with more trials: with few, passing means little, and with thousands, failing may not matter.
Hence the points of the quantile plot, which show how far from normal the residuals are, and where."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import median

from lastro.stats.anova import Anova, anova
from lastro.stats.intervals import sample_covariance, unit_of
from lastro.stats.notes import Note

# The range of n for which Royston's approximation of the distribution of W was made.
SHAPIRO_N = (3, 5000)

# Half the 95 % quantile of chi-squared with one degree of freedom: an advantage of logarithms that is not chance.
LOGS_FIT_BETTER = 1.92

# Why there is no test; the report's catalogues translate these.
TOO_FEW = "the Shapiro-Wilk test needs {least} to {most} residuals, and there are {n}"
NO_SPREAD = "the residuals do not vary"
NO_CELLS = "the Brown-Forsythe test needs two cells or more, with three trials or more in one of them"


@dataclass(frozen=True, slots=True)
class Checks:
    """The tests at the level `alpha`; a test that could not be made is None, and `notes` says why.

    `points` are those of a normal quantile plot, in order: the quantile of a normal distribution at this place, and the
    residual in standard deviations. On a straight line they are normal. `outliers` are positions of residuals so large
    that, if all were normal, one as large would occur with a probability below `alpha`."""

    shapiro_w: float | None
    shapiro_p: float | None
    brown_forsythe_f: float | None
    brown_forsythe_p: float | None
    points: tuple[tuple[float, float], ...]
    outliers: tuple[int, ...]
    alpha: float
    notes: tuple[Note, ...]

    @property
    def looks_normal(self) -> bool | None:
        return None if self.shapiro_p is None else self.shapiro_p >= self.alpha

    @property
    def spreads_look_equal(self) -> bool | None:
        return None if self.brown_forsythe_p is None else self.brown_forsythe_p >= self.alpha

    @property
    def pass_both(self) -> bool | None:
        """True if no test fails; None when neither could be made."""
        known = [check for check in (self.looks_normal, self.spreads_look_equal) if check is not None]
        return all(known) if known else None


def check_residuals(table: Anova, cells: Sequence[Hashable], *, alpha: float = 0.05) -> Checks:
    """Check the residuals of a model; `cells` names the treatment of each value.

    Raises: ValueError when there are more or fewer names than residuals."""
    groups: dict[Hashable, list[float]] = {}
    for cell, residual in zip(cells, table.residuals, strict=True):
        groups.setdefault(cell, []).append(residual)
    # The fraction explained shows what is rounding alone; the residuals themselves do not.
    return _check(list(table.residuals) if table.residual.explained else [0.0] * table.n, list(groups.values()), alpha)


def brown_forsythe(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Return F and p for equal spreads: the analysis of variance of distances from each group's median.

    (None, None) when there are fewer than two groups or no group has three values, whose distances can differ. Source:
    Brown and Forsythe, Robust tests for the equality of variances, J. Am. Stat. Assoc. 69 (1974) 364-367."""
    filled = [group for group in groups if group]
    if len(filled) < 2 or max(map(len, filled)) < 3:
        return None, None
    centres = [median(group) for group in filled]
    distances = [abs(value - centre) for group, centre in zip(filled, centres, strict=True) for value in group]
    effect = anova(distances, {"group": [i for i, group in enumerate(filled) for _ in group]}).effects[0]
    return effect.f, effect.p


def log_advantage(plain: Anova, of_logs: Anova, values: Sequence[float]) -> float | None:
    """Return how much better logarithms fit than values, by the same model: the difference of the log-likelihoods.

    It compares the profile of Box and Cox at lambda 0 and 1. Above `LOGS_FIT_BETTER`, lambda 1 lies outside of its 95 %
    interval: effects and errors multiply rather than add. Below its negative, the same holds for logarithms. In between
    the data do not decide. None where either model fits exactly.

    Source: Box and Cox, An analysis of transformations, J. R. Stat. Soc. B 26 (1964) 211-252, section 3."""
    if plain.residual.ss <= 0 or of_logs.residual.ss <= 0:
        return None
    gain = len(values) / 2 * (math.log(plain.residual.ss) - math.log(of_logs.residual.ss))
    return gain - math.fsum(map(math.log, values))


def _check(residuals: Sequence[float], groups: Sequence[Sequence[float]], alpha: float) -> Checks:
    n = len(residuals)
    varies = n > 1 and max(residuals) > min(residuals)
    notes = []
    w = shapiro_p = None
    if not varies:
        notes.append(Note(NO_SPREAD))
    elif SHAPIRO_N[0] <= n <= SHAPIRO_N[1]:
        w, shapiro_p = _shapiro(residuals)
    else:
        notes.append(Note(TOO_FEW, least=SHAPIRO_N[0], most=SHAPIRO_N[1], n=n))
    f, spread_p = brown_forsythe(groups) if varies else (None, None)
    if varies and spread_p is None:
        notes.append(Note(NO_CELLS))
    standard = _standardised(residuals) if varies else []
    return Checks(w, shapiro_p, f, spread_p, _points(standard), _outliers(standard, alpha), alpha, tuple(notes))


def _shapiro(values: Sequence[float]) -> tuple[float, float]:
    """Return W and p, by Shapiro and Wilk, Biometrika 52 (1965) 591-611; Royston, Applied Statistics 44 (1995)."""
    from scipy.stats import shapiro

    # In units of the spread: the algorithm mistakes a tiny range for none at all.
    found = shapiro(_standardised(values))
    return float(found.statistic), float(found.pvalue)


def _standardised(residuals: Sequence[float]) -> list[float]:
    unit = unit_of(residuals)
    scaled = [residual / unit for residual in residuals]
    sd = math.sqrt(sample_covariance(scaled, scaled))
    return [residual / sd for residual in scaled]


def _points(standard: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Return the points at plotting positions (i - 3/8) / (n + 1/4), by Blom, Statistical Estimates (1958)."""
    from scipy.special import ndtri

    n = len(standard)
    return tuple((float(ndtri((i - 0.375) / (n + 0.25))), value) for i, value in enumerate(sorted(standard), 1))


def _outliers(standard: Sequence[float], alpha: float) -> tuple[int, ...]:
    from scipy.special import ndtri

    if not standard:
        return ()
    bound = float(ndtri(1 - alpha / 2 / len(standard)))
    return tuple(index for index, value in enumerate(standard) if abs(value) > bound)

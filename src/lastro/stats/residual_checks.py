"""Test whether residuals are normal, as the F of a model assumes. Numbers only.

The test detects more with more trials: with few, passing means little, and with thousands, failing may not matter.
Hence the points of the quantile plot, which show how far from normal the residuals are, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.stats.anova import Anova
from lastro.stats.intervals import sample_covariance, unit_of
from lastro.stats.notes import Note

# The range of n for which Royston's approximation of the distribution of W was made.
SHAPIRO_N = (3, 5000)

# Half the 95 % quantile of chi-squared with one degree of freedom: an advantage of logarithms that is not chance.
LOGS_FIT_BETTER = 1.92

# Why there is no test; the report's catalogues translate these.
TOO_FEW = "the Shapiro-Wilk test needs {least} to {most} residuals, and there are {n}"
NO_SPREAD = "the residuals do not vary"


@dataclass(frozen=True, slots=True)
class ResidualChecks:
    """The test at the level `alpha`; if it could not be made, it is None, and `notes` says why.

    `points` are those of a normal quantile plot, in order: the quantile of a normal distribution at this place, and the
    residual in standard deviations. On a straight line they are normal. `outliers` are positions of residuals so large
    that, if all were normal, one as large would occur with a probability below `alpha`."""

    shapiro_w: float | None
    shapiro_p: float | None
    points: tuple[tuple[float, float], ...]
    outliers: tuple[int, ...]
    alpha: float
    notes: tuple[Note, ...]

    @property
    def looks_normal(self) -> bool | None:
        return None if self.shapiro_p is None else self.shapiro_p >= self.alpha


def check_residuals(table: Anova, *, alpha: float = 0.05) -> ResidualChecks:
    """Check the residuals of a model."""
    # The fraction explained shows what is rounding alone; the residuals themselves do not.
    residuals = list(table.residuals) if table.residual.explained else [0.0] * table.n
    n = len(residuals)
    varies = n > 1 and max(residuals) > min(residuals)
    notes = []
    w = p = None
    if not varies:
        notes.append(Note(NO_SPREAD))
    elif SHAPIRO_N[0] <= n <= SHAPIRO_N[1]:
        w, p = _shapiro(residuals)
    else:
        notes.append(Note(TOO_FEW, least=SHAPIRO_N[0], most=SHAPIRO_N[1], n=n))
    standard = _standardised(residuals) if varies else []
    return ResidualChecks(w, p, _points(standard), _outliers(standard, alpha), alpha, tuple(notes))


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

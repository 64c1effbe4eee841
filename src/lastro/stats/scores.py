"""How many times as good as a reference each candidate is in several studies, and which is the best over all of them.

The score of a candidate is the weighted geometric mean of its ratios, as that of SPEC is (Fleming and Wallace,
Communications of the ACM 29 (1986) 218-221). Studies are independent, so their posteriors are drawn apart
(`cell_means`). tests/known/test_scores.py measures the coverage of intervals, and how
often `best` comes true. Loads numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lastro.stats.cell_means import MetricTrials, drawn_means

Spread = tuple[float, float, float]  # the middle, the low end and the high end


@dataclass(frozen=True, slots=True)
class StudyTrials:
    """The trials of one metric of a study, over `n_conditions` of equal weight; `higher` is better, or lower.

    `variants` has for each of its own candidates the number of the one that it is a variant of, such as a platform with
    some storage. What counts is the first variant with values, and not the best: that would look better than it is."""

    trials: MetricTrials
    variants: tuple[int, ...]
    n_conditions: int
    higher: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Scores:
    """How good each candidate is against the reference, in each study and over all.

    `goodness` has a ratio for each study and candidate, above 1 if the candidate is better; None if it was not measured
    in every condition, or if only bounds are known. `scores` are over all studies with a weight. `best` is the
    probability that a candidate has the highest score of all but the reference."""

    goodness: tuple[tuple[Spread | None, ...], ...]
    scores: tuple[Spread | None, ...]
    best: tuple[float, ...]


def score(studies: Sequence[StudyTrials], n_candidates: int, reference: int, alpha: float) -> Scores:
    """Compare the candidates with the reference. Intervals have the level 1 - `alpha`; a weight must be above 0."""
    logs = [_logs(study, n_candidates, reference, seed) for seed, study in enumerate(studies, 1)]
    parts = [study.weight * own for study, own in zip(studies, logs, strict=True) if study.weight]
    total = np.sum(parts, axis=0) / sum(study.weight for study in studies)
    rivals = np.where(np.isnan(total), -np.inf, total)
    rivals[:, reference] = -np.inf
    known = np.isfinite(rivals).any(axis=1)
    best = np.bincount(rivals.argmax(axis=1)[known], minlength=n_candidates) / len(total)
    return Scores(
        tuple(tuple(_spread(own[:, at], alpha) for at in range(n_candidates)) for own in logs),
        tuple(_spread(total[:, at], alpha) for at in range(n_candidates)),
        tuple(map(float, best)),
    )


def _logs(
    study: StudyTrials, n_candidates: int, reference: int, seed: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return draws of logarithms of ratios to the reference: (draw, candidate); NaN for what is not known."""
    means = drawn_means(study.trials, len(study.variants), study.n_conditions, seed)
    for cell in study.trials.floors:
        means[:, *cell] = np.nan
    own = np.log(np.where(means > 0, means, np.nan)).mean(axis=2) * (1 if study.higher else -1)
    logs = np.full((len(own), n_candidates), np.nan)
    for number, candidate in enumerate(study.variants):
        if np.isnan(logs[0, candidate]):
            logs[:, candidate] = own[:, number]
    return np.asarray(logs - logs[:, [reference]])


def _spread(draws: np.ndarray[tuple[int], np.dtype[np.float64]], alpha: float) -> Spread | None:
    if np.isnan(draws).any():
        return None
    low, middle, high = (float(np.exp(each)) for each in np.quantile(draws, (alpha / 2, 0.5, 1 - alpha / 2)))
    return middle, low, high

"""Scores: how many times as good as a reference each candidate is, in each of several studies and over all of them.

The score of a candidate is the weighted geometric mean of its ratios, as in the benchmarks of SPEC (Fleming and
Wallace, Communications of the ACM 29 (1986) 218-221). Studies are independent, so their posteriors are drawn separately
(`cell_means`). tests/known/test_scores.py measures the coverage of the intervals, and whether the probabilities in
`best` are right. Loads numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.campaign_effects import Campaigns, draw_means
from lastro.stats.cell_means import MetricTrials
from lastro.stats.contrasts import exponential
from lastro.stats.intervals import Estimate, posterior_median


@dataclass(frozen=True, slots=True)
class StudyTrials:
    """The trials of one metric of a study, over `n_conditions` conditions of equal weight.

    The candidates of `trials` may be variants of the candidates of the score, such as a platform with different
    storage. The first variant with values counts instead of the best one, because the maximum of several noisy means is
    too good on average."""

    trials: MetricTrials
    variants: tuple[int, ...]  # for each candidate of `trials`, the index of its candidate of the score
    n_conditions: int
    higher: bool  # whether higher values are better
    weight: float = 1.0
    campaigns: Campaigns | None = None  # {block: campaign} if there are several


@dataclass(frozen=True, slots=True)
class Scores:
    """How many times as good as the reference each candidate is, in each study and over all studies.

    `goodness[study][candidate]` is a ratio with its interval, above 1 if the candidate is better; None if it was not
    measured in every condition, or if only bounds are known. `scores` has the ratio of each candidate over all studies
    with a weight. `best` has the probability of each candidate of the highest score, without the reference."""

    goodness: tuple[tuple[Estimate | None, ...], ...]
    scores: tuple[Estimate | None, ...]
    best: tuple[float, ...]


def score(studies: Sequence[StudyTrials], n_candidates: int, reference: int, alpha: float) -> Scores:
    """Compare the candidates with the reference, with intervals of level 1 - `alpha`.

    At least one study must have a weight above 0. A study with weight 0 does not count in `scores` and `best`."""
    logs = [_log_ratios(study, n_candidates, reference, seed) for seed, study in enumerate(studies, 1)]
    parts = [study.weight * of_study for study, of_study in zip(studies, logs, strict=True) if study.weight]
    total = np.sum(parts, axis=0) / sum(study.weight for study in studies)
    rivals = np.where(np.isnan(total), -np.inf, total)
    rivals[:, reference] = -np.inf
    known = np.isfinite(rivals).any(axis=1)
    best = np.bincount(rivals.argmax(axis=1)[known], minlength=n_candidates) / len(total)
    return Scores(
        tuple(tuple(_ratio(of_study[:, at], alpha) for at in range(n_candidates)) for of_study in logs),
        tuple(_ratio(total[:, at], alpha) for at in range(n_candidates)),
        tuple(map(float, best)),
    )


def _log_ratios(
    study: StudyTrials, n_candidates: int, reference: int, seed: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return draws of logarithms of ratios to the reference, as an array (draw, candidate); NaN if not known."""
    means = draw_means(study.trials, (len(study.variants), study.n_conditions), study.campaigns, seed)
    of_variants = np.log(np.where(means > 0, means, np.nan)).mean(axis=2) * (1 if study.higher else -1)
    logs = np.full((len(of_variants), n_candidates), np.nan)
    for variant, candidate in enumerate(study.variants):
        if np.isnan(logs[0, candidate]):
            logs[:, candidate] = of_variants[:, variant]
    return np.asarray(logs - logs[:, [reference]])


def _ratio(logs: Floats, alpha: float) -> Estimate | None:
    """Return a ratio with its interval, from draws of its logarithm; None if any is NaN."""
    estimate = posterior_median(logs, alpha)
    return estimate and estimate.mapped(exponential)

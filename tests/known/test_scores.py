"""How good candidates are over several studies: known answers, coverage, and how often `best` comes true."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from lastro.stats import cell_means
from lastro.stats.cell_means import MetricTrials
from lastro.stats.scores import StudyTrials, score

from .test_simultaneous import autocorrelated, in_random_order

CANDIDATES, STUDIES, BLOCKS = 4, 3, 4
WORLDS = 100


def study(values: np.ndarray, higher: bool = True, weight: float = 1.0) -> StudyTrials:  # type: ignore[type-arg]
    """A study with these values by (candidate, condition, block)."""
    cells = {(a, b): dict(enumerate(map(float, own))) for a, of in enumerate(values) for b, own in enumerate(of)}
    return StudyTrials(MetricTrials(cells), tuple(range(len(values))), values.shape[1], higher, weight)


def test_a_score_is_the_weighted_geometric_mean_of_ratios_that_are_better_above_one() -> None:
    fast = study(np.array([[[100.0, 100.2]], [[200.0, 200.4]]]), weight=2.0)
    slow = study(np.array([[[10.0, 10.01]], [[20.0, 20.02]]]), higher=False)
    found = score([fast, slow], 2, 0, 0.05)
    goodness = [row[1] for row in found.goodness]
    assert [each and round(each.spread[0], 2) for each in goodness] == [2.0, 0.5]
    assert found.scores[1] and found.scores[1].spread[0] == pytest.approx(2 ** (2 / 3) * 0.5 ** (1 / 3), rel=0.01)
    assert found.best == (0.0, 1.0) and found.scores[0].spread == (1.0, 1.0, 1.0)


def test_what_was_not_measured_or_is_only_bounded_has_no_score_unless_its_study_has_no_weight() -> None:
    whole, part = np.full((3, 1, 3), 5.0) + np.arange(3), np.full((3, 1, 3), 5.0) + np.arange(3)
    bounded = MetricTrials(study(part).trials.cells, frozenset({(2, 0)}))
    for weight, scored in ((1.0, False), (0.0, True)):
        found = score([study(whole), StudyTrials(bounded, (0, 1, 2), 1, True, weight)], 3, 0, 0.05)
        assert found.goodness[1][2] is None and (found.scores[2] is not None) is scored
        assert math.isclose(sum(found.best), 1.0) and (found.best[2] > 0) is scored


def test_the_first_variant_with_values_counts_and_not_the_best() -> None:
    values = np.array([[[100.0, 100.2, 100.1]], [[80.0, 80.2, 80.1]], [[95.0, 95.2, 95.1]]])
    whole = study(values).trials
    without = MetricTrials({cell: own for cell, own in whole.cells.items() if cell != (1, 0)})
    for trials, ratio in ((whole, 0.8), (without, 0.95)):
        (goodness,) = score([StudyTrials(trials, (0, 1, 1), 1, True)], 2, 0, 0.05).goodness
        assert goodness[1] and goodness[1].value == pytest.approx(ratio, rel=0.01)


def independent(rng: np.random.Generator) -> np.ndarray:  # type: ignore[type-arg]
    """Noise by (candidate, condition, block): blocks differ by 10 %, trials by 5 %."""
    return rng.normal(0, 0.1, (1, 1, BLOCKS)) + rng.normal(0, 0.05, (CANDIDATES, 2, BLOCKS))


def dependent(rng: np.random.Generator) -> np.ndarray:  # type: ignore[type-arg]
    """The same of a host that changes with time: each trial keeps 95 % of the noise of the one before it."""
    return 2.5 * in_random_order(rng, autocorrelated(rng, 2 * CANDIDATES * BLOCKS), BLOCKS).reshape(
        CANDIDATES, 2, BLOCKS
    )


@pytest.mark.parametrize("noise", [independent, dependent])
def test_intervals_hold_the_truth_and_what_is_said_to_be_the_best_is(
    noise: Callable[[np.random.Generator], np.ndarray],  # type: ignore[type-arg]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In worlds in which candidates are 3 % apart. A share of a thousand draws is known better than a rate of these."""
    monkeypatch.setattr(cell_means, "DRAWS", 1000)
    rng = np.random.default_rng(7)
    inside, total, stated, came_true = 0, 0, [], []
    for _ in range(WORLDS):
        truth = rng.normal(0, 0.03, (STUDIES, CANDIDATES, 2))
        values = [np.exp(each[..., None] + noise(rng)) for each in truth]
        found = score([study(each) for each in values], CANDIDATES, 0, 0.05)
        true = (truth.mean(axis=2) - truth.mean(axis=2)[:, :1]).mean(axis=0)
        for at in range(1, CANDIDATES):
            spread = found.scores[at]
            assert spread is not None
            inside += spread.mapped(math.log).interval.holds(true[at])
            total += 1
        best = int(np.argmax(found.best))
        stated.append(found.best[best])
        came_true.append(best == 1 + int(np.argmax(true[1:])))
    assert inside / total >= 0.93
    sure = [right for p, right in zip(stated, came_true, strict=True) if p >= 0.95]
    assert len(sure) >= 8 and sure.count(False) <= 0.05 * len(sure) + 3 * math.sqrt(0.05 * 0.95 * len(sure))
    error = math.sqrt(sum(p * (1 - p) for p in stated))
    assert sum(came_true) >= sum(stated) - 3 * error, "stated probabilities come true at least as often"

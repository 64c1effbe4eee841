"""Looks at a campaign that grows: who is dropped and why, in known cases and in a few hundred worlds.

benches/decision_looks.py measures trials and errors in 2,000 worlds."""

from __future__ import annotations

import numpy as np
import pytest
from benches import decision_looks as bench

from lastro.stats import decision
from lastro.stats.cell_means import MeanDraws, MetricTrials, _fit_blocks
from lastro.stats.decision import Choice, Limit
from lastro.stats.look_state import DroppedCandidate, LookState
from lastro.stats.looks import is_decision_made, take_look

NOTHING = LookState()


def seen(values: dict[int, list[float]], fraction: float, before: LookState = NOTHING) -> tuple[Choice, LookState]:
    """A look at values that must be 1 at least, and are the cost, too."""
    cells = {(at, 0): dict(enumerate(own)) for at, own in values.items()}
    return take_look(
        [MetricTrials(cells)], [Limit(0, 1.0, True)], {0: 1.0}, (max(values) + 1, 1), 0.05, fraction, before
    )


def test_each_reason_to_drop_a_candidate() -> None:
    noise = np.array([-0.02, 0.01, 0.02, -0.01])
    choice, settled = seen({0: list(1.3 + noise), 1: list(2.0 + noise), 2: list(0.5 + noise), 3: list(1 + noise)}, 0.4)
    assert choice.recommended == 0 and choice.rejected == (2,) and choice.open_cheaper == (3,)
    assert {each.candidate: each.why for each in settled.dropped} == {2: "rejected", 1: "unlikely", 3: "futile"}
    assert is_decision_made(choice, settled) and settled.gone == {1, 2, 3} and settled.fractions == (0.4,)


def test_what_was_settled_stays_so_and_what_is_open_goes_on() -> None:
    noise = np.array([-0.02, 0.01, 0.02])
    values = {0: list(1.3 + noise), 1: list(1.015 + noise)}
    before = LookState((0.25,), frozenset({0}), frozenset(), (DroppedCandidate(1, "futile", 0.1),))
    choice, settled = seen(values, 0.5, before)
    assert 0 in settled.accepted and settled.dropped[0] == before.dropped[0] and is_decision_made(choice, settled)
    choice, settled = seen(values, 0.3)
    assert choice.recommended == 0 and choice.open_cheaper == (1,) and not is_decision_made(choice, settled)
    assert seen({0: list(0.5 + noise), 1: list(0.6 + noise)}, 0.5)[0].outcome == "none"


def test_without_a_cost_the_first_that_surely_holds_is_the_decision() -> None:
    noise = np.array([-0.02, 0.01, 0.02, -0.01])
    cells = {(0, 0): dict(enumerate(0.99 + noise)), (1, 0): dict(enumerate(2.0 + noise))}
    choice, settled = take_look([MetricTrials(cells)], [Limit(0, 1.0, True)], {}, (2, 1), 0.05, 0.3, NOTHING)
    assert (
        choice.recommended == 1
        and is_decision_made(choice, settled)
        and "unlikely" not in {d.why for d in settled.dropped}
    )


def test_incomplete_blocks_have_the_errors_of_least_squares() -> None:
    """Cells 0 and 1 ended after three of eight blocks: against the covariance of an ordinary linear model."""
    rng, there = np.random.default_rng(5), np.ones((4, 8), bool)
    there[:2, 3:] = False
    grid = np.where(there, rng.normal(size=there.shape), np.nan)
    columns, effects = _fit_blocks(grid, there)
    rows = np.argwhere(there)
    design = np.zeros((len(rows), 4 + 8))
    design[np.arange(len(rows)), rows[:, 0]] = design[np.arange(len(rows)), 4 + rows[:, 1]] = 1
    covariance = np.linalg.pinv(design.T @ design)
    means = np.hstack([np.eye(4), np.full((4, 8), 1 / 8)])
    assert columns.errors == pytest.approx(np.diag(means @ covariance @ means.T))
    fitted = covariance @ design.T @ grid[there]
    assert effects == pytest.approx(fitted[4:] - fitted[4:].mean())
    leverage = np.einsum("ij,jk,ik->i", design, covariance, design)
    df = columns.counts - 1 - columns.df_of_blocks
    assert df == pytest.approx([(1 - leverage[rows[:, 0] == cell]).sum() for cell in range(4)])
    assert df.sum() == pytest.approx(len(rows) - 4 - 8 + 1)


def test_a_mean_of_fewer_blocks_is_known_less_well_and_its_interval_covers() -> None:
    rng, covered, widths = np.random.default_rng(8), [], []
    for _ in range(300):
        blocks = rng.normal(0, 0.1, 8)
        cells = {
            (at, 0): {block: float(np.exp(0.1 * rng.normal() + blocks[block])) for block in range(3 if at > 1 else 8)}
            for at in range(4)
        }
        means, _ = MeanDraws([MetricTrials(cells)], (500, 4, 1)).of(0)
        low, high = np.quantile(means[:, :, 0], (0.05, 0.95), axis=0)
        covered.append((low <= 1) & (high >= 1))
        widths.append(np.log(high / low))
    assert np.mean(covered, axis=0) == pytest.approx([0.9] * 4, abs=0.08)
    width = np.mean(widths, axis=0)
    assert min(width[2:]) > 1.1 * max(width[:2])


def test_adaptive_allocation_decides_as_well_with_far_fewer_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "DRAWS", 2000)  # as in the bench
    found = [bench.outcomes(number) for number in range(8)]
    adaptive = [each["adaptive, confidence 95%"] for each in found]
    fixed = [each["12 blocks"] for each in found]
    assert np.mean([each.trials for each in adaptive]) < 96 / 2.5 and sum(each.violator for each in adaptive) <= 1
    assert sum(each.recommends for each in adaptive) >= sum(each.recommends for each in fixed) - 1
    assert np.nanmean([each.extra for each in adaptive]) < np.nanmean([each.extra for each in fixed]) + 0.15

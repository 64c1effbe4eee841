"""Several campaigns in one decision: known answers, and the rates on a hundred worlds.

benches/decision_campaigns.py measures the rates on more worlds for each kind of difference."""

from __future__ import annotations

import numpy as np
import pytest
from benches import decision_campaigns as promises
from scipy.stats import t

from lastro.stats import decision
from lastro.stats.campaign_effects import CampaignDraws, draw_means, linked
from lastro.stats.cell_means import DRAWS, MetricTrials

from ..support.products import one_of

CAMPAIGNS = {block: block // 2 for block in range(6)}  # three of two blocks


def trials(shifts: list[float], log: bool = True) -> MetricTrials:
    """Two cells of three campaigns with these shifts, almost without noise."""
    noise = np.array([0.001, -0.001] * 3)
    logs = np.repeat(shifts, 2) + np.array([noise, np.log(2) - noise])
    values = np.exp(logs) if log else logs
    return MetricTrials({(at, 0): dict(enumerate(own.tolist())) for at, own in enumerate(values)})


@pytest.mark.parametrize("log", [True, False])
def test_the_mean_over_campaigns_has_students_interval_over_their_means(log: bool) -> None:
    shifts = [0.02, 0.05, -0.01]
    draws = draw_means(trials(shifts, log), (2, 1), CAMPAIGNS)[:, 0, 0]
    draws = np.log(draws) if log else draws
    exact = t(2, np.mean(shifts), np.std(shifts, ddof=1) / 3**0.5).ppf([0.05, 0.5, 0.95])
    assert np.quantile(draws, [0.05, 0.5, 0.95]) == pytest.approx(exact, abs=0.004)


def test_candidates_are_compared_within_campaigns_and_the_next_trial_is_of_another() -> None:
    draws = CampaignDraws([trials([0.1, -0.1, 0.0])], (DRAWS, 2, 1), CAMPAIGNS)
    means, nexts = draws.of(0)
    assert np.quantile(means[:, 1] / means[:, 0], [0.025, 0.975]) == pytest.approx([2, 2], abs=0.02)
    spread = [float(np.subtract(*np.quantile(np.log(each[:, 0]), [0.75, 0.25]))) for each in (means, nexts)]
    assert spread[1] == pytest.approx(2 * spread[0], rel=0.1), "of four times the variance, with three campaigns"


def test_a_cell_of_one_campaign_is_compared_through_what_all_measured() -> None:
    cells = {cell: dict(by_block) for cell, by_block in trials([0.3, 0.0, -0.3]).cells.items()}
    cells[2, 0] = {block: 3 * cells[0, 0][block] for block in (0, 1)}  # in the fastest campaign alone
    means = draw_means(MetricTrials(cells), (3, 1), CAMPAIGNS)
    assert np.median(means[:, 2] / means[:, 0]) == pytest.approx(3, rel=0.01)
    assert linked(MetricTrials(cells), CAMPAIGNS) and not linked(MetricTrials({(2, 0): cells[2, 0]}), CAMPAIGNS)
    del cells[1, 0]
    assert not linked(MetricTrials(cells), CAMPAIGNS), "how far single cells differ is not known from one"
    with pytest.raises(ValueError, match="in all campaigns"):
        draw_means(MetricTrials({(2, 0): cells[2, 0]}), (3, 1), CAMPAIGNS)


def test_a_cell_of_one_campaign_has_the_error_of_its_shift_and_all_of_its_own_effect() -> None:
    """Two cells of three campaigns, and one of the first alone: its ratio to another is covered, and so is its mean."""
    rng, held, worlds = np.random.default_rng(3), np.zeros(2), 120
    for _ in range(worlds):
        logs = 0.05 * rng.standard_normal((1, 3, 1)) + 0.05 * rng.standard_normal((4, 3, 1))
        logs = (logs + 0.02 * rng.standard_normal((4, 3, 3))).reshape(4, 9)
        cells = {(at, 0): dict(enumerate(np.exp(own).tolist())) for at, own in enumerate(logs)}
        cells[3, 0] = {block: cells[3, 0][block] for block in range(3)}
        draws = np.log(draw_means(MetricTrials(cells), (4, 1), {block: block // 3 for block in range(9)})[:, :, 0])
        for at, own in enumerate((draws[:, 3] - draws[:, 0], draws[:, 3])):
            low, high = np.quantile(own, [0.025, 0.975])
            held[at] += low <= 0 <= high
    assert held.min() / worlds >= 0.91


def test_a_metric_without_values_is_missing() -> None:
    draws = CampaignDraws([trials([0.1, -0.1, 0.0]), MetricTrials({})], (DRAWS, 2, 1), CAMPAIGNS)
    assert draws.missing(0, {0, 1}) == (1,) and np.isnan(draws.of(1)[0]).all()


@pytest.mark.parametrize("n", one_of([2, 3, 5]))
def test_intervals_hold_the_mean_over_campaigns_and_violators_are_rare(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "DRAWS", 500)
    found = promises.rates(n, promises.SHIFTS["3 %, and 2 % of each cell"], 100)
    assert found.means >= 0.92 and found.costs >= 0.90 and found.violators <= 0.08


def test_blocks_that_are_pooled_as_one_campaign_promise_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "DRAWS", 500)
    assert promises.rates(2, promises.SHIFTS["10 %"], 60, as_one=True).means < 0.75


def test_campaigns_that_ended_when_they_were_decided_do_not_mislead_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision, "DRAWS", 500)
    _, together, blocks = promises.until_decided(3, promises.SHIFTS["3 %"], 10)
    assert together <= 0.1 and 2 < blocks < promises.MOST_BLOCKS

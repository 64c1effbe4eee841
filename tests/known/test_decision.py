"""Which candidate keeps its limits: known answers, and the promises on a few hundred worlds.

benches/decision_promises.py measures the promises on 1,000 worlds for each kind of noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benches import decision_promises as promises
from scipy.stats import norm, t

from lastro.stats import decision
from lastro.stats.cell_means import DRAWS, MetricTrials
from lastro.stats.decision import Choice, Limit, TailOdds, choose, more_blocks

Cells = dict[tuple[int, int], dict[int, float]]


def one(values: dict[int, list[float]], limit: Limit, floors: frozenset[tuple[int, int]] = frozenset()) -> Choice:
    """The choice among candidates by these values of one metric, which is the cost, too, in one condition."""
    cells = {(at, 0): dict(enumerate(own)) for at, own in values.items()}
    return choose([MetricTrials(cells, floors)], [limit], {0: 1.0}, (max(values) + 1, 1))


def test_a_single_candidate_has_students_posterior() -> None:
    """Of logarithms: their mean is known as well as Student's t says, by the variance of blocks."""
    values = [9.0, 10.0, 11.5, 10.4]
    logs = np.log(values)
    (odds,) = one({0: values}, Limit(0, 9.5, True)).odds
    error = logs.std(ddof=1) / math.sqrt(len(logs))
    assert odds.holds == pytest.approx(t(3).sf((math.log(9.5) - logs.mean()) / error), abs=0.02)
    assert odds.cost is not None and odds.cost.value == pytest.approx(math.exp(logs.mean()), rel=0.01)
    next_error = logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs))
    assert odds.next_holds == pytest.approx(t(3).sf((math.log(9.5) - logs.mean()) / next_error), abs=0.03)


def test_the_cheapest_that_surely_holds_is_recommended_and_the_doubtful_cheaper_one_is_named() -> None:
    noise = np.array([-0.02, 0.01, 0.02, -0.01, 0.0])
    values = {0: list(1.30 + noise), 1: list(1.20 + noise), 2: list(1.005 + noise), 3: list(0.5 + noise)}
    found = one(values, Limit(0, 1.0, True))
    assert found.recommended == 1 and found.outcome == "recommended"
    assert found.accepted == (1, 0) and found.rejected == (3,)
    assert found.open_cheaper == (2,) and found.alike == ()
    assert [found.verdict(at) for at in range(4)] == ["accepted", "accepted", "open", "rejected"]
    assert found.odds[0].cheapest == pytest.approx(0.0, abs=0.02)


def test_costs_that_are_not_distinguishable_are_named_with_the_probability_that_each_is_lower() -> None:
    noise = np.array([-0.05, 0.03, 0.05, -0.03, 0.02])
    found = one({0: list(1.32 + noise[::-1]), 1: list(1.30 + noise), 2: list(2.0 + noise)}, Limit(0, 1.0, True))
    assert (found.recommended, found.alike, found.accepted) == (1, (0,), (1, 0, 2))
    (less,) = found.alike_less
    assert 0.05 < less.p < 0.5 and less.df > 4
    likely, sure = (more_blocks(less, 5, chance, (0.05, 0.05)) for chance in (0.5, 0.8))
    assert likely is not None and sure is not None and 1 < likely < sure
    reverse = less._replace(p=1 - less.p)
    assert more_blocks(reverse, 5, 0.8, (0.05, 0.05)) == sure, "either may be the cheaper one"


def test_no_candidate_and_no_decision_are_two_outcomes() -> None:
    noise = np.array([-0.02, 0.01, 0.02, -0.01])
    assert one({0: list(0.5 + noise), 1: list(0.6 + noise)}, Limit(0, 1.0, True)).outcome == "none"
    undecided = one({0: list(0.5 + noise), 1: list(0.99 + noise)}, Limit(0, 1.0, True))
    assert undecided.outcome == "undecided" and undecided.likeliest == 1


def test_a_lower_bound_proves_what_is_at_least_so_large_and_nothing_else() -> None:
    noise, both = np.array([-0.02, 0.01, 0.02, -0.01]), frozenset({(0, 0), (1, 0)})
    found = one({0: list(2.0 + noise), 1: list(0.5 + noise)}, Limit(0, 1.0, True), both)
    assert found.verdict(0) == "accepted" and found.verdict(1) == "open"
    assert found.odds[1].holds == pytest.approx(0.0, abs=0.01) and found.odds[1].may_hold == 1.0
    below = one({0: list(0.5 + noise)}, Limit(0, 1.0, False), frozenset({(0, 0)}))
    assert below.verdict(0) == "open", "it may be above the limit"
    assert more_blocks(below.odds[0].tail, 4, 0.5, below.levels(0.05)) is None, "more blocks show no more than a bound"
    above = one({0: list(2.0 + noise)}, Limit(0, 1.0, False), frozenset({(0, 0)}))
    assert above.outcome == "none", "what is at least 2 is not at most 1"


def test_all_limits_must_hold_in_the_worst_condition() -> None:
    rng = np.random.default_rng(1)

    def values(mean: float) -> dict[int, float]:
        return dict(enumerate(mean * np.exp(rng.normal(0, 0.01, 5))))

    rate: Cells = {(0, 0): values(2.0), (0, 1): values(2.0), (1, 0): values(2.0), (1, 1): values(0.7)}
    delay: Cells = {(0, 0): values(0.5), (0, 1): values(0.6), (1, 0): values(0.1), (1, 1): values(0.1)}
    found = choose(
        [MetricTrials(rate), MetricTrials(delay)], [Limit(0, 1.0, True), Limit(1, 1.0, False)], {1: 1.0}, (2, 2)
    )
    assert found.recommended == 0 and found.rejected == (1,)
    broken, kept = found.odds[1].limits
    assert broken is not None and kept is not None
    assert broken.condition == 1 and broken.holds < 0.01 < 0.99 < kept.holds
    assert broken.mean.value == pytest.approx(0.7, rel=0.05)
    delay_of_0 = found.odds[0].limits[1]
    assert delay_of_0 is not None and delay_of_0.condition == 1, "though both surely hold"


def test_a_candidate_that_was_not_measured_in_some_condition_is_never_accepted() -> None:
    cells: Cells = {(0, 0): {0: 2.0, 1: 2.1}, (1, 0): {0: 2.0, 1: 2.1}, (1, 1): {0: 2.0, 1: 2.05}}
    found = choose([MetricTrials(cells)], [Limit(0, 1.0, True)], {}, (2, 2))
    assert found.odds[0].missing == (0,) and found.verdict(0) == "missing" and math.isnan(found.odds[0].holds)
    assert found.recommended in (None, 1)


@pytest.mark.parametrize("kind", promises.KINDS)
def test_a_violator_is_rarely_recommended_and_stated_probabilities_come_true(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share of a thousand draws is known much better than a rate of so few worlds."""
    monkeypatch.setattr(decision, "DRAWS", 1000)
    found = promises.tally(5, kind, 180 if kind == promises.KINDS[4] else 60, seed=7)  # there, candidates err together
    assert found.violators <= 0.05 * found.worlds + 2
    assert found.recommended > (0.5 if kind != promises.KINDS[4] else 0.05) * found.worlds
    if kind != promises.KINDS[3]:  # in a host that drifts, five blocks know less than they seem to
        assert np.mean(found.intervals) > 0.93 and np.mean(found.costs) > 0.93
    for p, share, error, n in promises.reliability(found.stated):
        assert abs(p - share) < 0.05 + 3.5 * error, (p, share, n)


def test_the_blocks_that_decide_do_so_as_often_as_said() -> None:
    """A candidate that is open after 5 blocks gets as many more as were said to decide with a probability of 50 %."""
    rng, asked, decided = np.random.default_rng(3), 0, 0
    for _ in range(1500):
        truth = rng.uniform(-4.0, 4.0)  # standard errors of five blocks from the limit
        seen = truth + rng.normal()
        holds = float(norm.cdf(seen))
        if not 0.05 < holds < 0.95 or (more := more_blocks(TailOdds(holds, 200.0), 5, 0.5, (0.05, 0.05))) is None:
            continue
        asked += 1
        sharper = math.sqrt((5 + more) / 5)
        # The five blocks are part of the whole: their error counts with their share of it.
        whole = truth * sharper + (seen - truth) / sharper + rng.normal() * math.sqrt(1 - 1 / sharper**2)
        decided += abs(whole) > norm.ppf(0.95)
    assert asked > 150 and 0.38 < decided / asked < 0.65


def test_more_certainty_needs_more_blocks() -> None:
    found = [more_blocks(TailOdds(0.8, 4.0), 5, chance, (0.05, 0.05)) for chance in (0.5, 0.8)]
    assert found[0] is not None and found[1] is not None and 1 <= found[0] < found[1]
    assert more_blocks(TailOdds(0.5, 4.0), 5, 0.99, (0.001, 0.001)) is None and 1 / DRAWS < 0.001


def test_the_tails_of_draws_are_those_of_students_t() -> None:
    """With five blocks, the mean of a single candidate has four degrees of freedom; constant values have none."""
    (odds,) = one({0: [9.0, 10.0, 11.5, 10.4, 9.7]}, Limit(0, 9.5, True)).odds
    assert odds.tail.p == odds.holds and odds.tail.df == pytest.approx(4.0, rel=0.25)


def test_fewer_candidates_in_question_need_fewer_blocks() -> None:
    """Of four candidates, Holm's method tests the only open one at a larger level than one of four open ones."""
    noise = np.array([-0.05, 0.03, 0.05, -0.03, 0.02])
    values = {0: list(1.02 + noise), 1: list(2.0 + noise), 2: list(2.2 + noise[::-1]), 3: list(0.5 + noise)}
    found = one(values, Limit(0, 1.0, True))
    assert found.verdict(0) == "open" and found.levels(0.05) == (0.05, 0.05 / 3)
    blocks = [more_blocks(found.odds[0].tail, 5, 0.8, (alpha, alpha)) for alpha in (0.05, 0.05 / 4)]
    assert blocks[0] is not None and blocks[1] is not None and blocks[0] < blocks[1]


def test_without_a_candidate_that_was_measured_everywhere_nothing_is_decided() -> None:
    cells: Cells = {(0, 0): {0: 2.0, 1: 2.1}, (1, 1): {0: 2.0, 1: 2.1}}
    found = choose([MetricTrials(cells)], [Limit(0, 1.0, True)], {}, (2, 2))
    assert found.outcome == "undecided" and found.likeliest is None and found.recommended is None


def test_equal_values_are_as_certain_as_the_resolution_of_the_tool() -> None:
    """Counts of ten: that all three are 100 leaves open whether the mean is above 99."""
    found = one({0: [100.0, 100.0, 100.0], 1: [110.0, 120.0, 130.0]}, Limit(0, 99.9, True))
    assert 0.5 < found.odds[0].holds < 0.99

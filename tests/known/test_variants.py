"""The rule of `lastro ab`: verdicts of intervals, the error over several looks, false alarms and power by simulation.

benches/ab_alarms.py has 2,000 worlds for each row."""

from __future__ import annotations

import pytest
from benches import ab_alarms as bench

from lastro.stats.block_model import BlockModel
from lastro.stats.variants import Better, confidence_at, is_confirmed, new_blocks, variant_changes

from ..support.products import combinations


def model(*values: list[float]) -> BlockModel:
    found = BlockModel.of({cell: dict(enumerate(own, 1)) for cell, own in enumerate(values)})
    assert found is not None
    return found


BEFORE, SLOWER = [100.0, 101.0, 99.0, 100.0], [110.0, 111.0, 109.5, 110.0]


@pytest.mark.parametrize(("better", "verdict"), [("lower", "worse"), ("higher", "no worse")])
def test_the_direction_of_the_metric_decides_what_is_worse(better: Better, verdict: str) -> None:
    (found,) = variant_changes(model(BEFORE, SLOWER), [(1, 0)], better, 0.95)
    assert found.verdict(0.03) == verdict and 0.09 < abs(found.loss.value or 0) < 0.11 and found.most > 0.1
    assert found.low < (found.loss.value or 0) < found.high


def test_a_sure_change_within_the_margin_is_none_and_an_open_one_stays_open() -> None:
    (sure,) = variant_changes(model(BEFORE, SLOWER), [(1, 0)], "lower", 0.95)
    assert sure.verdict(0.2) == "no worse"
    (wide,) = variant_changes(model([100.0, 120.0, 90.0], [95.0, 110.0, 119.0]), [(1, 0)], "lower", 0.95)
    assert wide.verdict(0.03) == "open"
    (nothing,) = variant_changes(model([100.0], [120.0]), [(1, 0)], "lower", 0.95)
    assert nothing.verdict(0.03) == "open" and nothing.high == float("inf")


def test_each_look_spends_a_part_of_the_error() -> None:
    assert confidence_at([10], 10, 0.95) == pytest.approx(0.95, abs=1e-4)
    several = [confidence_at(range(2, last + 1), 10, 0.95) for last in range(2, 11)]
    assert all(0.95 < each < 1 for each in several) and sum(1 - each for each in several) > 0.05


def test_new_blocks_must_show_the_change_by_themselves() -> None:
    assert [new_blocks(n) for n in (2, 3, 10)] == [3, 3, 10]
    assert is_confirmed(model(BEFORE, SLOWER), 1, 0, "lower") and not is_confirmed(model(BEFORE, SLOWER), 0, 1, "lower")
    assert not is_confirmed(None, 1, 0, "lower") and not is_confirmed(model(BEFORE), 1, 0, "lower")


@pytest.mark.parametrize(("host", "n_pairs"), combinations(bench.HOSTS, (1, 6)))
def test_no_host_makes_false_alarms_and_intervals_hold_the_truth(host: str, n_pairs: int) -> None:
    for rule, (worse, _, *held) in bench.rates(60 if n_pairs == 1 else 30, 0.0, host, n_pairs).items():
        assert worse <= 0.05 or rule in bench.TWO, (rule, worse)
        assert all(share >= 0.9 for share in held), (rule, held)


def test_it_finds_what_two_campaigns_find_and_not_the_day() -> None:
    found = bench.rates(60, 0.10, "another day")
    assert found["10 blocks"][0] > 0.9 and found["until decided"][0] > 0.9
    assert bench.rates(60, 0.0, "another day")["two campaigns"][0] > 0.1

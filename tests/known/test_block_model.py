"""The model of a metric: textbook tests as special cases, the whole projection, logarithms, resolution, lost trials."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lastro.stats.anova import anova
from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare_one, ratio_of_sums, sum_of_means
from lastro.stats.intervals import Estimate

from ..support.products import combinations

# Student's sleep data (Cushny and Peebles 1905), which R ships as `sleep`: extra hours under two drugs, ten patients.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
Cells = dict[str, dict[int, float]]


def of_blocks(first: int = 0, **cells: list[float]) -> Cells:
    return {name: dict(enumerate(values, first)) for name, values in cells.items()}


def fitted(cells: Cells) -> BlockModel:
    found = BlockModel.of(cells)
    assert found is not None
    return found


def test_two_treatments_in_the_same_blocks_have_the_paired_t_test() -> None:
    """R: t.test(extra ~ group, data = sleep, paired = TRUE), in the R that still took this."""
    found = compare_one(fitted(of_blocks(a=FIRST, b=SECOND)), {"a": 1.0}, {"b": 1.0}, 0.95)
    interval = found.difference.interval
    assert interval is not None and not found.log
    assert (found.difference.df, found.p) == (pytest.approx(9), pytest.approx(0.002833, abs=5e-7))
    assert (interval.low, interval.high) == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert (found.difference.n, found.difference.pairing) == (10, "paired")


finite = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@given(
    st.lists(st.tuples(finite, finite), min_size=2, max_size=8).filter(lambda p: np.ptp([a - b for a, b in p]) > 0.01)
)
@settings(deadline=None)
def test_so_does_every_pair(pairs: list[tuple[float, float]]) -> None:
    a, b = ([pair[i] + 1e-5 * i * at for at, pair in enumerate(pairs)] for i in (0, 1))
    estimate = fitted(of_blocks(a=a, b=b)).linear.estimate({"a": 1.0, "b": -1.0})
    assert estimate.error == pytest.approx(stats.sem(np.subtract(a, b)), rel=1e-6)
    assert estimate.df == pytest.approx(len(a) - 1)


@pytest.mark.parametrize("seed", range(4))
def test_a_main_effect_of_equally_noisy_cells_has_the_f_of_the_analysis_of_variance(seed: int) -> None:
    """F is t squared for a factor of two levels. Moderation keeps the pooled variance; what is raised is little."""
    rng = random.Random(seed)
    levels = [(p, k) for p in "abc" for k in "xy"]
    cells = {p + k: {b: rng.gauss(10 + b, 1) for b in range(6)} for p, k in levels}
    values = [value for own in cells.values() for value in own.values()]
    factors = {"p": [p for p, _ in levels for _ in range(6)], "k": [k for _, k in levels for _ in range(6)]}
    _, _, expected, _ = anova(values, factors, block=list(range(6)) * 6).effects  # of block, p, k, p × k
    estimate = fitted(cells).linear.estimate({p + k: (1 if k == "x" else -1) / 3 for p, k in levels})
    assert expected.f is not None and estimate.error is not None
    t_squared = (estimate.value / estimate.error) ** 2
    assert 0.9 * expected.f <= t_squared <= expected.f * (1 + 1e-9)
    assert 20 <= estimate.df <= 25


@pytest.mark.parametrize("seed", range(5))
def test_value_and_error_agree_with_the_whole_projection_where_trials_are_lost(seed: int) -> None:
    rng = random.Random(seed)
    cells = {c: {b: rng.gauss(10 * b, 1) for b in range(6) if rng.random() < 0.7 or b < 2} for c in "abcd"}
    rows = [(c, b) for c in cells for b in cells[c]]
    y = np.array([cells[c][b] for c, b in rows])
    model = fitted(cells).linear
    found = model.estimate({"a": 1.0, "b": -1.0})
    x = np.array([[c == k for k in "abcd"] + [b == k for k in range(1, 6)] for c, b in rows], dtype=float)
    weight = np.array([1, -1, 0, 0, 0, 0, 0, 0, 0]) @ np.linalg.pinv(x.T @ x) @ x.T
    scale = model.blocked.data.scale**2
    variances = np.array([model.blocked.variances["abcd".index(c)] for c, _ in rows]) * scale
    rest = y - x @ np.linalg.pinv(x.T @ x) @ x.T @ y
    assert found.value == pytest.approx(weight @ y)
    assert found.error == pytest.approx(np.sqrt(weight**2 @ variances))
    pooled = rest @ rest / (len(rows) - 9)
    assert 0.2 * pooled < min(variances) <= max(variances) < 5 * pooled, "no cell is far from the pooled variance"


def test_across_blocks_it_is_unpaired_and_so_are_cells_that_hardly_share_any() -> None:
    apart = {"a": {1: 3.1, 2: 4.0, 3: 5.2, 4: 4.4}, "b": {5: 1.0, 6: 9.0, 7: 2.5}}
    found = compare_one(fitted(apart), {"a": 1.0}, {"b": 1.0}, 0.95).difference
    assert (found.pairing, found.n) == ("unpaired", 7)
    assert found.value == pytest.approx(4.175 - 12.5 / 3)
    welch = stats.ttest_ind([3.1, 4.0, 5.2, 4.4], [1.0, 9.0, 2.5], equal_var=False)
    assert found.df is not None and welch.df < found.df <= 5, "the variances know of each other"
    hardly = {"x": {1: 1.0, 2: 2.0, 3: 4.0, 4: 2.0, 5: 3.0}, "y": {5: 1.0, 6: 2.0, 7: 4.0, 8: 2.5}}
    assert compare_one(fitted(hardly), {"x": 1.0}, {"y": 1.0}, 0.95).ratio.pairing == "unpaired"
    half = {"x": {1: 1.0, 2: 2.0, 3: 4.0, 4: 2.0}, "y": {3: 1.0, 4: 2.0, 5: 4.0, 6: 2.5}}
    assert compare_one(fitted(half), {"x": 1.0}, {"y": 1.0}, 0.95).ratio.pairing == "paired"


def test_a_cell_with_one_value_has_no_error_and_no_interval() -> None:
    model = fitted({"a": {1: 1.0, 2: 1.5}, "b": {1: 31.0, 2: 31.4}, "c": {1: 4.0}})
    found = compare_one(model, {"a": 1.0}, {"c": 1.0}, 0.95)
    assert found.ratio.value is not None and found.ratio.interval is None and found.p is None
    assert "needs 2 trials" in (found.ratio.absent_because or "")
    assert compare_one(model, {"a": 1.0}, {"b": 1.0}, 0.95).ratio.interval is not None


def test_logarithms_are_chosen_where_noise_is_in_proportion() -> None:
    rng = random.Random(5)
    level = {"native": 5.0, "kvm": 6.0, "qemu": 98.0}
    blocks = [rng.gauss(0, 0.05) for _ in range(5)]

    def drawn(times: bool) -> Cells:
        return {
            name: {b: mean * math.exp(0.1 * rng.gauss(0, 1) + e) if times else mean + e + rng.gauss(0, 0.5)
                   for b, e in enumerate(blocks)}
            for name, mean in level.items()
        }  # fmt: skip

    proportional, additive = fitted(drawn(True)), fitted(drawn(False))
    assert proportional.log and not additive.log
    ratio = compare_one(proportional, {"qemu": 1.0}, {"native": 1.0}, 0.95)
    assert ratio.ratio.interval is not None and ratio.ratio.interval.holds(19.6)
    assert ratio.difference.value == pytest.approx((19.6 - 1) * 5.0, rel=0.3)
    assert not fitted({"a": {0: 0.0, 1: 100.0}, "b": {0: 1.0, 1: 2.0}}).log, "no logarithm of zero"


@pytest.mark.parametrize("unit", [1e-170, 1e-9, 1.0, 1e120])
def test_the_unit_of_the_values_changes_nothing(unit: float) -> None:
    rng = random.Random(7)
    base = {c: [rng.gauss(10, 1) for _ in range(4)] for c in "abc"}
    one, other = (fitted(of_blocks(**{c: [u * v for v in own] for c, own in base.items()})) for u in (1.0, unit))
    first, second = (compare_one(model, {"b": 1.0}, {"a": 1.0}, 0.95) for model in (one, other))
    assert first.p == pytest.approx(second.p, rel=1e-9) and first.log == second.log
    assert first.ratio.interval is not None and second.ratio.interval is not None
    assert first.ratio.interval.low == pytest.approx(second.ratio.interval.low, rel=1e-9)
    assert first.difference.interval is not None and second.difference.interval is not None
    assert second.difference.interval.high == pytest.approx(unit * first.difference.interval.high, rel=1e-9)


# Resolution


def test_one_step_apart_is_no_difference_and_many_steps_are() -> None:
    """42.00 and 42.01 may both be 42.005; that neither ever varied proves nothing."""
    model = fitted(of_blocks(a=[42.0] * 6, b=[42.01] * 6, c=[43.5, 43.51, 43.5, 43.5, 43.51, 43.5]))
    near, far = (compare_one(model, {at: 1.0}, {"a": 1.0}, 0.95) for at in "bc")
    assert near.p == 1.0 and near.ratio.interval is not None and near.ratio.interval.holds(1.0)
    assert near.difference.interval is not None and near.difference.interval.low <= 0.0
    assert far.p is not None and far.p < 0.001 and far.ratio.interval is not None
    assert 43.49 / 42.01 < far.ratio.interval.low < far.ratio.interval.high < 43.52 / 41.99
    assert far.ratio.interval.half_width > 0.005 / 42, "half a step of either"


@pytest.mark.parametrize(("n", "least"), [(2, 0.5), (5, 0.0625), (6, 0.03125)])
def test_what_never_varies_is_as_certain_as_the_blocks_allow(n: int, least: float) -> None:
    a, b = 5 / 3, 2.0  # no steps of whole numbers, or of decimals
    model = fitted(of_blocks(a=[a] * n, b=[b] * n))
    found = compare_one(model, {"b": 1.0}, {"a": 1.0}, 0.95)
    assert found.p == found.p_adjusted == least
    assert (found.ratio.interval is None) == (least >= 0.05), "an interval without a width only where p is below 5 %"
    assert "nothing varied" in (found.ratio.absent_because or "nothing varied")
    same = compare_one(fitted(of_blocks(a=[a] * n, b=[a] * n, c=[b] * n)), {"b": 1.0}, {"a": 1.0}, 0.95)
    assert same.p == 1.0 and same.difference.value == 0.0


# Shares


def recovered(cells: Cells) -> Estimate:
    """How much of what a disturbance costs a protection recovers: 0 is nothing, 1 is all of it."""
    return ratio_of_sums(fitted(cells), {"p": 1.0, "d": -1.0}, {"q": 1.0, "d": -1.0}, 0.95)


def test_a_protection_that_gives_back_half_recovers_half() -> None:
    rng = random.Random(3)
    shared = [rng.gauss(0, 20) for _ in range(8)]
    found = recovered(
        {
            k: {b: m + s + rng.gauss(0, 1) for b, s in enumerate(shared)}
            for k, m in {"q": 200, "d": 140, "p": 170}.items()
        }
    )
    assert found.pairing == "paired" and found.interval is not None
    assert found.interval.holds(0.5) and found.interval.half_width < 0.05


def test_a_share_is_unbounded_where_the_disturbance_costs_nothing() -> None:
    cells = of_blocks(q=[10.0, 10.4, 9.8, 10.1], d=[10.1, 10.2, 9.9, 10.0], p=[10.2, 10.1, 9.7, 10.3])
    found = recovered(cells)
    assert found.interval is None and "unbounded" in (found.absent_because or "")
    assert recovered(of_blocks(q=[5.0, 5.0], d=[5.0, 5.0], p=[5.0, 5.0])).value is None


@pytest.mark.parametrize(("spread", "paired"), combinations(((1.0, 1.0, 1.0), (1.0, 3.0, 0.3)), (True, False)))
def test_intervals_of_differences_and_shares_cover(spread: tuple[float, ...], paired: bool) -> None:
    """Of three treatments, one ten times as noisy as another: a bit less often than stated."""
    rng, rounds = random.Random(17), 400
    held = {"difference": 0, "share": 0}
    for _ in range(rounds):
        shared = [rng.gauss(0, 2 * paired) for _ in range(6)]
        cells = {
            key: {b if paired else 10 * i + b: mean + shared[b] + rng.gauss(0, sd) for b in range(6)}
            for i, (key, mean, sd) in enumerate(zip("qdp", (20.0, 8.0, 12.0), spread, strict=True))
        }
        gap = sum_of_means(fitted(cells), {"q": 0.5, "p": 0.5, "d": -1.0}, 0.95).interval
        given_back = recovered(cells).interval
        held["difference"] += gap is not None and gap.holds(8.0)
        held["share"] += given_back is None or given_back.holds(1 / 3)
    least = 0.92 if len(set(spread)) == 1 else 0.89
    assert all(least <= count / rounds <= 0.99 for count in held.values()), held


@pytest.mark.parametrize(("n_blocks", "block_sd", "noisy"), combinations((5, 10), (0.0, 3.0), ((), ("a1", "b2"))))
def test_means_of_many_cells_cover_where_a_quarter_of_the_trials_is_lost(
    n_blocks: int, block_sd: float, noisy: tuple[str, ...]
) -> None:
    rng, rounds, held = random.Random(12), 300, {"difference": 0, "ratio": 0}
    up, down = ({f"{name}{i}": 0.25 for i in range(4)} for name in "ab")
    for _ in range(rounds):
        shared = [rng.gauss(0, block_sd) for _ in range(n_blocks)]
        cells = {}
        for key in (*up, *down):
            stay, sd, level = {*rng.sample(range(n_blocks), 2)}, 3.0 if key in noisy else 1.0, 40 if key in up else 20
            cells[key] = {
                b: level + shared[b] + rng.gauss(0, sd) for b in range(n_blocks) if b in stay or rng.random() >= 0.25
            }
        found = compare_one(fitted(cells), up, down, 0.95)
        held["difference"] += found.difference.interval is not None and found.difference.interval.holds(20.0)
        held["ratio"] += found.ratio.interval is not None and found.ratio.interval.holds(2.0)
    assert held["difference"] / rounds >= 0.92 and held["ratio"] / rounds >= 0.92, held

"""How often a gate finds the loss whose power it states, and how often it shows what is not so."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from lastro.stats.margins import GateCandidate, Precision, gate, ratio_test
from lastro.stats.sampled_mean import SampledMean

from ..support.products import combinations

CAMPAIGNS = 3000  # the standard error of a rate of 0.8 is 0.007
MARGIN = 0.05
Values = npt.NDArray[np.float64]


def samples(rng: np.random.Generator, mean: float, spread: float, *shape: int) -> Values:
    return mean * (1 + spread * rng.standard_normal(shape))


def precision(spread: float, n: int, known_df: float | None = None, better: str = "lower") -> Precision:
    error = spread / n**0.5
    return Precision((error, error), (n - 1, n - 1), better, (n, n), known_df)  # type: ignore[arg-type]


@pytest.mark.parametrize(("n", "better"), combinations((3, 5, 10), ("lower", "higher")))
def test_the_stated_power_is_the_rate_of_finds_where_the_noise_is_known(n: int, better: str) -> None:
    """One cell of many: alpha is a ninth of 5 %."""
    alpha, spread, rng = 0.05 / 9, 0.02, np.random.default_rng([n, len(better)])
    loss = precision(spread, n, 1e6, better).least_found(MARGIN, alpha)
    assert loss is not None
    sign, side = (1, "above") if better == "lower" else (-1, "below")
    befores, afters = (
        samples(rng, 100, spread, CAMPAIGNS, n),
        samples(rng, 100 * (1 + sign * loss), spread, CAMPAIGNS, n),
    )
    found = sum(
        ratio_test(SampledMean.of(after.tolist()), SampledMean.of(before.tolist()), 1 + sign * MARGIN, side).p <= alpha  # type: ignore[arg-type]
        for before, after in zip(befores, afters, strict=True)
    )
    assert found / CAMPAIGNS == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("n", [3, 10])
def test_the_power_that_a_pilot_promises_is_kept_on_average(n: int) -> None:
    """Each pilot of n blocks estimates the noise anew; each plan's own least loss is then what happened."""
    spread, rng, campaigns = 0.02, np.random.default_rng(n), CAMPAIGNS // 3
    found = 0
    for pilot in samples(rng, 100, spread, campaigns, n):
        seen = float(pilot.std(ddof=1) / pilot.mean())
        loss = precision(seen, n, n - 1).least_found(MARGIN, 0.05)
        assert loss is not None
        a, b = samples(rng, 100, spread, n), samples(rng, 100 * (1 + loss), spread, n)
        found += ratio_test(SampledMean.of(b.tolist()), SampledMean.of(a.tolist()), 1 + MARGIN, "above").p <= 0.05
    assert found / campaigns == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("n", [3, 10])
def test_the_loss_that_a_gate_says_it_could_have_seen_is_as_likely_as_stated(n: int) -> None:
    """The noise is that of the very two campaigns. With three trials it is said a little too carefully."""
    spread, rng, campaigns = 0.02, np.random.default_rng([9, n]), CAMPAIGNS // 3
    found = 0
    for before, after in zip(*(samples(rng, 100, spread, campaigns, n) for _ in range(2)), strict=True):
        (test,) = gate(
            [GateCandidate(SampledMean.of(after.tolist()), SampledMean.of(before.tolist()), "lower")], MARGIN, 0.05
        )
        again, worse = samples(rng, 100, spread, n), samples(rng, 100 * (1 + test.least_found), spread, n)
        found += (
            ratio_test(SampledMean.of(worse.tolist()), SampledMean.of(again.tolist()), 1 + MARGIN, "above").p <= 0.05
        )
    assert 0.76 < found / campaigns < 0.86


@pytest.mark.parametrize("n", [3, 10])
def test_a_loss_at_the_margin_is_rarely_shown_to_be_absent(n: int) -> None:
    """And a campaign without any loss is shown to have none as often as stated, in four independent cells."""
    spread, cells, alpha, rng = 0.03, 4, 0.025, np.random.default_rng([4, n])
    stated = precision(spread, n, 1e6)

    def shown(loss: float, cells: int) -> float:
        a, b = (samples(rng, mean, spread, CAMPAIGNS, cells, n) for mean in (100, 100 * (1 + loss)))
        every = (
            all(
                ratio_test(SampledMean.of(y.tolist()), SampledMean.of(x.tolist()), 1 + MARGIN, "below").p <= alpha
                for x, y in zip(before, after, strict=True)
            )
            for before, after in zip(a, b, strict=True)
        )
        return sum(every) / CAMPAIGNS

    assert shown(MARGIN, 1) < 0.033
    assert shown(0.0, cells) == pytest.approx(stated.shows(0.0, MARGIN, alpha) ** cells, abs=0.03)

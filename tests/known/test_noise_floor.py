"""How often equal treatments differ by more than the noise floor, and what a floor does to a true difference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from lastro.stats.noise_floor import critical_level, pairs_of

CAMPAIGNS = 4000
APART = 3
Values = npt.NDArray[np.float64]

SHAPES = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "skewed": lambda rng, size: rng.gamma(2.0, 1 / np.sqrt(2), size) - np.sqrt(2),
    "heavy tails": lambda rng, size: rng.standard_t(5, size) / np.sqrt(5 / 3),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_equal_treatments_exceed_the_floor_at_the_stated_rate(n: int, shape: str) -> None:
    """An A/A campaign of 2n blocks, then a study of n blocks: noise of 3 %, blocks of the study that vary by 10 %."""
    rng = np.random.default_rng([n, len(shape)])
    own = 100 + 3 * SHAPES[shape](rng, (CAMPAIGNS, 2 * n))
    blocks = 1 + 0.1 * rng.standard_normal((CAMPAIGNS, n, 1))
    study = blocks * (100 + 3 * SHAPES[shape](rng, (CAMPAIGNS, n, 2)))
    beyond = 0
    for values, (a, b) in zip(own, study.mean(axis=1), strict=True):
        floor = critical_level(pairs_of(dict(enumerate(values, 1)), 2 * n, APART), n, 0.95)
        assert floor is not None
        beyond += abs(b / a - 1) > floor
    most = 0.062 if shape == "normal" else 0.08
    assert 0.04 < beyond / CAMPAIGNS < most


def test_slow_noise_counts_as_much_as_within_a_block_of_the_study() -> None:
    """AR(1) with 0.9 from trial to trial: pairs of neighbours would set the floor of a block of nine too low."""
    rng, n, size = np.random.default_rng(7), 8, 9
    beyond = {1: 0, 3: 0}
    for _ in range(CAMPAIGNS // 4):
        a, b = _slow(rng, n * size).reshape(n, size)[_two(rng, n, size)].T
        own = dict(enumerate(_slow(rng, 2 * n), 1))
        for apart in beyond:
            floor = critical_level(pairs_of(own, 2 * n, apart), n, 0.95)
            assert floor is not None
            beyond[apart] += abs(b.mean() / a.mean() - 1) > floor
    close, spaced = (count / (CAMPAIGNS // 4) for count in beyond.values())
    assert close > 0.1, "what pairs of neighbours would have promised"
    assert spaced < 0.09


def _slow(rng: np.random.Generator, size: int) -> Values:
    noise = np.empty(size)
    last = rng.standard_normal()
    for at in range(size):
        noise[at] = last = 0.9 * last + np.sqrt(1 - 0.9**2) * rng.standard_normal()
    return 100 + 3 * noise


def _two(rng: np.random.Generator, n: int, size: int) -> tuple[Values, Values]:
    """Return the places of two treatments in each block, in random order."""
    places = np.array([rng.permutation(size)[:2] for _ in range(n)])
    return np.arange(n)[:, None], places  # type: ignore[return-value]

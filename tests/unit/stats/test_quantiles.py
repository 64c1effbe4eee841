"""Quantiles against known values, and the sample sizes that they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lastro.stats.quantiles import least_n_for, quantile, quantile_if_estimable


@pytest.mark.parametrize(("q", "n"), [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_least_sample_for_a_quantile(q: float, n: int) -> None:
    assert least_n_for(q) == n
    assert 1 - q**n >= 0.95 > 1 - q ** (n - 1)


@pytest.mark.parametrize("q", [0, 1, -0.1, 1.5])
def test_a_quantile_lies_between_the_ends(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        least_n_for(q)


def test_quantile_is_definition_7() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.9) == pytest.approx(4.6)
    assert quantile([8.0], 0.99) == 8.0


def test_percentiles_only_where_the_sample_allows() -> None:
    assert quantile_if_estimable([1.0] * 298, 0.99) is None
    assert quantile_if_estimable([float(at) for at in range(299)], 0.99) == pytest.approx(295.02)
    assert quantile_if_estimable([1.0] * 298, 0.01) is None, "a lower quantile needs as much as its mirror image"
    assert quantile_if_estimable([], 0.5) is None


def test_quantiles_import_nothing_heavy() -> None:
    code = "import sys, lastro.stats.quantiles; sys.exit(bool({'numpy', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

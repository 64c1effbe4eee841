"""Analyses of variance with published answers: Jain's memory-cache study, and data sets that ship with R."""

from __future__ import annotations

import pytest

from lastro.stats.anova import anova

# R's datasets::PlantGrowth, InsectSprays and warpbreaks: dried weights of plants, counts of insects, breaks of yarn.
PLANTS = {
    "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
}
INSECTS = {
    "A": [10, 7, 20, 14, 14, 12, 10, 23, 17, 20, 14, 13],
    "B": [11, 17, 21, 11, 16, 14, 17, 17, 19, 21, 7, 13],
    "C": [0, 1, 7, 2, 3, 1, 2, 1, 3, 0, 1, 4],
    "D": [3, 5, 12, 6, 4, 3, 5, 5, 5, 5, 2, 4],
    "E": [3, 5, 3, 5, 3, 6, 1, 1, 3, 2, 6, 4],
    "F": [11, 9, 15, 22, 15, 16, 13, 10, 26, 26, 24, 13],
}
WARPS = {
    ("A", "L"): [26, 30, 54, 25, 70, 52, 51, 26, 67],
    ("A", "M"): [18, 21, 29, 17, 12, 18, 35, 30, 36],
    ("A", "H"): [36, 21, 24, 18, 10, 43, 28, 15, 26],
    ("B", "L"): [27, 14, 29, 19, 29, 31, 41, 20, 44],
    ("B", "M"): [42, 26, 19, 16, 39, 28, 21, 39, 29],
    ("B", "H"): [20, 21, 24, 17, 13, 15, 15, 16, 28],
}


def stacked(groups: dict[str, list[float]]) -> tuple[list[float], list[str]]:
    return [value for group in groups.values() for value in group], [key for key in groups for _ in groups[key]]


def test_jains_study_of_memory_and_cache() -> None:
    """Jain (1991), section 18.4: a 2^2 design with three replications, MIPS of a workstation."""
    mips = [15, 18, 12, 45, 48, 51, 25, 28, 19, 75, 75, 81]
    memory = (["4 MB"] * 3 + ["16 MB"] * 3) * 2
    cache = ["1 KB"] * 6 + ["2 KB"] * 6
    table = anova(mips, {"memory": memory, "cache": cache})
    assert [round(100 * effect.explained, 2) for effect in table.effects] == [78.88, 15.40, 4.27]
    assert round(100 * table.residual.explained, 2) == 1.45
    assert [effect.ss for effect in table.effects] == pytest.approx([5547, 1083, 300])
    assert (table.residual.ss, table.total_ss, table.residual.df) == (pytest.approx(102), pytest.approx(7032), 8)
    assert [effect.name for effect in table.effects] == ["memory", "cache", "memory × cache"]


def test_plant_growth_as_in_r() -> None:
    weights, group = stacked(PLANTS)
    effect = anova(weights, {"group": group}).effects[0]
    assert effect.f == pytest.approx(4.846, abs=5e-4)
    assert effect.p == pytest.approx(0.01591, abs=5e-6)


def test_insect_sprays_as_in_r() -> None:
    counts, spray = stacked(INSECTS)
    table = anova(counts, {"spray": spray})
    assert table.effects[0].f == pytest.approx(34.702, abs=5e-4)
    assert (table.effects[0].df, table.residual.df) == (5, 66)


def test_warp_breaks_as_in_r() -> None:
    breaks = [value for group in WARPS.values() for value in group]
    wool, tension = ([key[i] for key in WARPS for _ in WARPS[key]] for i in (0, 1))
    table = anova(breaks, {"wool": wool, "tension": tension})
    assert [effect.f for effect in table.effects] == pytest.approx([3.7653, 8.4980, 4.1891], abs=5e-5)
    assert [effect.p for effect in table.effects] == pytest.approx([0.0582130, 0.0006926, 0.0210442], abs=5e-8)

"""From factors to ordered trials."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from itertools import islice

import pytest

from lastro.study.design import baseline_indices, combinations, factorial_size, treatments, trials
from lastro.study.model import Design, Exclusion, Factor, Level, Study


def study(
    *factors: tuple[str, tuple[Level, ...]],
    replicates: int = 3,
    seed: int = 1,
    baseline: dict[str, Level] | None = None,
    exclusions: tuple[Exclusion, ...] = (),
) -> Study:
    return Study(
        name="x",
        title="",
        description="",
        scenario="chain",
        factors=tuple(Factor(name, levels) for name, levels in factors),
        settings={},
        metrics=(),
        design=Design(replicates=replicates, seed=seed, baseline=baseline or {}),
        exclusions=exclusions,
    )


A = ("a", ("a1", "a2"))
B = ("b", ("b1", "b2", "b3"))


def test_the_last_factor_varies_fastest() -> None:
    found = treatments(study(A, B))
    assert [tuple(treatment.levels.values()) for treatment in found] == [
        ("a1", "b1"),
        ("a1", "b2"),
        ("a1", "b3"),
        ("a2", "b1"),
        ("a2", "b2"),
        ("a2", "b3"),
    ]
    assert [treatment.index for treatment in found] == list(range(6))
    assert (found[0].id, found[5].id, found[5].label) == ("t001", "t006", "a2 · b3")
    assert factorial_size(study(A, B)) == 6


def test_an_exclusion_takes_out_what_matches_all_of_it() -> None:
    rules = (Exclusion({"a": ("a1",), "b": ("b1", "b3")}, "r"), Exclusion({"b": ("b2",)}, "r"))
    found = treatments(study(A, B, exclusions=rules))
    assert [tuple(treatment.levels.values()) for treatment in found] == [("a2", "b1"), ("a2", "b3")]
    assert [treatment.index for treatment in found] == [0, 1]
    assert factorial_size(study(A, B, exclusions=rules)) == 6
    assert [treatment.levels for treatment in found] == list(combinations(study(A, B, exclusions=rules)))


def test_every_block_is_complete() -> None:
    found = list(trials(study(A, B, replicates=50), 6))
    assert [trial.number for trial in found] == list(range(1, 301))
    assert Counter((trial.block, trial.treatment) for trial in found) == Counter(
        (block, treatment) for block in range(1, 51) for treatment in range(6)
    )
    assert [trial.block for trial in found] == sorted(trial.block for trial in found)


def test_every_treatment_comes_at_every_place_about_as_often() -> None:
    blocks = 6000
    found = list(trials(study(A, B, replicates=blocks), 6))
    places = Counter((trial.treatment, (trial.number - 1) % 6) for trial in found)
    expected = blocks / 6
    chi_squared = sum((n - expected) ** 2 / expected for n in places.values())
    assert len(places) == 36
    assert chi_squared < 52.6  # the 99.9 % quantile at (6 - 1)^2 degrees of freedom; the seed is fixed


def test_the_order_comes_from_the_seed() -> None:
    first, again, other = (list(trials(study(seed=seed, replicates=20), 30)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_order_is_the_same_on_every_python() -> None:
    """A campaign made by one version of Python may be planned again by another."""
    assert [trial.treatment for trial in trials(study(seed=2017, replicates=2), 6)] == [
        1,
        5,
        3,
        2,
        0,
        4,
        1,
        2,
        0,
        4,
        3,
        5,
    ]


@pytest.mark.parametrize("fewer", [1, 2, 5])
def test_fewer_replicates_are_a_prefix_of_more(fewer: int) -> None:
    long = list(trials(study(replicates=12), 180))
    short = list(trials(study(replicates=fewer), 180))
    assert short == long[: fewer * 180]


def test_the_baseline_of_a_treatment_shares_its_other_levels() -> None:
    design = study(A, B, baseline={"b": "b2"})
    assert baseline_indices(design, treatments(design)) == {0: 1, 1: 1, 2: 1, 3: 4, 4: 4, 5: 4}
    both = study(A, B, baseline={"a": "a2", "b": "b1"})
    assert set(baseline_indices(both, treatments(both)).values()) == {3}


def test_without_a_baseline_there_is_none() -> None:
    design = study(A, B)
    assert baseline_indices(design, treatments(design)) == {}


def test_a_treatment_whose_baseline_is_excluded_has_none() -> None:
    design = study(A, B, baseline={"b": "b1"}, exclusions=(Exclusion({"a": ("a1",), "b": ("b1",)}, "r"),))
    found = treatments(design)
    assert [treatment.label for treatment in found[:2]] == ["a1 · b2", "a1 · b3"]
    assert baseline_indices(design, found) == {2: 2, 3: 2, 4: 2}


def _seconds_to_plan(n_treatments: int) -> float:
    levels = tuple(range(n_treatments // 100))
    design = study(("x", levels), ("y", tuple(range(100))), replicates=10, baseline={"y": 0})
    start = time.process_time()
    found = treatments(design)
    baseline_indices(design, found)
    assert sum(1 for _ in trials(design, len(found))) == n_treatments * 10
    return time.process_time() - start


def test_planning_100_000_trials_is_linear_and_quick() -> None:
    _seconds_to_plan(1000)
    small = min(_seconds_to_plan(2000) for _ in range(3))
    large = min(_seconds_to_plan(10_000) for _ in range(3))
    assert large < 3
    assert large < 5 * small * 2.5  # five times the trials; quadratic would be 25 times the time


def test_trials_are_made_one_by_one() -> None:
    tracemalloc.start()
    first = list(islice(trials(study(replicates=10_000), 1000), 5))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [trial.number for trial in first] == [1, 2, 3, 4, 5]
    assert peak < 2e6

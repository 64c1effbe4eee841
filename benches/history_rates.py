"""How often `lastro history check` sees a change that is none, how soon it finds one, and what its intervals hold.

    python benches/history_rates.py        1,000 worlds for each rate: a few minutes
    python benches/history_rates.py 200    fewer

The rates of false changes, which are rare, come from up to 100 times as many worlds.

A history grows by one campaign at a time, and is looked at after each. *Noise* is that of a campaign's mean: trials of
2 % in campaigns of five blocks give 0.9 %. A step of 5 % stays. It is found where a change is seen at most two
campaigns from its true place; the range and the ratio are those seen then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
from scipy.stats import t as student_t

from lastro.analysis.history import CONFIDENCE, alpha_of_each
from lastro.stats.change_points import FEWEST, ChangePoint, change_points

LONG, STEP, NEAR = 100, 0.05, 2
AFTER = (3, 4, 6, 10)
_TOGETHER = 500  # series, whose values fit into the cache of a processor
STEPS = ((1, 6), (1, 10), (1, 20), (1, 50), (20, 20))  # series, and campaigns before the step
# Noise, number of series, and worlds as a multiple of those for the other tables: false changes are rare.
FAMILIES = (
    ("normal", 1, 100), ("normal", 5, 20), ("normal", 20, 5), ("normal", 100, 1), ("heavy tails", 1, 50),
    ("depends on the last", 1, 2),
)  # fmt: skip


def series(rng: np.random.Generator, n: int, noise: float, kind: str) -> np.ndarray:
    """Return n means around 100: normal, by Student's t with four degrees of freedom, or correlated by 0.5."""
    if kind == "heavy tails":
        errors = rng.standard_t(4, n) / np.sqrt(2)
    else:
        errors = rng.standard_normal(n)
        for at in range(1, n if kind == "depends on the last" else 0):
            errors[at] = 0.5 * errors[at - 1] + np.sqrt(0.75) * errors[at]
    return 100.0 * (1 + noise * errors)


def false_changes(rng: np.random.Generator, kind: str, worlds: int, n_series: int = 1) -> float:
    """Return how many changes are seen in 1,000 campaigns in which nothing changes, by all series together."""
    alpha, seen = alpha_of_each(n_series), 0
    for first in range(0, worlds * n_series, _TOGETHER):
        values = np.array([series(rng, LONG, 0.01, kind) for _ in range(min(_TOGETHER, worlds * n_series - first))])
        places = set[tuple[int, int]]()
        for n in range(6, LONG + 1):
            for at in may_change(values[:, :n], alpha):
                places |= {(int(at), each.at) for each in change_points(values[at, :n].tolist(), alpha, CONFIDENCE)}
        seen += len(places)
    return 1000 * seen / (worlds * LONG)


def may_change(values: np.ndarray, alpha: float) -> np.ndarray:
    """Return the indices of the series in which some split is significant: in all others, no change is seen.

    It looks at many series together, and so takes a hundredth of the time of `change_points`."""
    n = values.shape[1]
    left = np.arange(1, n)
    deviations = values - values.mean(axis=1, keepdims=True)
    between = (np.cumsum(deviations, axis=1)[:, :-1] ** 2 * (n / (left * (n - left)))).max(axis=1)
    within = np.einsum("ij,ij->i", deviations, deviations) - between
    return np.flatnonzero((n - 2) * between >= within * _least_t(n, alpha) ** 2)


@cache
def _least_t(n: int, alpha: float) -> float:
    """Return the t of a significant split of n values, less what rounding may change."""
    return 0.999999 * float(student_t.isf(alpha / (n - 2 * FEWEST + 1) / 2, n - 2))


def found(
    rng: np.random.Generator, noise: float, before: int, after: int, worlds: int, n_series: int = 1
) -> Iterator[ChangePoint | None]:
    """Yield the change that is seen of a step after this many campaigns in one of several series, or None."""
    for _ in range(worlds):
        values = series(rng, before + after, noise, "normal")
        values[before:] *= 1 + STEP
        seen = change_points(values.tolist(), alpha_of_each(n_series), CONFIDENCE)
        yield next((each for each in seen if abs(each.at - before) <= NEAR), None)


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rng = np.random.default_rng(7)
    print("| noise | series | false changes in 1,000 campaigns |\n| --- | --- | --- |")
    for kind, n_series, share in FAMILIES:
        print(f"| {kind} | {n_series} | {false_changes(rng, kind, share * worlds, n_series):.2f} |", flush=True)
    columns = " | ".join(f"found after {n}" for n in AFTER)
    print(f"\n| noise | series | campaigns before | {columns} | range holds | ratio holds |")
    print("| --- |" + " --- |" * (len(AFTER) + 4))
    for noise, (n_series, before) in product((0.01, 0.02), STEPS):
        rates, ranges, ratios = [], list[bool](), list[bool]()
        for after in AFTER:
            seen = [each for each in found(rng, noise, before, after, worlds, n_series) if each]
            rates.append(len(seen) / worlds)
            ranges += [each.first <= before <= each.last for each in seen]
            ratios += [each.ratio.interval is not None and each.ratio.interval.holds(1 + STEP) for each in seen]
        shown = " | ".join(f"{100 * rate:.0f} %" for rate in rates)
        held = " | ".join(f"{100 * np.mean(each):.0f} %" for each in (ranges, ratios))
        print(f"| {100 * noise:.0f} % | {n_series} | {before} | {shown} | {held} |", flush=True)


if __name__ == "__main__":
    main()

"""How often `lastro history check` sees a change that is none, how soon it finds one, and what its intervals hold.

    python benches/history_rates.py        1,000 worlds for each row: a few minutes
    python benches/history_rates.py 200    fewer

A history grows by one campaign at a time, and is looked at after each. *Noise* is that of a campaign's mean: trials of
2 % in campaigns of five blocks give 0.9 %. A step of 5 % stays. It is found where a change is seen at most two
campaigns from its true place; the range and the ratio are those seen then."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from lastro.analysis.history import ALPHA, CONFIDENCE
from lastro.stats.change_points import ChangePoint, change_points

LONG, STEP, NEAR = 100, 0.05, 2
NOISES = ("normal", "heavy tails", "depends on the last")
AFTER = (3, 4, 6, 10)


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
    seen = 0
    for _ in range(worlds):
        several = [series(rng, LONG, 0.01, kind) for _ in range(n_series)]
        places = set[tuple[int, int]]()
        for n in range(6, LONG + 1):
            for at, values in enumerate(several):
                places |= {(at, each.at) for each in change_points(values[:n].tolist(), ALPHA / n_series, CONFIDENCE)}
        seen += len(places)
    return 1000 * seen / (worlds * LONG)


def found(rng: np.random.Generator, noise: float, before: int, after: int, worlds: int) -> Iterator[ChangePoint | None]:
    """Yield the change that is seen of a step after this many campaigns; None where it is not."""
    for _ in range(worlds):
        values = series(rng, before + after, noise, "normal")
        values[before:] *= 1 + STEP
        seen = change_points(values.tolist(), ALPHA, CONFIDENCE)
        yield next((each for each in seen if abs(each.at - before) <= NEAR), None)


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rng = np.random.default_rng(7)
    print("| noise | series | false changes in 1,000 campaigns |\n| --- | --- | --- |")
    for kind in NOISES:
        print(f"| {kind} | 1 | {false_changes(rng, kind, worlds // 4):.2f} |", flush=True)
    print(f"| normal | 20 | {false_changes(rng, 'normal', worlds // 20, 20):.2f} |\n", flush=True)
    print(f"| noise | campaigns before | {' | '.join(f'found after {n}' for n in AFTER)} | range holds | ratio holds |")
    print("| --- |" + " --- |" * (len(AFTER) + 3))
    for noise in (0.01, 0.02):
        for before in (6, 10, 20, 50):
            rates, ranges, ratios = [], list[bool](), list[bool]()
            for after in AFTER:
                seen = [each for each in found(rng, noise, before, after, worlds) if each]
                rates.append(len(seen) / worlds)
                ranges += [each.first <= before <= each.last for each in seen]
                ratios += [each.ratio.interval is not None and each.ratio.interval.holds(1 + STEP) for each in seen]
            shown = " | ".join(f"{100 * rate:.0f} %" for rate in rates)
            held = " | ".join(f"{100 * np.mean(each):.0f} %" for each in (ranges, ratios))
            print(f"| {100 * noise:.0f} % | {before} | {shown} | {held} |", flush=True)


if __name__ == "__main__":
    main()

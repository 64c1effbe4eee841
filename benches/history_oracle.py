"""`lastro history` beside Apache Otava, which finds changes by E-divisive and a t-test, on the same series.

    python3 -m venv otava && otava/bin/pip install apache-otava
    python -m benches.history_oracle otava/bin/python [WORLDS]
    python -m benches.history_oracle otava/bin/python --store tests/data/otava.json

The second form writes 30 series and what Otava sees in them, which tests compare with what Lastro sees.

Otava looks at the whole series, with its own limit of p, 0.001. Each finds a step of 5 % where it sees a change at most
two campaigns from the true place. They agree where both see the same changes, each at most one campaign apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from benches.history_rates import AFTER, LONG, NEAR, STEP, series

from lastro.analysis.history import ALPHA, CONFIDENCE
from lastro.stats.change_points import change_points

_OTAVA = """
import json, sys, numpy
from otava.analysis import compute_change_points
def changes(values):
    try:
        return [int(each.index) for each in compute_change_points(numpy.array(values), window_len=1000)[0]]
    except ValueError:
        return []
print(json.dumps([changes(values) for values in json.load(sys.stdin)]))
"""
LEVELS = [[(30, 1.0)], [(15, 1.0), (10, 1 + STEP)], [(12, 1.0), (10, 1 + STEP), (9, 0.97)]]
Places = list[list[int]]


def by_both(python: str, several: list[list[float]]) -> tuple[Places, Places]:
    """Return the places of the changes that Lastro sees in each series, and those that Otava sees."""
    ours = [[each.at for each in change_points(values, ALPHA, CONFIDENCE)] for values in several]
    done = subprocess.run(
        [python, "-c", _OTAVA], input=json.dumps(several), stdout=subprocess.PIPE, text=True, check=True
    )
    return ours, json.loads(done.stdout)


def agree(ours: list[int], theirs: list[int]) -> bool:
    return len(ours) == len(theirs) and all(abs(a - b) <= 1 for a, b in zip(ours, theirs, strict=True))


def store(python: str, file: str) -> None:
    """Write series with their levels, as (campaigns, level), and the places of the changes that Otava sees in them."""
    rng, several = np.random.default_rng(30), list[tuple[list[tuple[int, float]], list[float]]]()
    for levels in (LEVELS * 10)[:30]:
        steps = np.repeat(*zip(*((level, n) for n, level in levels), strict=True))
        several.append((levels, np.round(steps * series(rng, len(steps), 0.01, "normal"), 3).tolist()))
    _, theirs = by_both(python, [values for _, values in several])
    found = [
        {"levels": levels, "otava": places, "values": values}
        for (levels, values), places in zip(several, theirs, strict=True)
    ]
    Path(file).write_text(json.dumps(found).replace('{"levels"', '\n{"levels"') + "\n")


def main() -> None:
    if sys.argv[2:3] == ["--store"]:
        store(sys.argv[1], sys.argv[3])
        return
    python, worlds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    rng = np.random.default_rng(7)
    quiet = [series(rng, LONG, 0.01, "normal").tolist() for _ in range(worlds)]
    growing = by_both(python, [values[:n] for values in quiet for n in range(6, LONG + 1)])
    seen = [{(at // (LONG - 5), place) for at, places in enumerate(found) for place in places} for found in growing]
    print("| | Lastro | Otava | they agree |\n| --- | --- | --- | --- |")
    shown = " | ".join(f"{1000 * len(each) / (worlds * LONG):.2f}" for each in seen)
    print(f"| false changes in 1,000 campaigns | {shown} | {_share(*growing)} |", flush=True)
    for noise in (0.01, 0.02):
        for after in AFTER:
            steps = np.where(np.arange(20 + after) < 20, 1.0, 1 + STEP)
            found = by_both(
                python, [(steps * series(rng, 20 + after, noise, "normal")).tolist() for _ in range(worlds)]
            )
            rates = [sum(any(abs(at - 20) <= NEAR for at in places) for places in each) / worlds for each in found]
            text = " | ".join(f"{100 * rate:.0f} %" for rate in rates)
            print(f"| found {after} after 20, noise of {100 * noise:.0f} % | {text} | {_share(*found)} |", flush=True)


def _share(ours: Places, theirs: Places) -> str:
    return f"{100 * np.mean([agree(a, b) for a, b in zip(ours, theirs, strict=True)]):.0f} %"


if __name__ == "__main__":
    main()

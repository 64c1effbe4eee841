"""Whether a campaign that is watched by `lastro serve` measures the same as one that is not watched (root).

    python benches/serve_same.py DIRECTORY            20 pairs of campaigns: about 40 minutes
    python benches/serve_same.py DIRECTORY 2 --set max_wait_s=0 --set max_foreign_cpus=99    # a try on a busy host

Each campaign is the demo's study on the bare host, without neighbour and limits, with five blocks. In each pair, one is
watched: its page is open, with its event stream. The order within a pair alternates. What a campaign measured is kept
below DIRECTORY, separately for each choice of settings, so that a loop that was stopped goes on. For each metric, the
ratio of the means of watched campaigns to the means of the others has its 95 % interval over the pairs, which should
hold 1. The CPU time of the server is the median over the campaigns; in the first one, it also loads the modules of a
campaign's page."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _harness import kept
from lastro.analysis.build import build_report
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.ratios import paired_ratio
from lastro.words.numbers import ratio_text
from serve import cpu_s, served

STUDY = ["demo", "--only", "platform=native", "--only", "anomaly=none", "--only", "isolation=none"]
BLOCKS = 5
WITHIN_S = 600
CONFIDENCE = 0.95
GOAL_PERCENT = 0.5  # of one CPU

Measured = dict[str, Any]  # what a campaign measured: the mean of each metric, and the CPU time of its server


def alone(campaign: Path, settings: Sequence[str]) -> Measured:
    """Run a campaign that nobody watches. A metric without a valid trial has the mean None."""
    command = [sys.executable, "-m", "lastro", "run", *STUDY, "--replicates", str(BLOCKS), "--wait", "--no-report"]
    command += ["--output", str(campaign), *(word for setting in settings for word in ("--set", setting))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    with Store.open(campaign, readonly=True) as store:
        views = build_report(load_campaign(store)).of_the_study().views
    return {"means": {view.metric.name: cell.summary and cell.summary.mean for view in views for cell in view.cells}}


def watched(campaign: Path, settings: Sequence[str]) -> Measured:
    """Run a campaign while its page is open; add the mean CPU time of the server, in percent of one CPU."""
    with served(campaign.parent, campaign.name) as pid:
        began_s, before_s = time.monotonic(), cpu_s(pid)
        measured = alone(campaign, settings)
        return measured | {"percent": 100 * (cpu_s(pid) - before_s) / (time.monotonic() - began_s)}


def pair(directory: Path, number: int, settings: Sequence[str]) -> tuple[Measured, Measured]:
    """Return what the watched and the other campaign of a pair measured; run them now unless that is kept."""
    measured = {}
    for run in (watched, alone) if number % 2 else (alone, watched):
        file = directory / ",".join(settings) / run.__name__ / f"{number}.json"
        measured[run] = kept(file, partial(run, settings=settings))
        print(f"{run.__name__} {number}: {measured[run]}", file=sys.stderr, flush=True)
    return measured[watched], measured[alone]


def table(pairs: Sequence[tuple[Measured, Measured]]) -> list[str]:
    lines = ["| what | watched / not watched | target | pairs |", "| --- | ---: | ---: | ---: |"]
    for metric in pairs[0][0]["means"]:
        both = [(one["means"][metric], other["means"][metric]) for one, other in pairs]
        both = [means for means in both if None not in means]
        ratio = ratio_text(paired_ratio(*zip(*both, strict=True), CONFIDENCE)) if both else "not measured"
        lines.append(f"| {metric} | {ratio} | holds 1 | {len(both)} |")
    percents = [one["percent"] for one, _ in pairs]
    used = f"{median(percents):.2f} % of one CPU, at most {max(percents):.2f} %"
    return [*lines, f"| CPU time of the server | {used} | < {GOAL_PERCENT} % | {len(pairs)} |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("pairs", type=int, nargs="?", default=20)
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], dest="settings")
    given = parser.parse_args()
    pairs = [pair(given.directory, number, given.settings) for number in range(1, given.pairs + 1)]
    print("\n".join(table(pairs)))


if __name__ == "__main__":
    main()

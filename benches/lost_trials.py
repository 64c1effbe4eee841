"""How often the true ratio lies within the interval of the valid trials, and within the bounds, by simulation.

    .venv/bin/python benches/lost_trials.py [REPEATS]

Campaigns of a baseline and one treatment, in 10 and 20 blocks that vary by 5 %; the noise of a trial has a standard
deviation of 3 %. A trial of the treatment is lost with a probability: of all its trials, of its slow half (those below
the median of its noise), or of its slow third. Stated: 95 %."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.lost_trials import lost_trials
from lastro.results.read import CampaignData
from lastro.results.rows import Attempt, TreatmentRow, TrialRow
from lastro.results.samples import Metric
from lastro.study.design import treatments
from lastro.study.model import Design, Factor, Study

METRIC = Metric("throughput", "Mbit/s", "higher", "")
RATIO = 0.93
BLOCKS = (10, 20)
THIRD = -0.4307  # the third quantile of a normal distribution
Lost = Callable[[float], float]  # from the noise of a trial, in standard deviations, to the probability that it is lost
LOSSES: dict[str, Lost] = {
    "30 % of all": lambda noise: 0.3,
    "half of the slow half": lambda noise: 0.5 * (noise < 0),
    "two thirds of the slow half": lambda noise: 2 / 3 * (noise < 0),
    "four fifths of the slow third": lambda noise: 0.8 * (noise < THIRD),
    "all of the slow third": lambda noise: float(noise < THIRD),
}


def campaign(rng: np.random.Generator, blocks: int, lost: Lost) -> CampaignResults:
    """Return the report of a campaign of which trials of one treatment are lost, depending on their values."""
    study = Study(
        name="lost", title="", description="", scenario="chain", settings={}, source="", file="",
        factors=(Factor("platform", ("native", "runc")),), metrics=(METRIC,),
        design=Design(replicates=blocks, seed=1, baseline={"platform": "native"}),
    )  # fmt: skip
    of_block, noise = 1 + 0.05 * rng.standard_normal(blocks), rng.standard_normal((2, blocks))
    rows = [TreatmentRow(treatment, None, None) for treatment in treatments(study)]
    trials, attempts = [], []
    for block in range(blocks):
        for at in range(2):
            value = 1000 * (1.0, RATIO)[at] * of_block[block] * (1 + 0.03 * noise[at, block])
            valid = at == 0 or rng.random() >= lost(float(noise[at, block]))
            number = len(trials) + 1
            trials.append(TrialRow(number, block + 1, at, "valid" if valid else "invalid", 1))
            reasons = () if valid else ("lost",)
            attempts.append(Attempt(number, block + 1, at, 1, "", 1.0, valid, reasons, {}, {METRIC.name: float(value)}))
    return build_report(
        CampaignData("", study, rows, trials, attempts, {}, {}, None, [], lambda pairs: [], lambda pairs: [])
    )


def covered(blocks: int, lost: Lost, repeats: int) -> tuple[float, float, float]:
    """Return how often the interval of the valid trials and the bounds hold the true ratio, and the trials lost.

    Only campaigns with bounds count: those that lost more than a tenth of the trials of the treatment."""
    rng, by_valid, by_bounds, n_lost, n = np.random.default_rng(blocks), 0, 0, 0, 0
    for _ in range(repeats):
        for found in lost_trials(campaign(rng, blocks, lost).views[0]):
            if found.bounds and found.ratio and found.ratio.interval:
                n, n_lost = n + 1, n_lost + found.lost
                by_valid += found.ratio.interval.holds(RATIO)
                by_bounds += found.bounds.holds(RATIO)
    return by_valid / n, by_bounds / n, n_lost / n / blocks


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"true ratio within, of {repeats} campaigns")
    print(f"{'lost':32}{'blocks':>7}{'of its trials':>15}{'valid trials':>14}{'bounds':>8}")
    for name, lost in LOSSES.items():
        for blocks in BLOCKS:
            by_valid, by_bounds, share = covered(blocks, lost, repeats)
            print(f"{name:32}{blocks:7}{share:15.0%}{by_valid:14.1%}{by_bounds:8.1%}", flush=True)


if __name__ == "__main__":
    main()

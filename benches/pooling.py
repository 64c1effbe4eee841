"""How often the intervals of `lastro pool` hold what they should, by simulation.

    .venv/bin/python benches/pooling.py [REPEATS [paule-mandel]]

Hosts whose true ratios of a treatment to its baseline differ, normally on logarithms, with a standard deviation tau.
On each, a campaign of 5 blocks that vary by 5 %; the noise of a trial is 2 %, or, where hosts differ in it, 1 % on the
first and four times as much on the last, evenly on logarithms between. Each ratio and its error come from the model of
its campaign. Counted are the intervals of the mean over hosts, of tau, and of the true ratio on a new host. Stated:
95 %.

It then simulates hosts on which a neighbour takes part of what a treatment has alone, and a protection gives some of it
back. The metric is a rate, of which a host loses 40 % with a standard deviation of 10 % over hosts, or a time, which
becomes 2 to 20 times as long. The protection recovers 60 % of that on average, with the standard deviation over hosts
given. It counts the intervals of the recovered fraction (stated: 95 %), and with a protection that recovers nothing on
average, how often a gain or a further loss is significant (stated: 5 %)."""

from __future__ import annotations

import itertools
import math
import sys
from typing import NamedTuple

import numpy as np

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import log_ratio
from lastro.stats.pooling import Estimator, MeasuredEffect, pool
from lastro.stats.recovery import estimate_recovery

BLOCKS = 5
MEAN = math.log(0.9)
HOSTS = (3, 5, 10)
TAUS = (0.0, 0.01, 0.03, 0.1)
RECOVERED = 0.6
SPREADS = (0.0, 0.1, 0.3)


class Rates(NamedTuple):
    """How often each interval holds the truth, and the median width of that for a new host, as a factor."""

    mean: float
    tau: float
    new_host: float
    width: float


def effect(rng: np.random.Generator, true: float, noise: float) -> MeasuredEffect:
    """Return what a campaign on one host measures of a true log-ratio."""
    of_block = 1000 * (1 + 0.05 * rng.standard_normal(BLOCKS))
    cells = {
        name: dict(enumerate(of_block * ratio * np.exp(noise * rng.standard_normal(BLOCKS))))
        for name, ratio in (("native", 1.0), ("runc", math.exp(true)))
    }
    model = BlockModel.of(cells)
    found = model and log_ratio(model, {"runc": 1.0}, {"native": 1.0})
    assert found is not None and found.error is not None
    return MeasuredEffect(found.value, found.error, found.df)


def covered(hosts: int, tau: float, *, unequal: bool, repeats: int, estimator: Estimator = "reml") -> Rates:
    rng, held, widths = np.random.default_rng(20261125), np.zeros(3), []
    noises = np.geomspace(0.01, 0.04, hosts) if unequal else np.full(hosts, 0.02)
    for _ in range(repeats):
        *trues, new = MEAN + tau * rng.standard_normal(hosts + 1)
        effects = [effect(rng, true, noise) for true, noise in zip(trues, noises, strict=True)]
        found = pool(effects, 0.95, estimator)
        held += [found.estimate.interval.holds(MEAN), found.tau.interval.holds(tau), found.prediction.holds(new)]
        widths.append(math.exp(2 * found.prediction.half_width))
    return Rates(*(held / repeats), float(np.median(widths)))


def recoveries(
    hosts: int, spread: float, mean: float, *, times: bool, unequal: bool, repeats: int
) -> tuple[float, float, float]:
    """Return how often the interval holds the recovered fraction, is unbounded, and how often a gain is significant."""
    rng, held, unbounded, significant = np.random.default_rng(20261126), 0, 0, 0
    noises = np.geomspace(0.01, 0.04, hosts) if unequal else np.full(hosts, 0.02)
    for _ in range(repeats):
        loss = 1 - np.exp(rng.uniform(math.log(2), math.log(20), hosts)) if times else rng.normal(0.4, 0.1, hosts)
        gain = loss * rng.normal(mean, spread, hosts)
        of_block = 1000 * (1 + 0.05 * rng.standard_normal((BLOCKS, hosts)))
        ideal, without, protected = (
            (of_block * level * np.exp(noises * rng.standard_normal((BLOCKS, hosts)))).mean(axis=0)
            for level in (np.ones(hosts), 1 - loss, 1 - loss + gain)
        )
        size = np.maximum(ideal, without)
        found = estimate_recovery([*((ideal - without) / size)], [*((protected - without) / size)], 0.95)
        ends = found.fraction.interval
        held += ends is None or ends.holds(mean)
        unbounded += ends is None
        significant += found.gain.p is not None and found.gain.p < 0.05
    return held / repeats, unbounded / repeats, significant / repeats


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    estimator: Estimator = "paule-mandel" if "paule-mandel" in sys.argv else "reml"
    print(f"truth within the interval, of {repeats} studies, by {estimator}")
    print(f"{'noise':9}{'hosts':>6}{'tau':>7}{'mean':>9}{'tau':>9}{'new host':>10}{'width':>8}")
    for unequal in (False, True):
        for hosts in HOSTS:
            for tau in TAUS:
                rates = covered(hosts, tau, unequal=unequal, repeats=repeats, estimator=estimator)
                rest = f"{rates.mean:9.1%}{rates.tau:9.1%}{rates.new_host:10.1%}{rates.width:8.3g}"
                print(f"{'unequal' if unequal else 'equal':9}{hosts:6}{tau:7.2f}{rest}", flush=True)
    print(f"\nrecovered fraction, of {repeats} studies")
    print(f"{'metric':8}{'noise':9}{'hosts':>6}{'spread':>8}{'held':>9}{'unbounded':>11}{'significant without':>21}")
    for times, unequal, hosts, spread in itertools.product((False, True), (False, True), HOSTS, SPREADS):
        kind = {"times": times, "unequal": unequal, "repeats": repeats}
        held, unbounded, _ = recoveries(hosts, spread, RECOVERED, **kind)
        *_, significant = recoveries(hosts, spread, 0.0, **kind)
        case = f"{'time' if times else 'rate':8}{'unequal' if unequal else 'equal':9}{hosts:6}{spread:8.2f}"
        print(f"{case}{held:9.1%}{unbounded:11.1%}{significant:21.1%}", flush=True)


if __name__ == "__main__":
    main()

"""Campaigns of every fate that a report must be able to speak of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from .campaigns import METRICS, make_campaign, make_study, plausible_value

HOSTILE = "<script>alert(1)</script>\x1b[31m $x^2$ {{ 7*7 }} \"'&"
NO_APPARMOR = ("AppArmor is not in this kernel", "boot another kernel")

# Two metrics that differ in what is better, in the unit and in the spread; the normal campaign has two more.
study = partial(make_study, metrics=(METRICS[0], METRICS[3]))
AGAINST_NONE = study(baseline={"isolation": "none"})


def _hostile(directory: Path) -> Path:
    return make_campaign(
        directory,
        study({"isolation": (HOSTILE, "none")}, title=HOSTILE, baseline={"isolation": "none"}, description=HOSTILE),
        doubts=lambda levels, block, attempt: [HOSTILE] if block == 1 and attempt == 1 else [],
        unavailable=lambda levels: (HOSTILE, HOSTILE) if levels["isolation"] == HOSTILE else None,
        notes=lambda levels, block: {name: {HOSTILE: HOSTILE} for name in ("residuals", "usage", "doses", "host")},
        provenance={HOSTILE: {HOSTILE: [HOSTILE, None, True]}},
    )


CAMPAIGNS: dict[str, Callable[[Path], Path]] = {
    "normal": lambda d: make_campaign(d),
    "one-replicate": lambda d: make_campaign(d, study(replicates=1, baseline={"isolation": "none"})),
    "everything-invalid": lambda d: make_campaign(
        d, AGAINST_NONE, doubts=lambda levels, block, attempt: ["no traffic"]
    ),
    "unfinished": lambda d: make_campaign(d, AGAINST_NONE, stop_after=7),
    "not-begun": lambda d: make_campaign(d, AGAINST_NONE, stop_after=0),
    "one-level-unavailable": lambda d: make_campaign(
        d, AGAINST_NONE, unavailable=lambda levels: NO_APPARMOR if levels["isolation"] == "apparmor" else None
    ),
    "everything-unavailable": lambda d: make_campaign(d, AGAINST_NONE, unavailable=lambda levels: NO_APPARMOR),
    "constant": lambda d: make_campaign(d, AGAINST_NONE, value=lambda levels, block, metric: 3.0),
    "zero": lambda d: make_campaign(d, AGAINST_NONE, value=lambda levels, block, metric: 0.0),
    "wild": lambda d: make_campaign(
        d, AGAINST_NONE, value=lambda levels, block, metric: (-1) ** block * 10.0 ** (5 * block)
    ),
    "no-baseline": lambda d: make_campaign(d, study()),
    "one-treatment": lambda d: make_campaign(d, study({"platform": ("runc",)})),
    "no-factor": lambda d: make_campaign(d, study({})),
    "no-metric": lambda d: make_campaign(d, study(metrics=())),
    "one-block-baseline-lost": lambda d: make_campaign(
        d,
        AGAINST_NONE,
        doubts=lambda levels, block, attempt: ["x"] if levels["isolation"] == "none" and block < 5 else [],
    ),
    "five-factors": lambda d: make_campaign(
        d, study({name: ("a", "b", "c") if name == "p" else ("a", "b") for name in "pqrst"}, replicates=2)
    ),
    "numbers": lambda d: make_campaign(d, study({"streams": (1, 2, 4), "share": (0.1, 0.5, 0.9), "on": (True, False)})),
    "one-level-left": lambda d: make_campaign(
        d, AGAINST_NONE, unavailable=lambda levels: NO_APPARMOR if levels["isolation"] != "cgroups" else None
    ),
    "one-metric-lost": lambda d: make_campaign(
        d,
        AGAINST_NONE,
        value=lambda levels, block, metric: None if metric == "latency_max" else plausible_value(levels, block, metric),
    ),
    "hostile": _hostile,
}

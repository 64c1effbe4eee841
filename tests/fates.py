"""Campaigns of every fate that a report must be able to speak of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .campaigns import make_campaign, make_study, plausible_value

HOSTILE = "<script>alert(1)</script>\x1b[31m $x^2$ {{ 7*7 }} \"'&"
NO_APPARMOR = ("AppArmor is not in this kernel", "boot another kernel")


def _hostile(directory: Path) -> Path:
    return make_campaign(
        directory,
        make_study(
            {"isolation": (HOSTILE, "none")}, title=HOSTILE, baseline={"isolation": "none"}, description=HOSTILE
        ),
        doubts=lambda levels, block, attempt: [HOSTILE] if block == 1 and attempt == 1 else [],
        unavailable=lambda levels: (HOSTILE, HOSTILE) if levels["isolation"] == HOSTILE else None,
        notes=lambda levels, block: {name: {HOSTILE: HOSTILE} for name in ("residuals", "usage", "doses", "host")},
        provenance={HOSTILE: {HOSTILE: [HOSTILE, None, True]}},
    )


CAMPAIGNS: dict[str, Callable[[Path], Path]] = {
    "normal": lambda d: make_campaign(d),
    "one-replicate": lambda d: make_campaign(d, make_study(replicates=1, baseline={"isolation": "none"})),
    "everything-invalid": lambda d: make_campaign(d, doubts=lambda levels, block, attempt: ["no traffic"]),
    "unfinished": lambda d: make_campaign(d, stop_after=7),
    "not-begun": lambda d: make_campaign(d, stop_after=0),
    "one-level-unavailable": lambda d: make_campaign(
        d, unavailable=lambda levels: NO_APPARMOR if levels["isolation"] == "apparmor" else None
    ),
    "everything-unavailable": lambda d: make_campaign(d, unavailable=lambda levels: NO_APPARMOR),
    "constant": lambda d: make_campaign(d, value=lambda levels, block, metric: 3.0),
    "zero": lambda d: make_campaign(d, value=lambda levels, block, metric: 0.0),
    "wild": lambda d: make_campaign(d, value=lambda levels, block, metric: (-1) ** block * 10.0 ** (5 * block)),
    "no-baseline": lambda d: make_campaign(d, make_study()),
    "one-treatment": lambda d: make_campaign(d, make_study({"platform": ("runc",)})),
    "no-factor": lambda d: make_campaign(d, make_study({})),
    "no-metric": lambda d: make_campaign(d, make_study(metrics=())),
    "one-block-baseline-lost": lambda d: make_campaign(
        d, doubts=lambda levels, block, attempt: ["x"] if levels["isolation"] == "none" and block < 5 else []
    ),
    "five-factors": lambda d: make_campaign(
        d, make_study({name: ("a", "b", "c") if name == "p" else ("a", "b") for name in "pqrst"}, replicates=2)
    ),
    "numbers": lambda d: make_campaign(
        d, make_study({"streams": (1, 2, 4), "share": (0.1, 0.5, 0.9), "on": (True, False)})
    ),
    "one-level-left": lambda d: make_campaign(
        d, unavailable=lambda levels: NO_APPARMOR if levels["isolation"] != "cgroups" else None
    ),
    "one-metric-lost": lambda d: make_campaign(
        d, value=lambda levels, block, metric: None if metric == "jitter" else plausible_value(levels, block, metric)
    ),
    "hostile": _hostile,
}

"""Detect trials that the load generator limited, not the proxies."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.results.samples import Outcome
from lastro.scenarios.proxy.measure import RATE, TIMES
from lastro.scenarios.shared.calibration import judge_ceiling


def rates(outcome: Outcome) -> dict[str, float]:
    return {name: outcome.measurements[name] for name in (*TIMES, RATE) if name in outcome.measurements}


def judge_generator(straight: Mapping[str, float] | None, outcome: Outcome) -> None:
    """Flag a generator-limited trial: the clients' result is within a tenth of that without proxies.

    The trial stays valid. A closed loop is judged by its rate; an open loop, whose rate is fixed, by its times."""
    judge_ceiling(outcome, straight, rates=(RATE,), times=("open_request_time",))

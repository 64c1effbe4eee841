"""Whether the load generator, not the proxies, limited a trial."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.results.samples import Outcome
from lastro.scenarios.proxy.measure import RATE, TIMES

_AT_CEILING = 0.1  # within this fraction of the clients' result without a proxy, the clients are the limit


def rates(outcome: Outcome) -> dict[str, float]:
    return {name: outcome.measurements[name] for name in (*TIMES, RATE) if name in outcome.measurements}


def judge_generator(straight: Mapping[str, float] | None, outcome: Outcome) -> None:
    """Flag a generator-limited trial: the clients' result is within a tenth of that without proxies.

    This is not a verdict. A closed loop is judged by its rate; an open loop, which keeps its rate, by its time."""
    own, time_name = rates(outcome), "open_request_time"
    if not straight:
        return
    outcome.notes["ceiling"] = dict(straight)
    if RATE in own and RATE in straight:
        outcome.notes["generator_limited"] = own[RATE] >= (1 - _AT_CEILING) * straight[RATE]
    elif time_name in own and time_name in straight:
        outcome.notes["generator_limited"] = (1 - _AT_CEILING) * own[time_name] <= straight[time_name]

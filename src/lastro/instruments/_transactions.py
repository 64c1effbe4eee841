"""Times of transactions that follow one another: their metrics, and the percentiles that their number allows.

The loop is closed: a late response delays all later requests, and percentiles hide that delay (coordinated omission:
Tene 2013). So the summary of each metric says so, and each value has the mark of a closed loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastro.results.samples import CLOSED_LOOP, Metric, Reading, Remark
from lastro.stats.quantiles import least_n_for

QUANTILES = {50: "median", 90: "90th percentile", 99: "99th percentile"}  # by their percent


def time_metrics(prefix: str, what: str) -> tuple[Metric, ...]:
    """Return the metrics `PREFIX_p50`, `PREFIX_p90` and `PREFIX_p99`; `what` describes the times in summaries."""
    return tuple(
        Metric(
            f"{prefix}_p{percent}", "ms", "lower",
            f"{words} of {what} (closed loop); at least {least_n_for(percent / 100)} of them",
        )
        for percent, words in QUANTILES.items()
    )  # fmt: skip


def times_reading(prefix: str, time_ms: Mapping[int, float], n: int, rate: Mapping[str, float], **more: Any) -> Reading:
    """Return a reading of `rate`, and of the percentiles for which `n` transactions suffice.

    `time_ms` maps a percentage, such as 90, to this percentile of the times in ms. `more` are fields of the reading."""
    values = {f"{prefix}_p{percent}": time_ms[percent] for percent in QUANTILES if n >= least_n_for(percent / 100)}
    remarks = (Remark(CLOSED_LOOP, "", tuple(values)),) if values else ()
    return Reading({**rate, **values}, remarks=remarks, **more)

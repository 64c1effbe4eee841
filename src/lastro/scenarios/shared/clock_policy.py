"""Which metrics an instance's own clock may time: all, none, or all with a caveat."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lastro import validity
from lastro.instruments.base import TIME_HOST, TIME_TOOL, time_reasons
from lastro.platforms.base import Instance
from lastro.results.samples import CLOCK_NOT_VERIFIED, TOO_SHORT, WRONG_CLOCK, Outcome, Reading, Remark
from lastro.scenarios.shared.accounts import OVER_TIME
from lastro.scenarios.shared.host_limits import MAX_DRIFT_PERCENT

MAX_TOOL_DRIFT = replace(
    MAX_DRIFT_PERCENT, summary="drift of a guest's clock above which the times of tools in it are dropped"
)
CLOCK = "clock of the tool"  # the key under which it is reported


def by_good_clocks(
    reading: Reading, by_host: Collection[str], drift: validity.ClockDrift | None, limit: float, outcome: Outcome
) -> Reading:
    """Return the reading without the values that a wrong clock of the instance timed; add a caveat on these metrics.

    `by_host` names the metrics and series that the host timed; the instance's clock timed all other ones. The clock
    is wrong if it drifts by more than `limit`, a fraction such as 0.001. If `drift` is None or within the limit, the
    reading is returned as it is."""
    if drift is None:
        return reading
    wrong = validity.drift_reasons({"instance": drift}, limit)
    if not wrong:
        if validity.reason_unverified(drift, limit) is None:
            outcome.add_condition({CLOCK: f"its own, within {100 * limit:g} % of the host's"})
        return reading
    timed_by_host = {name: value for name, value in reading.measurements.items() if name in by_host}
    dropped = sorted(set(reading.measurements) - set(timed_by_host))
    if dropped:  # a remark without names would apply to all metrics
        outcome.add_caveat(Remark(WRONG_CLOCK, "; ".join(wrong), tuple(dropped)))
    consequence = "what it timed was dropped" if dropped else "no metric depends on it"
    outcome.add_condition({CLOCK: f"its own, which ran wrong: {consequence}"})
    series = tuple(series for series in reading.series if series.name in by_host)
    return replace(reading, measurements=timed_by_host, series=series)


def note_unverified_clock(
    instance: Instance, by_host: Collection[str], drift: validity.ClockDrift | None, limit: float, outcome: Outcome
) -> None:
    """Add a caveat if the clock of an instance with its own kernel could not be verified. The trial stays valid.

    The caveat is on all metrics in `outcome` except `by_host`, which do not depend on the instance's clock. So call
    this after `by_good_clocks`, and before the host's meters add their metrics."""
    if instance.shares_kernel:
        outcome.add_condition({CLOCK: "the host's"})
        return
    why = validity.reason_unverified(drift, limit)
    if why and not (drift and validity.drift_reasons({"instance": drift}, limit)):
        if timed := tuple(name for name in outcome.measurements if name not in by_host):
            outcome.add_caveat(Remark(CLOCK_NOT_VERIFIED, why, timed))
        outcome.add_condition({CLOCK: "its own, not verified"})


def judge_clock(
    reading: Reading,
    by_host: Collection[str],
    drift: validity.ClockDrift | None,
    limit: float,
    outcome: Outcome,
    *,
    own_series: bool = False,
) -> None:
    """Add the reading to `outcome`, as `by_good_clocks` returns it: without values that a wrong clock timed.

    The trial is invalid if the duration that a tool reports contradicts the one that the host measured. With
    `own_series`, the instance's clock timed all series, even those of metrics that the host or the receiver timed."""
    checked = by_good_clocks(reading, by_host, drift, limit, outcome)
    reading = replace(checked, series=()) if own_series and checked is not reading else checked
    measured, reasons = reading.measurements, reading.invalid_because
    if TIME_TOOL.name in measured and TIME_HOST.name in measured:
        reasons += time_reasons(measured[TIME_TOOL.name], measured[TIME_HOST.name])
    for remark in reading.remarks:
        if remark.kind == TOO_SHORT and TIME_HOST.name in remark.metrics:
            outcome.add_caveat(replace(remark, metrics=OVER_TIME))
    outcome.add(replace(reading, invalid_because=reasons))

"""Figures of the scenario `load`: loss and latency against the load, and latency by percentile."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.instruments.latency import MOST_OWN_FRACTION, QUANTILES
from lastro.results.additions import LoadedHistogram, PairedSeries, QuantileCurves, QuantilesByLoad, ScenarioFigure
from lastro.scenarios.load.loads import all_loads
from lastro.scenarios.load.measuring import (
    EXCEED_PERCENT,
    NDR,
    OWN_GOAL,
    PDR,
    PROBE_LOSS,
    PROBE_REACHED,
    PROBE_SENT,
    goals_of,
)
from lastro.stats.notes import N_
from lastro.study.model import Level

_FROM_DUE = N_("round trips, each from when its packet was due; an answer for one packet in ten")
_AXIS = N_("round trip in µs")
_NAMES = tuple(name for name, _ in QUANTILES)
_NS_PER_US, _KPPS = 1000.0, 1000.0
_USUAL: dict[str, Level] = {setting.name: setting.default for setting in (EXCEED_PERCENT, OWN_GOAL)}


def figures_of(settings: Mapping[str, Level], at: object) -> tuple[ScenarioFigure, ...]:
    """Return the figures for a study: one of loss and, unless there is no load in `at`, figures of latency.

    `settings` are the study's constants. `at` is the value of the setting `at` or, if that is a factor, a mapping
    whose keys are its levels."""
    return (_loss(settings), *_latency(at))


def _loss(settings: Mapping[str, Level]) -> PairedSeries:
    return PairedSeries(
        name="loss",
        title=N_("Loss against the load"),
        how=N_("every probe of every valid trial; the scale is linear below 0.01 %"),
        x_axis=N_("thousands of frames sent in a second"),
        y_axis=N_("frames lost, %"),
        x=PROBE_SENT,
        y=PROBE_LOSS,
        goals=tuple(100 * goal.loss_ratio for goal in goals_of(_USUAL | dict(settings)) if goal.loss_ratio),
        found=(PDR, NDR),
        per_unit=_KPPS,
        reached=PROBE_REACHED,
        missed=N_("one probe whose rate the generator did not reach"),
    )


def _latency(at: object) -> tuple[ScenarioFigure, ...]:
    loads = all_loads(at)
    if not loads:
        return ()
    by_load = QuantilesByLoad(
        name="latency-load",
        title=N_("Latency against the load"),
        how=_FROM_DUE,
        x_axis=N_("thousands of packets in a second, sent and answered"),
        y_axis=_AXIS,
        points=tuple(
            LoadedHistogram(load.histogram, load.own_histogram, load.load_metric, tuple(map(load.metric, _NAMES)))
            for load in loads
        ),
        quantiles=tuple((name.replace("_", "."), q) for name, q in QUANTILES),
        per_unit=_NS_PER_US,
        load_per_unit=_KPPS,
        most_own=MOST_OWN_FRACTION,
    )
    curves = (
        QuantileCurves(
            name=f"latency-{load.key}",
            title=N_("Latency at {load}") if load.fraction is None else N_("Latency at {load} of the PDR"),
            load=load.text,
            how=_FROM_DUE,
            y_axis=_AXIS,
            histogram=load.histogram,
            own=load.own_histogram,
            per_unit=_NS_PER_US,
        )
        for load in loads
    )
    return (by_load, *curves)

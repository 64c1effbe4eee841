"""Figures and tables that a scenario adds to a report, as data, so that the report depends on no scenario. Pure.

Texts are English messages, marked by `N_`, so that a report can translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lastro.stats.notes import N_


@dataclass(frozen=True, slots=True)
class Milestones:
    """A figure of durations that are all measured from the same starting moment, with a row for each treatment.

    A row shows the mean of each of `metrics`, all on one time axis. `metrics` are in the order in which these durations
    usually end. `name` is the figure's file name without its suffix."""

    name: str
    title: str
    axis: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlignedSeries:
    """A figure of series with one value per second, aligned at a mark, with a panel for each treatment.

    `begin`, `end` and `back` are names of marks in the note `timeline_s`, in seconds from the start of the series. If
    `back`, a later mark than `begin`, is not empty, vertical rules show both."""

    name: str  # the figure's file name without its suffix
    title: str
    how: str  # a subtitle that explains what is drawn
    axis: str
    quantity: str
    lines: Mapping[str, tuple[str, ...]]  # {label of a line: names of the series whose sum it shows}
    begin: str  # time 0 of the figure
    end: str  # where the figure ends
    before_s: int = 0  # the figure starts this time before `begin`
    back: str = ""
    events: str = ""  # a subtitle that explains the vertical rules


@dataclass(frozen=True, slots=True)
class PairedSeries:
    """A figure of one series against another, such as loss against load, with a panel for each treatment.

    Sample i of both series is one point. The samples of `y` are percentages, on a scale that shows both 0 and
    thousandths of a per cent. The x axis is logarithmic."""

    name: str  # the figure's file name without its suffix
    title: str
    how: str  # a subtitle that explains the points
    x_axis: str
    y_axis: str
    x: str  # name of a series; `y` alike
    y: str
    goals: tuple[float, ...]  # percentages at which horizontal lines are drawn
    found: tuple[str, ...]  # metrics whose means are marked on the x axis
    per_unit: float  # divides the values on the x axis
    # Name of a series with one sample per point: 1, or 0 if the x of the point is less than was requested. Points with
    # 0 are hollow. Without this series, no point is hollow.
    reached: str
    missed: str  # label of the hollow points in the legend


@dataclass(frozen=True, slots=True)
class LoadedHistogram:
    """The names of a histogram that each trial has, of its generator's own histogram, and of the metrics about it.

    `own` is the histogram of the delay of the load generator alone. `load` is the metric with the load at which
    `histogram` was taken. `metrics` are the metrics with the quantiles of `histogram`."""

    histogram: str
    own: str
    load: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuantilesByLoad:
    """A figure of quantiles of histograms against the load of each histogram, with a panel for each treatment.

    A quantile is not drawn if a trial dropped its value for being too large, or if the generator's own delay may be
    more than the fraction `most_own` of it."""

    name: str
    title: str
    how: str
    x_axis: str
    y_axis: str
    points: tuple[LoadedHistogram, ...]
    # (label, quantile) of each line, in the order of the `metrics` of each of `points`.
    quantiles: tuple[tuple[str, float], ...]
    per_unit: float  # divides the values of the histograms on the axis
    load_per_unit: float  # divides the loads on the axis
    most_own: float


@dataclass(frozen=True, slots=True)
class QuantileCurves:
    """A figure of the value at each quantile of a histogram, on a scale of nines, with a line for each treatment."""

    name: str
    title: str  # with the placeholder {load}
    load: str  # text for the placeholder
    how: str
    y_axis: str
    histogram: str  # name of the histogram that is drawn
    own: str  # name of the histogram of the load generator alone
    per_unit: float  # divides the values on the axis


ScenarioFigure = Milestones | AlignedSeries | PairedSeries | QuantilesByLoad | QuantileCurves


@dataclass(frozen=True, slots=True)
class SizedFactor:
    """A factor whose levels have sizes, such as topologies.

    The report shows how each metric grows with the sizes."""

    factor: str
    measures: tuple[str, ...]  # names of the sizes in the note `network` of a trial
    columns: tuple[str, ...]  # headings of these sizes in tables
    heading: str  # of the sizes together, with the placeholder {factor}
    explanation: str  # of the verdicts of the report on growth
    # Maps the name of a level to its sizes, for a level without a trial; returns None if the name does not show them.
    of_level: Callable[[str], tuple[int, ...] | None]


HOPS = SizedFactor(
    "length",
    ("hops",),
    (N_("with the hops"),),
    N_("{factor} (hops)"),
    N_(
        "What does one more hop add? Three lengths or more: the least-squares line through the means, its "
        "parameters ± half their intervals. It is a line if the interval of a bend (the quadratic coefficient) "
        "contains 0. Each interval is for one metric alone, uncorrected."
    ),
    lambda level: (int(level),),
)

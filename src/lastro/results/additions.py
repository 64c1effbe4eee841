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

    `name` is the figure's file name without its suffix. `how` is a subtitle that explains what is drawn. `lines` maps
    the label of each line to the names of the series whose sum it shows. `begin`, `end` and `back` are names of marks
    in the note `timeline_s`, in seconds from the start of the series. Time 0 of the figure is the mark `begin`. The
    figure starts `before_s` seconds before it, and ends at the mark `end`. If `back`, a later mark, is not empty,
    vertical rules show `begin` and `back`, and the subtitle `events` explains these rules."""

    name: str
    title: str
    how: str
    axis: str
    quantity: str
    lines: Mapping[str, tuple[str, ...]]
    begin: str
    end: str
    before_s: int = 0
    back: str = ""
    events: str = ""


@dataclass(frozen=True, slots=True)
class PairedSeries:
    """A figure of one series against another, such as loss against load, with a panel for each treatment.

    `name` is the figure's file name without its suffix. `how` is a subtitle that explains the points.

    `x` and `y` are names of series; sample i of both is one point. The samples of `y` are percentages, on a scale that
    shows both 0 and thousandths of a per cent. The x axis is logarithmic, and its values are divided by `per_unit`.

    Horizontal lines are drawn at the percentages `goals`. The means of the metrics `found` are marked on the x axis.

    `reached` is the name of a series with one sample per point: 1, or 0 if the x of the point is less than was
    requested. Points with 0 are hollow, and `missed` is their label in the legend. Without this series, no point is
    hollow."""

    name: str
    title: str
    how: str
    x_axis: str
    y_axis: str
    x: str
    y: str
    goals: tuple[float, ...]
    found: tuple[str, ...]
    per_unit: float
    reached: str
    missed: str


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

    `quantiles` has the (label, quantile) of each line, in the order of the `metrics` of each of `points`. A quantile is
    not drawn if a trial dropped its value for being too large, or if the generator's own delay may be more than the
    fraction `most_own` of it. On the axes, values of the histograms are divided by `per_unit`, and loads by
    `load_per_unit`."""

    name: str
    title: str
    how: str
    x_axis: str
    y_axis: str
    points: tuple[LoadedHistogram, ...]
    quantiles: tuple[tuple[str, float], ...]
    per_unit: float
    load_per_unit: float
    most_own: float


@dataclass(frozen=True, slots=True)
class QuantileCurves:
    """A figure of the value at each quantile of a histogram, on a scale of nines, with a line for each treatment.

    `title` has the placeholder {load}, which the text `load` fills. `histogram` is the name of the histogram that is
    drawn, and `own` that of the histogram of the load generator alone. On the axis, values are divided by
    `per_unit`."""

    name: str
    title: str
    load: str
    how: str
    y_axis: str
    histogram: str
    own: str
    per_unit: float


ScenarioFigure = Milestones | AlignedSeries | PairedSeries | QuantilesByLoad | QuantileCurves


@dataclass(frozen=True, slots=True)
class SizedFactor:
    """A factor whose levels have sizes, such as topologies; the report shows how each metric grows with the sizes.

    `measures` are the names of the sizes in the note `network` of a trial, and `columns` the headings of these sizes in
    tables. `of_level` maps the name of a level to its sizes, for a level without a trial; it returns None if the name
    does not show them. `heading` is the heading of the sizes together, with the placeholder {factor}. `explanation`
    explains the verdicts of the report on growth."""

    factor: str
    measures: tuple[str, ...]
    columns: tuple[str, ...]
    heading: str
    explanation: str
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

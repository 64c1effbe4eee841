"""Figures and tables that a scenario adds to a report, as data, so that the report depends on no scenario. Pure.

Texts are English messages, marked by `N_`, so that a report can translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lastro.stats.notes import N_


@dataclass(frozen=True, slots=True)
class Milestones:
    """A figure of times that begin at the same moment: means of metrics on one axis, with a row for each treatment.

    `name` is the stem of its file; `metrics` are in the order in which these times usually end."""

    name: str
    title: str
    axis: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlignedSeries:
    """A figure of series with a value for each second, aligned at a mark, with a panel for each treatment.

    `name` is the stem of its file; `how` describes the numbers. `lines` maps the label of a line to the series whose
    sum it shows. Marks are those of the note `timeline_s`, in seconds from the start of the series. The figure begins
    `before_s` before the mark `begin`, and ends at the mark `end`. `back` is a later mark than `begin`, and is drawn
    like it; `events` describes both."""

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

    `name` is the stem of its file; `how` describes the points. `x` and `y` are names of series whose samples form
    pairs; those of `y` are percentages, drawn on a scale that shows 0 and thousandths. `goals` are percentages at which
    lines are drawn. The means of the metrics `found` are marked on the horizontal axis, which is logarithmic; its
    values are divided by `per_unit`. `reached` is a series of 1, or 0 for pairs whose x is less than requested; these
    are drawn as hollow points, which `missed` describes. Without this series, no point is hollow."""

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
    """A histogram of each trial, by name; that of the generator alone; and the metrics of their load and quantiles."""

    histogram: str
    own: str
    load: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuantilesByLoad:
    """A figure of quantiles of histograms against the load of each histogram, with a panel for each treatment.

    `quantiles` has the (label, quantile) of each line, in the order of the metrics of each point. A quantile that a
    trial dropped is not drawn, nor one of which more than the fraction `most_own` may be delay of the generator. For
    the axes, values of the histograms are divided by `per_unit`, and loads by `load_per_unit`."""

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

    `title` has the placeholder {load}, for `load`. `own` is the name of the histogram of the generator alone. Values
    are divided by `per_unit` for the axis."""

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

    `measures` are the names of the sizes in the note `network` of trials; `columns` are their headings. For a level
    without a trial, `of_level` returns the sizes by the level's name, or None if the name does not show them. `heading`
    is the heading of the sizes, with the placeholder {factor}; `explanation` explains the verdicts."""

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

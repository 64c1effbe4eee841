"""What a scenario adds to a report of its trials, as data: the report draws it, and knows no scenario. Pure.

Texts are English messages, marked by `N_`, so that a report can translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lastro.stats.notes import N_


@dataclass(frozen=True, slots=True)
class Milestones:
    """A figure of metrics that begin at the same moment: their means on one axis of time, a row for each treatment.

    `name` is the stem of its file; `metrics` are in the order in which they usually end."""

    name: str
    title: str
    axis: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlignedSeries:
    """A figure of series with a value for each second, aligned at a mark: a panel for each treatment.

    `name` is the stem of its file; `how` describes the numbers. `lines` are the series that each line adds up. The
    series of a trial begin at 0 of its marks (the note `timeline_s`), and are shown from `before_s` before the mark
    `begin` until the mark `end`. `back` is a later mark, drawn with the first one and described by `events`."""

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
    """A figure of one series against another, such as loss against load: a panel for each treatment.

    `name` is the stem of its file; `how` describes the points. `x` and `y` are names of series whose samples belong
    together; those of `y` are percentages, drawn on a scale that has room for 0 and for thousandths. `goals` are lines
    at a percentage. The means of the metrics `found` are marked on the horizontal axis, which is logarithmic. Its
    values are divided by `per_unit`. `reached` is a series of 1, and of 0 where x is less than what was asked for: such
    pairs are hollow, and described by `missed`. Without that series, none is."""

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
    """A histogram of each trial, that of the generator alone, the metric of their load, and those of the quantiles."""

    histogram: str
    own: str
    load: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuantilesByLoad:
    """A figure of quantiles of histograms against the load under which each was taken: a panel for each treatment.

    `quantiles` are the lines, by their label, in the order of the metrics of each point. Where a trial dropped one
    because of its size, it is not drawn, as tables have no mean of it; nor is one of which more than the fraction
    `most_own` may be the generator's. For the axes, values of the histograms are divided by `per_unit`, and loads by
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
    """A figure of the value at each quantile of a histogram, on a scale of nines: a line for each treatment.

    `title` has the placeholder {load}, for `load`. `own` is the histogram of what the generator does alone. Values are
    divided by `per_unit` for the axis."""

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
    """A factor whose levels have sizes, such as a topology: the report shows how each metric grows with them.

    `measures` are the names of the sizes, which trials note as `network`; `columns` are their headings. `of_level`
    returns the sizes of a level by its name, for a level without a trial; None if the name does not say. `heading` is
    that of the sizes, with the placeholder {factor}; `explanation` says how to read the verdicts."""

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

"""Every figure of a report, in the order in which the page shows them. Only the one that is asked for is drawn.

`pictures` is the whole set; each is a `Picture` that saves as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from lastro.report.analysis.model import Analysis, MetricAnalysis
from lastro.report.figures.style import Picture, file_stem, style
from lastro.report.language import ENGLISH, Language
from lastro.report.model import Report
from lastro.results.samples import Metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "Plan", "figure_name", "metric_png", "metric_svg", "pictures", "timeline_svg"]

Kind = Literal[
    "effects", "variation", "interaction", "distribution", "course", "checks", "resources", "scaling", "floor", "claims"
]


@dataclass(frozen=True, slots=True)
class Plan:
    """A figure that can be drawn. `metric` is its metric's number in the report, None where it shows several."""

    kind: Kind
    metric: int | None
    name: str
    title: str
    draw: Callable[[], Figure | None]

    def picture(self) -> Picture | None:
        """Draws it; None where the campaign has nothing to show."""
        with style():
            figure = self.draw()
        return None if figure is None else Picture(self.name, self.title, figure)


def pictures(report: Report, analysis: Analysis, say: Language = ENGLISH) -> Iterator[Picture]:
    """Every figure that the campaign has something for, drawn one after the other."""
    for plan in plans(report, analysis, say):
        if (picture := plan.picture()) is not None:
            yield picture


def plans(report: Report, analysis: Analysis, say: Language = ENGLISH) -> Iterator[Plan]:
    """What can be drawn of a campaign; a plan may still turn out to have nothing to show."""
    yield _variation(analysis, say)
    for index, metric in enumerate(analysis.metrics):
        yield from _metric_plans(report, index, metric, say)
    yield _course(report, analysis, say)


def _variation(analysis: Analysis, say: Language) -> Plan:
    from lastro.report.figures.variation import draw_variation

    title = say("Variation explained by each effect")
    return Plan("variation", None, "variation", title, lambda: draw_variation(analysis, say))


def _metric_plans(report: Report, index: int, analysis: MetricAnalysis, say: Language) -> Iterator[Plan]:
    from lastro.report.figures.distribution import draw_distribution
    from lastro.report.figures.effects import draw_effects
    from lastro.report.figures.interactions import draw_interaction

    name, confidence = analysis.metric.name, report.study.design.confidence
    yield Plan(
        "effects", index, file_stem("effects", name), say("Effects on {metric}", metric=name),
        lambda: draw_effects(analysis, say, confidence),
    )  # fmt: skip
    for interaction in analysis.interactions:
        given, shown = interaction.given, interaction.shown
        yield Plan(
            "interaction",
            index,
            file_stem("interaction", name, given, shown),
            say("{shown} under each {given}, on {metric}", shown=shown, given=given, metric=name),
            partial(draw_interaction, analysis, interaction, say, confidence),
        )
    yield Plan(
        "distribution", index, figure_name(analysis.metric), say("Every trial of {metric}", metric=name),
        lambda: draw_distribution(report, index, say, analysis),
    )  # fmt: skip


def _course(report: Report, analysis: Analysis | None, say: Language) -> Plan:
    from lastro.report.figures.course import draw_course

    title = say("Time course of the campaign")
    return Plan("course", None, "course", title, lambda: draw_course(report, say, analysis))


def metric_svg(report: Report, index: int, say: Language = ENGLISH, analysis: MetricAnalysis | None = None) -> str:
    """The distribution of one metric as an SVG document; the same data give the same bytes."""
    return _distribution(report, index, say, analysis).svg()


def metric_png(report: Report, index: int, dpi: int = 160) -> bytes:
    return _distribution(report, index, ENGLISH, None).png(dpi)


def timeline_svg(report: Report, say: Language = ENGLISH, analysis: Analysis | None = None) -> str | None:
    """The course of the campaign; None without attempts."""
    picture = _course(report, analysis, say).picture()
    return picture.svg() if picture else None


def figure_name(metric: Metric) -> str:
    """A file name without anything that a file system or a shell would mind."""
    return file_stem(metric.name)


def _distribution(report: Report, index: int, say: Language, analysis: MetricAnalysis | None) -> Picture:
    from lastro.report.figures.distribution import draw_distribution

    metric = report.metrics[index]
    with style():
        figure = draw_distribution(report, index, say, analysis)
    return Picture(figure_name(metric), say("Every trial of {metric}", metric=metric.name), figure)

"""Every figure of a report, in the order in which the page shows them. Only requested figures are drawn.

`plans` lists the figures that can be drawn, `pictures` draws them; a `Picture` can be saved as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from lastro.analysis.as_published import MatchedBars
from lastro.analysis.campaign import CampaignResults, MetricView
from lastro.analysis.curves import Curve, curves
from lastro.analysis.model import Analysis, MetricAnalysis
from lastro.analysis.scaling import scalings
from lastro.figures.scenario_additions import figures_of
from lastro.figures.style import NARROW_IN, WIDE_IN, Picture, file_stem, style
from lastro.results.additions import (
    AlignedSeries,
    Milestones,
    PairedSeries,
    QuantileCurves,
    QuantilesByLoad,
    ScenarioFigure,
)
from lastro.words.campaign import place, titled
from lastro.words.language import ENGLISH, Language
from lastro.words.published import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lastro.analysis.as_published import AsPublished
    from lastro.analysis.claims import Judgement

__all__ = [
    "NARROW_IN",
    "WIDE_IN",
    "FigurePlan",
    "Kind",
    "Picture",
    "pictures",
    "plans",
]

Kind = Literal[
    "curve", "variation", "effects", "interaction", "distribution", "scaling", "checks", "claims", "floor", "course",
    "published", "scenario", "resources", "topology", "forest",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """A figure that can be drawn. `metric` is the number of its metric in the report, None where it shows several.

    `factor` is the factor on its axis, where it is a curve."""

    kind: Kind
    metric: int | None
    name: str
    title: str
    draw: Callable[[], Figure | None]
    factor: str = ""

    def picture(self, width_in: float = WIDE_IN) -> Picture | None:
        """Draw it; None where the campaign has nothing to show."""
        with style(width_in):
            figure = self.draw()
        return None if figure is None else Picture(self.name, self.title, figure)


def pictures(
    report: CampaignResults,
    analysis: Analysis,
    say: Language = ENGLISH,
    judgements: Sequence[Judgement] = (),
    published: AsPublished | None = None,
) -> Iterator[Picture]:
    """Yield every figure for which the campaign has data, drawn one after the other; titles say if it is of a guest."""
    measured = place(report, say)
    for plan in plans(report, analysis, say, judgements, published):
        if (picture := plan.picture()) is not None:
            yield replace(picture, title=titled(picture.title, measured))


def plans(
    report: CampaignResults,
    analysis: Analysis,
    say: Language = ENGLISH,
    judgements: Sequence[Judgement] = (),
    published: AsPublished | None = None,
) -> Iterator[FigurePlan]:
    """Yield the figures that can be drawn of a campaign. A planned figure may still have no data."""
    yield _variation(analysis, say)
    for view, metric in zip(report.views, analysis.metrics, strict=True):
        yield from _metric_plans(view, metric, say)
    yield from _published_plans(report, published, say)
    yield from _campaign_plans(report, analysis, say, judgements)


def _published_plans(report: CampaignResults, published: AsPublished | None, say: Language) -> Iterator[FigurePlan]:
    """Yield the figures of the source: of bars, and of lines where the scenario has their series."""
    from lastro.figures.published_bars import draw_bars
    from lastro.figures.published_lines import draw_lines

    series = {each.name: each for each in figures_of(report) if isinstance(each, AlignedSeries)}
    for found in published.figures if published else ():
        passage = found.figure.passage
        name, title = file_stem("published", passage.id), title_of(passage, say)
        if isinstance(found, MatchedBars):
            draw = partial(draw_bars, found, report.study.design.confidence, say)
            yield FigurePlan("published", None, name, title, draw)
        elif aligned := series.get(found.figure.series):
            yield FigurePlan("published", None, name, title, partial(draw_lines, found, aligned, report, say))


def _variation(analysis: Analysis, say: Language) -> FigurePlan:
    from lastro.figures.variation import draw_variation

    title = say("Variation explained by each effect")
    return FigurePlan("variation", None, "variation", title, partial(draw_variation, analysis, say))


def _metric_plans(view: MetricView, analysis: MetricAnalysis, say: Language) -> Iterator[FigurePlan]:
    from lastro.figures.checks import draw_checks
    from lastro.figures.effects import draw_effects, draw_interaction
    from lastro.figures.scaling import draw_scaling

    name, index, confidence = analysis.metric.name, view.index, view.confidence
    found = curves(view.report)
    for curve in found:
        yield _curve(view, curve, say)
    title = say("Effects on {metric}", metric=name)
    draw = partial(draw_effects, analysis, say, confidence)
    yield FigurePlan("effects", index, file_stem("effects", name), title, draw)
    for interaction in analysis.interactions:
        given, shown = interaction.given, interaction.shown
        title = say("{shown} under each {given}, on {metric}", shown=shown, given=given, metric=name)
        draw = partial(draw_interaction, analysis, interaction, say, confidence)
        yield FigurePlan("interaction", index, file_stem("interaction", name, given, shown), title, draw)
    if not any(curve.shows_all(view) for curve in found):  # the same trials twice would add nothing
        yield _distribution(view, say, analysis)
    for scaling in scalings(view.report):
        if all(law.factor != scaling.factor for law in analysis.scaling):
            continue  # the line alone is a slope, which is in the table; its trials are in the curve
        title = say("{metric} by {factor}", metric=name, factor=scaling.factor)
        draw = partial(draw_scaling, view, scaling, analysis, say)
        yield FigurePlan("scaling", index, file_stem("scaling", name, scaling.factor), title, draw)
    title = say("Residuals of {metric}", metric=name)
    yield FigurePlan("checks", index, file_stem("checks", name), title, partial(draw_checks, analysis, say))


def _curve(view: MetricView, curve: Curve, say: Language) -> FigurePlan:
    from lastro.figures.curve import draw_curve

    name = view.metric.name
    title = say("{metric} against {factor}", metric=name, factor=curve.factor)
    draw = partial(draw_curve, view, curve, say)
    return FigurePlan("curve", view.index, file_stem("curve", name, curve.factor), title, draw, curve.factor)


def _campaign_plans(
    report: CampaignResults, analysis: Analysis, say: Language, judgements: Sequence[Judgement]
) -> Iterator[FigurePlan]:
    from lastro.figures.claims import draw_claims
    from lastro.figures.floor import draw_floor
    from lastro.figures.resources import draw_resources
    from lastro.figures.topology import draw_shown

    yield FigurePlan(
        "claims", None, "claims", say("Published and measured"), partial(draw_claims, judgements, say, report.metrics)
    )
    yield FigurePlan("floor", None, "floor", say("Noise floor of this host"), partial(draw_floor, report, say))
    yield from (_of_scenario(figure, report, say) for figure in figures_of(report))
    yield _course(report, analysis, say)
    title = say("Resources that each role used in a trial")
    yield FigurePlan("resources", None, "resources", title, partial(draw_resources, report, say))
    yield FigurePlan("topology", None, "topology", say("What a trial consisted of"), partial(draw_shown, report, say))


def _of_scenario(figure: ScenarioFigure, report: CampaignResults, say: Language) -> FigurePlan:
    title = say(figure.title, load=figure.load) if isinstance(figure, QuantileCurves) else say(figure.title)
    return FigurePlan("scenario", None, file_stem(figure.name), title, _drawing(figure, report, say))


def _drawing(figure: ScenarioFigure, report: CampaignResults, say: Language) -> Callable[[], Figure | None]:
    from lastro.figures.aligned import draw_aligned
    from lastro.figures.milestones import draw_milestones
    from lastro.figures.paired import draw_paired
    from lastro.figures.quantiles import draw_quantile_curves, draw_quantiles_by_load

    match figure:
        case Milestones():
            return partial(draw_milestones, figure, report, say)
        case PairedSeries():
            return partial(draw_paired, figure, report, say)
        case QuantilesByLoad():
            return partial(draw_quantiles_by_load, figure, report, say)
        case QuantileCurves():
            return partial(draw_quantile_curves, figure, report, say)
        case AlignedSeries():
            return partial(draw_aligned, figure, report, say)


def _distribution(view: MetricView, say: Language, analysis: MetricAnalysis) -> FigurePlan:
    from lastro.figures.distribution import draw_distribution

    name = view.metric.name
    draw = partial(draw_distribution, view, say, analysis)
    return FigurePlan("distribution", view.index, file_stem(name), say("Every trial of {metric}", metric=name), draw)


def _course(report: CampaignResults, analysis: Analysis, say: Language) -> FigurePlan:
    from lastro.figures.time_course import draw_course

    title = say("Time course of the campaign")
    return FigurePlan("course", None, "course", title, partial(draw_course, report, say, analysis))

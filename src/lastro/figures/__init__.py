"""Every figure of a report, in the order in which the page shows them. Only requested figures are drawn.

`plans` lists the figures that can be drawn, `pictures` draws them; a `Picture` can be saved as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from lastro.analysis.as_published import MatchedBars, MatchedPublication
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement
from lastro.analysis.curves import curves
from lastro.analysis.model import Analysis
from lastro.figures.claims import draw_claims
from lastro.figures.curve import draw_curve
from lastro.figures.distribution import draw_distribution
from lastro.figures.effects import draw_effects, draw_interaction
from lastro.figures.matplotlib_types import Figure
from lastro.figures.published import draw_bars, draw_lines
from lastro.figures.scenario import draw_aligned, draw_milestones, draw_paired, figures_of
from lastro.figures.style import NARROW_IN, WIDE_IN, Picture, file_stem, style
from lastro.figures.time_course import draw_course
from lastro.figures.topology import draw_recorded_topology
from lastro.results.additions import AlignedSeries, Milestones, PairedSeries, QuantileCurves, QuantilesByLoad
from lastro.words.campaign import place, title_with_place
from lastro.words.language import ENGLISH, Language
from lastro.words.published import title_of

if TYPE_CHECKING:
    from lastro.analysis.decision import SlaDecision

__all__ = ["NARROW_IN", "WIDE_IN", "FigurePlan", "Kind", "Picture", "decision_plan", "pictures", "plans"]

Kind = Literal[
    "curve", "effects", "interaction", "distribution", "claims", "course",
    "published", "scenario", "topology", "forest", "decision", "history",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """A figure that can be drawn, but is not drawn yet."""

    kind: Kind
    metric: int | None  # index of its metric in the report; None if it shows several metrics or none
    name: str  # can be the stem of a file name
    title: str
    draw: Callable[[], Figure | None]  # returns None without data
    factor: str = ""  # the factor whose curve or forest plot it is; empty for other kinds

    def picture(self, width_in: float = WIDE_IN) -> Picture | None:
        """Draw the figure, `width_in` inches wide; return None if the campaign has no data for it."""
        with style(width_in):
            figure = self.draw()
        return None if figure is None else Picture(self.name, self.title, figure)


def pictures(planned: Iterable[FigurePlan]) -> Iterator[Picture]:
    """Yield the picture of each planned figure for which there is data; it is drawn only when it is requested."""
    return filter(None, (plan.picture() for plan in planned))


def plans(
    report: CampaignResults,
    analysis: Analysis,
    say: Language = ENGLISH,
    judgements: Sequence[Judgement] = (),
    published: MatchedPublication | None = None,
) -> Iterator[FigurePlan]:
    """Yield the plans of all figures of a campaign; a planned figure may still have no data.

    First come the figures of values, then those of effects, those of the source, and last the time course. If the
    campaign ran in a guest, each title says so."""
    measured = place(report, say)
    for plan in _plans(report, analysis, say, judgements, published):
        yield replace(plan, title=title_with_place(plan.title, measured))


def _plans(
    report: CampaignResults,
    analysis: Analysis,
    say: Language,
    judgements: Sequence[Judgement],
    published: MatchedPublication | None,
) -> Iterator[FigurePlan]:
    if report.study.sla and report.study.cost:
        from lastro.analysis.decision import decision_of  # it loads NumPy

        yield decision_plan(lambda: decision_of(report), say)
    yield from _values(report, analysis, say)
    yield from _effects(report, analysis, say)
    yield from _published(report, published, say)
    draw: Callable[[], Figure | None] = partial(draw_claims, judgements, say, report.metrics)
    yield FigurePlan("claims", None, "claims", say("Published and measured"), draw)
    yield from _of_scenario(report, say)
    draw = partial(draw_course, report, say, analysis)
    yield FigurePlan("course", None, "course", say("Time course of the campaign"), draw)
    yield FigurePlan(
        "topology", None, "topology", say("What a trial consisted of"), partial(draw_recorded_topology, report, say)
    )


def decision_plan(decide: Callable[[], SlaDecision | None], say: Language) -> FigurePlan:
    """Return the plan of the figure of a decision; `decide` is called when it is drawn."""
    from lastro.figures.decision import draw_decision  # it loads NumPy

    return FigurePlan("decision", None, "decision", say("Cost against service"), lambda: draw_decision(decide(), say))


def _values(report: CampaignResults, analysis: Analysis, say: Language) -> Iterator[FigurePlan]:
    """Yield, for each metric, its curves, and a plot of every trial if no curve shows them all."""
    all_curves = curves(report)
    for view, metric in zip(report.views, analysis.metrics, strict=True):
        name = view.metric.name
        for curve in all_curves:
            title = say("{metric} against {factor}", metric=name, factor=curve.factor)
            draw = partial(draw_curve, view, curve, say)
            yield FigurePlan("curve", view.index, file_stem("curve", name, curve.factor), title, draw, curve.factor)
        if not any(curve.shows_all(view) for curve in all_curves):
            title = say("Every trial of {metric}", metric=name)
            draw_trials = partial(draw_distribution, view, say, metric)
            yield FigurePlan("distribution", view.index, file_stem(name), title, draw_trials)


def _effects(report: CampaignResults, analysis: Analysis, say: Language) -> Iterator[FigurePlan]:
    """Yield a plan of the effects on each metric, then one of each interaction of two factors."""
    confidence = report.study.design.confidence
    for index, metric in enumerate(analysis.metrics):
        name = metric.metric.name
        title = say("Effects on {metric}", metric=name)
        yield FigurePlan(
            "effects", index, file_stem("effects", name), title, partial(draw_effects, metric, say, confidence)
        )
    for index, metric in enumerate(analysis.metrics):
        for interaction in metric.interactions:
            given, shown, name = interaction.given, interaction.shown, metric.metric.name
            title = say("{shown} under each {given}, on {metric}", shown=shown, given=given, metric=name)
            draw = partial(draw_interaction, metric, interaction, say, confidence)
            yield FigurePlan("interaction", index, file_stem("interaction", name, given, shown), title, draw)


def _published(report: CampaignResults, published: MatchedPublication | None, say: Language) -> Iterator[FigurePlan]:
    """Yield a plan of each published figure: bars, or lines if the scenario declares the series that they show."""
    series = {series_.name: series_ for series_ in figures_of(report) if isinstance(series_, AlignedSeries)}
    for matched in published.figures if published else ():
        passage = matched.figure.passage
        name, title = file_stem("published", passage.id), title_of(passage, say)
        if isinstance(matched, MatchedBars):
            draw = partial(draw_bars, matched, report.study.design.confidence, say)
            yield FigurePlan("published", None, name, title, draw)
        elif aligned := series.get(matched.figure.series):
            yield FigurePlan("published", None, name, title, partial(draw_lines, matched, aligned, report, say))


def _of_scenario(report: CampaignResults, say: Language) -> Iterator[FigurePlan]:
    # It loads NumPy, which tables in a terminal do not need.
    from lastro.figures.quantiles import draw_quantile_curves, draw_quantiles_by_load

    draws: dict[type, Callable[..., Figure | None]] = {
        Milestones: draw_milestones, PairedSeries: draw_paired, QuantilesByLoad: draw_quantiles_by_load,
        QuantileCurves: draw_quantile_curves, AlignedSeries: draw_aligned,
    }  # fmt: skip
    for figure in figures_of(report):
        title = say(figure.title, load=figure.load) if isinstance(figure, QuantileCurves) else say(figure.title)
        of_kind = next(draw for kind, draw in draws.items() if isinstance(figure, kind))
        draw = partial(of_kind, figure, report, say)
        yield FigurePlan("scenario", None, file_stem(figure.name), title, draw)

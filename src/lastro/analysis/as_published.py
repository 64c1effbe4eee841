"""The printed tables and figures of a source, with the means of this campaign for each of their cells and bars.

A mean is over the measured treatments that have the levels of the cell or bar, with an interval of the study's
confidence. All bars of a panel are means over the same conditions, like the sides of a claim. A mark shows where a bar
would end if the published value were true of this host: a published ratio is multiplied by the mean that this campaign
measured for the denominator. Pure: it takes the results of a campaign and returns numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import MetricCells, Untestable
from lastro.analysis.claims.stand_ins import Substitution, with_stand_ins
from lastro.results.samples import Metric, depends_on_speed
from lastro.stats.intervals import Estimate
from lastro.stats.notes import Note
from lastro.study.model import Levels

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claim, Claims, PublishedMark
    from lastro.study.printed import BarFigure, LineFigure, PrintedColumn, PrintedTable


@dataclass(frozen=True, slots=True)
class MatchedMean:
    """The mean of this campaign at some levels."""

    mean: Estimate | None  # None if nothing was measured at these levels
    strata: int = 0  # number of conditions over which the mean is
    all_strata: int = 0  # number of conditions of the design
    bounded: bool = False  # whether some values are only lower bounds
    why: tuple[Note, ...] = ()  # reasons why nothing was measured
    stand_in: tuple[Substitution, ...] = ()  # levels that were measured in place of published levels


@dataclass(frozen=True, slots=True)
class PublishedBar:
    """A bar of a published figure, with the mean that this campaign measured for it.

    `group` is the index of the bar's group in the figure, and `bar` the index of the bar in the group. `bar` is None
    for the mean over all bars of a group, which is compared with a published value for the whole group. `mark` is the
    published value; None if there is none."""

    group: int
    bar: int | None
    here: MatchedMean
    mark: PublishedMark | None


@dataclass(frozen=True, slots=True)
class PublishedPanel:
    """The bars of a figure for one metric."""

    metric: Metric
    bars: tuple[PublishedBar, ...]


@dataclass(frozen=True, slots=True)
class MatchedTable:
    """A printed table, with the mean that this campaign measured for each of its cells.

    `rows` has a mean for each row and column. `metrics` has the metric of each column; None if it was not measured."""

    table: PrintedTable
    metrics: tuple[Metric | None, ...]
    rows: tuple[tuple[MatchedMean, ...], ...]


@dataclass(frozen=True, slots=True)
class MatchedBars:
    """A figure of bars, with a panel for each of its metrics that this campaign measured."""

    figure: BarFigure
    panels: tuple[PublishedPanel, ...]


@dataclass(frozen=True, slots=True)
class MatchedLines:
    """A figure of lines, and its marks: published limits, each a horizontal line across a panel.

    The report loads the time series of the lines."""

    figure: LineFigure
    marks: tuple[PublishedMark, ...]


@dataclass(frozen=True, slots=True)
class MatchedPublication:
    """The tables and figures of the publication from which a study's claims come, in the order of the claims file."""

    tables: tuple[MatchedTable, ...] = ()
    figures: tuple[MatchedBars | MatchedLines, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.figures)


def match_publication(claims: Claims, report: CampaignResults) -> MatchedPublication:
    """Return the tables and figures of the publication from which the claims come, with the means of this campaign."""
    known, tables = {metric.name: metric for metric in report.metrics}, []
    for table in claims.tables:
        rows = [tuple(_cell(table, row.at, column, report) for column in table.columns) for row in table.rows]
        tables.append(MatchedTable(table, tuple(known.get(column.metric) for column in table.columns), tuple(rows)))
    return MatchedPublication(tuple(tables), tuple(_figure(figure, claims, report) for figure in claims.figures))


def measured_mean(report: CampaignResults, metric: str, levels: Levels) -> MatchedMean:
    """Return the mean of a metric at some levels, or the reasons why there is none."""
    try:
        cells = MetricCells(report, metric)
        (weights,), n_measured, n_conditions = cells.sides([{}], levels)
    except Untestable as untestable:
        return MatchedMean(None, why=untestable.why)
    return _matched_mean(cells, weights, n_measured, n_conditions)


def _matched_mean(cells: MetricCells, weights: Mapping[int, float], used: int, total: int) -> MatchedMean:
    return MatchedMean(cells.sum_of_means(weights), used, total, any(cells.slack(weights)))


def _cell(table: PrintedTable, row: Levels, column: PrintedColumn, report: CampaignResults) -> MatchedMean:
    """Return the mean at the levels of a cell; levels that were not measured are replaced by their stand-ins."""
    from lastro.analysis.claims.claim import Statement  # imports pydantic

    stated = Statement(metric=column.metric, at={**table.at, **row, **column.at})
    measured, stand_in = with_stand_ins(stated, table.stand_in, [report])
    stated_levels = {level for levels in stated.at.values() for level in levels}
    used = tuple(substitution for substitution in stand_in if substitution.published in stated_levels)
    mean = measured_mean(report, measured.metric, measured.at)
    return replace(mean, stand_in=used if mean.mean else ())


def _figure(figure: BarFigure | LineFigure, claims: Claims, report: CampaignResults) -> MatchedBars | MatchedLines:
    from lastro.study.printed import BarFigure  # imports pydantic

    by_id = {claim.id: claim for claim in claims.claims}
    marked = [by_id[name] for name in figure.marks if name in by_id]
    if not isinstance(figure, BarFigure):
        marks = [_mark(claim, claims, report) for claim in marked if claim.statement.limits]
        return MatchedLines(figure, tuple(mark for mark in marks if mark))
    known = {metric.name: metric for metric in report.metrics}
    metrics = [known[name] for name in figure.metrics if name in known]
    return MatchedBars(figure, tuple(_panel(figure, metric, marked, claims, report) for metric in metrics))


def _panel(
    figure: BarFigure, metric: Metric, marked: Sequence[Claim], claims: Claims, report: CampaignResults
) -> PublishedPanel:
    """Return the panel of a metric; `marked` are the claims whose published values are marks of the figure."""
    of_panel = [_mark(claim, claims, report) for claim in marked if claim.statement.metric == metric.name]
    marks = [mark for mark in of_panel if mark is not None]
    separated = {name for bar in figure.bars for name in bar}
    places = list(itertools.product(range(len(figure.groups)), range(len(figure.bars))))
    sides = [{**figure.groups[group], **figure.bars[bar]} for group, bar in places]
    heres = _side_by_side(report, metric.name, sides, figure.at)
    bars = [
        PublishedBar(group, bar, here, next((mark for mark in marks if _is_of(mark, side, figure)), None))
        for (group, bar), side, here in zip(places, sides, heres, strict=True)
    ]
    bars += [
        PublishedBar(group, None, measured_mean(report, metric.name, mark.levels), mark)
        for group, levels in enumerate(figure.groups)
        for mark in marks
        if separated and _is_of(mark, levels, figure) and separated.isdisjoint(mark.levels)
    ]
    return PublishedPanel(metric, tuple(bars))


def _is_of(mark: PublishedMark, levels: Levels, figure: BarFigure) -> bool:
    """Return whether a mark belongs to the bar or group with these levels.

    The mark must have exactly these levels and, for each other factor that it names, the levels of the figure."""
    wanted = {**{name: at for name, at in figure.at.items() if name in mark.levels}, **levels}
    return all(set(mark.levels.get(name, ())) == set(of_factor) for name, of_factor in wanted.items())


def _side_by_side(report: CampaignResults, metric: str, sides: Sequence[Levels], at: Levels) -> list[MatchedMean]:
    """Return the mean of each side over the conditions in which all sides were measured.

    A side without any measured condition has no mean, and is ignored in the search for common conditions. Without a
    common condition, each mean is over the conditions of its own side."""
    separate = [measured_mean(report, metric, {**at, **side}) for side in sides]
    measured = [index for index, here in enumerate(separate) if here.mean is not None]
    try:
        cells = MetricCells(report, metric)
        weights, n_measured, n_conditions = cells.sides([sides[index] for index in measured], at)
    except Untestable:  # no common condition
        return separate
    common = {
        index: _matched_mean(cells, of_side, n_measured, n_conditions)
        for index, of_side in zip(measured, weights, strict=True)
    }
    return [common.get(index, here) for index, here in enumerate(separate)]


def _mark(claim: Claim, claims: Claims, report: CampaignResults) -> PublishedMark | None:
    """Return where the published value of a claim would lie in the figure of this campaign.

    None if the claim has no published value, or if this campaign lacks the mean to which a published ratio or
    difference is applied. Also None for a published difference of times or rates if this campaign ran in an emulated
    guest, which is slower than real hardware."""
    stated, published = claim.statement, claim.published
    emulated = report.guest is not None and report.guest.emulated
    if published and published.given == ["difference"] and emulated and depends_on_speed(published.unit):
        return None

    def mean(levels: Levels) -> float | None:
        here = measured_mean(report, stated.metric, levels).mean
        return here.value if here else None

    return stated.mark(claim, claims.claims, mean)

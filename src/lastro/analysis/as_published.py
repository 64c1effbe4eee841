"""What a source printed, with what this campaign measured beside it: tables cell by cell, figures bar by bar.

A mean is over the measured treatments of its levels, with the interval of the study's confidence. The bars of a panel
are over the same conditions, as the sides of a claim are. A mark is where a bar would end if the published figure held
here: a published ratio is applied to the mean of this campaign that the source compares with. Pure: a report in,
numbers out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import MetricCells, Untestable
from lastro.analysis.claims.stand_ins import Substitution, as_measured
from lastro.results.samples import Metric, depends_on_speed
from lastro.stats.intervals import Estimate
from lastro.stats.notes import Note
from lastro.study.model import Levels

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import Claim, Claims, PublishedMark
    from lastro.study.printed import BarFigure, LineFigure, PrintedColumn, PrintedTable


@dataclass(frozen=True, slots=True)
class MatchedMean:
    """The mean of this campaign at some levels; None where `why` says what is missing.

    It is over `strata` of the `all_strata` conditions that the design has. `bounded`: only a lower bound is known of a
    value in it. `stand_in` are levels that were measured in place of published ones."""

    mean: Estimate | None
    strata: int = 0
    all_strata: int = 0
    bounded: bool = False
    why: tuple[Note, ...] = ()
    stand_in: tuple[Substitution, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedBar:
    """The mean of one bar. `bar` is its place in its group; None for the mean over all bars of the group.

    Only a mark that does not distinguish these bars has such a mean."""

    group: int
    bar: int | None
    here: MatchedMean
    mark: PublishedMark | None


@dataclass(frozen=True, slots=True)
class PublishedPanel:
    metric: Metric
    bars: tuple[PublishedBar, ...]


@dataclass(frozen=True, slots=True)
class MatchedTable:
    """A printed table, and for each row the means of this campaign, cell by cell, with the metrics of the columns."""

    table: PrintedTable
    metrics: tuple[Metric | None, ...]
    rows: tuple[tuple[MatchedMean, ...], ...]


@dataclass(frozen=True, slots=True)
class MatchedBars:
    figure: BarFigure
    panels: tuple[PublishedPanel, ...]


@dataclass(frozen=True, slots=True)
class MatchedLines:
    """A figure of lines, whose series the report loads, and its marks, each a level across a panel."""

    figure: LineFigure
    marks: tuple[PublishedMark, ...]


@dataclass(frozen=True, slots=True)
class AsPublished:
    """The tables and figures of the source of the claims on a study, in the order of their file."""

    tables: tuple[MatchedTable, ...] = ()
    figures: tuple[MatchedBars | MatchedLines, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.figures)


def as_published(claims: Claims, report: CampaignResults) -> AsPublished:
    """Return what the source of these claims printed, with this campaign beside it."""
    figures = tuple(_figure(figure, claims, report) for figure in claims.figures)
    return AsPublished(tuple(_table(table, report) for table in claims.tables), figures)


def mean_here(report: CampaignResults, metric: str, levels: Levels) -> MatchedMean:
    """Return the mean of a metric at some levels, or why there is none."""
    try:
        cells = MetricCells(report, metric)
        (weights,), used, total = cells.sides([{}], levels)
    except Untestable as untestable:
        return MatchedMean(None, why=untestable.why)
    return _mean(cells, weights, used, total)


def _mean(cells: MetricCells, weights: Mapping[int, float], used: int, total: int) -> MatchedMean:
    return MatchedMean(cells.linear(weights), used, total, any(cells.slack(weights)))


# Tables


def _table(table: PrintedTable, report: CampaignResults) -> MatchedTable:
    known = {metric.name: metric for metric in report.metrics}
    metrics = tuple(known.get(column.metric) for column in table.columns)
    rows = tuple(tuple(_cell(table, row.at, column, report) for column in table.columns) for row in table.rows)
    return MatchedTable(table, metrics, rows)


def _cell(table: PrintedTable, row: Levels, column: PrintedColumn, report: CampaignResults) -> MatchedMean:
    """Return the mean at the levels of a cell, or at their stand-ins where only these were measured."""
    from lastro.analysis.claims.claim import Statement  # imports pydantic

    stated = Statement(metric=column.metric, at={**table.at, **row, **column.at})
    moved, stand_in = as_measured(stated, table.stand_in, [report])
    own = {each.published for each in stand_in} & {level for levels in stated.at.values() for level in levels}
    used = tuple(each for each in stand_in if each.published in own)
    mean = mean_here(report, moved.metric, moved.at)
    return replace(mean, stand_in=used if mean.mean else ())


# Figures


def _figure(figure: BarFigure | LineFigure, claims: Claims, report: CampaignResults) -> MatchedBars | MatchedLines:
    from lastro.study.printed import BarFigure  # imports pydantic

    by_id = {claim.id: claim for claim in claims.claims}
    marked = [by_id[name] for name in figure.marks if name in by_id]
    if not isinstance(figure, BarFigure):
        marks = [_mark(claim, claims, report) for claim in marked if claim.statement.limits]
        return MatchedLines(figure, tuple(mark for mark in marks if mark))
    known = {metric.name: metric for metric in report.metrics}
    return MatchedBars(
        figure, tuple(_panel(figure, known[name], marked, claims, report) for name in figure.metrics if name in known)
    )


def _panel(
    figure: BarFigure, metric: Metric, marked: Sequence[Claim], claims: Claims, report: CampaignResults
) -> PublishedPanel:
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
        PublishedBar(group, None, mean_here(report, metric.name, mark.levels), mark)
        for group, levels in enumerate(figure.groups)
        for mark in marks
        if separated and _is_of(mark, levels, figure) and separated.isdisjoint(mark.levels)
    ]
    return PublishedPanel(metric, tuple(bars))


def _is_of(mark: PublishedMark, levels: Levels, figure: BarFigure) -> bool:
    """Return whether a mark is of these levels, under the conditions of the figure or over them."""
    conditions = {name: own for name, own in figure.at.items() if name in mark.levels}
    return all(set(mark.levels.get(name, ())) == set(own) for name, own in {**conditions, **levels}.items())


def _side_by_side(report: CampaignResults, metric: str, sides: Sequence[Levels], at: Levels) -> list[MatchedMean]:
    """Return the means of sides over the conditions in which all of them were measured.

    A side that was measured nowhere is ignored. Without a common condition, each mean is over its own conditions."""
    alone = [mean_here(report, metric, {**at, **side}) for side in sides]
    there = [index for index, here in enumerate(alone) if here.mean is not None]
    try:
        cells = MetricCells(report, metric)
        weights, used, total = cells.sides([sides[index] for index in there], at)
    except Untestable:
        return alone
    common = {index: _mean(cells, own, used, total) for index, own in zip(there, weights, strict=True)}
    return [common.get(index, here) for index, here in enumerate(alone)]


# Marks


def _mark(claim: Claim, claims: Claims, report: CampaignResults) -> PublishedMark | None:
    """Return where the published figure of a claim would lie here; None without a figure or a mean to apply it to.

    No difference is added to a time or a rate that a guest in software measured."""
    stated, published = claim.statement, claim.published
    emulated = report.guest is not None and report.guest.emulated
    if published and published.given == ["difference"] and emulated and depends_on_speed(published.unit):
        return None

    def mean(levels: Levels) -> float | None:
        here = mean_here(report, stated.metric, levels).mean
        return here.value if here else None

    return stated.mark(claim, claims.claims, mean)

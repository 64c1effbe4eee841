"""The tables and figures that a source printed, as tables that also have the numbers of this campaign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lastro.analysis.as_published import MatchedBars, MatchedMean, MatchedTable
from lastro.analysis.claim_cells import DID_YOU_MEAN
from lastro.builders.content import Content
from lastro.builders.page_figures import PageFigures
from lastro.builders.tables import table_with_place
from lastro.document import Block, Figures, Fold, Paragraph, Table, section
from lastro.stats.intervals import Interval
from lastro.stats.notes import N_
from lastro.units import significant
from lastro.words.campaign import place, title_with_place
from lastro.words.estimates import estimate_text, number_text
from lastro.words.language import Language
from lastro.words.numbers import fixed, metric_heading, percent
from lastro.words.published import levels_text, marks_of, title_of

if TYPE_CHECKING:
    from lastro.analysis.claims.claim import PublishedMark
    from lastro.study.printed import Passage

INTRODUCTION = N_(
    "What the source printed, with what this campaign measured beside it. Absolute numbers belong to a machine: "
    "compare how they relate to each other. The claims judge that."
)

_MANY_BARS = 4  # below a figure, a table with more rows is folded
_MOST_NUMBERS = 4  # columns of numbers that a page holds without line breaks in them
NOTHING_OF_IT = N_("{title}: this campaign has no trial of it.")


def published_blocks(content: Content, page_figures: PageFigures) -> Iterator[Block]:
    """Yield the section of a report with the tables of the source, then its figures, each bar chart with a table.

    Nothing if the source has neither. A bar chart that is not in `page_figures` has only its table."""
    if content.published is None:
        return
    say, confidence = content.say, content.report.study.design.confidence
    measured = place(content.report, say)
    drawn = {figure.title: figure for figure in page_figures.of("published")}
    blocks: list[Block] = [
        table_with_place(table, content.report, say)
        for matched in content.published.tables
        if (table := printed_table(matched, confidence, say))
    ]
    for matched_figure in content.published.figures:
        figure = drawn.get(title_with_place(title_of(matched_figure.figure.passage, say), measured))
        if figure:
            note = matched_figure.figure.passage.notes(say.code).removesuffix(".")
            blocks.append(Figures((replace(figure, note=note),)))
        if isinstance(matched_figure, MatchedBars):
            blocks += _bars_blocks(matched_figure, content, is_drawn=figure is not None)
        elif not figure and page_figures:
            blocks.append(_nothing_of(matched_figure.figure.passage, say))
    if blocks:
        yield from section(say("As published"), Paragraph(say(INTRODUCTION)), *blocks, anchor="published")


def _bars_blocks(matched: MatchedBars, content: Content, *, is_drawn: bool) -> Iterator[Block]:
    """Yield the table of a bar chart, folded if it is long and below its figure, or that nothing was measured."""
    say, report = content.say, content.report
    table = bars_table(matched, report.study.design.confidence, say, noted=not is_drawn)
    if table:
        title = title_with_place(table.title, place(report, say))
        folded = is_drawn and len(table.rows) > _MANY_BARS
        yield Fold(title, (replace(table, title=""),)) if folded else replace(table, title=title)
    elif not is_drawn:
        yield _nothing_of(matched.figure.passage, say)


def _nothing_of(passage: Passage, say: Language) -> Paragraph:
    return Paragraph(say(NOTHING_OF_IT, title=title_of(passage, say)), dim=True)


def printed_table(matched: MatchedTable, confidence: float, say: Language) -> Table:
    """Return a table of the source with two columns for each column of numbers: as printed, and as measured here."""
    names = tuple(dict.fromkeys(name for row in matched.table.rows for name in row.at))
    heads: list[str] = []
    for column, metric in zip(matched.table.columns, matched.metrics, strict=True):
        name = column.heading or column.metric
        heads.append(say("{name}: published ({unit})", name=name, unit=column.unit))
        heads.append(say("here ({unit})", unit=metric.unit if metric and metric.unit else "—"))
    rows = tuple(
        (
            *(levels_text(row.at[name], say) if name in row.at else say("any") for name in names),
            *(text for cell, mean in zip(row.cells, means, strict=True) for text in (cell.text, here_text(mean, say))),
        )
        for row, means in zip(matched.table.rows, matched.rows, strict=True)
    )
    right = range(len(names), len(names) + len(heads))
    how = say(
        "here: mean of the valid trials ± half of its {confidence} interval, over the levels of all factors that the "
        "table does not name",
        confidence=percent(confidence, say),
    )
    passage = matched.table
    note = _notes(passage.notes(say.code), how, (mean for means in matched.rows for mean in means), say)
    name, title, columns = f"published-{passage.id}", title_of(passage, say), (*names, *heads)
    long = frozenset(right if len(heads) > _MOST_NUMBERS else ())
    return Table(name, title, columns, rows, frozenset(right), long, note, dense=True)


def bars_table(matched: MatchedBars, confidence: float, say: Language, *, noted: bool = True) -> Table:
    """Return a bar chart of the source as a table: the mean here and, where it is known, the published value.

    A published ratio or difference has a reference; it is applied to the mean of that reference in this campaign. With
    `noted`, the note of the figure is below the table; otherwise the caller writes it below the figure."""
    figure = matched.figure
    groups = tuple(dict.fromkeys(name for levels in figure.groups for name in levels))
    bars = tuple(dict.fromkeys(name for levels in figure.bars for name in levels))
    heads: list[str] = []
    for panel in matched.panels:
        heads.append(say("{metric}, here", metric=metric_heading(panel.metric)))
        if marks := marks_of(panel):
            relative = any(mark.relative for mark in marks)
            heads.append(say("published, as it would be here") if relative else say("published"))
    first = len(groups) + len(bars)
    how = say(
        "here: mean of the valid trials ± half of its {confidence} interval, over the levels of all factors that the "
        "figure does not name",
        confidence=percent(confidence, say),
    )
    if any(mark.relative for panel in matched.panels for mark in marks_of(panel)):
        how += "; " + say(
            "published: the ratio or difference that the source prints, applied to the mean of this campaign that the "
            "source compares with"
        )
    means = (bar.here for panel in matched.panels for bar in panel.bars)
    note = _notes(figure.passage.notes(say.code) if noted else "", how, means, say)
    name, title = f"published-figure-{figure.passage.id}", title_of(figure.passage, say)
    rows, right = tuple(_bar_rows(matched, groups, bars, say)), frozenset(range(first, first + len(heads)))
    return Table(name, title, (*groups, *bars, *heads), rows, right, note=note, dense=True)


def _bar_rows(
    matched: MatchedBars, groups: Sequence[str], bars: Sequence[str], say: Language
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each bar: the levels of its group and its own, then its cells in each panel.

    The cells of a panel are the mean and, if the panel has published values, the published value of the bar.

    `groups` and `bars` are the factors that distinguish groups, and bars within a group. A mean over all bars of a
    group follows these bars."""
    figure = matched.figure
    places = {(published.group, published.bar) for panel in matched.panels for published in panel.bars}
    for group, bar in sorted(places, key=lambda place: (place[0], place[1] is None, place[1] or 0)):
        labels = [levels_text(figure.groups[group].get(name, ()), say) for name in groups]
        labels += [say("all") if bar is None else levels_text(figure.bars[bar].get(name, ()), say) for name in bars]
        for panel in matched.panels:
            at = next((each for each in panel.bars if (each.group, each.bar) == (group, bar)), None)
            texts = [here_text(at.here, say), mark_text(at.mark, say)] if at else ["", ""]
            labels += texts if marks_of(panel) else texts[:1]
        yield tuple(labels)


def here_text(here: MatchedMean, say: Language) -> str:
    """Return a mean with its interval, or 'missing'.

    The text says if the mean is a lower bound, is of a stand-in, or lacks some conditions."""
    if here.mean is None or here.mean.value is None:
        return say("missing")
    text = _mean_text(here.mean.value, here.mean.interval, say)
    text = f"≥ {text}" if here.bounded else text
    if here.stand_in:
        levels = ", ".join(str(level) for stand_in in here.stand_in for level in stand_in.measured)
        text += f" ({say('stand-in')}: {levels})"
    if here.strata < here.all_strata:
        text += f" ({say('{n} of {all}', n=here.strata, all=here.all_strata)})"
    return text


def _mean_text(mean: float, interval: Interval | None, say: Language) -> str:
    """Return a mean as papers print it, '168.98 ± 0.14', or without an interval only the mean."""
    if interval is None or interval.half_width <= 0:
        return number_text(mean, say)
    if not interval.has_middle(mean):
        return estimate_text(mean, interval, say)
    half = significant(interval.half_width, 2)
    return say.number(f"{fixed(mean, len(half.partition('.')[2]))} ± {half}")


def mark_text(mark: PublishedMark | None, say: Language) -> str:
    """Return a published value as it would be in this campaign; empty for None.

    If it follows from a ratio or a difference, that is added as printed, in “”."""
    if mark is None:
        return ""
    number = f"{mark.bound} {number_text(mark.value, say)}".strip()
    printed = mark.claim.published.printed if mark.relative and mark.claim.published else ""
    return f"{number} (“{printed}”)" if printed else number


def _notes(note: str, how: str, means: Iterable[MatchedMean], say: Language) -> str:
    """Return the note of a table: the note of the source, how to read it, and each reason for missing means once."""
    all_means = list(means)
    texts = [note, f"{how[:1].upper()}{how[1:]}."]
    if any(matched.mean is not None and matched.mean.interval is None for matched in all_means):
        texts.append(say("Without ±: too few trials for an interval."))
    if any(matched.mean is not None and matched.strata < matched.all_strata for matched in all_means):
        texts.append(say("(n of m): a mean over n of the m conditions of the design; the others have no valid trial."))
    missing = [matched for matched in all_means if matched.mean is None]
    reasons = dict.fromkeys(say.note(why) for matched in missing for why in matched.why if why.message != DID_YOU_MEAN)
    if reasons:
        texts.append(say("Missing: {reasons}.", reasons="; ".join(reasons)))
    return " ".join(filter(None, texts))

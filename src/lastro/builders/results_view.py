"""The table of results on the HTML page: cells with mean, interval and ratio, and a small axis for each ratio.

If there are many rows, they are grouped under headings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lastro.analysis.campaign import CampaignResults, Cell, MetricView, Row
from lastro.analysis.verdicts import verdict
from lastro.builders.content import Content
from lastro.builders.tables import n_text
from lastro.stats.ratios import Ratio
from lastro.words import campaign as words
from lastro.words.language import Language
from lastro.words.numbers import (
    STATUS_WORDS,
    VERDICT_WORDS,
    comparison_text,
    interval_text,
    is_undecided,
    mean_text,
    ratio_text,
)

_NOTHING = Markup()
MANY = 40  # with more treatments, the leading factors become headings of groups
_SPARK_REACH = math.log(1.05), math.log(4)  # least and most that a ratio's small axis shows on either side of 1


@dataclass(frozen=True, slots=True)
class MarkView:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell of the table as text.

    `words` replaces the numbers if nothing was measured; `absent` replaces a missing interval."""

    words: str = ""
    mean: str = ""
    interval: str = ""
    absent: str = ""
    note: str = ""
    comparison: str = ""
    verdict: str = ""
    explanation: str = ""
    spark: Markup = _NOTHING
    marks: tuple[MarkView, ...] = ()
    under_floor: bool = False


@dataclass(frozen=True, slots=True)
class RowView:
    row: Row
    levels: tuple[str, ...]
    n: str
    status: str
    mark: str
    cells: tuple[CellView, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """Treatments under one heading (empty: no heading); `absent` is the message if all of them are unavailable."""

    heading: str
    absent: str
    rows: tuple[RowView, ...]


def hoisted_factors(report: CampaignResults) -> int:
    """Return how many leading factors become headings."""
    return max(0, len(report.varying) - 2) if len(report.rows) > MANY else 0


def groups(content: Content, hoisted: int) -> Iterator[GroupView]:
    report, say = content.report, content.say
    under = content.under_floor
    names = [factor.name for factor in report.varying]
    marks = {t.index: str(number) for number, gap in enumerate(report.gaps, 1) for t in gap.treatments}
    reaches = list(map(_reach, report.views))

    def heading(row: Row) -> str:
        return " · ".join(str(row.treatment.levels[name]) for name in names[:hoisted])

    for text, rows in itertools.groupby(report.rows, key=heading):
        views = tuple(
            _row_view(row, names[hoisted:], marks.get(row.treatment.index, ""), reaches, under, say) for row in rows
        )
        absent = ""
        if text and all(view.row.status == "unavailable" for view in views):
            absent = say("all {n} treatments unavailable here", n=len(views))
        yield GroupView(text, absent, views)


def _row_view(
    row: Row,
    names: Sequence[str],
    mark: str,
    reaches: Sequence[float],
    under: Container[tuple[int, int]],
    say: Language,
) -> RowView:
    levels = tuple(str(row.treatment.levels[name]) for name in names) or (
        row.treatment.label or say("the only treatment"),
    )
    keys = [(row.treatment.index, at) for at in range(len(row.cells))]
    cells = tuple(
        _cell_view(row, cell, reach, say, key in under)
        for key, cell, reach in zip(keys, row.cells, reaches, strict=True)
    )
    return RowView(row, levels, n_text(row, say), say(STATUS_WORDS[row.status]), mark, cells)


def _cell_view(row: Row, cell: Cell, reach: float, say: Language, under_floor: bool) -> CellView:
    judged = verdict(cell)
    marks = tuple(
        MarkView(say(mark.kind), f"{mark.text} ({say.count(mark.n, 'trial')})".strip()) for mark in cell.marks
    )
    if cell.summary is None:
        return CellView(words=say("not measured"), marks=marks)
    explanation = say(VERDICT_WORDS[judged])
    if cell.ratio is not None:
        hidden = ratio_text(cell.ratio, say) if judged in ("", "same") and is_undecided(cell.ratio) else ""
        parts = (hidden, explanation, words.reason(cell.ratio, say), words.pairing(cell.ratio, say))
        explanation = "; ".join(part for part in parts if part)
    return CellView(
        mean=mean_text(cell.summary, say),
        interval="" if cell.summary.interval is None else interval_text(cell.summary, say),
        note=f"n = {cell.summary.n}" if cell.missing else "",
        absent=interval_text(cell.summary, say) if cell.summary.interval is None else "",
        comparison=comparison_text(row, cell, judged, say),
        verdict=judged,
        explanation=explanation,
        spark=_spark(cell.ratio, reach),
        marks=marks,
        under_floor=under_floor,
    )


def _reach(view: MetricView) -> float:
    """Return how far the small axes of one metric extend on either side of ratio 1, as a logarithm."""
    ends = [
        abs(math.log(end))
        for cell in view.cells
        if (ratio := cell.ratio) is not None and ratio.interval is not None
        for end in (ratio.interval.low, ratio.interval.high)
        if end > 0
    ]
    least, most = _SPARK_REACH
    return min(most, max([least, *ends]))


def _spark(ratio: Ratio | None, reach: float) -> Markup:
    """Draw the ratio and its interval on a logarithmic axis, 64 units wide with 1 in the middle.

    The markup contains only numbers, so it is trusted."""
    if ratio is None or ratio.interval is None or ratio.value is None:
        return _NOTHING
    low, at, high = (
        round(32 + 30 * max(-1.0, min(1.0, math.log(value) / reach)), 1) if value > 0 else 2.0
        for value in (ratio.interval.low, ratio.value, ratio.interval.high)
    )
    return Markup(
        f'<svg class="spark" viewBox="0 0 64 8" aria-hidden="true"><path class="one" d="M32 0V8"/>'
        f'<path d="M{low} 4H{high}"/><circle cx="{at}" cy="4" r="2.2"/></svg>'
    )

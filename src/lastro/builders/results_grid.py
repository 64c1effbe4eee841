"""The table of results with a column for each metric: mean, interval, and ratio, which is also drawn on an axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from lastro.analysis.campaign import Cell, MetricView, Row
from lastro.analysis.verdicts import Verdict, cell_verdict
from lastro.builders.content import Content
from lastro.builders.tables import levels_of, n_text, results_table, table_with_place
from lastro.document import Grid, GridCell, GridRow, Span
from lastro.stats.intervals import Estimate
from lastro.words import campaign as words
from lastro.words import numbers as formats
from lastro.words.absences import DASH, explanations, has_ratios, lacks_ratio, lacks_spread, remarks_on_ratios
from lastro.words.language import Language
from lastro.words.remarks import meaning, sign

MANY = 40  # with more treatments, the leading factors become headings of groups
_REACH = math.log(1.05), math.log(4)  # the least and the most that the axis of a ratio shows on either side of 1


def results_grid(content: Content, rows: Sequence[Row] | None) -> Grid:
    """Return the grid of all treatments and metrics; formats without grids show its tables, one per metric, instead.

    With `rows`, the grid has only these treatments, in this order, and no tables. Then it has no headings of groups,
    either, since the terminal makes its own."""
    report, say = content.report, content.say
    shown = report.rows if rows is None else rows
    many = rows is None and len(report.rows) > MANY
    tables = [results_table(content, view) for view in report.views] if rows is None else []
    marks = [
        (Span(say(kind), "warning", sign=f"{sign(kind)} {say(kind)}:"), Span(f" {meaning(kind, say)}"))
        for kind in report.kinds_of_marks
    ]
    n_hoisted = max(0, len(report.varying) - 2) if many else 0  # factors that become headings of groups
    factors = [factor.name for factor in report.varying[n_hoisted:]] or [say("treatment")]
    head = (
        *(GridCell(((Span(name),),), head=True) for name in factors),
        GridCell(((Span("n"),),), head=True, right=True),
        *(_heading(view, say) for view in report.views),
    )
    grid_rows = tuple(_rows(content, shown, n_hoisted, len(head)))
    placed = tuple(table_with_place(table, report, say) for table in tables)
    note = " ".join(explanations(report, say))
    summary = say("Show all {n} treatments", n=say.integer(len(report.rows))) if many else ""
    remarks = tuple(remarks_on_ratios(report, say))
    return Grid(head, grid_rows, placed, note=note, legend=(*remarks, *marks), summary=summary)


def _heading(view: MetricView, say: Language) -> GridCell:
    below = filter(None, (view.metric.unit, formats.direction_text(view.metric, say)))
    return GridCell(((Span(view.metric.name),), *((Span(text),) for text in below)))


def _rows(content: Content, shown: Sequence[Row], hoisted: int, width: int) -> Iterator[GridRow]:
    """Yield the rows of treatments, in groups below headings with the levels of the first `hoisted` factors.

    `width` is the number of columns. Without hoisted factors, there are no headings."""
    report, say = content.report, content.say
    numbers = {t.index: number for number, gap in enumerate(report.gaps, 1) for t in gap.treatments}
    reaches = list(map(_axis_reach, report.views))
    for levels, group in itertools.groupby(shown, key=lambda row: levels_of(report, row, say)[:hoisted]):
        rows = list(group)
        if hoisted:
            yield GridRow((GridCell(((Span(" · ".join(levels)),),), columns=width),), "group")
            if all(row.status == "unavailable" for row in rows):
                text = say("all {n} treatments unavailable here", n=len(rows))
                yield GridRow((_absent(text, numbers.get(rows[0].treatment.index), width),))
                continue
        for row in rows:
            first = (GridCell(((Span(level),),), head=True) for level in levels_of(report, row, say)[hoisted:])
            counted = GridCell(((Span(n_text(row, say)),),), right=True)
            if row.n_valid == 0 and row.cells:
                why = say(formats.STATUS_WORDS[row.status])
                cells: Sequence[GridCell] = [_absent(why, numbers.get(row.treatment.index), len(row.cells))]
            else:
                cells = [_cell(content, row, at, reach) for at, reach in enumerate(reaches)]
            yield GridRow((*first, counted, *cells), "baseline" if row.is_baseline else "")


def _absent(text: str, number: int | None, columns: int) -> GridCell:
    """Return a cell, `columns` wide, that says why treatments have no value.

    It links to the note on the reason with this `number`, if any."""
    link = (Span(" "), Span(f"[{number}]", link=f"#gap-{number}")) if number else ()
    return GridCell(((Span(f"✕ {text}"), *link),), columns, absent=True)


def _cell(content: Content, row: Row, at: int, reach: float) -> GridCell:
    """Return the cell of one metric: the mean with its marks, and the ratio with its axis; or why either is missing.

    `at` is the index of the metric, and `reach` how far its axis extends, as returned by `_axis_reach`."""
    say, cell = content.say, row.cells[at]
    marks = []
    for mark in cell.marks:
        tip = f"{mark.text} ({say.count(mark.n, 'trial')})".strip()
        marks += [Span(" "), Span(say(mark.kind), "warning", tip, sign=sign(mark.kind))]
    if cell.summary is None:
        return GridCell(((Span(say("not measured"), "dim"), *marks),))
    interval, is_single = formats.interval_text(cell.summary, say), lacks_spread(cell)
    known = cell.summary.interval is not None
    n_valid = (Span(f" (n = {cell.summary.n})", "dim"),) if cell.missing else ()
    lines = [(Span(formats.mean_text(cell.summary, say), "mean", interval if known else ""), *n_valid, *marks)]
    lines += [] if known or is_single else [(Span(interval),)]
    if lacks_ratio(row, cell):
        lines += [(Span(DASH, "dim"),)] if has_ratios(content.report) else []
    elif comparison := formats.comparison_text(row, cell, judged := cell_verdict(cell), say):
        comparison = comparison.removesuffix(f" {say(formats.NO_INTERVAL)}") if is_single else comparison
        axis = _axis(cell.ratio, reach) if cell.ratio else None
        kind = "baseline" if row.is_baseline else judged or "dim"
        lines.append((Span(comparison, kind, _tooltip(cell, judged, say), axis=axis),))
        if (row.treatment.index, at) in content.under_floor:
            lines.append((Span(say("below the noise floor"), "note"),))
    return GridCell(tuple(lines))


def _tooltip(cell: Cell, judged: Verdict, say: Language) -> str:
    """Return the tooltip of a comparison: its meaning and pairing, and the ratio if the cell only says 'undecided'."""
    if cell.ratio is None:
        return say(formats.VERDICT_WORDS[judged])
    hidden = formats.ratio_text(cell.ratio, say) if judged in ("", "same") and formats.is_undecided(cell.ratio) else ""
    parts = (hidden, say(formats.VERDICT_WORDS[judged]), words.reason(cell.ratio, say), words.pairing(cell.ratio, say))
    return "; ".join(filter(None, parts))


def _axis_reach(view: MetricView) -> float:
    """Return the natural logarithm of the largest ratio that the axes of a metric show; they are symmetric around 1."""
    intervals = [cell.ratio.interval for cell in view.cells if cell.ratio and cell.ratio.interval]
    ends = [end for interval in intervals for end in (interval.low, interval.high) if end > 0]
    least, most = _REACH
    return min(most, max([least, *(abs(math.log(end)) for end in ends)]))


def _axis(ratio: Estimate, reach: float) -> tuple[float, float, float] | None:
    """Return the positions of a ratio and of its interval on a logarithmic axis: (low end, ratio, high end).

    The axis goes from -1 to 1, and ratio 1 is at 0. None if the ratio has no value or no interval."""
    if ratio.interval is None or ratio.value is None:
        return None
    ends = (ratio.interval.low, ratio.value, ratio.interval.high)
    low, at, high = (max(-1.0, min(1.0, math.log(end) / reach)) if end > 0 else -1.0 for end in ends)
    return low, at, high

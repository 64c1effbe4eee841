"""The results of a campaign for a terminal: means and ratios, what is missing, and the answer at the end."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from lastro.analysis.campaign import CampaignResults, Cell, Gap, MetricView, Row
from lastro.analysis.decision import SlaDecision, decision_of, table_rows
from lastro.analysis.model import Analysis
from lastro.analysis.table_choice import TableChoice
from lastro.analysis.verdicts import verdict
from lastro.builders.content import Content
from lastro.builders.decision import answer
from lastro.builders.search_tables import tables_of
from lastro.builders.statistics import statistics_blocks
from lastro.builders.tables import doses_table, growth_tables, levels_of
from lastro.document import Block, Grid, GridCell, GridRow, Items, Span, Table, Title
from lastro.words import numbers as formats
from lastro.words.absences import DASH, NOT_RUN, absences, has_ratios, lacks_ratio, lacks_spread
from lastro.words.campaign import legend, premises, sequential_note
from lastro.words.caveats import caveats
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH
from lastro.words.opening import incomplete, segment_sentences
from lastro.words.platform_line import platform_line
from lastro.words.reasons import grouped
from lastro.words.remarks import signs

_CELL = 32  # characters of a line in a cell with a long text


def screen_blocks(
    report: CampaignResults, choice: TableChoice | None = None, analysis: Analysis | None = None
) -> Iterator[Block]:
    """Yield the title, the tables, every missing level with its reason, and at the end the answer and key findings.

    With an `analysis` of the report, its statistics follow the tables.
    `choice` selects and orders the treatments of the first table. Without it, the table has all, in the order of the
    decision or, if the study has no service levels, of the study."""
    decision = decision_of(report)
    rows = table_rows(report, decision, choice)
    yield Title(report.study.title or report.study.name)
    yield Items((_tally(report), *premises(report, ENGLISH), *_shown(report, decision, choice, len(rows))))
    yield _results(report, rows)
    yield from map(_as_grid, filter(None, (*growth_tables(report, ENGLISH), doses_table(report, ENGLISH))))
    yield from tables_of(report, ENGLISH)
    yield Items(tuple(_paragraphs(report)))
    if analysis:
        yield from statistics_blocks(Content(report, analysis, ENGLISH), effects=True)
    if decision:
        yield Items(tuple(answer(decision, ENGLISH)))
    yield Items((*key_findings(report, ENGLISH, analysis), *caveats(report, ENGLISH)))
    yield Items(tuple(filter(None, [platform_line(report, ENGLISH, analysis)])))
    warning = incomplete(report.progress.counts, ENGLISH)
    yield Items((*segment_sentences(report, ENGLISH), *([warning] if warning else [])), tag="warning")


def _tally(report: CampaignResults) -> str:
    counts, progress = report.progress.counts, report.progress
    states = [
        f"{counts[state]:,} {state}"
        for state in ("valid", "invalid", "unavailable", "running", "pending")
        if counts.get(state)
    ]
    treatments, trials = ENGLISH.count(len(report.rows), "treatment"), ENGLISH.count(progress.n_trials, "trial")
    return f"{treatments}, {trials}: {', '.join(states)}"


def _shown(
    report: CampaignResults, decision: SlaDecision | None, choice: TableChoice | None, n_shown: int
) -> Iterator[str]:
    """Yield how many treatments the table shows, if not all, and its order, if it is that of the decision."""
    if n_shown < len(report.rows):
        yield f"{n_shown} of {ENGLISH.count(len(report.rows), 'treatment')} shown"
    if decision and not (choice and choice.sort):
        by_cost = ", the cheapest at the top" if decision.question.cost else ""
        yield f"sorted by the service levels: what holds them first{by_cost}"


def _lines(*lines: tuple[str, str], head: bool = False, right: bool = False) -> GridCell:
    """Return a cell with a line for each (text, kind of span); lines without text are left out."""
    return GridCell(tuple((Span(text, kind),) for text, kind in lines if text), head=head, right=right)


def _results(report: CampaignResults, shown: Sequence[Row]) -> Grid:
    """Return the grid of those treatments of `shown` that can run here; its legend lists all that cannot."""
    factors = [factor.name for factor in report.varying] or ["treatment"]
    compared = has_ratios(report)
    rows = (
        GridRow((
            *(_lines((level, ""), head=True) for level in levels_of(report, row, ENGLISH)),
            _lines((_n_text(row), ""), right=True),
            *(_cell(row, cell, compared=compared) for cell in row.cells),
        ))
        for row in shown
        if row.status != "unavailable"
    )  # fmt: skip
    return Grid(
        (
            *(_lines((name, "strong"), head=True) for name in factors),
            _lines(("n", "strong"), head=True, right=True),
            *map(_heading, report.views),
        ),
        tuple(rows),
        (),
        legend=tuple(_absent(gap, number) for number, gap in enumerate(report.gaps, 1)),
    )


def _heading(view: MetricView) -> GridCell:
    metric = view.metric
    return _lines((metric.name, "strong"), (metric.unit, "dim"), (formats.direction_text(metric), "dim"))


def _n_text(row: Row) -> str:
    total = sum(row.trials.values())
    return str(row.n_valid) if row.n_valid == total else f"{row.n_valid}/{total}"


def _cell(row: Row, cell: Cell, *, compared: bool) -> GridCell:
    """Return the cell of one metric: the mean, and below it the ratio to the baseline.

    A dash replaces a ratio that is missing because its baseline has no value; a note below the table says so. There is
    no dash if `compared` is false: then no treatment has a ratio."""
    if row.status == "pending":
        return _lines((DASH, "dim"))
    if cell.summary is None:
        words = "not measured" if row.n_valid else formats.STATUS_WORDS[row.status]
        return _lines((f"{words}{signs(cell.marks)}", "warning" if row.status in ("invalid", "partly") else "dim"))
    mean = formats.mean_text(cell.summary) + signs(cell.marks)
    lines = [(f"{mean} (n = {cell.summary.n})" if cell.missing else mean, "")]
    judged = verdict(cell)
    if lacks_ratio(row, cell):
        lines += [(DASH, "dim")] if compared else []
    elif comparison := formats.comparison_text(row, cell, judged):
        kind = "baseline" if row.is_baseline else judged or "dim"
        lines.append((comparison.removesuffix(f" {formats.NO_INTERVAL}") if lacks_spread(cell) else comparison, kind))
    if cell.summary.interval is None and not lacks_spread(cell):
        lines.append((formats.interval_text(cell.summary), "dim"))
    return _lines(*lines)


def _absent(gap: Gap, number: int) -> str:
    n = len(gap.treatments)
    what = gap.where or (gap.treatments[0].label if n == 1 else "")
    status = "unavailable here" if n == 1 else f"{n} treatments unavailable here"
    return f"{what}: {status} [{number}]" if what else f"{status} [{number}]"


def _as_grid(table: Table) -> Grid:
    """Return a table as a grid, which the renderer can split to fit the screen; long texts are broken into lines."""
    first = min(table.right)  # the column behind those that name the rows, which is repeated with them
    head = (
        _lines((name, "strong"), head=at <= first, right=at in table.right) for at, name in enumerate(table.columns)
    )
    rows = (
        GridRow(
            tuple(_lines(*((line, "") for line in textwrap.wrap(text, _CELL, subsequent_indent="  "))) for text in row)
        )
        for row in table.rows
    )
    return Grid(tuple(head), tuple(rows), (), title=table.title, legend=(table.note,))


# Below the tables


def _paragraphs(report: CampaignResults) -> Iterator[str]:
    """Yield the notes below the tables: legend, marks, reasons for missing values, and reasons for invalid trials."""
    confidence = formats.percent(report.study.design.confidence)
    cells = [cell for row in report.rows for cell in row.cells]
    ratios = [cell.ratio for cell in cells if cell.ratio]
    sentences = []
    if any(cell.summary and cell.summary.interval for cell in cells):
        sentences.append(f"± is half the width of the {confidence} interval of the mean over n valid trials.")
    if ratios:
        with_interval = f" with its {confidence} interval" if any(ratio.interval for ratio in ratios) else ""
        sentences.append(f"× is the ratio to the baseline{with_interval}.")
    if n := max((sum(cell.decision != "unknown" for cell in view.cells) for view in report.views), default=0):
        corrected = (
            f"corrected for the {ENGLISH.count(n, 'ratio')} of its metric" if n > 1 else "the only one of its metric"
        )
        sentences.append(f"{_marks(report)}: the interval, {corrected}, excludes 1; ≈: it holds 1.")
    pending = [NOT_RUN] if any(row.status == "pending" for row in report.rows) else []
    yield from (" ".join(group) for group in (sentences, [*pending, *absences(report, ENGLISH)]) if group)
    if report.on_logs:
        yield f"{', '.join(report.on_logs)}: {formats.GEOMETRIC}."
    if any(map(formats.is_undecided, ratios)):
        yield f"{ENGLISH(formats.UNDECIDED, widest=formats.WIDEST)} --json shows it."
    if report.study.design.sequential:
        yield sequential_note(report, ENGLISH)
    yield from (legend(kind, ENGLISH) for kind in report.kinds_of_marks)
    yield from _reasons_of_ratios(report)
    for number, gap in enumerate(report.gaps, 1):
        where = f"{gap.where}: " if gap.where else ""
        yield f"[{number}] {where}{gap.reason} ({ENGLISH.count(len(gap.treatments), 'treatment')})"
        if gap.remedy:
            yield f"    remedy: {gap.remedy}"
    reasons = ((reason, attempt.trial) for attempt in report.invalid_attempts for reason in attempt.reasons)
    for reason, trials in sorted(grouped(reasons), key=lambda group: -len(set(group[1]))):
        yield f"✕ invalid: {reason} ({_trial_list(set(trials))})"


def _marks(report: CampaignResults) -> str:
    directed = any(metric.better != "neither" for metric in report.metrics)
    neutral = any(metric.better == "neither" for metric in report.metrics)
    return ", ".join(["▲ better, ▼ worse"] * directed + ["↑ higher, ↓ lower"] * neutral)


def _reasons_of_ratios(report: CampaignResults) -> Iterator[str]:
    """Yield each reason why ratios have no interval once, sorted, except n = 1, which `absences` explains."""
    reasons = {
        f"{cell.metric.name}: {cell.ratio.absent_because}"
        for row in report.rows
        for cell in row.cells
        if cell.ratio is not None and cell.ratio.absent_because and min(cell.ratio.sides) > 1
    }
    yield from sorted(reasons)


def _trial_list(trials: Iterable[int]) -> str:
    numbers = sorted(trials)
    shown = ", ".join(str(number) for number in numbers[:6])
    more = f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
    return f"trial{'s' if len(numbers) > 1 else ''} {shown}{more}"

"""The tables of a report with plain text in their cells, to be rendered as HTML, Markdown or LaTeX. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from lastro.analysis.campaign import CampaignResults, Cell, MetricView, Row
from lastro.analysis.curves import Curve, curves
from lastro.analysis.searches import Search, SearchEnding
from lastro.analysis.verdicts import cell_verdict
from lastro.builders.content import Content
from lastro.document import Table
from lastro.figures.scenario import growth_of
from lastro.stats.notes import N_
from lastro.words import campaign as words
from lastro.words import numbers as formats
from lastro.words.absences import lacks_spread
from lastro.words.language import Language
from lastro.words.numbers import MINUS
from lastro.words.numeric import growth_text, level_text, sizes_text, why_missing
from lastro.words.remarks import short, signs


def table_with_place(table: Table, report: CampaignResults, say: Language) -> Table:
    """Return a table whose title names the guest of the campaign, if any: papers show tables without context."""
    return replace(table, title=words.title_with_place(table.title, words.place(report, say)))


def results_table(content: Content, view: MetricView) -> Table:
    """Return a table with the mean and the ratio of every treatment in one metric, or why a treatment has no value."""
    report, say = content.report, content.say
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    heading = say("mean ± half of the {confidence} interval", confidence=formats.percent(view.confidence, say))
    rows = []
    for row, cell in view:
        result = _result(row, cell, say, (row.treatment.index, view.index) in content.under_floor)
        rows.append((*levels_of(report, row, say), *result))
    return Table(
        f"results-{view.index + 1}",
        formats.metric_heading(view.metric),
        (*factors, "n", heading, say("ratio to the baseline")),
        tuple(rows),
        right=frozenset({len(factors), len(factors) + 1}),  # n and the mean
        note=" — ".join((words.metric_note(view.metric, say), *_legends(view, say))),
    )


def ratios_table(content: Content) -> Table:
    """Return a table of the treatments that can run here: for each metric the ratio or, without a ratio, the mean."""
    report, say, under = content.report, content.say, content.under_floor
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    rows = []
    for row in report.rows:
        if row.status != "unavailable":
            ratios = (_ratio(row, cell, say, (row.treatment.index, at) in under) for at, cell in enumerate(row.cells))
            rows.append((*levels_of(report, row, say), n_text(row, say), *ratios))
    right = frozenset(range(len(factors), len(factors) + 1 + len(report.metrics)))
    return Table("ratios", "", (*factors, "n", *map(formats.metric_heading, report.metrics)), tuple(rows), right)


def n_text(row: Row, say: Language) -> str:
    """Return the number of valid trials, '4', or '4 of 5' if some trials of the treatment are not valid."""
    total = sum(row.trials.values())
    return str(row.n_valid) if row.n_valid == total else say("{n} of {all}", n=row.n_valid, all=total)


def _ratio(row: Row, cell: Cell, say: Language, under_floor: bool) -> str:
    """Return the ratio of a cell; for a baseline or without a ratio, its mean; without a mean, why there is none."""
    _, mean, comparison = _result(row, cell, say, under_floor)
    if lacks_spread(cell) and cell.summary is not None:
        mean = formats.mean_text(cell.summary, say) + signs(cell.marks)
        comparison = comparison.removesuffix(f" {say(formats.NO_INTERVAL)}")
    if cell.summary is None or (cell.ratio is None and not row.is_baseline):
        return mean
    return f"{mean} ({say('baseline')})" if row.is_baseline else comparison + signs(cell.marks)


def _legends(view: MetricView, say: Language) -> tuple[str, ...]:
    """Return notes on a metric: what its marks mean, how its ratios were made, and what 'undecided' means."""
    texts = [short(kind, say) for kind in view.kinds_of_marks]
    if view.metric.name in view.report.on_logs:
        texts.append(say(formats.GEOMETRIC))
    if any(cell.ratio and formats.is_undecided(cell.ratio) for cell in view.cells):
        texts.append(say(formats.UNDECIDED, widest=formats.WIDEST).rstrip("."))
    return tuple(texts)


def levels_of(report: CampaignResults, row: Row, say: Language) -> tuple[str, ...]:
    """Return the levels of the factors that vary, or the name of the treatment if none does."""
    levels = tuple(str(row.treatment.levels[factor.name]) for factor in report.varying)
    return levels or (row.treatment.label or say("the only treatment"),)


def _result(row: Row, cell: Cell, say: Language, under_floor: bool) -> tuple[str, str, str]:
    """Return (n, the mean or why there is none, the ratio to the baseline or an empty text)."""
    if cell.summary is None:
        why = say("not measured") if row.n_valid else say(formats.STATUS_WORDS[row.status])
        return "0", why + signs(cell.marks), ""
    mean = _mean(cell, say)
    comparison = formats.comparison_text(row, cell, cell_verdict(cell), say)
    return str(cell.summary.n), mean, f"{comparison} ({say('below the noise floor')})" if under_floor else comparison


def curve_tables(report: CampaignResults, say: Language) -> dict[tuple[int, str], Table]:
    """Return the means of each curve as a table, as in papers: {(index of the metric, factor of the curve): table}.

    The levels of that factor are numbers; each level of another factor is a line of the curve."""
    shown = ((view, curve) for view, curve in product(report.views, curves(report)) if curve.measures(view))
    return {(view.index, curve.factor): _curve_table(view, curve, say) for view, curve in shown}


def _curve_table(view: MetricView, curve: Curve, say: Language) -> Table:
    """Return the table of a curve; its columns are the numbers or the lines, whichever are fewer."""
    names, labels = curve.line_names, [level_text(level, say) for level in curve.labels]
    numbers_as_columns, has_panels = len(labels) <= len(names), len(curve.panels) > 1

    def text(row: Row | None) -> str:
        if row is None:
            return "—"  # the study does not have the treatment
        cell = view.of(row)
        return _mean(cell, say) if cell.summary is not None else why_missing(row, view, say)

    rows: list[tuple[str, ...]] = []
    for panel in curve.panels:
        rows_by_line, no_rows = {line.name: line.rows for line in panel.lines}, (None,) * len(labels)
        cells = {name: [text(row) for row in rows_by_line.get(name, no_rows)] for name in names}
        first = panel.levels if has_panels else ()
        if numbers_as_columns:
            rows += [(*first, name, *cells[name]) for name in names]
        else:
            rows += [(*first, label, *(cells[name][at] for name in names)) for at, label in enumerate(labels)]
    head = curve.lines or say("treatment") if numbers_as_columns else curve.factor
    columns = labels if numbers_as_columns else [name or say("the only treatment") for name in names]
    heading = say("mean ± half of the {confidence} interval", confidence=formats.percent(view.confidence, say))
    # Levels that are the same in all rows have no column; the note lists them.
    others, same = (curve.others, ()) if has_panels else ((), curve.panels[0].levels)
    fixed = len(others) + 1
    return Table(
        f"curve-{view.index + 1}-{curve.factor}",
        say("{metric} by {factor}", metric=formats.metric_heading(view.metric), factor=curve.factor),
        (*others, head, *columns),
        tuple(rows),
        frozenset(range(fixed, fixed + len(columns))),
        note=" — ".join((*same, heading, words.metric_note(view.metric, say), *_legends(view, say))),
    )


def _mean(cell: Cell, say: Language) -> str:
    """Return the mean with its marks and its interval, or with the reason why it has no interval."""
    assert cell.summary is not None
    mean = formats.mean_text(cell.summary, say) + signs(cell.marks)
    return mean if cell.summary.interval is not None else f"{mean} ({formats.interval_text(cell.summary, say)})"


def growth_tables(report: CampaignResults, say: Language) -> tuple[Table, ...]:
    """Return a table for each metric of how it grows with the sizes of the scenario; empty without sizes.

    The note of the first table explains the columns of all tables."""
    if not (growths := growth_of(report)):
        return ()
    sized, first = growths.sized, growths.others or (say("treatment"),)
    columns = (*first, say(sized.heading, factor=sized.factor), say("growth"), *map(say, sized.columns))
    tables: list[Table] = []
    for view in report.views:
        title, rows = say("Growth of {metric}", metric=formats.metric_heading(view.metric)), []
        for row in growths.rows:
            cells = (say("not measured"), *["—"] * (len(sized.measures) + 1))
            if (growth := row.metrics[view.index]) is not None:
                ratio = formats.ratio_text(growth.ratio, say) if growth.ratio is not None else "—"
                against = (growth_text(relation, say) for relation in growth.against.values())
                cells = ("; ".join(sizes_text(growth)), ratio, *against)
            rows.append((*(row.levels or (say("the only treatment"),)), *cells))
        right, long = frozenset({len(first) + 1}), frozenset(range(len(first) + 2, len(columns)))
        note = "" if tables else say(sized.explanation)
        tables.append(Table(f"growth-{view.index + 1}", title, columns, tuple(rows), right, long, note, dense=True))
    return tuple(tables)


def searches_table(report: CampaignResults, search: Search, say: Language) -> Table:
    """Return a table of a searched metric, with a row for each way in which searches of a treatment ended."""
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    columns = (*factors, search.metric.name, say("kind"), say("trials"), say("what ended the search"))
    rows = tuple(
        (
            *levels_of(report, row, say),
            values_text(ending, say),
            say("limit found") if ending.limit else say("lower bound"),
            say("{n} of {all}", n=len(ending.values), all=row.n_valid),
            ending.text,
        )
        for row, ended in search.rows
        for ending in ended
    )
    title = say("What bounds the number: {metric}", metric=search.metric.name)
    value_column = len(factors)
    right, long = frozenset({value_column}), frozenset({value_column + 3})
    return Table(f"search-{search.metric.name}", title, columns, rows, right, long, say(_SEARCH_NOTE))


_SEARCH_NOTE = N_(
    "Limit found: one more instance did not start, did not answer, or had no memory left; or a rate lost more than its "
    "goal. Lower bound: the study, or the generator, ended the search. Trials that ended in the same way share a line, "
    "with the message of the first."
)


def values_text(ending: SearchEnding, say: Language) -> str:
    """Format the smallest and the largest value of the searches that ended so: '37', '36 to 38', or a bound: '≥ 64'."""
    low, high = (f"{end(ending.values):.6g}".replace("-", MINUS) for end in (min, max))
    text = say.number(low) if low == high else say("{low} to {high}", low=say.number(low), high=say.number(high))
    return text if ending.limit else f"≥ {text}"

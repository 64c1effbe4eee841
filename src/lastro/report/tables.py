"""The tables of a report as plain text in cells, before a page, a Markdown file or a LaTeX file sets them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lastro.report import words
from lastro.report.content import Content
from lastro.report.language import Language
from lastro.report.ledgers import ALL, Ledger
from lastro.report.model import Cell, Report, Row
from lastro.report.numbers import STATUS_WORDS, Verdict, comparison_text, interval_text, mean_text, metric_heading
from lastro.report.scaling import Scaling, slope_text


@dataclass(frozen=True, slots=True)
class Table:
    """`right` are the columns of numbers, `long` those whose text may need several lines. `name` is for references."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    long: frozenset[int] = frozenset()
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)


def results_table(content: Content, index: int) -> Table:
    """Every treatment's mean and ratio in one metric; a treatment without a value says why it has none."""
    report, say = content.report, content.say
    verdicts, under = content.verdicts, content.under_floor
    metric = report.metrics[index]
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    heading = say("mean ± half of the {confidence} interval", confidence=words.percent(report.study.design.confidence))
    return Table(
        f"results-{index + 1}",
        metric_heading(metric),
        (*factors, "n", heading, say("ratio to the baseline")),
        tuple(
            (*levels_of(report, row, say), *_result(row, row.cells[index], say, verdicts.get(key, ""), key in under))
            for row in report.rows
            for key in [(row.treatment.index, index)]
        ),
        frozenset({len(factors), len(factors) + 1}),
        note=words.metric_note(metric, say),
    )


def levels_of(report: Report, row: Row, say: Language) -> tuple[str, ...]:
    """The levels of the factors that vary; where none does, the treatment's own name."""
    levels = tuple(str(row.treatment.levels[factor.name]) for factor in report.varying)
    return levels or (row.treatment.label or say("the only treatment"),)


def _result(row: Row, cell: Cell, say: Language, said: Verdict, under_floor: bool) -> tuple[str, str, str]:
    if cell.summary is None:
        return "0", say("not measured") if row.n_valid else say(STATUS_WORDS[row.status]), ""
    mean = mean_text(cell.summary, say) + (" †" if cell.limited else "")
    if cell.summary.interval is None:
        mean = f"{mean} ({interval_text(cell.summary, say)})"
    comparison = comparison_text(row, cell, said, say)
    return str(cell.summary.n), mean, f"{comparison} ({say('under the noise floor')})" if under_floor else comparison


def scaling_table(report: Report, scaling: Scaling, say: Language) -> Table:
    first = scaling.others or (say("treatment"),)
    units = tuple(say("{unit} for 1 more", unit=metric_heading(metric)) for metric in report.metrics)
    rows = tuple(
        ((*row.levels,) or (say("the only treatment"),)) + tuple(slope_text(line, say) for line in row.lines)
        for row in scaling.rows
    )
    right = frozenset(range(len(first), len(first) + len(units)))
    title = say("Scaling with {factor}", factor=scaling.factor)
    return Table(f"scaling-{scaling.factor}", title, first + units, rows, right, note=scaling.explanation(say))


def gaps_table(report: Report, say: Language) -> Table:
    """What cannot run here, and why."""
    columns = (say("levels"), say("treatments"), say("trials"), say("why"), say("remedy"))
    rows = tuple(
        (gap.where, say.integer(len(gap.treatments)), say.integer(gap.n_trials), gap.reason, gap.remedy or "")
        for gap in report.gaps
    )
    title = say("Unavailable on this host")
    return Table("unavailable", title, columns, rows, frozenset({1, 2}), frozenset({0, 3, 4}))


def invalid_table(report: Report, say: Language) -> Table:
    columns = (say("trial"), say("attempt"), say("block"), say("treatment"), say("why"), say("trial now"))
    rows = tuple(
        (str(a.trial), str(a.attempt), str(a.block), a.treatment.label, "; ".join(a.reasons), say(a.trial_state))
        for a in report.invalid_attempts
    )
    return Table("invalid", say("Invalid attempts"), columns, rows, frozenset({0, 1, 2}), frozenset({4}))


def ledger_table(name: str, title: str, ledger: Ledger, say: Language, *, ours: bool) -> Table:
    """`ours`: the numbers in it were written by Lastro, and take the marks of the language."""
    columns = (ledger.factor, *(say(ALL) if column == ALL else column for column in ledger.columns))
    rows = tuple((row.name, *(say.number(text) if ours else text for text in row.values)) for row in ledger.rows)
    return Table(name, title, columns, rows)

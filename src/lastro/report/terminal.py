"""The result table for a terminal: lines of styled text that fit a given width. The caller prints them.

Leading factors become headings, and metrics are spread over several tables, until no line needs to wrap."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from lastro.analysis.campaign import CampaignResults, Cell, Gap, MetricView, Row
from lastro.analysis.growth import Growth, Growths
from lastro.analysis.scaling import Scaling, scalings
from lastro.analysis.searches import searches
from lastro.analysis.verdicts import verdict
from lastro.builders.search_tables import lines_of
from lastro.builders.tables import doses_table
from lastro.console import grid
from lastro.figures.scenario_additions import growth_of
from lastro.plain import plain
from lastro.words.absences import DASH, absences, has_ratios, is_alone, lacks_ratio
from lastro.words.campaign import legend, premises, sequential_note
from lastro.words.caveats import caveats
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH
from lastro.words.numbers import (
    GEOMETRIC,
    NO_INTERVAL,
    STATUS_WORDS,
    UNDECIDED,
    WIDEST,
    comparison_text,
    count,
    direction_text,
    interval_text,
    is_undecided,
    mean_text,
    ratio_text,
)
from lastro.words.numeric import against_text, sizes_text, slope_text, slopes_note
from lastro.words.opening import incomplete, segment_sentences
from lastro.words.reasons import grouped
from lastro.words.remarks import signs

MANY = 40  # with more treatments, the leading factors are always headings
_GAP = 2  # cells between columns
_SENTENCE = 48  # cells: the width to which a sentence on growth is wrapped
_STYLES = {"better": "green", "worse": "red", "higher": "cyan", "lower": "cyan", "same": "dim", "": "dim"}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as wide as its widest line; `cells` has one text, of one line or more, for each row of the report."""

    heading: Text
    cells: tuple[Text, ...]
    right: bool = False

    @property
    def width(self) -> int:
        return max(cell_len(line) for text in (self.heading, *self.cells) for line in text.plain.split("\n"))


def _text(*lines: tuple[str, str]) -> Text:
    """Return a cell from its lines, each with its style."""
    return Text("\n").join(Text(plain(line), style) for line, style in lines)


def render(report: CampaignResults, width: int) -> list[Text]:
    """Return the title, the tables, every missing level with its reason, and at the end the key findings.

    Lines are at most `width` cells wide."""
    lines = [
        Text(plain(report.study.title or report.study.name), style="bold"),
        *_wrapped(_tally(report), width),
        *(line for sentence in premises(report, ENGLISH) for line in _wrapped(sentence, width)),
        Text(),
    ]
    hoisted, tables = _layout(report, width)
    for number, columns in enumerate(tables):
        lines += [Text()] if number else []
        lines += _table(report, hoisted, columns)
    for number, gap in enumerate(report.gaps, 1):
        lines += _wrapped(_absent(gap, number), width)
    for scaling in scalings(report):
        lines += _scaling(report, scaling, width)
    if found := growth_of(report):
        lines += _growths(report, found, width)
    lines += _doses(report, width)
    return [*lines, *_below(report, width), *_answer(report, width)]


def _answer(report: CampaignResults, width: int) -> list[Text]:
    """Return the opening sentences of a document, but with warnings at the end."""
    warning = incomplete(report.progress.counts, ENGLISH)
    sentences = (*key_findings(report, ENGLISH), *caveats(report, ENGLISH))
    lines = [line for sentence in sentences for line in _wrapped(sentence, width)]
    for each in (*segment_sentences(report, ENGLISH), *([warning] if warning else [])):
        lines += [Text(line, style="bold yellow") for line in _broken(each, width)]
    return [Text(), *lines] if lines else []


def _tally(report: CampaignResults) -> str:
    counts, progress = report.progress.counts, report.progress
    states = [f"{counts[s]:,} {s}" for s in ("valid", "invalid", "unavailable", "running", "pending") if counts.get(s)]
    return f"{count(len(report.rows), 'treatment')}, {count(progress.n_trials, 'trial')}: {', '.join(states)}"


# Layout


def _layout(report: CampaignResults, width: int) -> tuple[int, list[list[_Column]]]:
    """Return how many leading factors become headings, and the columns of each table."""
    factors = [_factor_column(report, factor.name) for factor in report.varying] or [_label_column(report)]
    metrics = list(map(_metric_column, report.views))
    counted = _Column(_text(("n", "bold")), tuple(Text(_n_text(row)) for row in report.rows), right=True)
    least = max(0, len(factors) - 2) if len(report.rows) > MANY else 0
    hoisted = least
    while hoisted < len(factors) - 1 and _total([*factors[hoisted:], counted, *metrics]) > width:
        hoisted += 1
    room = width - _total([*factors[hoisted:], counted])
    if _total(metrics) > room:  # headings alone do not suffice: use only those needed to fit one metric
        widest = max((metric.width for metric in metrics), default=0)
        hoisted = next(
            (h for h in range(least, len(factors)) if _total([*factors[h:], counted]) + widest + 2 <= width), hoisted
        )
        room = width - _total([*factors[hoisted:], counted])
    return hoisted, [[*factors[hoisted:], counted, *dealt] for dealt in _deal(metrics, room)]


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.width + _GAP for column in columns)


def _deal(metrics: Sequence[_Column], room: int) -> list[list[_Column]]:
    """Spread the metrics, in their order, evenly over the smallest number of tables that fit."""
    tables: list[list[_Column]] = [[]]
    for metric in metrics:
        if tables[-1] and _total([*tables[-1], metric]) > room:
            tables.append([])
        tables[-1].append(metric)
    share = -(-len(metrics) // len(tables)) or 1
    even = [list(metrics[at : at + share]) for at in range(0, len(metrics), share)]
    return even if even and all(_total(table) <= room for table in even) else tables


def _factor_column(report: CampaignResults, name: str) -> _Column:
    return _Column(_text((name, "bold")), tuple(_text((str(row.treatment.levels[name]), "")) for row in report.rows))


def _label_column(report: CampaignResults) -> _Column:
    return _Column(_text(("treatment", "bold")), tuple(_text((row.treatment.label, "")) for row in report.rows))


def _n_text(row: Row) -> str:
    total = sum(row.trials.values())
    return str(row.n_valid) if row.n_valid == total else f"{row.n_valid}/{total}"


def _metric_column(view: MetricView) -> _Column:
    metric, compared = view.metric, has_ratios(view.report)
    heading = _text((metric.name, "bold"), (metric.unit, "dim"), (direction_text(metric), "dim"))
    cells = (Text() if row.status == "unavailable" else _cell(row, cell, compared=compared) for row, cell in view)
    return _Column(heading, tuple(cells))


def _cell(row: Row, cell: Cell, *, compared: bool) -> Text:
    """Return the mean, and below it the ratio; what a cell lacks for a common reason is said below the table."""
    if row.status == "pending":
        return _text((DASH, "dim"))
    if cell.summary is None:
        words = "not measured" if row.n_valid else STATUS_WORDS[row.status]
        return _text((f"{words}{signs(cell.marks)}", "yellow" if row.status in ("invalid", "partly") else "dim"))
    mean = mean_text(cell.summary) + signs(cell.marks)
    lines = [(f"{mean} (n = {cell.summary.n})" if cell.missing else mean, "")]
    judged = verdict(cell)
    if lacks_ratio(row, cell):
        lines += [(DASH, "dim")] if compared else []
    elif comparison := comparison_text(row, cell, judged):
        style = "bold blue" if row.is_baseline else _STYLES[judged]
        lines.append((comparison.removesuffix(f" {NO_INTERVAL}") if is_alone(cell) else comparison, style))
    if cell.summary.interval is None and not is_alone(cell):
        lines.append((interval_text(cell.summary), "dim"))
    return _text(*lines)


# The table


def _table(report: CampaignResults, hoisted: int, columns: Sequence[_Column]) -> list[Text]:
    """Return one table, with the rows of the treatments that can run here."""
    lines = _head(columns)
    names = [factor.name for factor in report.varying[:hoisted]]
    runnable = [at for at, row in enumerate(report.rows) if row.status != "unavailable"]
    for levels, group in itertools.groupby(runnable, key=lambda at: _levels(report.rows[at], names)):
        lines += [Text(levels, style="bold")] if levels else []
        lines += _rows(columns, group)
    return lines


def _head(columns: Sequence[_Column]) -> list[Text]:
    rule = Text("─" * (_total(columns) - _GAP), style="dim")
    return [*_laid_out(columns, [[column.heading for column in columns]]), rule]


def _rows(columns: Sequence[_Column], positions: Iterable[int]) -> list[Text]:
    return _laid_out(columns, [[column.cells[at] for column in columns] for at in positions])


def _laid_out(columns: Sequence[_Column], rows: Sequence[Sequence[Text]]) -> list[Text]:
    right = [at for at, column in enumerate(columns) if column.right]
    return grid(rows, right, [column.width for column in columns])


def _absent(gap: Gap, number: int) -> str:
    n = len(gap.treatments)
    what = plain(gap.where) or (plain(gap.treatments[0].label) if n == 1 else "")
    status = "unavailable here" if n == 1 else f"{n} treatments unavailable here"
    return f"{what}: {status} [{number}]" if what else f"{status} [{number}]"


def _levels(row: Row, names: Sequence[str]) -> str:
    return plain(" · ".join(str(row.treatment.levels[name]) for name in names))


def _scaling(report: CampaignResults, scaling: Scaling, width: int) -> list[Text]:
    """Return the table of slopes for one factor."""
    metrics = [_slope_column(scaling, view) for view in report.views]
    table = _combinations(scaling.others, [row.levels for row in scaling.rows], metrics, width)
    title = Text(f"Scaling with {plain(scaling.factor)}", style="bold")
    return [Text(), title, *table, *_wrapped(slopes_note(scaling), width)]


def _combinations(
    others: Sequence[str], levels: Sequence[Sequence[str]], metrics: Sequence[_Column], width: int
) -> list[Text]:
    """Return a row for each combination of the other factors' levels; on narrow screens, levels have their own line."""
    label = _Column(
        _text((" · ".join(others), "bold")), tuple(_text((" · ".join(each) or "all", "")) for each in levels)
    )
    apart = _total([label, max(metrics, key=lambda column: column.width)]) > width
    lines: list[Text] = []
    for number, dealt in enumerate(_deal(metrics, width - (0 if apart else _total([label])))):
        columns = dealt if apart else [label, *dealt]
        lines += [Text()] if number else []
        lines += _head(columns)
        for at, text in enumerate(label.cells):
            lines += [*([text] if apart else []), *_rows(columns, [at])]
    return lines


def _slope_column(scaling: Scaling, view: MetricView) -> _Column:
    heading = _text((view.metric.name, "bold"), (f"{view.metric.unit} for 1 more", "dim"))
    lines = [row.lines[view.index] for row in scaling.rows]
    return _Column(heading, tuple(_text((slope_text(line), "" if line and line.grows else "dim")) for line in lines))


def _growths(report: CampaignResults, found: Growths, width: int) -> list[Text]:
    """Return how each metric grows with sizes, in sentences, because columns of numbers would not fit."""
    measured = [growth for row in found.rows for growth in row.metrics if growth is not None]
    widest = max(measured, key=lambda growth: len(growth.sizes))
    metrics = [_growth_column(found, widest, view) for view in report.views]
    table = _combinations(found.others, [row.levels for row in found.rows], metrics, width)
    heading = ENGLISH(found.sized.heading, factor=found.sized.factor)
    title = f"Growth with {heading}: {'; '.join(sizes_text(widest))}"
    return [
        Text(),
        *(Text(line, style="bold") for line in _broken(title, width)),
        *table,
        *_wrapped(found.sized.explanation, width),
    ]


def _growth_column(found: Growths, widest: Growth, view: MetricView) -> _Column:
    heading = _text((view.metric.name, "bold"), (view.metric.unit, "dim"))
    return _Column(
        heading, tuple(_growth_cell(row.metrics[view.index], widest, found.sized.columns) for row in found.rows)
    )


def _growth_cell(growth: Growth | None, widest: Growth, columns: Sequence[str]) -> Text:
    if growth is None:
        return _text(("not measured", "dim"))
    lines = [] if growth.sizes == widest.sizes else _broken(f"of {'; '.join(sizes_text(growth))}", _SENTENCE)
    lines += [ratio_text(growth.ratio)] if growth.ratio is not None else []
    for column, against in zip(columns, growth.against.values(), strict=True):
        lines += _broken(f"{column}: {against_text(against, ENGLISH)}", _SENTENCE)
    unknown = all(against.verdict == "unknown" for against in growth.against.values())
    return _text(*((line, "dim" if unknown else "") for line in lines))


def _doses(report: CampaignResults, width: int) -> list[Text]:
    """Return what the neighbour really did: its CPUs, and as many other quantities as fit."""
    table = doses_table(report, ENGLISH)
    if not table:
        return []
    columns = [
        _Column(_text((heading, "bold")), tuple(Text(plain(row[at])) for row in table.rows), right=at in table.right)
        for at, heading in enumerate(table.columns)
    ]
    kept, least = len(columns), min(table.right) + 2  # the number of trials, and the CPUs
    while kept > least and _total(columns[:kept]) - _GAP > width:
        kept -= 1
    more = f" --json has {', '.join(table.columns[kept:])}." if kept < len(columns) else ""
    return [
        Text(),
        Text(table.title, style="bold"),
        *_head(columns[:kept]),
        *_rows(columns[:kept], range(len(table.rows))),
        *_wrapped(table.note + more, width),
    ]


# Below the table


def _below(report: CampaignResults, width: int) -> list[Text]:
    return [line for paragraph in _paragraphs(report) for line in _wrapped(paragraph, width)]


def _paragraphs(report: CampaignResults) -> Iterator[str]:
    yield ""
    confidence = f"{report.study.design.confidence:.0%}"
    cells = [cell for row in report.rows for cell in row.cells]
    ratios = [cell.ratio for cell in cells if cell.ratio]
    sentences = []
    if any(cell.summary and cell.summary.interval for cell in cells):
        sentences.append(f"± is half the width of the {confidence} interval of the mean over n valid trials.")
    if ratios:
        with_interval = f" with its {confidence} interval" if any(ratio.interval for ratio in ratios) else ""
        sentences.append(f"× is the ratio to the baseline{with_interval}.")
    if n := max((sum(cell.decision != "unknown" for cell in view.cells) for view in report.views), default=0):
        corrected = f"corrected for the {count(n, 'ratio')} of its metric" if n > 1 else "the only one of its metric"
        sentences.append(f"{_marks(report)}: the interval, {corrected}, excludes 1; ≈: it holds 1.")
    yield from (" ".join(each) for each in (sentences, list(absences(report))) if each)
    if report.on_logs:
        yield f"{', '.join(report.on_logs)}: {GEOMETRIC}."
    if any(map(is_undecided, ratios)):
        yield f"{ENGLISH(UNDECIDED, widest=WIDEST)} --json shows it."
    if report.study.design.sequential:
        yield sequential_note(report, ENGLISH)
    yield from (line for search in searches(report) for line in lines_of(search, ENGLISH))
    yield from (legend(kind, ENGLISH) for kind in report.kinds_of_marks)
    yield from _reasons_of_ratios(report)
    for number, gap in enumerate(report.gaps, 1):
        where = f"{gap.where}: " if gap.where else ""
        yield f"[{number}] {where}{gap.reason} ({count(len(gap.treatments), 'treatment')})"
        if gap.remedy:
            yield f"    remedy: {gap.remedy}"
    yield from _invalid_groups(report)


def _marks(report: CampaignResults) -> str:
    directed = any(metric.better != "neither" for metric in report.metrics)
    neutral = any(metric.better == "neither" for metric in report.metrics)
    return ", ".join(["▲ better, ▼ worse"] * directed + ["↑ higher, ↓ lower"] * neutral)


def _reasons_of_ratios(report: CampaignResults) -> Iterator[str]:
    """Yield why some ratios have no interval, each reason once; n = 1 is left out: `absences` says it."""
    reasons = {
        f"{cell.metric.name}: {cell.ratio.absent_because}"
        for row in report.rows
        for cell in row.cells
        if cell.ratio is not None and cell.ratio.absent_because and min(cell.ratio.n) > 1
    }
    yield from sorted(reasons)


def _invalid_groups(report: CampaignResults) -> Iterator[str]:
    reasons = ((reason, attempt.trial) for attempt in report.invalid_attempts for reason in attempt.reasons)
    for reason, trials in sorted(grouped(reasons), key=lambda group: -len(set(group[1]))):
        yield f"✕ invalid: {reason} ({_trial_list(set(trials))})"


def _trial_list(trials: Iterable[int]) -> str:
    numbers = sorted(trials)
    shown = ", ".join(str(number) for number in numbers[:6])
    more = f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
    return f"trial{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _wrapped(paragraph: str, width: int) -> list[Text]:
    return [Text(line) for line in _broken(paragraph, width, "    ")]


def _broken(paragraph: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(plain(paragraph), width, subsequent_indent=indent) or [""]

"""Tables of the conditions of a campaign: properties of parts, doses, remarks, and what is missing and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from lastro.analysis.campaign import CampaignResults, Gap
from lastro.analysis.doses import DoseSpread, Quantity, doses_of
from lastro.analysis.properties import ALL, PropertyTable, column_of
from lastro.analysis.remarks import Mark
from lastro.document import Span, Table, Text
from lastro.grouping import by_key
from lastro.stats.notes import N_
from lastro.words.language import Language
from lastro.words.reasons import merge_reasons
from lastro.words.remarks import sign

_TITLES = {"platform": N_("Properties of platforms"), "attachment": N_("Properties of links")}


def part_tables(report: CampaignResults, say: Language) -> list[Table]:
    """Return a table for each kind of part, with a row for each level and a column for each property.

    A table without recorded properties has no rows. How a property was found is in the provenance."""
    tables = []
    for kind, title in _TITLES.items():
        texts_by_level = {
            level: {name: recorded.text for name, recorded in properties.items() if recorded.text}
            for level, properties in report.provenance.properties.get(kind, {}).items()
        }
        names = tuple(dict.fromkeys(name for texts in texts_by_level.values() for name in texts))
        rows = ((level, *(texts.get(name, "—") for name in names)) for level, texts in texts_by_level.items())
        tables.append(Table(f"properties-{kind}", say(title), (kind, *names), tuple(rows)))
    return tables


def gap_notes(gaps: Iterable[tuple[str, Gap]], say: Language) -> Iterator[tuple[str, tuple[Text, ...]]]:
    """Yield (anchor, lines) of a note on each reason: the levels that it affects, the reason, and the remedy.

    `gaps` are (name of a study of a suite, its gap); the name is empty in a report on one study. Cells of the grid of
    results link to the anchors."""
    gaps_by_reason = by_key(((gap.reason, gap.remedy), (study, gap)) for study, gap in gaps)
    for number, ((reason, remedy), affected) in enumerate(gaps_by_reason.items(), 1):
        first_line = [Span(f"[{number}]", "strong")]
        for at, (study, gap) in enumerate(affected):
            first_line.append(Span("; " if at else " "))
            for name in filter(None, (study, gap.where)):
                first_line += [Span(name, "strong"), Span(" · ", "dim")]
            treatments = say.count(len(gap.treatments), "treatment")
            first_line.append(Span(f"{treatments}, {say.count(gap.n_trials, 'trial')}"))
        lines: list[Text] = [tuple(first_line), reason]
        if remedy:
            lines.append((Span(say("Remedy: {remedy}", remedy=remedy), "dim"),))
        yield f"gap-{number}", tuple(lines)


_DOSES_NOTE = N_(
    "Mean over the valid trials, with minimum and maximum. CPUs: processor seconds per second that the neighbour's "
    "own group used. Units are what the anomaly takes: processes, frames, files, sockets or connections. Moved: bytes "
    "on a link of its own, or in memory."
)


def _spread_text(quantity: Quantity, spread: DoseSpread | None, say: Language) -> str:
    """Return mean and range, '0.98 (0.95 – 1.02)'; only the mean if all values are equal; a dash for None."""
    if spread is None:
        return "—"
    mean, least, greatest = (say.number(quantity.text(value)) for value in (spread.mean, spread.least, spread.greatest))
    return mean if least == greatest else f"{mean} ({least} – {greatest})"


def really_table(report: CampaignResults) -> Table:
    """Return a table of how each platform was really measured, as recorded by its trials; no rows without records."""
    really = report.properties.really
    rows = tuple((column, *(row.values[at] for row in really.rows)) for at, column in enumerate(really.columns))
    names = tuple(row.name for row in really.rows)
    return Table(
        "really", "", (really.factor, *names), rows if really else (), long=frozenset(range(1, len(names) + 1))
    )


def doses_table(report: CampaignResults, say: Language) -> Table:
    """Return a table of the doses that the neighbour really applied, with a row for each combination of its factors."""
    doses = doses_of(report)
    columns = (*doses.factors, say("trials"), *(say(quantity.label) for quantity in doses.quantities))
    rows = tuple(
        (
            *row.levels,
            say.integer(row.trials),
            *(_spread_text(quantity, row.spreads.get(quantity.name), say) for quantity in doses.quantities),
        )
        for row in doses.rows
    )
    title, right = say("What the neighbour really did"), frozenset(range(len(doses.factors), len(columns)))
    return Table("doses", title, columns, rows, right, note=say(_DOSES_NOTE) if rows else "", dense=True)


def remarks_table(report: CampaignResults, say: Language) -> Table:
    """Return a table of the remarks of trials by kind and platform, with the text of the first remark.

    The number of trials is a sum over treatments. If trials of a treatment have the remark on several metrics, the
    metric with the most of them counts."""
    by_kind: dict[tuple[str, str], list[tuple[str, Mark]]] = {}
    trials: Counter[tuple[str, str]] = Counter()
    for row in report.rows:
        platform = column_of(report.study, row.treatment.levels, "platform")
        most_marked: dict[str, int] = {}
        for cell in row.cells:
            for mark in cell.marks:
                by_kind.setdefault((mark.kind, platform), []).append((cell.metric.name, mark))
                most_marked[mark.kind] = max(most_marked.get(mark.kind, 0), mark.n)
        trials.update({(kind, platform): n for kind, n in most_marked.items()})
    rows = (
        (
            f"{sign(kind)} {say(kind)}",
            say(platform) if platform == ALL else platform,
            say.integer(trials[kind, platform]),
            ", ".join(dict.fromkeys(name for name, _ in by_kind[kind, platform])),
            next((mark.text for _, mark in by_kind[kind, platform] if mark.text), ""),
        )
        for kind in report.kinds_of_marks
        for key, platform in by_kind
        if key == kind
    )
    columns = (say("mark"), "platform", say("trials"), say("metrics"), say("first remark"))
    return Table("remarks", say("Remarks on numbers"), columns, tuple(rows), frozenset({2}), frozenset({3, 4}))


def gaps_table(report: CampaignResults, say: Language) -> Table:
    """Return a table of the treatments that cannot run here, with a row for each reason."""
    columns = (say("levels"), say("treatments"), say("trials"), say("why"), say("remedy"))
    rows = tuple(
        (gap.where, say.integer(len(gap.treatments)), say.integer(gap.n_trials), gap.reason, gap.remedy or "")
        for gap in report.gaps
    )
    title = say("Unavailable on this host")
    return Table("unavailable", title, columns, rows, frozenset({1, 2}), frozenset({0, 3, 4}))


def invalid_table(report: CampaignResults, say: Language) -> Table:
    """Return a table with a row for each trial with invalid attempts: how many, and why.

    '(2×)' follows a reason that not all of them have."""
    columns = (say("trial"), say("attempts"), say("block"), say("treatment"), say("why"), say("state of the trial"))
    rows = []
    for number, attempts in by_key((attempt.trial, attempt) for attempt in report.invalid_attempts).items():
        reasons = merge_reasons((reason, attempt.attempt) for attempt in attempts for reason in attempt.reasons)
        counts = {reason: len(set(numbers)) for reason, numbers in reasons}
        why = "; ".join(reason if n == len(attempts) else f"{reason} ({n}×)" for reason, n in counts.items())
        block, label, state = attempts[0].block, attempts[0].treatment.label, say(attempts[0].trial_state)
        rows.append((str(number), str(len(attempts)), str(block), label, why, state))
    return Table("invalid", say("Invalid attempts"), columns, tuple(rows), frozenset({0, 1, 2}), frozenset({4}))


def property_table(name: str, title: str, table: PropertyTable, say: Language, *, ours: bool) -> Table:
    """Return a table of properties; if `ours`, Lastro wrote its numbers, so they get the separators of the language."""
    columns = (table.factor, *(say(ALL) if column == ALL else column for column in table.columns))
    rows = tuple((row.name, *(say.number(text) if ours else text for text in row.values)) for row in table.rows)
    return Table(name, title, columns, rows, whole=True)

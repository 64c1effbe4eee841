"""The documents on a history: the list of its campaigns, and the changes in its series of means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from lastro.analysis.history import FactChange, HistoryReport, HistorySeries, fact_changes
from lastro.analysis.remarks import in_order
from lastro.document import Block, Figure, Figures, Fold, Items, Table, Title, section
from lastro.grouping import by_key
from lastro.results.history_points import History
from lastro.stats.change_points import FEWEST
from lastro.stats.notes import N_
from lastro.units import significant
from lastro.words.campaign import when
from lastro.words.estimates import numeric
from lastro.words.history import headline, range_text, treatment_text
from lastro.words.language import Language
from lastro.words.numbers import metric_heading, percent, ratio_text, verdict_text
from lastro.words.remarks import meaning, sign, signs_of

_CAUSES = {"software": N_("software"), "host": N_("host"), "unknown": N_("software or host")}
_SAID = {"acknowledged": N_("acknowledged"), "muted": N_("muted"), "unmuted": N_("unmuted")}
_MOST_FACTS = 4  # changed facts of a campaign that are written with their values
_LONGEST_FACT = 40


def list_blocks(history: History, say: Language) -> Iterator[Block]:
    """Yield the campaigns of each study on each host and what changed on that host; last, the remarks of users."""
    yield Title(say("A history of {campaigns}", campaigns=say.count(len(history.points), "campaign")))
    columns = (say("measured"), say("label"), say("campaign"))
    for (study, host), points in by_key(((point.study, point.host), point) for point in history.points).items():
        rows = tuple((when(point.measured_utc), point.label, point.campaign) for point in points)
        yield Table("history", say("{study} on {host}", study=study, host=host), columns, rows, whole=True)
        yield from _facts(fact_changes(points), say("What changed on the host"), say)
    remarks = tuple(
        say("{verdict}: {text}", verdict=say(_SAID[remark.kind]), text=remark.text) for remark in history.remarks
    )
    yield Items(remarks, title=say("What was said"))


def history_blocks(
    report: HistoryReport, say: Language, figures: Mapping[int, Figure] | None = None, *, details: bool = False
) -> Iterator[Block]:
    """Yield the answer and a table of all changes; with `details` also a section for each series.

    `figures` is {index in `report.series`: figure}; a series without a figure has only its table."""
    hosts = ", ".join(dict.fromkeys(series.last.host for series in report.series))
    title = say("A history of {n} series on {hosts}", n=say.integer(len(report.series)), hosts=hosts)
    yield Title(title, (headline(report, say),))
    changes = [(series, change) for series in report.series for change in series.changes]
    rows = []
    for series, change in changes:
        remark = change.acknowledged or series.muted
        verdict = say("{verdict}: {text}", verdict=say(_SAID[remark.kind]), text=remark.text) if remark else ""
        rows.append((
            series.metric.name, treatment_text(series, say), range_text(series, change, say),
            ratio_text(change.point.ratio, say), verdict or verdict_text(change.verdict, say),
            say(_CAUSES[change.cause]),
        ))  # fmt: skip
    columns = (say("metric"), say("treatment"), say("changed at"), say("after / before"), "", say("a change of"))
    yield Table("changes", "", columns, tuple(rows), numeric(3, 4), whole=True)
    facts = [fact for _, change in changes for fact in change.facts]
    yield from _facts(facts, say("What else changed there"), say)
    yield Items(tuple(_notes(report, say)))
    if details:
        for index, series in enumerate(report.series):
            figure, treatment = (figures or {}).get(index), treatment_text(series, say)
            yield from section(
                f"{metric_heading(series.metric)} · {treatment}",
                Figures((figure,) if figure else ()),
                _points(series, say),
                *_facts(fact_changes(series.points), say("What changed on the host"), say),
                anchor=f"series-{index}",
                short=treatment,
            )


def _notes(report: HistoryReport, say: Language) -> Iterator[str]:
    decidable = sum(series.decidable for series in report.series)
    if decidable:
        yield say(
            "Changes are looked for in {n} series; at one look, all of them together show a change that is none with a "
            "probability of at most {alpha}.",
            n=say.integer(decidable),
            alpha=percent(report.alpha * decidable, say, digits=3),
        )
        yield say("The newest {n} campaigns of each cannot be decided on yet.", n=FEWEST - 1)
    if open_ := len(report.series) - decidable:
        yield say("{series} series with fewer than {n} campaigns.", series=say.integer(open_), n=2 * FEWEST)
    for series in report.series:
        where = f"{series.metric.name}, {treatment_text(series, say)}"
        if series.muted:
            yield say("{where} is muted: {text}", where=where, text=series.muted.text)
        if series.left_out:
            left_out = say.count(series.left_out, "campaign")
            yield say("{where}: {campaigns} without an exact value are left out.", where=where, campaigns=left_out)
    kinds = in_order(kind for series in report.series for summary in series.summaries for kind in summary.marks)
    yield from (f"{sign(kind)} {meaning(kind, say)}" for kind in kinds)
    causes = {change.cause for series in report.series for change in series.changes}
    if causes:
        yield say("What else changed at the same time need not be the cause: `lastro ab` finds out.")
    if "unknown" in causes:
        yield say("With --sentinel, such as platform=native, changes of the software are told from those of the host.")
    if "software" in causes:
        yield say("A change of the software is one relative to the sentinel, in the same campaigns.")


def _points(series: HistorySeries, say: Language) -> Table:
    """Return a table of the means of a series, newest last; the row where a change begins has its verdict and ratio."""
    changes = {change.point.at: change for change in series.changes}
    rows = []
    for index, (point, summary, judged) in enumerate(zip(series.points, series.summaries, series.judged, strict=True)):
        change = changes.get(index)
        mean = significant(summary.mean)
        if summary.low is not None and summary.high is not None:
            mean += f" [{significant(summary.low)}, {significant(summary.high)}]"
        mean = say.number(mean) + signs_of(sorted(summary.marks))
        row = [when(point.measured_utc), point.name, mean, say.integer(summary.n)]
        row += [say.number(f"{judged:.3f}")] if series.sentinel is not None else []
        row += [f"{verdict_text(change.verdict, say)} {ratio_text(change.point.ratio, say)}" if change else ""]
        rows.append(tuple(row))
    sentinel = " · ".join(series.sentinel.values()) if series.sentinel else ""
    relative = (say("relative to {sentinel}", sentinel=sentinel),) if sentinel else ()
    columns = (say("measured"), say("label"), say("mean"), "n", *relative, say("change"))
    return Table("points", "", columns, tuple(rows), numeric(2, 4 + len(relative)))


def _facts(facts: Iterable[FactChange], title: str, say: Language) -> Iterator[Items | Fold]:
    """Yield a list with a text for each campaign: 'v9: kernel: 6.1.0-27 → 6.1.0-28; tools.runc: …'.

    After the fourth changed fact of a campaign, further ones are only counted, and long values are cut. Then a folded
    table follows, which has every changed fact with its whole values."""
    lines: list[str] = []
    rows: list[tuple[str, ...]] = []
    none, is_whole = say("not recorded"), True
    for point, point_facts in groupby(facts, key=lambda fact: fact.point):
        changes = [(say(fact.name), fact.before or none, fact.after or none) for fact in point_facts]
        rows += [(point.name, *change) for change in changes]
        shown = [f"{name}: {_short(before)} → {_short(after)}" for name, before, after in changes[:_MOST_FACTS]]
        if more := len(changes) - len(shown):
            shown.append(say("and {facts}", facts=say.count(more, "more fact")))
        is_whole &= not more and all(len(text) <= _LONGEST_FACT for change in changes for text in change[1:])
        lines.append(f"{point.name}: {'; '.join(shown)}")
    yield Items(tuple(dict.fromkeys(lines)), title=title)
    if not is_whole:
        every = tuple(dict.fromkeys(rows))
        columns = (say("label"), say("fact"), say("before"), say("after"))
        table = Table("facts", "", columns, every, long=frozenset({2, 3}), whole=True)
        yield Fold(say("Every changed fact with its whole values ({n})", n=say.integer(len(every))), (table,))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_FACT else f"{text[: _LONGEST_FACT - 1]}…"

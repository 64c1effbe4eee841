"""What ended the search for the largest load that a host can carry, for each treatment. Pure.

Either the search found a limit, with what failed there, or the study ended the search, so that the number is only a
lower bound. A metric is the result of a search if its trials noted what stopped it (`Noted.stopped_by`), or remark that
it is a lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastro.analysis.campaign import Point, Report, Row
from lastro.report.language import Language
from lastro.report.numbers import MINUS
from lastro.report.tables import Table, levels_of
from lastro.results.noted import Noted
from lastro.results.samples import AT_LEAST, Metric
from lastro.stats.notes import N_

if TYPE_CHECKING:
    from lastro.results.store import Attempt

LIMIT, BOUND = N_("limit found"), N_("lower bound")


@dataclass(frozen=True, slots=True)
class Ending:
    """One way in which searches ended, with a value for each trial that ended this way, in the metric's unit.

    `limit`: the system under test reached its limit; otherwise the study ended the search. `text` is from the first of
    these trials."""

    limit: bool
    values: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """A metric that was searched for, and the endings in every row that has any.

    In each row, limits come first, then the most frequent endings. `rows` are in the report's order."""

    metric: Metric
    rows: tuple[tuple[Row, tuple[Ending, ...]], ...]


def searches(report: Report) -> tuple[Search, ...]:
    """Return a search for each metric for which any trial recorded what ended its search."""
    kept = {(attempt.trial, attempt.attempt): attempt for attempt in report.attempts}
    found = []
    for index, metric in enumerate(report.metrics):
        rows = [(row, endings(row, index, kept)) for row in report.rows]
        if any(ended for _, ended in rows):
            found.append(Search(metric, tuple((row, ended) for row, ended in rows if ended)))
    return tuple(found)


def endings(row: Row, index: int, attempts: Mapping[tuple[int, int], Attempt]) -> tuple[Ending, ...]:
    """Return the endings for the row's metric number `index`; `attempts` are by trial and number."""
    cell = row.cells[index]
    groups: dict[tuple[bool, str], list[tuple[float, str]]] = {}
    for point in cell.points:
        attempt = attempts.get((point.trial, point.attempt))
        text = _stopped_by(attempt.noted, cell.metric.name, point) if attempt else ""
        if text or point.at_least:
            groups.setdefault((not point.at_least, _gist(text)), []).append((point.value, text))
    ended = [Ending(limit, tuple(v for v, _ in same), same[0][1]) for (limit, _), same in groups.items()]
    return tuple(sorted(ended, key=lambda each: (not each.limit, -len(each.values))))


def _stopped_by(noted: Noted, metric: str, point: Point) -> str:
    if metric in noted.stopped_by:
        return noted.stopped_by[metric]
    bounds = (r.text for r in noted.remarks if r.kind == AT_LEAST and metric in (r.metrics or (metric,)))
    return next(bounds, "") if point.at_least else ""


def _gist(text: str) -> str:
    """Return the words that trials with the same ending share: those without digits.

    Names of instances, addresses and amounts have digits."""
    return " ".join(word for word in text.split() if not any(map(str.isdigit, word)))


def searches_table(report: Report, search: Search, say: Language) -> Table:
    """Return a table with a row for each way in which the search of a treatment ended."""
    factors = tuple(factor.name for factor in report.varying) or (say("treatment"),)
    columns = (*factors, search.metric.name, say("kind"), say("trials"), say("what ended the search"))
    rows = tuple(
        (*levels_of(report, row, say), values_text(each, say), say(_kind(each)), _trials(each, row, say), each.text)
        for row, ended in search.rows
        for each in ended
    )
    title = say("What ended the search: {metric}", metric=search.metric.name)
    at = len(factors)
    return Table(
        f"search-{search.metric.name}", title, columns, rows, frozenset({at}), frozenset({at + 3}), note=say(NOTE)
    )


NOTE = N_(
    "Limit found: one more did not start, did not answer, or had no memory left. Lower bound: the study ended the "
    "search. Trials that ended in the same way share a line, with the message of the first."
)


def lines_of(search: Search, say: Language) -> Iterator[str]:
    """Yield the table as lines for a terminal: a heading, and a line for each way in which a search ended."""
    yield say("What ended the search: {metric}", metric=search.metric.name)
    for row, ended in search.rows:
        for each in ended:
            what = f"{values_text(each, say)}, {say(_kind(each))} ({say('trials')}: {_trials(each, row, say)})"
            yield f"    {row.treatment.label or say('the only treatment')}: {what}: {each.text}"


def _kind(each: Ending) -> str:
    return LIMIT if each.limit else BOUND


def values_text(each: Ending, say: Language) -> str:
    """Format the smallest and the largest value: '37', '36 to 38' or '≥ 64'."""
    low, high = (f"{end(each.values):.6g}".replace("-", MINUS) for end in (min, max))
    text = say.number(low) if low == high else say("{low} to {high}", low=say.number(low), high=say.number(high))
    return text if each.limit else f"≥ {text}"


def _trials(each: Ending, row: Row, say: Language) -> str:
    return say("{n} of {all}", n=len(each.values), all=row.n_valid)


def tables_of(report: Report, say: Language) -> Sequence[Table]:
    return [searches_table(report, search, say) for search in searches(report)]

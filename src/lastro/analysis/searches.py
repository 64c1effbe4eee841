"""The end of the search for the largest load that a host can carry, for each treatment. Pure.

Either the search found a limit and the failure there, or the study ended the search, so that the number is only a
lower bound. A metric is the result of a search if its trials noted what stopped it (`TrialNotes.stopped_by`), or remark
that it is a lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults, Cell, Point, Row
from lastro.results.rows import Attempt
from lastro.results.samples import AT_LEAST, Metric
from lastro.results.trial_notes import TrialNotes


@dataclass(frozen=True, slots=True)
class SearchEnding:
    """One way in which searches ended, with a value for each trial that ended this way, in the metric's unit.

    `limit` is true if the system under test reached its limit, and false if the study ended the search. `text` is that
    of the first of these trials."""

    limit: bool
    values: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """A metric that is the result of a search, and the endings in every row that has any.

    In each row, limits come first, then the most frequent endings. `rows` are in the report's order."""

    metric: Metric
    rows: tuple[tuple[Row, tuple[SearchEnding, ...]], ...]


def searches(report: CampaignResults) -> tuple[Search, ...]:
    """Return a search for each metric for which any trial recorded what ended its search."""
    kept = {(each.trial, each.attempt): each for each in report.attempts if each.noted.stopped_by or each.noted.remarks}
    found = []
    for view in report.views:
        rows = [(row, endings(cell, kept)) for row, cell in view]
        if any(ended for _, ended in rows):
            found.append(Search(view.metric, tuple((row, ended) for row, ended in rows if ended)))
    return tuple(found)


def endings(cell: Cell, attempts: Mapping[tuple[int, int], Attempt]) -> tuple[SearchEnding, ...]:
    """Return the endings of the searches of a cell; `attempts` are those with a note on it."""
    groups: dict[tuple[bool, str], list[tuple[float, str]]] = {}
    for point in cell.points:
        attempt = attempts.get((point.trial, point.attempt))
        text = _stopped_by(attempt.noted, cell.metric.name, point) if attempt else ""
        if text or point.at_least:
            groups.setdefault((not point.at_least, _gist(text)), []).append((point.value, text))
    ended = [SearchEnding(limit, tuple(v for v, _ in same), same[0][1]) for (limit, _), same in groups.items()]
    return tuple(sorted(ended, key=lambda each: (not each.limit, -len(each.values))))


def _stopped_by(noted: TrialNotes, metric: str, point: Point) -> str:
    if metric in noted.stopped_by:
        return noted.stopped_by[metric]
    bounds = (r.text for r in noted.remarks if r.kind == AT_LEAST and metric in (r.metrics or (metric,)))
    return next(bounds, "") if point.at_least else ""


def _gist(text: str) -> str:
    """Return the words that trials with the same ending share: those without digits.

    Names of instances, addresses and amounts have digits."""
    return " ".join(word for word in text.split() if not any(map(str.isdigit, word)))

"""The reasons why searches for the largest load that a host can carry ended, by treatment. Pure.

Either the search reached the limit of the system and noted how it failed there, or a setting of the study ended the
search, so that the result is only a lower bound. A metric counts as the result of a search if its trials noted what
stopped the search (`TrialNotes.stopped_by`), or that the value is a lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults, Cell, Point, Row
from lastro.results.rows import Attempt
from lastro.results.samples import AT_LEAST, Metric
from lastro.results.trial_notes import TrialNotes


@dataclass(frozen=True, slots=True)
class SearchEnding:
    """A reason why searches of one treatment ended.

    `values` are the results of the searches that ended for this reason, in the metric's unit. `limit` is true if the
    system under test reached its limit, and false if the study ended the search. `text` is the reason as the first of
    these trials noted it."""

    limit: bool
    values: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """A metric that is the result of a search, and why its searches ended.

    `rows` has the endings of each row that has any, in the order of the report. Within a row, limits come first, and
    then the most frequent endings."""

    metric: Metric
    rows: tuple[tuple[Row, tuple[SearchEnding, ...]], ...]


def searches(report: CampaignResults) -> tuple[Search, ...]:
    """Return a `Search` for each metric that is the result of a search in some trial, in the order of the report."""
    with_notes = {(a.trial, a.attempt): a for a in report.attempts if a.typed_notes.stopped_by or a.typed_notes.remarks}
    result = []
    for view in report.views:
        of_rows = tuple((row, of_row) for row, cell in view if (of_row := endings(cell, with_notes)))
        if of_rows:
            result.append(Search(view.metric, of_rows))
    return tuple(result)


def endings(cell: Cell, attempts: Mapping[tuple[int, int], Attempt]) -> tuple[SearchEnding, ...]:
    """Return why the searches of a cell ended, limits first; `attempts` is {(trial, attempt): attempt with notes}."""
    groups: dict[tuple[bool, str], list[tuple[float, str]]] = {}
    for point in cell.points:
        attempt = attempts.get((point.trial, point.attempt))
        text = _stopped_by(attempt.typed_notes, cell.metric.name, point) if attempt else ""
        if text or point.at_least:
            # Words with digits are names of instances, addresses and amounts, which differ between trials.
            gist = " ".join(word for word in text.split() if not any(map(str.isdigit, word)))
            groups.setdefault((not point.at_least, gist), []).append((point.value, text))
    result = []
    for (limit, _), group in groups.items():
        values, texts = zip(*group, strict=True)
        result.append(SearchEnding(limit, values, texts[0]))
    return tuple(sorted(result, key=lambda ending: (not ending.limit, -len(ending.values))))


def _stopped_by(noted: TrialNotes, metric: str, point: Point) -> str:
    """Return the reason that a trial noted for the end of its search; empty if it noted none."""
    if metric in noted.stopped_by:
        return noted.stopped_by[metric]
    bounds = (r.text for r in noted.remarks if r.kind == AT_LEAST and metric in (r.metrics or (metric,)))
    return next(bounds, "") if point.at_least else ""

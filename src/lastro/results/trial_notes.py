"""A typed view of a trial's notes, for programs. Pure.

Notes are a record for people, stored as JSON. A third-party part may have written anything into them, and older
campaigns have other notes. So their shapes are checked here, and only here: a note of another shape counts as
missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeGuard

from lastro.results.samples import AT_LEAST, GENERATOR_LIMITED, REMARKS, Remark

_STOPPED_BY = "stopped_by"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The values without the system under test, by metric; `limited` is true if they limit the trial."""

    values: Mapping[str, float]
    limited: bool | None = None  # not judged

    def as_notes(self) -> dict[str, object]:
        judged = {} if self.limited is None else {"generator_limited": self.limited}
        return {"ceiling": dict(self.values), **judged}


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """The end of a search for the largest load of a host: it carried `n` of `what`; `stopped_by` is the reason."""

    what: str
    n: int
    stopped_by: str
    steps: list[dict[str, Any]]

    def as_notes(self, metric: str) -> dict[str, object]:
        return {metric: {self.what: self.n, _STOPPED_BY: self.stopped_by, "steps": self.steps}}


@dataclass(frozen=True, slots=True)
class TrialNotes:
    """The notes of a trial that reports and campaigns use.

    host: numbers on the host's other load. usage: amounts that each role used, such as `cpu_s`. marks_s: seconds from
    the first start to each mark of a network. network: its sizes. stopped_by: what ended the search for a metric."""

    remarks: tuple[Remark, ...]
    host: Mapping[str, float]
    usage: Mapping[str, Mapping[str, float]]
    marks_s: Mapping[str, float]
    network: Mapping[str, int]
    stopped_by: Mapping[str, str]

    @classmethod
    def of(cls, notes: Mapping[str, Any]) -> Self:
        ends = {metric: note.get(_STOPPED_BY) for metric, note in notes.items() if isinstance(note, _OBJECT)}
        return cls(
            tuple(remarks_of(notes)),
            _numbers(notes.get("host")),
            {str(role): _amounts(used) for role, used in _object(notes.get("usage")).items()},
            _amounts(notes.get("timeline_s")),
            {name: size for name, size in _object(notes.get("network")).items() if type(size) is int and size > 0},
            {metric: text for metric, text in ends.items() if isinstance(text, str)},
        )

    def only_at_least(self, metric: str) -> bool:
        """Return whether a remark of the trial says that its value of the metric is only a lower bound."""
        return any(each.kind == AT_LEAST and metric in (each.metrics or (metric,)) for each in self.remarks)


def remarks_of(notes: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield the remarks of a trial; only the first of each kind on each metric."""
    if notes.get("generator_limited"):
        yield Remark(GENERATOR_LIMITED, "", tuple(_object(notes.get("ceiling"))) or ("throughput",))
    seen: set[tuple[str, str]] = set()
    for each in map(_object, _list(notes.get(REMARKS))):
        kind = each.get("kind")
        if not isinstance(kind, str) or not kind:
            continue
        named = tuple(map(str, _list(each.get("metrics"))))
        fresh = tuple(name for name in named or ("",) if (kind, name) not in seen)
        seen.update((kind, name) for name in fresh)
        if fresh:
            yield Remark(kind, str(each.get("text", "")), fresh if named else ())


_OBJECT = (dict, Mapping)  # the first is tried first, and is faster


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, _OBJECT) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _numbers(value: object) -> dict[str, float]:
    return {str(name): float(each) for name, each in _object(value).items() if is_number(each)}


def _amounts(value: object) -> dict[str, float]:
    return {name: each for name, each in _numbers(value).items() if each >= 0}

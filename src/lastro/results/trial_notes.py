"""A typed view of a trial's notes, for programs. Pure.

Notes are a record for people, stored as JSON. A third-party part may have written anything into them, and older
campaigns have other notes. So their types are checked here, and only here; a note of another type counts as missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeGuard

from lastro.results.samples import AT_LEAST, GENERATOR_LIMITED, REMARKS, Remark

_STOPPED_BY = "stopped_by"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The values that the load generator reached without the system under test, by metric.

    `limited` is true if the generator, rather than the system under test, limited the trial; None if this was not
    judged."""

    values: Mapping[str, float]
    limited: bool | None = None

    def as_notes(self) -> dict[str, object]:
        judged = {} if self.limited is None else {"generator_limited": self.limited}
        return {"ceiling": dict(self.values), **judged}


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """How a search for the largest load of a host ended: the host carried `n` of `what`, such as instances.

    `stopped_by` is the reason why the search ended. `steps` may have a record of each of its steps."""

    what: str
    n: int
    stopped_by: str
    steps: list[dict[str, Any]]

    def as_notes(self, metric: str) -> dict[str, object]:
        return {metric: {self.what: self.n, _STOPPED_BY: self.stopped_by, "steps": self.steps}}


@dataclass(frozen=True, slots=True)
class TrialNotes:
    """The notes of a trial that reports and campaigns use.

    remarks: caveats on its values. host: numbers on the host during the trial, such as `steal_percent`. usage: for each
    role, the amounts that it used, such as `cpu_s`. marks_s: for each mark in the time course of a network, the seconds
    from the first start. network: the sizes of the network, such as its number of routers. stopped_by: for each metric
    that a search measured, what ended the search."""

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
        """Return whether a remark of the trial marks its value of the metric as only a lower bound."""
        bounds = [remark for remark in self.remarks if remark.kind == AT_LEAST]
        return any(not remark.metrics or metric in remark.metrics for remark in bounds)


def remarks_of(notes: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield the remarks in the notes of a trial; if several of one kind concern a metric, only the first lists it."""
    if notes.get("generator_limited"):
        yield Remark(GENERATOR_LIMITED, "", tuple(_object(notes.get("ceiling"))) or ("throughput",))
    yielded: set[tuple[str, str]] = set()
    for note in map(_object, _list(notes.get(REMARKS))):
        kind = note.get("kind")
        if not isinstance(kind, str) or not kind:
            continue
        metrics = tuple(map(str, _list(note.get("metrics"))))
        new = tuple(metric for metric in metrics or ("",) if (kind, metric) not in yielded)
        yielded.update((kind, metric) for metric in new)
        if new:
            yield Remark(kind, str(note.get("text", "")), new if metrics else ())


_OBJECT = (dict, Mapping)  # `isinstance` tries dict first, which is faster


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, _OBJECT) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _numbers(value: object) -> dict[str, float]:
    return {str(name): float(number) for name, number in _object(value).items() if is_number(number)}


def _amounts(value: object) -> dict[str, float]:
    return {name: number for name, number in _numbers(value).items() if number >= 0}

"""Marks: the remarks of trials on metrics, counted for each treatment. Reports show them next to numbers. Pure.

Scenarios may define further kinds of remarks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from lastro.results.rows import Attempt
from lastro.results.samples import (
    AMONG_LOST,
    AT_LEAST,
    GENERATOR_DELAY,
    GIVEN_BACK,
    GOAL_NOT_MET,
    KINDS_OF_REMARKS,
    TOO_FEW,
    TOO_SHORT,
)

# The analysis itself makes these remarks.
FEWER_BLOCKS = "fewer blocks"
LOST_TRIALS = "lost trials"
SECOND_MODE = "second mode"
ALIASED = "aliased"

KINDS = (*KINDS_OF_REMARKS, FEWER_BLOCKS, LOST_TRIALS, SECOND_MODE, ALIASED)  # in the order in which reports list them
_BY_SIZE = {TOO_SHORT, TOO_FEW, GENERATOR_DELAY, AMONG_LOST, GOAL_NOT_MET, AT_LEAST, GIVEN_BACK}
BY_SIZE_OF_POOLED = _BY_SIZE - {TOO_FEW}  # the packets of all trials together may be enough


@dataclass(frozen=True, slots=True)
class Mark:
    """A kind of remark that `n` valid trials of a treatment made on a metric; `text` is the first of these remarks.

    If the remark was made by the analysis, `n` is the number of trials or blocks to which it applies."""

    kind: str
    n: int
    text: str


def in_order(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return each kind once, known kinds first."""
    present = dict.fromkeys(kinds)
    return (*(kind for kind in KINDS if kind in present), *(kind for kind in present if kind not in KINDS))


def marks_by_metric(attempts: Iterable[Attempt], names: Collection[str]) -> dict[str, tuple[Mark, ...]]:
    """Return {metric: marks} of one treatment's valid attempts, for those metrics in `names` that have marks."""
    marks: dict[str, dict[str, Mark]] = {}
    for attempt in attempts:
        for remark in attempt.typed_notes.remarks:
            for name in remark.metrics or attempt.measurements:
                by_kind = marks.setdefault(name, {})
                mark = by_kind.setdefault(remark.kind, Mark(remark.kind, 0, remark.text))
                by_kind[remark.kind] = replace(mark, n=mark.n + 1)
    return {name: tuple(kinds[kind] for kind in in_order(kinds)) for name, kinds in marks.items() if name in names}


def values_lost_by_size(
    metric: str, attempts: Iterable[Attempt], marks: Iterable[Mark], kinds: Collection[str] = _BY_SIZE
) -> bool:
    """Return whether a valid attempt of a treatment has no value of a metric because the value was too small or large.

    `kinds` are the kinds of remarks with this meaning. Examples: work was too short to time, a latency was too short
    for the generator, a percentile lies among lost packets, or no load was small enough to reach a goal. The values
    decide which attempts have no value, so the mean of the other attempts is not the mean of the treatment."""
    return any(mark.kind in kinds for mark in marks) and any(
        metric not in attempt.measurements
        and any(remark.kind in kinds and metric in remark.metrics for remark in attempt.typed_notes.remarks)
        for attempt in attempts
    )


def bounded_by(attempts: Iterable[Attempt], metric: str) -> frozenset[tuple[int, int]]:
    """Return (trial, attempt) of the attempts whose value of the metric is only a lower bound."""
    return frozenset(
        (attempt.trial, attempt.attempt) for attempt in attempts if attempt.typed_notes.only_at_least(metric)
    )

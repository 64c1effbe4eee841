"""Marks beside numbers: the remarks of trials on metrics, counted for each treatment. Pure.

A scenario may have kinds of remarks of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

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

KINDS = (*KINDS_OF_REMARKS, FEWER_BLOCKS, LOST_TRIALS, SECOND_MODE, ALIASED)  # in the order of their marks
_BY_SIZE = {TOO_SHORT, TOO_FEW, GENERATOR_DELAY, AMONG_LOST, GOAL_NOT_MET, AT_LEAST, GIVEN_BACK}
BY_SIZE_OF_POOLED = _BY_SIZE - {TOO_FEW}  # for the packets of all trials together, which may be enough


@dataclass(frozen=True, slots=True)
class Mark:
    """A remark of `n` valid trials of a treatment on a metric; `text` is the remark of the first of them.

    A remark of the analysis has the trials or blocks that it is about."""

    kind: str
    n: int
    text: str


def in_order(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return each kind once, known kinds first."""
    found = dict.fromkeys(kinds)
    return (*(kind for kind in KINDS if kind in found), *(kind for kind in found if kind not in KINDS))


def marks_by_metric(attempts: Iterable[Attempt], names: Collection[str]) -> dict[str, tuple[Mark, ...]]:
    """Return the marks of one treatment's valid attempts, for each of the named metrics that has any."""
    found: dict[str, dict[str, Mark]] = {}
    for attempt in attempts:
        for remark in attempt.noted.remarks:
            for name in remark.metrics or attempt.measurements:
                kinds = found.setdefault(name, {})
                known = kinds.get(remark.kind)
                kinds[remark.kind] = Mark(
                    remark.kind, known.n + 1 if known else 1, known.text if known else remark.text
                )
    return {name: tuple(kinds[kind] for kind in in_order(kinds)) for name, kinds in found.items() if name in names}


def lost_by_its_size(
    metric: str, attempts: Iterable[Attempt], marks: Iterable[Mark], kinds: Collection[str] = _BY_SIZE
) -> bool:
    """Return whether a valid attempt of a treatment has no value of a metric because the value was small or large.

    Work was too short to time, or a latency too short for its generator, or a percentile among lost packets, or of too
    few packets, whose number grows with the rate that a function carries, or no load was small enough for a goal, or
    none large enough to miss it, or other programs gave back more memory than a network took. Chance decides which
    attempts have no value, and the mean of the others is not that of the treatment."""
    return any(mark.kind in kinds for mark in marks) and any(
        metric not in attempt.measurements
        and any(each.kind in kinds and metric in each.metrics for each in attempt.noted.remarks)
        for attempt in attempts
    )


def bounded_by(attempts: Iterable[Attempt], metric: str) -> frozenset[tuple[int, int]]:
    """Return (trial, attempt) of the attempts whose value of the metric is only a lower bound."""
    return frozenset((attempt.trial, attempt.attempt) for attempt in attempts if attempt.noted.only_at_least(metric))

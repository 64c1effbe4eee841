"""The strictest limit of each service level for which a decision stays the same. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lastro.analysis.decision import SlaDecision
from lastro.stats.decision import LimitOdds
from lastro.study.service_level import ServiceLevel


@dataclass(frozen=True, slots=True)
class StrictestLimit:
    """The strictest limit of a service level that the recommended candidate holds almost surely.

    `beyond` is (index, limit) of the other accepted candidate that holds the strictest limit of all; None if no other
    candidate holds a stricter limit than the recommended one."""

    level: ServiceLevel
    limit: float
    beyond: tuple[int, float] | None


def strictest_limits(decision: SlaDecision) -> Iterator[StrictestLimit]:
    """Yield the strictest limit for each service level; nothing without a recommended candidate."""
    if (best := decision.choice.recommended) is None:
        return
    for number, level in enumerate(decision.question.levels):
        ends = {
            at: _end(level, odds)
            for at in decision.choice.accepted
            if (odds := decision.choice.odds[at].limits[number]) is not None
        }
        strictest = (max if level.at_least else min)(ends, key=ends.__getitem__)
        is_stricter = ends[strictest] != ends[best]
        yield StrictestLimit(level, ends[best], (strictest, ends[strictest]) if is_stricter else None)


def _end(level: ServiceLevel, odds: LimitOdds) -> float:
    """Return the strictest limit that a mean holds almost surely: the end of its interval next to the limit.

    It is never looser than the limit itself, which a separate test shows for an accepted candidate."""
    _, low, high = odds.mean.spread
    return max(low, level.limit) if level.at_least else min(high, level.limit)

"""The state of the candidates after the looks at a growing campaign (`looks`), as data for the campaign's database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FEWEST_BLOCKS = 2  # for a decision
Why = Literal["rejected", "unlikely", "futile"]


@dataclass(frozen=True, slots=True)
class DroppedCandidate:
    """A candidate that gets no more trials, by its index, and the reason.

    `chance` is the probability of what `why` denies: that the candidate holds all limits ("rejected"), that it is the
    cheapest candidate that holds all limits ("unlikely"), or that it is accepted once all blocks have run
    ("futile")."""

    candidate: int
    why: Why
    chance: float


@dataclass(frozen=True, slots=True)
class LookState:
    """The candidates, by their indices, that the looks so far have accepted, rejected or dropped.

    `fractions` has for each look the fraction of the maximum number of blocks that had run."""

    fractions: tuple[float, ...] = ()
    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    dropped: tuple[DroppedCandidate, ...] = ()

    @property
    def gone(self) -> frozenset[int]:
        """The indices of the candidates that get no more trials."""
        return frozenset(drop.candidate for drop in self.dropped)

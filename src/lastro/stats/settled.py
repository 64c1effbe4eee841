"""The state of a growing campaign after its looks (`looks`), as plain data for the database of the campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FEWEST_BLOCKS = 2  # that a decision needs
Why = Literal["rejected", "unlikely", "futile"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that gets no more trials, by its index, and why.

    The meaning of the probability `chance` depends on `why`. "rejected": that the candidate holds all limits.
    "unlikely": that it is the cheapest candidate that holds all limits. "futile": that it would be accepted once all
    blocks have run."""

    candidate: int
    why: Why
    chance: float


@dataclass(frozen=True, slots=True)
class Settled:
    """The candidates, by their indices, that the looks so far have accepted, rejected or dropped.

    `fractions` has for each look how many of the maximum number of blocks had run, as a fraction from 0 to 1."""

    fractions: tuple[float, ...] = ()
    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    dropped: tuple[Dropped, ...] = ()

    @property
    def gone(self) -> frozenset[int]:
        """The indices of the candidates that get no more trials."""
        return frozenset(drop.candidate for drop in self.dropped)

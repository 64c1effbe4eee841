"""The state of a growing campaign after its looks (`looks`), as plain data for the database of the campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FEWEST_BLOCKS = 2  # that a decision needs
Why = Literal["rejected", "unlikely", "futile"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate, by its number, that gets no more trials, and why.

    `chance` is the probability that the candidate holds all limits ("rejected"), that it is the cheapest candidate that
    does ("unlikely"), or that it is accepted by the end ("futile")."""

    candidate: int
    why: Why
    chance: float


@dataclass(frozen=True, slots=True)
class Settled:
    """The candidates, by their numbers, that all looks so far have accepted, rejected or dropped.

    `fractions` has for each look the fraction of the maximum number of blocks that had run."""

    fractions: tuple[float, ...] = ()
    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    dropped: tuple[Dropped, ...] = ()

    @property
    def gone(self) -> frozenset[int]:
        """The numbers of the candidates that get no more trials."""
        return frozenset(drop.candidate for drop in self.dropped)

"""What looks at a growing campaign have settled, as plain data, which its database keeps (`looks` finds it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FEWEST_BLOCKS = 2  # that a decision needs
Why = Literal["rejected", "unlikely", "futile"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate by its number, and why it goes on no further.

    `chance` is its probability of holding all limits ("rejected"), of being the cheapest that does ("unlikely"), or of
    being accepted by the end ("futile")."""

    candidate: int
    why: Why
    chance: float


@dataclass(frozen=True, slots=True)
class Settled:
    """What all looks so far have settled, by numbers of candidates; `fractions` are those of the most blocks."""

    fractions: tuple[float, ...] = ()
    accepted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    dropped: tuple[Dropped, ...] = ()

    @property
    def gone(self) -> frozenset[int]:
        return frozenset(each.candidate for each in self.dropped)

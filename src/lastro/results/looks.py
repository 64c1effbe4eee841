"""The looks at a campaign that runs until a decision is made, as its database keeps them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.stats.settled import Dropped, Settled

Stop = Literal["", "decided", "most blocks", "time"]


@dataclass(frozen=True, slots=True)
class Look:
    """What was found after whole blocks, and whether the campaign stopped; `dropped` are those of this look.

    Candidates are numbered as by `analysis.decision`, with the service levels of the study. `accepted` and `rejected`
    are those so far."""

    block: int
    at_utc: str
    accepted: tuple[int, ...]
    rejected: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    recommended: int | None
    stop: Stop = ""

    @property
    def numbers(self) -> tuple[int, ...]:
        """All candidates that it names."""
        best = () if self.recommended is None else (self.recommended,)
        return (*self.accepted, *self.rejected, *best, *(each.candidate for each in self.dropped))


def settled_by(looks: Sequence[Look], most_blocks: int) -> Settled:
    """Return what all looks together have settled."""
    return Settled(
        tuple(each.block / most_blocks for each in looks),
        frozenset(looks[-1].accepted) if looks else frozenset(),
        frozenset(looks[-1].rejected) if looks else frozenset(),
        tuple(dropped for each in looks for dropped in each.dropped),
    )

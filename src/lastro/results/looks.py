"""The looks at a campaign that runs until a decision is made, as its database stores them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.stats.settled import Dropped, Settled

Stop = Literal["", "decided", "most blocks", "time"]


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look after `block` whole blocks, and whether the campaign stopped.

    Candidates are numbered as in `analysis.decision`, with the service levels of the study. `accepted` and `rejected`
    are the candidates decided so far; `dropped` are the candidates that this look dropped."""

    block: int
    at_utc: str
    accepted: tuple[int, ...]
    rejected: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    recommended: int | None
    stop: Stop = ""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all candidates in this look."""
        best = () if self.recommended is None else (self.recommended,)
        return (*self.accepted, *self.rejected, *best, *(dropped.candidate for dropped in self.dropped))


def settled_by(looks: Sequence[Look], most_blocks: int) -> Settled:
    """Return the candidates that all looks together have settled, and the looks as fractions of `most_blocks`."""
    return Settled(
        tuple(look.block / most_blocks for look in looks),
        frozenset(looks[-1].accepted) if looks else frozenset(),
        frozenset(looks[-1].rejected) if looks else frozenset(),
        tuple(dropped for look in looks for dropped in look.dropped),
    )

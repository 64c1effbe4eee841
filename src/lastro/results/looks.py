"""Interim analyses ("looks") of a campaign that runs until a decision is made, as its database stores them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.stats.look_state import DroppedCandidate, LookState

Stop = Literal["", "decided", "most blocks", "time"]


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look after `block` whole blocks, and whether the campaign stopped.

    Candidates are given by their indices, as in `analysis.decision`."""

    block: int
    at_utc: str
    accepted: tuple[int, ...]  # by this look or an earlier one; `rejected` alike
    rejected: tuple[int, ...]
    dropped: tuple[DroppedCandidate, ...]  # by this look alone
    recommended: int | None  # the best candidate so far, if any
    stop: Stop = ""  # why the campaign stopped; empty if it continued

    @property
    def numbers(self) -> tuple[int, ...]:
        """The indices of all candidates that this look mentions."""
        best = () if self.recommended is None else (self.recommended,)
        return (*self.accepted, *self.rejected, *best, *(dropped.candidate for dropped in self.dropped))


def settled_by(looks: Sequence[Look], most_blocks: int) -> LookState:
    """Return the candidates that the looks have settled, and how many of the `most_blocks` blocks had run at each look.

    That is a fraction from 0 to 1."""
    return LookState(
        tuple(look.block / most_blocks for look in looks),
        frozenset(looks[-1].accepted) if looks else frozenset(),
        frozenset(looks[-1].rejected) if looks else frozenset(),
        tuple(dropped for look in looks for dropped in look.dropped),
    )

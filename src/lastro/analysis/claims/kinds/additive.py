"""Claims that two factors do not interact."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from lastro.analysis.claim_cells import Comparisons, not_varied
from lastro.analysis.claim_effects import ClaimEffects, deviation
from lastro.analysis.claims.claim import Claim, Statement
from lastro.stats.weights import weighted_sum
from lastro.study.model import Levels
from lastro.study.schema import OneLine
from lastro.study.sides import AsTuple


class Additive(Statement):
    """The statement that two factors do not interact: the means of their combinations are sums of their main effects.

    The mean of no combination deviates from this sum by more than the claim's margin, a fraction of the grand mean."""

    key: ClassVar[str] = "additive"

    factors: Annotated[tuple[OneLine, ...], Field(min_length=2, max_length=2), AsTuple]

    def is_equivalence(self, claim: Claim) -> bool:
        return True

    def listed_factors(self) -> tuple[str, Sequence[str]]:
        return "factors", self.factors

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        first, second = ((name, [*cells.factors.get(name, {}).values()]) for name in self.factors)
        for name, levels in (first, second):
            if len(levels) < 2:
                raise not_varied(name)
        pairs = list(itertools.product(first[1], second[1]))
        sides: list[Levels] = [{first[0]: (a,), second[0]: (b,)} for a, b in pairs]
        weights, n_measured, n_conditions = cells.sides(sides, self.at)
        mean = weighted_sum((side, 1 / len(pairs)) for side in weights)
        parts = []
        for a, b in pairs:
            terms = []
            for side, (x, y) in zip(weights, pairs, strict=True):
                # The deviation: the mean of the pair, minus the means of both of its levels, plus the grand mean.
                of_first, of_second = (a == x) / len(second[1]), (b == y) / len(first[1])
                terms.append((side, (a == x) * (b == y) - of_first - of_second + 1 / len(pairs)))
            parts.append(deviation(f"{a} · {b}", weighted_sum(terms), mean, claim.margin or 0.0, cells))
        return ClaimEffects(tuple(parts), n_measured, n_conditions)

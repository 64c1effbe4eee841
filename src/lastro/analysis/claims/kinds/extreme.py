"""Claims on the extreme of a ratio over several levels: "up to 40 % less"."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import ClaimContrast, ClaimEffects, ratio_contrast
from lastro.analysis.claims.claim import Claim, PublishedFigure, Statement, VerdictWords, check_distinct
from lastro.stats.notes import N_, Numeral
from lastro.study.model import Levels, Study
from lastro.study.problems import FieldError
from lastro.study.sides import AsTuple, NonEmptyLine, Side


class Extreme(Statement):
    """The statement that the extreme of a ratio of two means, over the levels of `over`, is the published ratio.

    The extreme is the ratio that is farthest from 1: "up to 40 % less" is a published ratio of 0.6. At some level, the
    ratio comes within the tolerance of the published ratio, and at no level does it exceed the published ratio by more
    than the tolerance. With `also`, the extreme is over several metrics, too: `metric` and the metrics in `also`."""

    key: ClassVar[str] = "extreme"
    figures: ClassVar[tuple[str, ...]] = ("ratio",)
    states_figure: ClassVar[bool] = True

    also: Annotated[tuple[NonEmptyLine, ...], Field(max_length=20), AsTuple] = ()
    of: Side
    to: Side
    over: Side

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.metric, *self.also)

    def choices(self) -> Mapping[str, Levels]:
        return {"of": self.of, "to": self.to}

    def listed_factors(self) -> tuple[str, Sequence[str]]:
        return "over", tuple(self.over)

    def check(self, claim: Claim, study: Study) -> None:
        """Check that the ratio has an extreme, and that the claim can come out both ways."""
        for levels in (*self.over.values(), self.metrics):
            check_distinct(levels)
        if math.prod(map(len, self.over.values())) * len(self.metrics) < 2:
            raise FieldError("`over` has one level", "name the levels among which the ratio is farthest from 1")
        ratio, tolerance = (claim.published.ratio, claim.published.tolerance) if claim.published else (None, None)
        if ratio is None or tolerance is None:
            example = "published = { ratio = 0.6, tolerance = 0.2 }"
            raise FieldError("needs `published` with a ratio and a tolerance", example)
        if tolerance >= min(abs(1 - ratio), ratio):
            why = f"the tolerance {tolerance:g} is too large for the ratio {ratio:g}"
            raise FieldError(why, "it must be less than the ratio, and less than its distance from 1")

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        """Test that the ratio nowhere exceeds the published ratio, and somewhere comes near it.

        Each combination of a metric and levels of `over` has a part: the ratio does not exceed the published one. The
        last part is a union over all combinations: at least one ratio is near the published one. Its `p_for` is the
        smallest p-value times the number of combinations; its `p_against` is the largest p-value."""
        ratio, tolerance = _stated(claim)
        falls = ratio < 1  # then a smaller ratio is the more extreme one
        toward_1 = tolerance if falls else -tolerance
        places = [*itertools.product(*self.over.values())]
        levels: list[Levels] = [
            {name: (level,) for name, level in zip(self.over, place, strict=True)} for place in places
        ]
        sides = [{**place, **side} for place in levels for side in (self.of, self.to)]
        parts, close = list[ClaimContrast](), list[ClaimContrast]()
        measured, n_conditions = list[int](), 0  # numbers of measured conditions by metric, and of all conditions
        for of_metric in (cells, *also):
            weights, n_measured, n_conditions = of_metric.sides(sides, self.at)
            measured.append(n_measured)
            named = (of_metric.metric.name,) if also else ()
            for place, of, to in zip(places, weights[::2], weights[1::2], strict=True):
                label = " · ".join(map(str, (*named, *place)))
                # Not more extreme than the published ratio by more than the tolerance.
                parts.append(ratio_contrast(label, of, to, ratio - toward_1, falls, of_metric))
                # At least as extreme as the published ratio, less the tolerance.
                close.append(ratio_contrast(label, of, to, ratio + toward_1, not falls, of_metric))
        shown = [part.p_for for part in close if part.p_for is not None]
        refuted = [part.p_against for part in close if part.p_against is not None]
        best = min(close, key=lambda part: 1.0 if part.p_for is None else part.p_for)
        if len(shown) == len(refuted) == len(close):
            best = replace(best, p_for=min(1.0, len(close) * min(shown)), p_against=max(refuted))
        return ClaimEffects((*parts, best), min(measured), n_conditions)

    def words(self, claim: Claim) -> VerdictWords:
        return VerdictWords(
            N_("the data show that the ratio is {figure} where it is farthest from 1"),
            N_("the data show that the ratio is not {figure} where it is farthest from 1 (at {levels})"),
            N_("the data cannot show whether the ratio is {figure} where it is farthest from 1"),
        )

    def figure(self, claim: Claim) -> Numeral:
        ratio, tolerance = _stated(claim)
        return Numeral(f"{ratio:g} ± {tolerance:g}")


def _stated(claim: Claim) -> tuple[float, float]:
    """Return the published ratio of a claim, and its tolerance."""
    published = claim.published or PublishedFigure()
    return published.ratio or 1.0, published.tolerance or 0.0

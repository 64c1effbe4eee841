"""Claims that a mean has a stated value, or is within a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from lastro.analysis.claim_cells import Comparisons
from lastro.analysis.claim_effects import ClaimEffects, level, without_common
from lastro.analysis.claims.check import check_unit
from lastro.analysis.claims.claim import BOTH_WAYS, Claim, MeanAt, OverConditions, PublishedMark, VerdictWords, ends_of
from lastro.stats.notes import N_, Note, Numeral
from lastro.study.model import Study
from lastro.study.printed import PrintedCell, PrintedColumn, PrintedTable
from lastro.study.problems import FieldError
from lastro.study.sides import NonEmptyLine


class Absolute(OverConditions):
    """The statement that the mean of `metric` is `value` within its `tolerance`, or is at most or at least a bound.

    The figures are in `unit`. Unlike all other statements, this is not a comparison of two means, so its truth depends
    on the machine."""

    key: ClassVar[str] = "level"

    value: float | None = None
    tolerance: float | None = Field(default=None, gt=0)
    at_most: float | None = None
    at_least: float | None = None
    unit: NonEmptyLine

    @property
    def limits(self) -> tuple[float, float]:
        if self.value is not None:
            return self.value - (self.tolerance or 0.0), self.value + (self.tolerance or 0.0)
        return ends_of(self.at_least, self.at_most)

    def check(self, claim: Claim, study: Study) -> None:
        given = [name for name in ("value", "at_most", "at_least") if getattr(self, name) is not None]
        if len(given) != 1:
            raise FieldError(f"has {' and '.join(given) or 'no figure'}", "a level has one of value, at_most, at_least")
        if (self.tolerance is None) == (given == ["value"]):
            raise FieldError(
                "tolerance is missing" if given == ["value"] else f"tolerance does not apply to {given[0]}",
                "how far from `value` the mean may lie, in its unit",
            )
        check_unit(self.unit, self.metric, study)
        low, high = self.limits
        if any(metric.name == self.metric and metric.non_negative for metric in (*study.all_metrics, *study.metrics)):
            if low <= 0 and math.isinf(high):
                raise FieldError(f"no value violates the bound: {self.metric} is never below zero", BOTH_WAYS)
            if high <= 0:
                raise FieldError(f"no value lies within the bound: {self.metric} is never below zero", BOTH_WAYS)

    def cells_of(self, table: PrintedTable, columns: Sequence[str]) -> list[tuple[PrintedColumn, PrintedCell]]:
        return [table.cell(metric, self.at) for metric in columns or [self.metric]]

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        places, n_measured, n_conditions = self.places([{}], cells)
        name = without_common(self.at, {}) or self.metric
        parts = tuple(level(place or name, of, *self.limits, cells) for place, (of,) in places.items())
        return ClaimEffects(parts, n_measured, n_conditions)

    def mark(self, claim: Claim, others: Sequence[Claim], mean: MeanAt) -> PublishedMark:
        low, high = self.limits
        ends = [end for end in (low, high) if math.isfinite(end)]
        bound = "" if len(ends) == 2 else "≤" if math.isinf(low) else "≥"
        return PublishedMark(claim, self.at, math.fsum(ends) / len(ends), bound, relative=False)

    def words(self, claim: Claim) -> VerdictWords:
        if self.over == "worst":
            return VerdictWords(
                N_("the data show that the mean is {figure} in every condition; the worst is {levels}"),
                N_("the data show that the mean is not {figure} in the condition {levels}"),
                N_("the data cannot show whether the mean is {figure} in every condition; the worst is {levels}"),
            )
        return VerdictWords(
            N_("the data show that the mean is {figure}"),
            N_("the data show that the mean is not {figure}"),
            N_("the data cannot show whether the mean is {figure}"),
        )

    def figure(self, claim: Claim) -> Note | Numeral:
        """Return 'at most 3 %', 'at least 5 s' or '40 ± 4 s'."""
        low, high = self.limits
        if math.isinf(low):
            return Note(N_("at most {figure}"), figure=Numeral(f"{high:g} {self.unit}"))
        if math.isinf(high):
            return Note(N_("at least {figure}"), figure=Numeral(f"{low:g} {self.unit}"))
        return Numeral(f"{(low + high) / 2:g} ± {(high - low) / 2:g} {self.unit}".replace("-", "−"))

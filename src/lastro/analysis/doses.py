"""What the neighbour really did in valid trials: the CPUs that it used, and what it took of other resources.

Pure. Notes are untrusted input: a part from a third party may have written anything into them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.properties import column_of
from lastro.results.rows import Attempt
from lastro.results.trial_notes import is_number
from lastro.stats.notes import N_
from lastro.units import human_bytes, significant

NOTE = "doses"
_MOST = 1e18  # of any quantity: more is not a reading, and sums must not overflow
_PLATFORM = "platform"
_PLACE = ("anomaly", _PLATFORM, "isolation")  # what decides how a neighbour runs
_UNEQUAL = 2.0  # the ratio of two doses above which they are not the same neighbour
_NEGLIGIBLE_CPUS = 0.1  # a neighbour that uses less does not burden CPUs


Dosed = dict[str, float]  # one trial's quantities by their names in the notes


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of a dose by its name in the notes; `rate` is true if it is shown per second of the measurement."""

    name: str
    label: str
    rate: bool = False

    def text(self, value: float) -> str:
        return human_bytes(value) if self.name.endswith("_bytes") else significant(value, 3)


QUANTITIES = (
    Quantity("cpus", N_("CPUs")),
    Quantity("memory_peak_bytes", N_("memory at most")),
    Quantity("written_bytes", N_("written per s"), rate=True),
    Quantity("held", N_("units held")),
    Quantity("used", N_("units used per s"), rate=True),
    Quantity("refused", N_("refused per s"), rate=True),
    Quantity("moved_bytes", N_("moved per s"), rate=True),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of trials, with the least and the greatest value."""

    mean: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(math.fsum(values) / len(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class DoseRow:
    """The doses of `trials` trials with these levels: a spread for each quantity that they noted, by its name."""

    levels: tuple[str, ...]
    trials: int
    spreads: dict[str, Spread]

    @property
    def text(self) -> str:
        """'cpu · docker · cgroups'."""
        return " · ".join(self.levels)


@dataclass(frozen=True, slots=True)
class UnequalDoses:
    """Two platforms on which the same neighbour, with the same isolation, took `less` and `more` of a quantity."""

    less: DoseRow
    more: DoseRow
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class Doses:
    """A row for each combination of levels of `factors` with a neighbour; without rows if no trial noted a dose."""

    factors: tuple[str, ...]
    rows: tuple[DoseRow, ...]

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The CPUs, and each other quantity of which some neighbour took any."""
        return tuple(
            quantity
            for quantity in QUANTITIES
            if any(
                (spread := row.spreads.get(quantity.name)) and (quantity.name == "cpus" or spread.greatest > 0)
                for row in self.rows
            )
        )


def doses_of(report: CampaignResults) -> Doses:
    """Return the doses by anomaly, and by platform and isolation if the study varies them."""
    varying = {factor.name.partition(".")[0] for factor in report.varying}  # `platform.storage` varies the platform
    factors = tuple(name for name in _PLACE if name in varying or name == _PLACE[0])
    attempts = report.valid_attempts()
    by_levels: dict[tuple[str, ...], list[Dosed]] = {}
    for row in report.rows:
        levels = tuple(column_of(report.study, row.treatment.levels, name) for name in factors)
        if dosed := _dosed(attempts.get(row.treatment.index, ())):
            by_levels.setdefault(levels, []).extend(dosed)
    return Doses(factors, tuple(DoseRow(levels, len(dosed), _spreads(dosed)) for levels, dosed in by_levels.items()))


def unequal_doses(doses: Doses) -> UnequalDoses | None:
    """Return the most unequal doses of one neighbour on two platforms; None if all are within a factor of two.

    Rates are compared, and CPUs: the same neighbour may hold as much memory and yet do nothing."""
    if _PLATFORM not in doses.factors:
        return None
    place = doses.factors.index(_PLATFORM)
    worst, found = _UNEQUAL, None
    for one, other in permutations(doses.rows, 2):
        if one.levels[:place] + one.levels[place + 1 :] != other.levels[:place] + other.levels[place + 1 :]:
            continue
        for quantity in doses.quantities:
            less, more = one.spreads.get(quantity.name), other.spreads.get(quantity.name)
            if less is None or more is None or not (quantity.rate or quantity.name == "cpus"):
                continue
            burdens = more.mean > (_NEGLIGIBLE_CPUS if quantity.name == "cpus" else 0.0)
            if burdens and more.mean > worst * less.mean:
                worst = more.mean / less.mean if less.mean > 0 else math.inf
                found = UnequalDoses(one, other, quantity)
    return found


def spreads_of(attempts: Sequence[Attempt]) -> dict[str, Spread]:
    """Return the doses of valid attempts by quantity; none without a neighbour."""
    return _spreads(_dosed(attempts))


def _dosed(attempts: Sequence[Attempt]) -> list[Dosed]:
    return [values for attempt in attempts if (values := _values(attempt.notes.get(NOTE)))]


def _spreads(dosed: Sequence[Dosed]) -> dict[str, Spread]:
    found = (
        (quantity.name, [each[quantity.name] for each in dosed if quantity.name in each]) for quantity in QUANTITIES
    )
    return {name: Spread.of(values) for name, values in found if values}


def _values(note: Any) -> Dosed:
    """Return the quantities of one dose; none without the time that it lasted."""
    elapsed_s = note.get("elapsed_s") if isinstance(note, Mapping) else None
    if not is_number(elapsed_s) or elapsed_s <= 0:
        return {}
    found = {
        quantity.name: note[quantity.name] / (elapsed_s if quantity.rate else 1.0)
        for quantity in QUANTITIES
        if is_number(note.get(quantity.name))
    }
    return {name: value for name, value in found.items() if 0 <= value <= _MOST}

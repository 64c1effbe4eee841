"""The doses of the neighbour in valid trials: the CPUs and the amounts of other resources that it really used.

Pure. The notes of trials are untrusted input: a part from a third party may have written anything into them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.properties import column_of
from lastro.grouping import by_key
from lastro.results.rows import Attempt
from lastro.results.trial_notes import is_number
from lastro.stats.notes import N_
from lastro.units import human_bytes, significant

NOTE = "doses"
_MOST = 1e18  # of any quantity: more is not a reading, and sums must not overflow
_PLATFORM = "platform"
_PLACE = ("anomaly", _PLATFORM, "isolation")  # the factors that determine how a neighbour runs
_UNEQUAL = 2.0  # if the ratio of two doses is larger, the platforms did not have the same neighbour
_NEGLIGIBLE_CPUS = 0.1  # a neighbour that uses less does not burden CPUs


Dose = dict[str, float]  # the quantities of one trial, by their names in the notes


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of a dose, by its name in the notes of trials.

    `rate` is true if the quantity is shown per second of the measurement. `label` is the heading that people see."""

    name: str
    label: str
    rate: bool = False

    def text(self, value: float) -> str:
        """Return a value of this quantity as text: bytes with a prefix, others with three significant digits."""
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
class DoseSpread:
    """The mean of a quantity over trials, with its least and its greatest value."""

    mean: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> DoseSpread:
        return cls(math.fsum(values) / len(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class DoseRow:
    """The doses of `trials` trials with these levels: {name of a quantity: spread over trials that noted it}."""

    levels: tuple[str, ...]
    trials: int
    spreads: dict[str, DoseSpread]

    @property
    def text(self) -> str:
        """The levels as text: 'cpu · docker · cgroups'."""
        return " · ".join(self.levels)


@dataclass(frozen=True, slots=True)
class UnequalDoses:
    """Two platforms on which one neighbour, with equal isolation, used different amounts of a quantity.

    `less` is the row of the platform on which the neighbour used less of `quantity`, and `more` the other row."""

    less: DoseRow
    more: DoseRow
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class Doses:
    """The doses of a campaign: a row for each combination of levels of `factors` whose trials noted a dose."""

    factors: tuple[str, ...]
    rows: tuple[DoseRow, ...]

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The quantities to show: CPUs if any trial noted them, and others that some neighbour really used."""
        used = []
        for quantity in QUANTITIES:
            spreads = [row.spreads[quantity.name] for row in self.rows if quantity.name in row.spreads]
            if any(quantity.name == "cpus" or spread.greatest > 0 for spread in spreads):
                used.append(quantity)
        return tuple(used)


def doses_of(report: CampaignResults) -> Doses:
    """Return the doses by anomaly, and by platform and isolation if the study varies them."""
    varying = {factor.name.partition(".")[0] for factor in report.varying}  # `platform.storage` varies the platform
    factors = tuple(name for name in _PLACE if name in varying or name == _PLACE[0])
    attempts = report.valid_attempts()
    by_levels: dict[tuple[str, ...], list[Dose]] = {}
    for row in report.rows:
        levels = tuple(column_of(report.study, row.treatment.levels, name) for name in factors)
        if doses := _noted_doses(attempts.get(row.treatment.index, ())):
            by_levels.setdefault(levels, []).extend(doses)
    return Doses(factors, tuple(DoseRow(levels, len(doses), _spreads(doses)) for levels, doses in by_levels.items()))


def unequal_doses(doses: Doses) -> UnequalDoses | None:
    """Return the two most unequal doses of one neighbour on two platforms; None if all are within a factor of two.

    Only CPUs and rates are compared: a neighbour may hold equal memory on both platforms and yet do less on one."""
    if _PLATFORM not in doses.factors:
        return None
    place = doses.factors.index(_PLATFORM)
    compared = [quantity for quantity in doses.quantities if quantity.rate or quantity.name == "cpus"]
    ratio, most_unequal = _UNEQUAL, None
    for low, high in permutations(doses.rows, 2):
        if low.levels[:place] + low.levels[place + 1 :] != high.levels[:place] + high.levels[place + 1 :]:
            continue
        for quantity in compared:
            less, more = low.spreads.get(quantity.name), high.spreads.get(quantity.name)
            if less is None or more is None:
                continue
            is_load = more.mean > (_NEGLIGIBLE_CPUS if quantity.name == "cpus" else 0.0)
            if is_load and more.mean > ratio * less.mean:
                ratio = more.mean / less.mean if less.mean > 0 else math.inf
                most_unequal = UnequalDoses(low, high, quantity)
    return most_unequal


def spreads_of(attempts: Sequence[Attempt]) -> dict[str, DoseSpread]:
    """Return {name of a quantity: its spread over these valid attempts}; empty if none of them noted a dose."""
    return _spreads(_noted_doses(attempts))


def _noted_doses(attempts: Sequence[Attempt]) -> list[Dose]:
    """Return the doses in the notes of attempts, with rates per second, without notes that have no duration.

    Impossible numbers, negative or huge, are left out."""
    doses = []
    for attempt in attempts:
        note = attempt.notes.get(NOTE)
        if not isinstance(note, Mapping) or not is_number(elapsed_s := note.get("elapsed_s")) or elapsed_s <= 0:
            continue
        dose = {
            quantity.name: note[quantity.name] / (elapsed_s if quantity.rate else 1.0)
            for quantity in QUANTITIES
            if is_number(note.get(quantity.name))
        }
        doses.append({name: value for name, value in dose.items() if 0 <= value <= _MOST})
    return list(filter(None, doses))


def _spreads(doses: Sequence[Dose]) -> dict[str, DoseSpread]:
    noted = ((quantity.name, dose) for quantity in QUANTITIES for dose in doses if quantity.name in dose)
    values = by_key((name, dose[name]) for name, dose in noted)
    return {name: DoseSpread.of(of_quantity) for name, of_quantity in values.items()}

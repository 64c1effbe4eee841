"""The wording of doses: how much work the neighbour really did in the valid trials. Pure."""

from __future__ import annotations

from lastro.analysis.doses import DoseSpread, Quantity
from lastro.stats.notes import N_
from lastro.words.language import Language

DOSES = N_("What the neighbour really did")
DOSES_NOTE = N_(
    "Mean over the valid trials, with minimum and maximum. CPUs: processor seconds per second that the neighbour's "
    "own group used. Units are what the anomaly takes: processes, frames, files, sockets or connections. Moved: bytes "
    "on a link of its own, or in memory."
)


def spread_text(quantity: Quantity, spread: DoseSpread | None, say: Language) -> str:
    """Return mean and range, '0.98 (0.95 – 1.02)'; only the mean if all values are equal; a dash for None."""
    if spread is None:
        return "—"
    mean, least, greatest = (say.number(quantity.text(value)) for value in (spread.mean, spread.least, spread.greatest))
    return mean if least == greatest else f"{mean} ({least} – {greatest})"

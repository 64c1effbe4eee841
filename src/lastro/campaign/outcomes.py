"""Make the outcome of a scenario storable, since a broken tool or a plug-in may return nonsense. Pure.

Nonsense makes the trial invalid. Numbers that the database cannot store are removed. An outcome with values of wrong
types is replaced by an empty one."""

from __future__ import annotations

import math
import reprlib
from array import array
from collections.abc import Iterator
from dataclasses import fields

from lastro.plain import plain
from lastro.results.samples import Outcome, PackedHistogram, Series
from lastro.shapes import MOST_MEASURED, is_measurable

_MOST = 10_000  # of measurements and series


def storable(outcome: object) -> Outcome:
    """Return the outcome of a scenario, changed so that it can be stored.

    Numbers that cannot be stored are removed, and the outcome becomes invalid. If a value has a wrong type, return a
    new, invalid outcome that has only the reason."""
    if not isinstance(outcome, Outcome):
        return Outcome(invalid_because=[f"the scenario returned {_shown(outcome)}, not an outcome"])
    try:
        fault = next(_type_faults(outcome), "")
    except (TypeError, AttributeError, ValueError, OverflowError) as error:  # such as a number instead of a list
        fault = f"the outcome has the wrong shape: {plain(str(error))}"
    if fault:
        return Outcome(invalid_because=[fault])
    for name, value in outcome.measurements.items():
        if not is_measurable(value):
            outcome.invalidate([f"{name} is {_shown(value)}"])
            value = value if math.isinf(value) else math.nan
        outcome.measurements[name] = float(value)
    for series in [*outcome.series]:
        impossible = [value for value in series.values if math.isfinite(value) and abs(value) > MOST_MEASURED]
        if impossible:
            outcome.invalidate([f"the series {series.name} has {impossible[0]}"])
            outcome.series.remove(series)
    return outcome


def _type_faults(outcome: Outcome) -> Iterator[str]:
    """Yield why an outcome cannot be stored: wrong types, too many values, equal names.

    Raises: TypeError, AttributeError, ValueError, OverflowError for values that cannot be converted."""
    empty = Outcome()
    for field in fields(Outcome):
        value = getattr(outcome, field.name)
        if not isinstance(value, type(getattr(empty, field.name))):
            yield f"the {field.name} of the outcome are {_shown(value)}"
    for name, value in outcome.measurements.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{_shown(name)} is {_shown(value)}, not a number"
        float(value)  # raises OverflowError for a huge integer
    n = len(outcome.measurements) + len(outcome.series) + len(outcome.histograms)
    if n > _MOST:
        yield f"the scenario returned {n} measurements and series, and a trial has at most {_MOST}"
    distributions: list[Series | PackedHistogram] = [*outcome.series, *outcome.histograms]
    for distribution in distributions:
        array("d", distribution.values) if isinstance(distribution, Series) else bytes(distribution.packed)
    texts = [*outcome.measurements]
    for distribution in distributions:
        texts += (distribution.name, distribution.unit)
    for text in texts:
        text.encode()  # raises ValueError for a lone surrogate
    for reason in outcome.invalid_because:
        if not isinstance(reason, str):
            yield f"{_shown(reason)} is not a reason"
    if len({distribution.name for distribution in distributions}) < len(distributions):
        yield "several series have one name"


def _shown(value: object) -> str:
    return plain(reprlib.repr(value))

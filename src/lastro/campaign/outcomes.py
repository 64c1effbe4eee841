"""Make what a scenario returned storable: a broken tool, or a part from elsewhere, may have returned nonsense. Pure.

Nonsense makes the trial invalid. Numbers that no campaign can hold are not stored, and of an outcome with values of
other types, nothing is."""

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


def storable(found: object) -> Outcome:
    """Return the outcome itself, without impossible numbers, or an invalid one that says why it cannot be stored."""
    if not isinstance(found, Outcome):
        return Outcome(invalid_because=[f"the scenario returned {_shown(found)}, not an outcome"])
    try:
        wrong = next(_of_other_types(found), "")
    except (TypeError, AttributeError, ValueError, OverflowError) as error:  # such as a list that is a number
        wrong = f"the outcome has the wrong shape: {plain(str(error))}"
    if wrong:
        return Outcome(invalid_because=[wrong])
    for name, value in found.measurements.items():
        if not is_measurable(value):
            found.invalidate([f"{name} is {_shown(value)}"])
            value = value if math.isinf(value) else math.nan
        found.measurements[name] = float(value)
    for series in [*found.series]:
        if worst := [value for value in series.values if math.isfinite(value) and abs(value) > MOST_MEASURED]:
            found.invalidate([f"the series {series.name} has {worst[0]}"])
            found.series.remove(series)
    return found


def _of_other_types(found: Outcome) -> Iterator[str]:
    usual = Outcome()
    for field in fields(Outcome):
        if not isinstance(value := getattr(found, field.name), type(getattr(usual, field.name))):
            yield f"the {field.name} of the outcome are {_shown(value)}"
    for name, value in found.measurements.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{_shown(name)} is {_shown(value)}, not a number"
        float(value)  # which a huge integer cannot be
    if (n := len(found.measurements) + len(found.series) + len(found.histograms)) > _MOST:
        yield f"the scenario returned {n} measurements and series, and a trial has at most {_MOST}"
    several: list[Series | PackedHistogram] = [*found.series, *found.histograms]
    for each in several:
        array("d", each.values) if isinstance(each, Series) else bytes(each.packed)
    for text in (*found.measurements, *(text for each in several for text in (each.name, each.unit))):
        text.encode()  # half a character cannot be stored
    yield from (f"{_shown(reason)} is not a reason" for reason in found.invalid_because if not isinstance(reason, str))
    if len({each.name for each in several}) < len(several):
        yield "several series have one name"


def _shown(value: object) -> str:
    return plain(reprlib.repr(value))

"""JSON-serializable data from results: each frozen dataclass becomes an object with its fields. Pure.

A document defines only its exceptions, as `Forms`: {class: function that returns the value to encode instead}. Such
functions select fields with `as_object` and `pick`. So a new field appears in JSON without further code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

Forms = Mapping[type, Callable[[Any], Any]]
BOUNDS: Mapping[str | None, str | None] = {"": None, "≥": ">=", "≤": "<="}  # of a value of which only a bound is known


def encode(document: Mapping[str, Any], forms: Forms) -> dict[str, Any]:
    """Return a document as JSON-serializable data; a number that is not finite becomes None.

    `forms` are {class: function that converts its instances}; other dataclasses become {field: value}."""
    return {key: _encoded(value, forms) for key, value in document.items()}


def _encoded(value: Any, forms: Forms) -> Any:
    if form := forms.get(type(value)):
        value = form(value)
    elif is_dataclass(value):
        value = as_object(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return encode(value, forms)
    if isinstance(value, list | tuple):
        return [_encoded(element, forms) for element in value]
    return value


def as_object(value: Any, without: str = "", **keys: str) -> dict[str, Any]:
    """Return {field: value} of a dataclass, except the fields that `without` names, separated by spaces.

    `keys` gives a field another key: `n_trials="trials"`. Raises: TypeError when the dataclass has no field of a given
    name."""
    names = [field.name for field in fields(value)]
    left_out = without.split()
    if unknown := {*left_out, *keys}.difference(names):
        raise TypeError(f"{type(value).__name__} has no {', '.join(unknown)}")
    return {keys.get(name, name): getattr(value, name) for name in names if name not in left_out}


def in_common(values: Iterable[float]) -> float | None:
    """Return the number that all values equal; None if they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def pick(value: Any, names: str) -> dict[str, Any]:
    """Return {name: value} of those fields or properties that `names` lists, separated by spaces."""
    return {name: getattr(value, name) for name in names.split()}

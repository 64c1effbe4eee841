"""JSON-serializable data from results: each frozen dataclass becomes an object with its fields. Pure.

A document states only exceptions, as `Forms`: they map a class to a function that returns the value to encode instead.
`own` and `only` make such functions for a part of the fields. So a new field appears in JSON without further code."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

Forms = Mapping[type, Callable[[Any], Any]]


def encode(document: Mapping[str, Any], forms: Forms) -> dict[str, Any]:
    """Return a document as JSON-serializable data; a number that is not finite becomes None."""
    return {key: _encoded(value, forms) for key, value in document.items()}


def _encoded(value: Any, forms: Forms) -> Any:
    if form := forms.get(type(value)):
        value = form(value)
    elif is_dataclass(value):
        value = own(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return encode(value, forms)
    if isinstance(value, list | tuple):
        return [_encoded(each, forms) for each in value]
    return value


def own(value: Any, without: str = "", **keys: str) -> dict[str, Any]:
    """Return the fields of a dataclass by name, except those `without`; `keys` renames some: {field: key}.

    Raises: TypeError when the dataclass has no such field."""
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    left_out = without.split()
    if unknown := {*left_out, *keys} - found.keys():
        raise TypeError(f"{type(value).__name__} has no {', '.join(unknown)}")
    return {keys.get(name, name): each for name, each in found.items() if name not in left_out}


def only(value: Any, names: str) -> dict[str, Any]:
    """Return these fields or properties by name."""
    return {name: getattr(value, name) for name in names.split()}

"""Check plain data, such as parsed JSON, against the type hints on which the code relies. Pure.

The data may come from untrusted files. So every number is bounded, a JSON text must be a single value, and data must
not be nested more deeply than data that Lastro writes."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

MOST = 1e100  # of a number in JSON: its square is still finite
# Magnitudes of a measurement other than 0. Statistics take products of four values, and ratios of such products, which
# are then still finite and not 0. A petabit in nanoseconds has 24 digits.
LEAST_MEASURED, MOST_MEASURED = 1e-30, 1e30
MOST_VALUES = 1_000_000  # of one JSON text: each takes a hundred times the memory that it takes in the text
_MOST_DIGITS = 40  # of a whole number
_MOST_DEPTH = 60
_BOUNDS = {int: 2**63, float: MOST}
_NAMES = {str: "a string", int: "a whole number", float: "a finite number", bool: "true or false", NoneType: "nothing"}


class OpenRecord:
    """A base class of dataclasses for data that may have further keys, which are left out."""

    __slots__ = ()


class MisshapenData(ValueError):
    """The data does not have the expected shape; the message says where, what was expected and what was found."""


def from_plain(kind: Any, value: Any, where: str = "") -> Any:
    """Check plain data against the type hint `kind`, and return it as that type: with its dataclasses and tuples.

    `kind` may consist of plain types, Literal, Union, tuple, list, dict, Mapping, dataclasses and TypedDicts. Of a
    TypedDict, only the keys that it names are checked. `where` names the value in errors. Raises: MisshapenData."""
    if kind is Any:
        return value
    if isinstance(kind, type) and kind in _NAMES:
        return _plain(kind, value, where)
    if is_typeddict(kind):
        known = _mapping(value, where)
        for name in sorted(kind.__required_keys__ - known.keys()):
            raise MisshapenData(f"{where.lstrip('.')} has no '{name}'".strip())
        return known | {
            key: from_plain(hint, known[key], f"{where}.{key}") for key, hint in _hints(kind).items() if key in known
        }
    if is_dataclass(kind):
        return _dataclass(kind, _mapping(value, where), where)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        why = MisshapenData()
        for each in args:
            try:
                return from_plain(each, value, where)
            except MisshapenData as error:
                why = error
        raise why
    if origin is Literal:
        if not isinstance(value, str) or value not in args:
            raise _wrong(value, where, f"one of {', '.join(args)}")
        return value
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            raise _wrong(value, where, "a list")
        return origin(from_plain(args[0], element, f"{where}[{at}]") for at, element in enumerate(value))
    if args[1] is Any:
        return _mapping(value, where)
    return {
        _plain(str, key, where): from_plain(args[1], element, f"{where}.{key}")
        for key, element in _mapping(value, where).items()
    }


def parse_json(text: str) -> Any:
    """Parse a text that is one JSON value; an unpaired surrogate, which UTF-8 cannot encode, becomes "?".

    Raises: ValueError when the text is not JSON, has too many values, a number beyond MOST, or too deep a nesting."""
    if n_values(text) > MOST_VALUES:
        raise MisshapenData(f"has more than {MOST_VALUES} values")
    try:
        value, end = _DECODER.raw_decode(text)
    except RecursionError:
        raise MisshapenData("is nested too deeply") from None
    if end != len(text):
        raise MisshapenData(f"has extra data after its end: {reprlib.repr(text[end:])}")
    if _SURROGATE.search(text):
        value = _DECODER.decode(json.dumps(value, ensure_ascii=False).encode(errors="replace").decode())
    if text.count("[") + text.count("{") > _MOST_DEPTH and _is_deeper(value, _MOST_DEPTH):
        raise MisshapenData("is nested too deeply")
    return value


def n_values(text: str | bytes) -> int:
    """Return an upper bound for the number of values and keys in a JSON text, without parsing it."""
    if isinstance(text, bytes):
        return 1 + sum(map(text.count, (b",", b":", b"[", b"{")))
    return 1 + sum(map(text.count, (",", ":", "[", "{")))


def is_measurable(value: float) -> bool:
    """Return whether a measurement can have this value: 0, or a magnitude from LEAST_MEASURED to MOST_MEASURED."""
    return value == 0 or LEAST_MEASURED <= abs(value) <= MOST_MEASURED


def number(value: object) -> float:
    """Return `value` if it is a measurable number, or infinite, as a broken tool may report.

    Raises: MisshapenData for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (is_measurable(value) or math.isinf(value)):
        raise _wrong(value, "", f"0, or a number from {LEAST_MEASURED:g} to {MOST_MEASURED:g}")
    return value


def _plain(kind: type, value: Any, where: str) -> Any:
    fits = type(value) is kind or (kind is float and type(value) is int)
    if fits and (type(value) not in _BOUNDS or abs(value) < _BOUNDS[type(value)]):
        return value
    raise _wrong(value, where, _NAMES[kind])


def _dataclass(kind: Any, value: Mapping[str, Any], where: str) -> Any:
    hints = _hints(kind)
    if issubclass(kind, OpenRecord):
        value = {name: value[name] for name in hints if name in value}
    for name in value:
        if name not in hints:
            raise MisshapenData(f"{where} has an unknown key {reprlib.repr(name)}".strip())
    for field in fields(kind):
        if field.name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise MisshapenData(f"{where} has no '{field.name}'".strip())
    return kind(**{name: from_plain(hints[name], element, f"{where}.{name}") for name, element in value.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, where, "an object")
    return value


def _wrong(value: Any, where: str, wanted: str) -> MisshapenData:
    return MisshapenData(f"{where.lstrip('.')} is {reprlib.repr(value)}, but must be {wanted}".strip())


def _parse_int(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise MisshapenData(f"has a number with {len(text)} digits")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not abs(value) < MOST:
        raise MisshapenData(f"has the number {text[:30]}, which exceeds the limit of {MOST:g}")
    return value


# One of the two with which UTF-16 writes a rare character.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_DECODER = json.JSONDecoder(parse_int=_parse_int, parse_float=_parse_float)


def _is_deeper(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 0 or any(_is_deeper(element, depth - 1) for element in inner if isinstance(element, dict | list))

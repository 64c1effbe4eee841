"""Parse the reports of our own programs, lines `name value value …` and a last line `end`, and reports in JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from lastro.errors import InstrumentError
from lastro.grouping import by_key

_MOST_CHARS = 40


def parse_report(text: str, program: str) -> dict[str, list[list[str]]]:
    """Return {name: [values, …]}: for each line of the report that begins with this name, its values as text.

    Raises: InstrumentError if the report is incomplete."""
    lines = text.splitlines()
    if not lines or lines[0] != f"{program} 1" or lines[-1] != "end":
        raise InstrumentError(f"{program} printed an incomplete report: {text[:80]!r}")
    return by_key((name, words) for name, *words in (line.split() or [""] for line in lines))


def numbers(lines: dict[str, list[list[str]]], name: str) -> list[float]:
    """Return the numbers in the line that begins with `name`.

    Raises: InstrumentError if there is not exactly one such line, or a number is negative, infinite or invalid."""
    if len(rows := lines.get(name, [])) != 1:
        raise InstrumentError(f"the report has {len(rows)} lines '{name}' instead of one")
    return [_number(name, word) for word in rows[0]]


def number(lines: dict[str, list[list[str]]], name: str) -> float:
    """Return the number in the line that begins with `name`.

    Raises: as `numbers`; InstrumentError if the line does not have exactly one number."""
    numbers_read = numbers(lines, name)
    if len(numbers_read) != 1:
        raise InstrumentError(f"the report has {len(numbers_read)} numbers in line '{name}' instead of one")
    return numbers_read[0]


def whole_numbers(name: str, words: Sequence[str], n: int) -> list[int]:
    """Convert `words`, the values in the line `name`, to integers.

    Raises: InstrumentError unless there are `n` of them, all non-negative integers."""
    if len(words) != n or not all(word.isascii() and word.isdigit() and len(word) < _MOST_CHARS for word in words):
        raise InstrumentError(f"the report has an invalid line '{name} {' '.join(words)[:80]}'")
    return [int(word) for word in words]


def _number(name: str, word: str) -> float:
    try:
        value = float(word) if word.isascii() and len(word) < _MOST_CHARS else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InstrumentError(f"the report has an invalid {name}: {word[:_MOST_CHARS]!r}")
    return value


def number_at(report: Any, *path: str | int, tool: str) -> float:
    """Return the finite, non-negative number in a tool's report in JSON, under the nested keys `path`.

    Raises: InstrumentError when there is none."""
    value, where = report, ".".join(map(str, path))
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):
        raise InstrumentError(f"{tool}'s report has no {where}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise InstrumentError(f"{tool}'s report has an invalid {where}: {str(value)[:80]}")
    return float(value)

"""Group values by a key. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def by_key(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Group (key, value) pairs as {key: its values}; both keys and values stay in the order in which they appear."""
    grouped: dict[Key, list[Value]] = {}
    for key, value in pairs:
        grouped.setdefault(key, []).append(value)
    return grouped

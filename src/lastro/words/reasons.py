"""Merge reasons that differ only in their numbers: 'other processes used 0.94 to 1.02 CPUs (limit 0.3)'."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import TypeVar

from lastro.grouping import by_key

_NUMBER = re.compile(r"(?<![\w.\-])\d+(?:\.\d+)?(?![\w\-]|\.\d)")  # not a number in a name, such as r0-1 or iperf3

Owner = TypeVar("Owner", bound=Hashable)


def merge_reasons(reasons: Iterable[tuple[str, Owner]]) -> list[tuple[str, list[Owner]]]:
    """Merge reasons that differ only in numbers; return (merged text, owners) in the order of first appearance.

    `reasons` are (text, owner), where an owner may be a trial. If several reasons of one owner are merged, the owner is
    listed once for each."""
    groups = by_key((_NUMBER.sub("#", text), (text, owner)) for text, owner in reasons)
    return [(_with_ranges([text for text, _ in group]), [owner for _, owner in group]) for group in groups.values()]


def _with_ranges(texts: list[str]) -> str:
    """Return the first text with 'smallest to largest' in place of each number in which the texts differ."""
    columns = iter(list(zip(*(_NUMBER.findall(text) for text in texts), strict=True)))

    def span(_: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        return numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"

    return _NUMBER.sub(span, texts[0])

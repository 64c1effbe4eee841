"""Merge reasons that differ only in their numbers: 'other processes used 0.94 to 1.02 CPUs (limit 0.3)'."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import TypeVar

from lastro.grouping import by_key

_NUMBER = re.compile(r"(?<![\w.\-])\d+(?:\.\d+)?(?![\w\-]|\.\d)")  # not a number in a name, such as r0-1 or iperf3

Owner = TypeVar("Owner", bound=Hashable)


def grouped(reasons: Iterable[tuple[str, Owner]]) -> list[tuple[str, list[Owner]]]:
    """Merge texts that differ only in numbers, with a list of their owners, in the order of first appearance.

    Each owner is listed once for each of its reasons."""
    alike = by_key((_NUMBER.sub("#", text), (text, owner)) for text, owner in reasons)
    return [(_ranged([text for text, _ in each]), [owner for _, owner in each]) for each in alike.values()]


def _ranged(texts: list[str]) -> str:
    """Return one text, with the smallest and the largest value of each number in which these texts differ."""
    columns = iter(list(zip(*(_NUMBER.findall(text) for text in texts), strict=True)))

    def span(_: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        return numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"

    return _NUMBER.sub(span, texts[0])

"""Reasons that differ only in their numbers, told as one: 'other processes used 0.94 to 1.02 CPUs (limit 0.3)'."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import TypeVar

_NUMBER = re.compile(r"(?<![\w.\-])\d+(?:\.\d+)?(?![\w\-]|\.\d)")  # not that of a name, such as r0-1 or iperf3

Owner = TypeVar("Owner", bound=Hashable)


def grouped(reasons: Iterable[tuple[str, Owner]]) -> list[tuple[str, list[Owner]]]:
    """Texts and whose they are as one text for all that differ in numbers alone, in the order of first appearance.

    Each owner is listed as often as it has such a reason."""
    alike: dict[str, list[tuple[str, Owner]]] = {}
    for text, owner in reasons:
        alike.setdefault(_NUMBER.sub("#", text), []).append((text, owner))
    return [(_ranged([text for text, _ in each]), [owner for _, owner in each]) for each in alike.values()]


def _ranged(texts: list[str]) -> str:
    """One text, with the least and the greatest of each number in which these texts differ."""
    columns = iter(list(zip(*(_NUMBER.findall(text) for text in texts), strict=True)))

    def span(_: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        return numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"

    return _NUMBER.sub(span, texts[0])

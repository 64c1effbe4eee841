"""The parts of sentences: changes with their intervals, such as '38 % [30, 45]', lists of names, and clauses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lastro.grouping import by_key
from lastro.stats.intervals import Estimate
from lastro.stats.notes import PERCENT
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.numbers import MINUS, fixed

_DIGITS = 4  # of a number at most, unless more are needed to show that its interval excludes `nothing`


@dataclass(frozen=True, slots=True)
class Amount:
    """A change with its interval from `low` to `high`, all in `unit`.

    The unit is percent or the unit of the metric, and begins with a space. `nothing` is the value that means no change:
    0, or 1 for a multiple. `low` and `high` are None without an interval."""

    value: float
    low: float | None
    high: float | None
    unit: str = PERCENT
    nothing: float = 0.0

    @classmethod
    def of(cls, estimate: Estimate, unit: str = PERCENT, nothing: float = 0.0) -> Amount:
        low, high = (estimate.interval.low, estimate.interval.high) if estimate.interval else (None, None)
        return cls(estimate.value or 0.0, low, high, unit, nothing)

    def text(self, say: Language) -> str:
        """Format as '38 % [30, 45]', or '38 %' without an interval."""
        if self.low is None or self.high is None:
            return say.number(significant(self.value, 2).replace("-", MINUS)) + self.unit
        decimals = _decimals(self.low, self.high, self.nothing)
        value, low, high = (fixed(end, decimals) for end in (self.value, self.low, self.high))
        return f"{say.number(value)}{self.unit} {say.number(f'[{low}, {high}]')}"

    def limit(self, say: Language) -> str:
        """Format the upper end of the interval, rounded up: '4 %'; empty if it is not above zero or does not exist."""
        if self.low is None or self.high is None or self.high <= 0:
            return ""
        return rounded_up(self.high, _decimals(self.low, self.high, self.nothing), say) + self.unit

    def __neg__(self) -> Amount:
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return Amount(-self.value, low, high, self.unit)


def rounded_up(value: float, decimals: int, say: Language) -> str:
    """Format a number, rounded up to this number of decimals: the result is always larger than `value`."""
    above = math.floor(value * 10**decimals + 1) / 10**decimals
    return say.number(fixed(above, decimals)) if decimals else say.integer(int(above))


def unit_suffix(unit: str, say: Language) -> str:
    """Return the unit for a change of a metric, after a space; '%' becomes percentage points. Empty without a unit."""
    unit = say("percentage points") if unit == "%" else unit
    return f"\xa0{unit}" if unit else ""


def join_names(names: Sequence[str], say: Language, most: int = 0) -> str:
    """Join names into a list: 'native, docker and lxc'. If there are more than `most` (0: no limit), count the rest."""
    if 0 < most < len(names):
        n = len(names) - most + 1
        return say("{names} and {n} others", names=", ".join(names[: most - 1]), n=say.integer(n))
    if len(names) < 2:
        return "".join(names)
    return say("{names} and {last}", names=", ".join(names[:-1]), last=names[-1])


def merged_sentences(
    sentences_by_name: Iterable[tuple[str, Iterable[str]]], say: Language, n: int = 0
) -> Iterator[str]:
    """Yield each sentence once, after the names to which it applies: 'A and B: The campaign is unfinished.'

    `sentences_by_name` are (name, its sentences). If `n` is the number of all names, a sentence that applies to all of
    them is yielded without names."""
    names_by_sentence = by_key((text, name) for name, sentences in sentences_by_name for text in sentences)
    for text, names in names_by_sentence.items():
        yield text if len(names) == n else f"{join_names(names, say)}: {text}"


def sentence(clauses: Iterable[str]) -> str:
    """Join the clauses by semicolons into a sentence with a capital and a full stop; empty clauses are left out."""
    text = "; ".join(filter(None, clauses))
    return f"{text[:1].upper()}{text[1:]}."


def _decimals(low: float, high: float, nothing: float) -> int:
    """Return how many decimals show half the width of an interval with one significant digit.

    Return more if an end that differs from `nothing` would otherwise be rounded to it."""
    half, largest = (high - low) / 2, max(abs(low), abs(high))
    decimals = 1 if half <= 0 else min(9, max(0, -math.floor(math.log10(half))))
    if largest > 0:
        decimals = min(decimals, max(0, _DIGITS - 1 - math.floor(math.log10(largest))))
    nearest = min(abs(low - nothing), abs(high - nothing))
    while nearest > 0 and round(nearest, decimals) == 0 and decimals < 9:
        decimals += 1
    return decimals

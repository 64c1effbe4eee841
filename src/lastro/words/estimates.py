"""The format of estimates and p-values in the tables of statistics. Pure."""

from __future__ import annotations

import math

from lastro.stats.intervals import Estimate, Interval
from lastro.units import significant
from lastro.words.language import ENGLISH, Language
from lastro.words.numbers import MINUS, fixed


def difference_text(estimate: Estimate, say: Language) -> str:
    """Format a difference as '−312 [−334, −290]', with decimals that suit the interval; empty without a value."""
    return "" if estimate.value is None else estimate_text(estimate.value, estimate.interval, say)


def estimate_text(value: float, interval: Interval | None, say: Language) -> str:
    """Format an estimate as '5.1 [4.8, 5.4]', with decimals that suit the interval, or without an interval as '5.1'."""
    if interval is None:
        return number_text(value, say)
    low, high = interval.low, interval.high
    digits = significant(interval.half_width, 2) if interval.half_width else significant(value, 4)
    if "e" in digits:
        half = interval.half_width or abs(value)
        places = 2 + math.floor(math.log10(max(abs(value), half) / half)) if half else 2
        return say.number(f"{value:.{places}e} [{low:.{places}e}, {high:.{places}e}]".replace("-", MINUS))
    decimals = len(digits.partition(".")[2])
    text, low_text, high_text = (fixed(number, decimals) for number in (value, low, high))
    return say.number(f"{text} [{low_text}, {high_text}]")


def p_text(p: float | None, say: Language = ENGLISH, *, sign: bool = False) -> str:
    """Format p as '0.012' or '< 0.001'; with `sign`, as '= 0.012', to follow the letter p. Empty for None."""
    if p is None:
        return ""
    if p < 0.001:
        return say.number("< 0.001")
    text = say.number(f"{p:.3f}" if p < 0.1 else f"{p:.2f}")
    return f"= {text}" if sign else text


def number_text(value: float, say: Language) -> str:
    """Format a number with four significant digits."""
    return say.number(significant(value, 4).replace("-", MINUS))


def numeric(first: int, end: int) -> frozenset[int]:
    """Return the indices from `first` to before `end`: the columns of a table that contain numbers (`Table.right`)."""
    return frozenset(range(first, end))

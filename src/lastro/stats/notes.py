"""Messages of statistics, kept in a form that a report can translate."""

from __future__ import annotations

from types import MappingProxyType

# Used by several statistics.
FEWER_THAN_TWO = "n = {n}: an interval needs 2 trials or more"


def N_(message: str) -> str:  # noqa: N802 (gettext's own name for it)
    """Return a message unchanged; the call marks it for the tool that collects messages to translate."""
    return message


# The reasons why a ratio is unbounded: two for ratios of two sums of means, and two for ratios to a baseline's mean.
ZERO_DENOMINATOR = N_("the difference to compare with is zero")
UNBOUNDED = N_("unbounded: the difference to compare with is not distinguishable from zero")
ZERO_BASELINE = N_("the mean of the baseline is zero")
UNBOUNDED_BY_BASELINE = N_("unbounded: the baseline is not distinguishable from zero")


class Numeral(str):
    """A text with numbers in English notation, such as '0.6 ± 0.2 s', whose separators a report translates."""

    __slots__ = ()


PERCENT = "\xa0%"  # with a no-break space


def percent(share: float | None) -> Numeral:
    """Return a fraction as a percentage for a sentence: 0.05 is '5 %'; None counts as 0."""
    return Numeral(f"{100 * (share or 0):g}{PERCENT}")


class Note(str):
    """An English sentence made of a `message` with {placeholders} and the `values` that fill them.

    As a string, it is the complete sentence. `values` are names and numbers, not translated, and notes, which are."""

    def __new__(cls, message: str, /, **values: object) -> Note:
        note = super().__new__(cls, message.format(**values) if values else message)
        note.message = message
        note.values = MappingProxyType(values)
        return note

    message: str
    values: MappingProxyType[str, object]

"""Check that each amount in the sentence of a claim is a figure of the claim.

Otherwise any slowdown would reproduce "20 % slower" without a figure. An amount is a percentage, a fraction ("half",
"um terço"), a multiple ("twice", "3 vezes mais"), or a number in a unit of the claim's metric. Other numbers are names,
such as 802.1 or "2 CPUs", and so are levels of the study: "at a load of 80 %". Sentences are read in English and in
Portuguese."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from lastro.analysis.claims.claim import Claim
from lastro.errors import InputError
from lastro.study.model import Level
from lastro.study.problems import FieldError, Problems, shown
from lastro.units import in_unit

_Form = Literal["change", "part", "multiple", "quantity"]  # "20 % less", "20 % of", "twice as long", "20 ms less"

_NUMBER = r"(?<![\w.,/])(?<![^\W\d]-)(\d+(?:[.,]\d+)*)"
_MORE = r"(?:more|less|fewer|(?:high|low|fast|slow|long|short|larg|small|soon|lat)er|mais|menos|maior|menor)\b"
_OF = r"(?:of|d[aeo]s?)\b"
_PERCENT = re.compile(
    rf"{_NUMBER}\s?(?:%|per\s?cent\b|por cento\b)(?!\s+(?:confidence|percentile|quantile|de confiança))", re.IGNORECASE
)
_DECIMAL = re.compile(rf"(?<![\w.,/])(0[.,]\d+)(?=\s+{_OF})", re.IGNORECASE)
_QUANTITY = re.compile(rf"{_NUMBER}\s?([A-Za-zµ]+(?:/[a-z]+)?)")
_COUNTS = {
    "a": 1, "an": 1, "one": 1, "um": 1, "uma": 1, "two": 2, "dois": 2, "duas": 2, "three": 3, "três": 3, "four": 4,
    "quatro": 4, "five": 5, "cinco": 5, "ten": 10, "dez": 10,
}  # fmt: skip
_PARTS = {
    "third": 3, "terço": 3, "quarter": 4, "quarto": 4, "fifth": 5, "quinto": 5, "tenth": 10, "décimo": 10,
}  # fmt: skip
_FRACTION = re.compile(
    rf"\b({'|'.join(_COUNTS)})[\s-]({'|'.join(_PARTS)})s?\b(?=\s+(?:{_OF}|{_MORE}|as?\b)|\s*(?:[.,;:)]|$))",
    re.IGNORECASE,
)
_HALF = re.compile(r"\b(?:half|metade)\b(?!-|\sduplex)", re.IGNORECASE)
_TIMES = re.compile(
    rf"(?:{_NUMBER}|\b({'|'.join(_COUNTS)}))\s?(?:times|vezes|x|×)(?=\s+(?:{_MORE}|the\b|[oa]s?\b))", re.IGNORECASE
)
_FACTOR = re.compile(
    rf"\b(?:factor of|fator de)\s+(?:{_NUMBER}|({'|'.join(_COUNTS)})\b)"
    rf"|(?:{_NUMBER}|\b({'|'.join(_COUNTS)}))-?fold\b",
    re.IGNORECASE,
)
_DOUBLE = re.compile(r"\b(?:twice|doubles|doubled|double the|dobro|dobram?|duplicam?)\b", re.IGNORECASE)
_TRIPLE = re.compile(r"\b(?:triples|tripled|triple the|triplo|triplicam?)\b", re.IGNORECASE)
_MOST = re.compile(r"\b(?:most of|all of|maior parte)\b", re.IGNORECASE)

_ARTICLE = r"(?:(?:an?|the|um|uma|o|a)\s+)?$"
_ABOUT = re.compile(
    r"(?:[~≈]\s?|\b(?:about|around|nearly|almost|roughly|quase|cerca d[eo]|em torno de)\s+)"
    rf"{_ARTICLE}",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\b(?:at least|at most|up to|within|(?:more|less|fewer) than|pelo menos|ao menos|no máximo|até|"
    rf"(?:mais|menos) (?:d[aeo]|que))\s+{_ARTICLE}",
    re.IGNORECASE,
)
_RANGE = (re.compile(r"\d\s?%?\s?(?:to|and|a|e|–|-)\s?$"), re.compile(r"\s?(?:to|and|a|e|–|-)\s?\d"))


@dataclass(frozen=True, slots=True)
class _Amount:
    """An amount in a sentence: its text, and the values that it can mean, with their largest rounding error.

    `name` is the spelling of a level with this amount. `is_end` is true after "at least", "up to" and the like, and for
    the ends of a range: the amount may then be an end of a figure's tolerance."""

    text: str
    form: _Form
    values: tuple[float, ...]
    rounding: float
    name: str = ""
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of a claim, the ratio of two means or else in `unit` (a fraction if empty), and its tolerance's ends."""

    value: float
    ends: tuple[float, ...] = ()
    is_ratio: bool = False
    unit: str = ""


def check_sentence(claim: Claim, unit: str, levels: Iterable[tuple[str, Level]], problems: Problems) -> None:
    """Record a problem for each sentence of a claim with an amount that is not a figure of the claim.

    `unit` is that of the claim's metric. `levels` are the (factor, level) that sentences may name."""
    if claim.published is not None and claim.published.table:
        return  # the figure could not be read from the table, which is already recorded as a problem
    figures = [*_figures(claim, unit)]
    names = {name for factor, level in levels for name in _names(factor, level)}
    sentences: dict[tuple[str, ...], str] = {("says",): claim.says}
    sentences |= {("says_in", code): text for code, text in claim.says_in.items()}
    for place, sentence in sentences.items():
        with problems.at(*place):
            for amount in _amounts(sentence, unit):
                if amount.name not in names and not any(_means(amount, figure) for figure in figures):
                    raise FieldError(_problem(amount, figures), _remedy(claim))
            most = _MOST.search(sentence) if "share" in claim.statement.figures else None
            if most and not any(figure.value >= 0.5 for figure in figures):
                raise FieldError(_problem(_Amount(most[0], "part", (), 0.0), figures), _remedy(claim))


def _problem(amount: _Amount, figures: list[_Figure]) -> str:
    if not figures:
        return f"the sentence says {shown(amount.text)}, and the claim has no figure for it"
    texts = [f"{'×' if figure.is_ratio else ''}{figure.value:g} {figure.unit}".rstrip() for figure in figures]
    return f"the sentence says {shown(amount.text)}, but the claim states {', '.join(texts)}"


def _remedy(claim: Claim) -> str:
    """Return where the figure of a claim of this kind belongs."""
    statement = claim.statement
    if statement.is_equivalence(claim):
        return "the figure of an equivalence is its `margin`: margin = 0.05 is 5 %"
    if statement.limits:
        return "the figure of a level is its `value` with a `tolerance`, its `at_most` or its `at_least`"
    if "share" in statement.figures:
        return "`published` with `at_least`, `at_most`, or `share` and its tolerance: published = { at_least = 0.5 }"
    if statement.figures:
        return (
            "`published` with the figure and its tolerance: published = { ratio = 0.8, tolerance = 0.1 } is 20 % less"
        )
    return f"`{statement.key}` has no figure: state the amount in a claim of its own, or leave it out of the sentence"


def _figures(claim: Claim, unit: str) -> Iterator[_Figure]:
    """Yield the figures of a claim: what was published, its value or bound, its margin, "slightly"."""
    published, limits = claim.published, claim.statement.limits
    if published is not None and published.ratio is not None:
        yield _Figure(published.ratio, published.tolerated, is_ratio=True)
    if published is not None and published.difference is not None:
        ends = () if published.ratio is not None else published.tolerated
        yield _Figure(published.difference, ends, unit=unit)
    for share in (published.share, published.at_least, published.at_most) if published else ():
        if share is not None:
            yield _Figure(share, published.tolerated if published else ())
    if limits is not None:
        finite = [end for end in limits if math.isfinite(end)]
        yield _Figure(math.fsum(finite) / len(finite) if finite else 0.0, tuple(finite), unit=unit)
    for fraction in (claim.margin, claim.slight):
        if fraction is not None:
            yield _Figure(fraction)


def _means(amount: _Amount, figure: _Figure) -> bool:
    """Return whether an amount is the figure, within its rounding error, or an end of the figure's tolerance."""
    values = (figure.value, *(filter(math.isfinite, figure.ends) if amount.is_end else ()))
    forms = [form for value in values for form in _forms(replace(figure, value=value), amount.form)]
    return any(abs(form - value) <= amount.rounding + 1e-9 * abs(value) for form in forms for value in amount.values)


def _forms(figure: _Figure, form: _Form) -> Iterator[float]:
    """Yield the values by which a sentence may state a figure in this form.

    A ratio of 0.8 is "20 % less", or "25 % more" with exchanged sides."""
    value = figure.value
    if figure.is_ratio:
        inverse = (1 / value,) if value else ()
        if form == "change":
            yield from (abs(ratio - 1) for ratio in (value, *inverse))
        elif form == "part":
            yield from (part for ratio in (value, *inverse) for part in (ratio, abs(1 - ratio)))
        elif form == "multiple":
            yield from (value, *inverse)
    elif form == "quantity" and figure.unit:
        yield abs(value)
    elif form in ("change", "part") and figure.unit in ("", "%"):
        yield abs(value) / (100 if figure.unit else 1)


def _amounts(sentence: str, unit: str) -> Iterator[_Amount]:
    """Yield the amounts in a sentence about a metric in `unit`."""
    for match in _PERCENT.finditer(sentence):
        form: _Form = "part" if re.match(rf"\s+{_OF}", sentence[match.end() :], re.IGNORECASE) else "change"
        yield _amount(match, form, _readings(match[1]), 100, f"{_plain(match[1])}%")
    for match in _DECIMAL.finditer(sentence):
        yield _amount(match, "part", _readings(match[1]))
    for match in _HALF.finditer(sentence):
        yield _amount(match, "part", ((0.5, 0.005),))
    for match in _FRACTION.finditer(sentence):
        fraction = _COUNTS.get(match[1].lower(), 1) / _PARTS.get(match[2].lower(), 1)
        yield _amount(match, "part", ((fraction, 0.005),))
    for value, word in ((2.0, _DOUBLE), (3.0, _TRIPLE)):
        for match in word.finditer(sentence):
            yield _amount(match, "multiple", ((value, 0.05),))
    for match in (*_TIMES.finditer(sentence), *_FACTOR.finditer(sentence)):
        (number,) = filter(None, match.groups())
        readings = _readings(number) if number[0].isdigit() else ((float(_COUNTS[number.lower()]), 0.05),)
        yield _amount(match, "multiple", readings)
    for match in _QUANTITY.finditer(sentence):
        try:
            scale = in_unit(f"1 {match[2]}", unit)
        except InputError:
            continue
        if not re.fullmatch(r"(?:19|20)\d\ds", match[0]):  # a decade
            yield _amount(match, "quantity", _readings(match[1]), 1 / scale, f"{_plain(match[1])}{match[2]}")


def _amount(
    match: re.Match[str], form: _Form, readings: tuple[tuple[float, float], ...], divisor: float = 1.0, name: str = ""
) -> _Amount:
    """Return the amount of a match; `readings` are (value, rounding error), which `divisor` divides."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    values = tuple(value for value, _ in readings)
    rounding = max(error for _, error in readings)
    if _ABOUT.search(before):
        rounding = max(rounding, 0.1 * max(values))
        before = _ABOUT.sub("", before)
    is_end = bool(_BOUND.search(before) or _RANGE[0].search(before) or _RANGE[1].match(after))
    if re.match(rf"\s+{_MORE}", after, re.IGNORECASE):
        name = ""  # "80 % less" is not a level of 80 %
    return _Amount(match[0], form, tuple(value / divisor for value in values), rounding / divisor, name, is_end)


def _readings(number: str) -> tuple[tuple[float, float], ...]:
    """Return (value, rounding error) of a number: '6,4' is 6.4 ± 0.05, and '2,000' is 2000 ± 0.5 or 2 ± 0.0005."""
    groups = re.split("[.,]", number)
    whole = (float("".join(groups)), 0.5)
    if len(groups) == 1:
        return (whole,)
    decimal = (float(f"{''.join(groups[:-1])}.{groups[-1]}"), 0.5 * 10.0 ** -len(groups[-1]))
    may_be_thousands = all(len(group) == 3 for group in groups[1:])
    return (whole, decimal) if may_be_thousands else (decimal,)


def _plain(number: str) -> str:
    """Return a number as levels spell it: '6,4' is '6.4', and '2,000' is '2000'."""
    return f"{_readings(number)[0][0]:g}"


def _names(factor: str, level: Level) -> Iterator[str]:
    """Yield the amounts that name a level: '80%'; '10s' of a factor `hello_s` at 10; '50%' of a level 0.5."""
    text = str(level)
    for number, unit in re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)\s?(%|[A-Za-zµ]+(?:/[a-z]+)?)?", text):
        yield f"{float(number):g}{unit or factor.rpartition('_')[2]}"
        if not unit and 0 < float(number) <= 1:
            yield f"{100 * float(number):g}%"

"""The format of means, intervals and ratios, in every form of a document."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from lastro.analysis.campaign import Cell, Row
from lastro.analysis.verdicts import Verdict
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats import notes
from lastro.stats.intervals import Estimate, Interval, Summary
from lastro.stats.notes import N_, PERCENT
from lastro.units import significant
from lastro.words.language import ENGLISH, Language

MINUS = "−"
WIDEST = 10  # a table does not show a ratio whose interval spans more than this factor

STATUS_WORDS = {
    "measured": N_("measured"),
    "partly": N_("partly measured"),
    "invalid": N_("every attempt invalid"),
    "unavailable": N_("unavailable here"),
    "pending": N_("not run yet"),
}
WHY_MISSING = {
    "unavailable": N_("unavailable"),
    "invalid": N_("invalid"),
    "pending": N_("not run yet"),
    "excluded": N_("excluded by the study"),
    "valueless": N_("no value"),
}
VERDICT_WORDS: dict[Verdict, str] = {
    "better": N_("better than the baseline"),
    "worse": N_("worse than the baseline"),
    "higher": N_("higher than the baseline"),
    "lower": N_("lower than the baseline"),
    "same": N_("not distinguishable from the baseline"),
    "": "",
}
DIRECTIONS = {"higher": N_("higher is better"), "lower": N_("lower is better"), "neither": ""}
VERDICT_MARKS: dict[Verdict, str] = {"better": "▲", "worse": "▼", "higher": "↑", "lower": "↓", "same": "≈", "": ""}
VERDICTS: dict[Verdict, str] = {
    "better": N_("better"),
    "worse": N_("worse"),
    "higher": N_("higher"),
    "lower": N_("lower"),
    "same": N_("not distinguishable"),
    "": "",
}
_COUNTED: dict[Verdict, str] = {
    "better": N_("{n} better"),
    "worse": N_("{n} worse"),
    "higher": N_("{n} higher"),
    "lower": N_("{n} lower"),
}


def verdict_text(verdict: Verdict, say: Language) -> str:
    """Return a verdict with its mark: '▼ worse'."""
    return f"{VERDICT_MARKS[verdict]} {say(VERDICTS[verdict])}".strip()


def verdict_counts(verdicts: Sequence[Verdict], say: Language) -> str:
    """Return how often each verdict occurs: '2 worse, 1 better'."""
    return ", ".join(say(_COUNTED[verdict], n=verdicts.count(verdict)) for verdict in dict.fromkeys(verdicts))


def fixed(value: float, decimals: int) -> str:
    """Format a number with this many decimals and a true minus sign."""
    return f"{value:.{decimals}f}".replace("-", MINUS)


def percent(share: float, say: Language = ENGLISH, *, digits: int | None = None, decimals: int | None = None) -> str:
    """Format a fraction as '7.5 %', with a no-break space.

    It keeps all of its digits, which suits a number that a user chose, unless `digits` (significant ones) or `decimals`
    limit them."""
    if digits is None and decimals is None:
        return say.number(notes.percent(share))
    number = significant(100 * share, digits) if digits else f"{100 * share:.{decimals}f}"
    return say.number(number.replace("-", MINUS)) + PERCENT


def margins_text(margins: Mapping[str, float], say: Language) -> str:
    """Format {metric: margin} as '5 %', or as '5 % (throughput), 10 % (jitter, loss)' if the margins differ."""
    metrics_by_margin = by_key((margin, name) for name, margin in margins.items())
    texts = {percent(margin, say): ", ".join(names) for margin, names in metrics_by_margin.items()}
    return ", ".join(texts if len(texts) == 1 else (f"{text} ({names})" for text, names in texts.items()))


_MOST_DECIMALS = 5  # of a ratio
_ROUNDING = 1e-9  # relative: equal values in another unit differ by this much at most


def mean_text(summary: Summary, say: Language = ENGLISH) -> str:
    """Format a mean as '20735 ± 937', with two significant digits of the half width, or '20735' without an interval.

    A mean that is not in the middle of its interval becomes '3.1 [0.0, 9.4]'; a lower bound becomes '≥ 52'."""
    if not summary.bounded:
        return say.number(_mean(summary))
    text = significant(summary.mean, 5).replace("-", MINUS)
    return say.number(f"≥ {text.rstrip('0').rstrip('.') if '.' in text else text}")


def _mean(summary: Summary) -> str:
    """Format a mean that is not a lower bound: see `mean_text`."""
    if summary.interval is None or summary.interval.half_width <= _ROUNDING * abs(summary.mean):
        alone = significant(summary.mean, 5).replace("-", MINUS)
        return alone if summary.interval is None else f"{alone} ± 0"
    half = summary.interval.half_width
    magnitude = math.floor(math.log10(half))
    ends = () if summary.interval.has_middle(summary.mean) else (summary.interval.low, summary.interval.high)
    if max(abs(summary.mean), half) >= 1e9 or magnitude < -6:
        spread = "[{:.3e}, {:.3e}]".format(*ends) if ends else f"± {half:.1e}"
        return f"{summary.mean:.3e} {spread}".replace("-", MINUS)
    decimals = max(0, 1 - magnitude)
    spread = "[{}, {}]".format(*(fixed(end, decimals) for end in ends)) if ends else f"± {fixed(half, decimals)}"
    return f"{fixed(summary.mean, decimals)} {spread}"


def interval_text(summary: Summary, say: Language = ENGLISH) -> str:
    """Format the interval of a mean as '[19798, 21672]', or return why there is none."""
    if summary.bounded:
        return say(
            "no interval: a lower bound in {n} of {trials}", n=summary.bounded, trials=say.count(summary.n, "trial")
        )
    if summary.interval is None:
        return say("no interval (n = {n})", n=summary.n)
    text = f"[{significant(summary.interval.low, 5)}, {significant(summary.interval.high, 5)}]"
    return say.number(text.replace("-", MINUS))


def ratio_text(ratio: Estimate, say: Language = ENGLISH) -> str:
    """Format a ratio as '×0.992 [0.941, 1.046]' or '×0.99 no interval'; a bound as '≥ ×1.7'; None as 'no ratio'."""
    if ratio.value is None:
        return say("no ratio")
    if ratio.bound:
        return say.number(f"{ratio.bound} ×{significant(ratio.value, 3)}".replace("-", MINUS))
    if ratio.interval is None:
        alone = say.number(f"×{significant(ratio.value, 3)}".replace("-", MINUS))
        return f"{alone} {say('unbounded') if ratio.unbounded else say(NO_INTERVAL)}"
    decimals = _ratio_decimals(ratio.interval, ratio.value)
    low, high = (fixed(end, decimals) for end in (ratio.interval.low, ratio.interval.high))
    return say.number(f"×{fixed(ratio.value, decimals)} [{low}, {high}]")


def ratio_range(ends: Interval, say: Language = ENGLISH) -> str:
    """Format an interval of ratios without an estimate: '×0.80 to ×1.10'."""
    decimals = _ratio_decimals(ends, ends.high)
    low, high = (say.number(fixed(end, decimals)) for end in (ends.low, ends.high))
    return say("×{low} to ×{high}", low=low, high=high)


NO_INTERVAL = N_("no interval")
GEOMETRIC = N_("ratios of geometric means, because logarithms of the values fit better")
UNDECIDED = N_("undecided: the interval of the ratio is unbounded or spans more than a factor of {widest}.")


def is_undecided(ratio: Estimate) -> bool:
    """Return whether the interval of a ratio is too wide to be useful.

    That is so if it is unbounded, or if it contains 1 and spans more than a factor of ten."""
    if ratio.interval is None:
        return ratio.unbounded and ratio.value is not None
    low, high = ratio.interval.low, ratio.interval.high
    return not ratio.differs and (low <= 0 or high > WIDEST * low)


def _ratio_decimals(ends: Interval, value: float) -> int:
    """Return the number of decimals for a ratio and its interval.

    There are enough that an interval that excludes 1 does not seem to end at 1."""
    if abs(value) >= 100:
        return 0
    decimals = 3 if ends.half_width <= 0 else max(2, min(_MOST_DECIMALS, 1 - math.floor(math.log10(ends.half_width))))
    excludes_1 = not ends.holds(1)
    while excludes_1 and decimals < _MOST_DECIMALS and 1 in (round(ends.low, decimals), round(ends.high, decimals)):
        decimals += 1
    return decimals


def comparison_text(row: Row, cell: Cell, judged: Verdict, say: Language = ENGLISH) -> str:
    """Return the line below a mean: the mark and the ratio, 'baseline', 'undecided', or why there is no ratio.

    Empty if the study has no baseline."""
    if row.is_baseline:
        return say("baseline")
    if cell.ratio is not None and judged in ("", "same") and is_undecided(cell.ratio):
        return say("undecided (n = {n})", n=min(cell.ratio.sides))
    if cell.ratio is not None:
        return f"{VERDICT_MARKS[judged]} {ratio_text(cell.ratio, say)}".strip()
    return say("no baseline value") if row.baseline is not None and cell.summary is not None else ""


def metric_heading(metric: Metric) -> str:
    """Return the name of a metric with its unit: 'throughput (Mbit/s)'."""
    return f"{metric.name} ({metric.unit})" if metric.unit else metric.name


def direction_text(metric: Metric, say: Language = ENGLISH) -> str:
    return say(DIRECTIONS[metric.better])


# Numbers in figures

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def axis_numbers(values: Sequence[float], say: Language = ENGLISH) -> list[str]:
    """Format the numbers of an axis: '20,000', '0.05', '1.5M'; very large and very small numbers as powers of ten.

    Evenly spaced numbers get a common prefix and a common number of decimals."""
    steps = [abs(b - a) for a, b in pairwise(values)]
    if len(steps) < 2 or max(steps) > 1.01 * min(steps):
        return [say.number(_plain(value, value)) for value in values]
    largest = max(abs(value) for value in values)
    return [say.number(_plain(value, largest, min(steps))) for value in values]


def no_exponent(text: str) -> str:
    """Replace '1.2e+09' by '1.2·10⁹' in a text that Lastro wrote."""
    return re.sub(
        r"(?<=\d)e([-+])0*(\d+)", lambda match: f"·10{(match[1] + match[2]).lstrip('+').translate(_RAISED)}", text
    )


def _plain(value: float, largest: float, step: float = 0.0) -> str:
    """Format a number of an axis: `largest` determines the prefix (M, G, T), and `step` the number of decimals.

    If `step` is 0, `value` determines the decimals."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    size = abs(largest)
    if not 1e-6 <= size < 1e15:
        return no_exponent(f"{value:.3g}").replace("-", MINUS)
    for scale, prefix in _PREFIXES:
        if size >= scale and _decimals(value / scale, step / scale) <= 3:
            return fixed(value / scale, _decimals(value / scale, step / scale)) + prefix
    return f"{value:,.{_decimals(value, step)}f}".replace("-", MINUS)


def _decimals(value: float, step: float) -> int:
    """Return how many decimals a round `step` needs; if it is 0, how many `value` needs for at most four digits."""
    if step:
        return max(0, -math.floor(math.log10(step) + 1e-9))
    return len(f"{Decimal(f'{value:.4g}').normalize():f}".partition(".")[2])

"""The tables of treatments: against their baseline, comparisons and quantiles, and what to expect next. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lastro.document import Table
from lastro.stats.intervals import Summary
from lastro.stats.notes import N_
from lastro.units import significant
from lastro.words.campaign import percent
from lastro.words.estimates import estimate_text, numeric, p_text, share_text
from lastro.words.language import Language
from lastro.words.numbers import interval_text, ratio_text

if TYPE_CHECKING:
    from lastro.analysis.model import BaselineComparison, Expectation, MetricAnalysis
    from lastro.stats.intervals import Estimate, Interval

METHODS = {"max-t": "max-|t|", "benjamini-hochberg": "Benjamini–Hochberg"}
DECISIONS = {"different": N_("different"), "same": N_("not distinguishable here"), "unknown": N_("not testable")}


def comparisons_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of every treatment against its baseline: raw and corrected p."""
    method = METHODS[metric.correction]
    columns = (say("treatment"), say("ratio to the baseline"), "p", f"p ({method})", say("verdict"))
    return Table(
        f"comparisons-{metric.metric.name}",
        say("Comparisons with the baseline in {metric}", metric=metric.metric.name),
        columns,
        tuple(_comparison_row(comparison, say) for comparison in metric.comparisons),
        numeric(2, 4),
        frozenset({0}),
        note=say("Corrected by {method} over the {n} of this table.", method=method, n=len(metric.comparisons)),
    )


def _comparison_row(comparison: BaselineComparison, say: Language) -> tuple[str, ...]:
    verdict = say(DECISIONS[comparison.decision])
    if comparison.under_floor:
        verdict = say("{verdict}: below the noise floor", verdict=verdict)
    return (
        comparison.treatment.label,
        ratio_text(comparison.ratio, say) if comparison.ratio else say("no ratio"),
        p_text(comparison.p, say),
        p_text(comparison.p_adjusted, say),
        verdict,
    )


def quantiles_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return contrasts of quantiles with the baseline, beside the trials apart; without rows if no trial is."""
    modes = metric.second_mode
    counts = {treatment.index: (n, trials) for treatment, n, trials in modes.counts} if modes else {}
    rows = []
    for one in modes.contrasts if modes else ():
        n, trials = counts[one.treatment.index]
        within = one.within
        median = _times(one.middle, None, say) if within is None else _times(within.value, within.interval, say)
        confidence = share_text(within.interval.confidence, say) if within and within.interval else "—"
        ends = (_times(end, None, say) for end in (one.low, one.high))
        rows.append((one.treatment.label, say("{n} of {all}", n=n, all=trials), median, confidence, *ends))
    columns = (
        say("treatment"), say("trials apart"), say("ratio of medians"), say("confidence"),
        say("ratio of 10 % quantiles"), say("ratio of 90 % quantiles"),
    )  # fmt: skip
    return Table(
        f"quantiles-{metric.metric.name}",
        say("Medians and quantiles against the baseline in {metric}", metric=metric.metric.name),
        columns,
        tuple(rows),
        numeric(1, 6),
        frozenset({0}),
        note=" ".join(_quantiles_notes(metric, say)),
    )


def _quantiles_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    yield say(
        "Where blocks are shared, the ratio of medians is the median of the ratios within blocks. The ratios of "
        "quantiles have no interval: few trials say little so far out."
    )
    contrasts = metric.second_mode.contrasts if metric.second_mode else ()
    absent = dict.fromkeys(
        say.note(one.within.absent_because) for one in contrasts if one.within and one.within.absent_because
    )
    if absent:
        yield say("No interval of the median: {why}.", why="; ".join(absent))


def _times(value: float | None, interval: Interval | None, say: Language) -> str:
    if value is None or interval is None:
        return "—" if value is None else say.number(f"×{significant(value, 3)}")
    return f"×{estimate_text(value, interval, say)}"


def expected_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return what to expect next of each treatment: the value of a trial, and the ratio of another campaign.

    Without rows if nothing can be predicted; without a column of ratios if there is no baseline."""
    predictions = [found for one in metric.expected for found in (one.trial, one.ratio) if found is not None]
    known = [found.interval for found in predictions if found.interval is not None]
    ratios = any(one.ratio is not None for one in metric.expected)
    unit = metric.metric.unit
    trial = say("next trial ({unit})", unit=unit) if unit else say("next trial")
    ratio = (say("ratio to the baseline in the next campaign"),) if ratios else ()
    return Table(
        f"next-{metric.metric.name}",
        say("What to expect next, in {metric}", metric=metric.metric.name),
        (say("treatment"), trial, *ratio),
        tuple(_row(one, ratios, say) for one in metric.expected) if known else (),
        frozenset({1}),
        frozenset({0}),
        note=" ".join(_notes(predictions, known[0].confidence, say)) if known else "",
    )


def _row(one: Expectation, ratios: bool, say: Language) -> tuple[str, ...]:
    trial, ratio = one.trial, one.ratio
    texts = ["—", "—"] if ratios else ["—"]
    if trial.value is not None and trial.interval is not None:
        texts[0] = interval_text(Summary(0, trial.value, None, trial.interval), say)
    if ratio is not None and ratio.interval is not None:
        texts[1] = ratio_text(ratio, say)
    return one.treatment.label, *texts


def _notes(predictions: Sequence[Estimate], confidence: float, say: Language) -> Iterator[str]:
    yield say(
        "Each interval contains one new value with a probability of {confidence}, for itself: that of a trial in a "
        "further block, or the ratio of another campaign of as many blocks. The host must stay as it is; what changes "
        "only between campaigns is not in the intervals.",
        confidence=say.number(percent(confidence)),
    )
    if absent := dict.fromkeys(say.note(one.absent_because) for one in predictions if one.absent_because):
        yield say("No interval: {why}.", why="; ".join(absent))

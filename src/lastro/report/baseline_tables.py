"""The tables of treatments against their baseline: comparisons, medians and ranks, quantiles. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lastro.report.estimates import estimate_text, numeric, p_text, share_text
from lastro.report.language import Language
from lastro.report.numbers import fixed, ratio_text
from lastro.report.tables import Table
from lastro.stats.notes import N_
from lastro.units import significant

if TYPE_CHECKING:
    from lastro.analysis.model import (
        BaselineComparison,
        MetricAnalysis,
        RankComparison,
    )
    from lastro.stats.intervals import Interval

METHODS = {"max-t": "max-|t|", "benjamini-hochberg": "Benjamini–Hochberg"}
DECISIONS = {
    "different": N_("different"),
    "same": N_("not distinguishable here"),
    "unknown": N_("not testable"),
}


def comparisons_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of every treatment against its baseline: raw and corrected p, and the tests beside them."""
    method = METHODS[metric.correction]
    columns = (
        say("treatment"), say("ratio to the baseline"), "p", f"p ({method})", say("p by ranks"),
        say("p by randomisation"), say("these agree"), say("verdict"),
    )  # fmt: skip
    return Table(
        f"comparisons-{metric.metric.name}",
        say("Comparisons with the baseline in {metric}", metric=metric.metric.name),
        columns,
        tuple(_comparison_row(comparison, say) for comparison in metric.comparisons),
        numeric(2, 6),
        frozenset({0}),
        note=say("Corrected by {method} over the {n} of this table.", method=method, n=len(metric.comparisons)),
    )


def _comparison_row(comparison: BaselineComparison, say: Language) -> tuple[str, ...]:
    verdict = say(DECISIONS[comparison.decision])
    if comparison.under_floor:
        verdict = say("{verdict}: below the noise floor", verdict=verdict)
    agrees = {True: say("yes"), False: say("no"), None: "—"}[comparison.agrees]
    return (
        comparison.treatment.label,
        ratio_text(comparison.ratio, say) if comparison.ratio else say("no ratio"),
        p_text(comparison.p, say),
        p_text(comparison.p_adjusted, say),
        p_text(comparison.ranks.p, say) if comparison.ranks else "",
        p_text(comparison.randomisation.p, say) if comparison.randomisation else "",
        agrees,
        verdict,
    )


def ranks_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return the nonparametric results: medians, and Hodges and Lehmann's shift and Cliff's delta to the baseline."""
    unit = metric.metric.unit
    against = {comparison.treatment.index: comparison.ranks for comparison in metric.comparisons}
    shift = say("shift ({unit})", unit=unit) if unit else say("shift")
    columns = (say("treatment"), "n", say("median"), say("confidence"))
    rows = []
    for treatment, median in metric.medians:
        assert median.value is not None, "a median exists wherever there is a value"
        confidence = share_text(median.interval.confidence, say) if median.interval else "—"
        bound = "≥ " if median.at_least else ""
        text = bound + estimate_text(median.value, median.interval, say)
        row = (treatment.label, say.integer(median.n), text, confidence)
        rows.append((*row, *_rank_texts(against.get(treatment.index), say)) if against else row)
    return Table(
        f"ranks-{metric.metric.name}",
        say("Medians and ranks in {metric}", metric=metric.metric.name),
        (*columns, shift, say("Cliff’s delta")) if against else columns,
        tuple(rows),
        numeric(1, 6 if against else 4),
        frozenset({0}),
        note=" ".join(_ranks_notes(metric, say)),
    )


def _rank_texts(ranks: RankComparison | None, say: Language) -> tuple[str, str]:
    if ranks is None:
        return "—", "—"
    delta = fixed(ranks.delta, 2)
    if ranks.delta_interval is not None:
        delta += f" [{fixed(ranks.delta_interval.low, 2)}, {fixed(ranks.delta_interval.high, 2)}]"
    return estimate_text(ranks.shift, ranks.shift_interval, say), say.number(delta)


def _ranks_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    yield say("The interval of a median lies between two of the values, at the confidence beside it.")
    if metric.comparisons:
        yield say(
            "Shift: treatment minus baseline (Hodges–Lehmann). Cliff’s delta: how much more often a value of the "
            "treatment is above one of the baseline than below, from −1 to 1. Each interval is for one comparison."
        )
    absent = dict.fromkeys(say.note(one.absent_because) for _, one in metric.medians if one.absent_because)
    if absent:
        yield say("No interval of the median: {why}.", why="; ".join(absent))


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

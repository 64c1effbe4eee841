"""The table of all treatments against their baseline. Pure."""

from __future__ import annotations

from lastro.analysis.model import BaselineComparison, MetricAnalysis
from lastro.document import Table
from lastro.stats.notes import N_
from lastro.words.estimates import numeric, p_text
from lastro.words.language import Language
from lastro.words.numbers import ratio_text

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

"""The document on the comparison of two campaigns, A and B. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import lastro.words.comparison as words
from lastro.analysis.comparison import ComparedCell, Comparison
from lastro.document import Block, Fold, Items, Table, Title
from lastro.grouping import by_key
from lastro.stats.notes import N_
from lastro.units import significant
from lastro.words.estimates import numeric, p_text
from lastro.words.language import Language
from lastro.words.numbers import margins_text, metric_heading, percent, ratio_text, verdict_counts, verdict_text
from lastro.words.remarks import signs_of

_MOST_NAMED = 4  # treatments that the note on a reason names; it counts all further ones


def compare_blocks(comparison: Comparison, say: Language) -> Iterator[Block]:
    """Yield the verdict, a table of the cells that differ, worst first, a fold with the other cells, and the notes.

    The verdict is the outcome of the gate or, without a gate, how many ratios differ from 1. If --fail-changed-host is
    given and the host changed, that failure comes first."""
    outcome = _tally(comparison, say) if comparison.margins is None else _gate(comparison, say)
    if changed := words.changed_host_text(comparison, say):
        outcome = f"{say('FAIL: {why}', why=changed)}; {outcome}"
    yield Title(comparison.study.title or comparison.study.name, (outcome,))
    yield Items(tuple(f"{side}: {report.directory}" for side, report in comparison.sides))
    tested = [cell for cell in comparison.cells if cell.test is not None]
    differing = [cell for cell in tested if cell.verdict != "same" or cell.regressed]
    if differing:
        yield _table(differing, say)
    if alike := [cell for cell in tested if cell.verdict == "same" and not cell.regressed]:
        yield Fold(say("not distinguishable: {rows}", rows=say.count(len(alike), "row")), (_table(alike, say),))
    notes = [say("differs: {what}", what=line) for line in words.difference_lines(comparison, say)]
    notes += words.comparison_notes(comparison, say)
    notes += words.between_notes(comparison, say) if comparison.n_tests else ()
    yield Items(tuple(dict.fromkeys(notes)), numbered=True)
    yield Items(tuple(_lines_below(comparison, say)))


def _gate(comparison: Comparison, say: Language) -> str:
    """Return the outcome of the gate in one line: 'FAIL: …', 'PASS, undecided: …' or 'PASS, shown: …'."""
    limit = margins_text(comparison.judged_margins, say)
    if regressions := comparison.regressions:
        # No figure: that of the worst regression, selected after the fact, would be too large, its interval too narrow.
        n, metrics = say.count(len(regressions), "regression"), dict.fromkeys(cell.metric.name for cell in regressions)
        text = N_("FAIL: {regressions} of more than {margin} ({metrics})")
        return say(text, regressions=n, margin=limit, metrics=", ".join(metrics))
    if undecided := len(comparison.undecided):
        text = N_("PASS, undecided: no regression of more than {margin} was found; {cells} may hide one")
        return say(text, margin=limit, cells=say.count(undecided, "cell"))
    shown = N_("PASS, shown: no regression of more than {margin} in {cells}")
    judged_metrics = {cell.metric for cell in comparison.cells if cell.judged}
    if judged_metrics & set(comparison.without_spread):
        shown = N_("PASS, shown for these two campaigns only: no regression of more than {margin} in {cells}")
    return say(shown, margin=limit, cells=say.count(comparison.n_judged, "cell"))


def _tally(comparison: Comparison, say: Language) -> str:
    """Return how many of the tested ratios differ from 1, by verdict; for a comparison without a gate."""
    if not comparison.n_tests:
        return say("Nothing could be compared")
    kinds = [cell.verdict for cell in comparison.cells if cell.verdict not in ("", "same")]
    if not kinds:
        return say("No difference is distinguishable in {tests}", tests=say.count(comparison.n_tests, "test"))
    ratios, parts = say.count(comparison.n_tests, "ratio"), verdict_counts(kinds, say)
    return say("{n} of {ratios} differ: {parts}", n=len(kinds), ratios=ratios, parts=parts)


def _table(cells: Sequence[ComparedCell], say: Language) -> Table:
    columns = (say("metric"), say("treatment"), "A", "B", "B / A", "p", "p (Holm)", "")
    rows = []
    for cell in cells:
        means = (_mean(cell.a, cell.marks[0], say), _mean(cell.b, cell.marks[1], say))
        ratio = ratio_text(cell.ratio, say) if cell.ratio is not None else ""
        ps = (p_text(cell.test.p if cell.test else None, say), p_text(cell.p_adjusted, say))
        verdict = f"✕ {say('REGRESSION')}" if cell.regressed else verdict_text(cell.verdict, say)
        rows.append((metric_heading(cell.metric), words.label(cell, say), *means, ratio, *ps, verdict))
    return Table("compare", "", columns, tuple(rows), numeric(2, 7))


def _mean(values: Sequence[float], kinds: Iterable[str], say: Language) -> str:
    return f"{say.number(significant(sum(values) / len(values)))} (n = {len(values)}){signs_of(sorted(kinds))}"


def _lines_below(comparison: Comparison, say: Language) -> Iterator[str]:
    """Yield the methods, the treatments of only one campaign, why cells were not compared, and the gate's result."""
    if comparison.n_tests:
        yield say(
            "B / A with its {confidence} interval (Fieller, unpaired); p for no difference (Welch), raw and corrected "
            "by Holm for {tests}; verdicts by the corrected p.",
            confidence=percent(comparison.confidence, say),
            tests=say.count(comparison.n_tests, "test"),
        )
    else:
        yield say("Nothing could be compared.")
    for side in comparison.one_sided:
        n = say.count(len(side.levels), "treatment")
        yield say(
            "only in {side}: {treatments}: {why}", side=side.only_in, treatments=n, why=words.why_unmatched(side, say)
        )
    yield from _not_compared(comparison, say)
    yield from filter(None, [words.gate_conclusion(comparison, say)])


def _not_compared(comparison: Comparison, say: Language) -> Iterator[str]:
    """Yield one line for each reason why cells were not compared, with the metrics and treatments that it concerns."""
    reasons = ((words.not_compared(cell, say), cell) for cell in comparison.cells)
    names_by_treatment = by_key(((why, words.label(cell, say)), cell.metric.name) for why, cell in reasons if why)
    treatments_by_reason = by_key(
        ((why, ", ".join(names)), treatment) for (why, treatment), names in names_by_treatment.items()
    )
    for (why, metrics), treatments in treatments_by_reason.items():
        shown = treatments[:_MOST_NAMED]
        if more := len(treatments) - len(shown):
            shown.append(say("and {treatments}", treatments=say.count(more, "more treatment")))
        yield say("not compared: {where} ({metrics}): {why}", where="; ".join(shown), metrics=metrics, why=why)

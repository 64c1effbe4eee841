"""The document on whether a variant is worse than the reference. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.variants import VariantAnswer, differing_tools
from lastro.document import Block, Items, Table, Title
from lastro.stats.notes import N_
from lastro.words.estimates import numeric
from lastro.words.language import Language
from lastro.words.numbers import direction_text, mean_text, metric_heading, percent
from lastro.words.variants import headline, missing_text, size_text

_VERDICTS = {"worse": N_("worse"), "no worse": N_("no worse"), "open": N_("undecided")}


def variant_blocks(answer: VariantAnswer, say: Language) -> Iterator[Block]:
    """Yield the answer in one line, a table of the pairs of variant and reference, worst first, and the conditions."""
    yield Title(headline(answer, say))
    (index,) = (view.index for view in answer.report.views if view.metric == answer.metric)
    rows = []
    for pair, change in answer.measured:
        summaries = (row.cells[index].summary for row in (pair.reference, pair.row))
        means = (mean_text(summary, say) if summary else "—" for summary in summaries)
        verdict = "worse" if pair.confirmed else answer.verdict(pair)
        rows.append((pair.label or "—", pair.variant, *means, size_text(change, say), say(_VERDICTS[verdict])))
    unmeasured = (pair for pair in answer.pairs if not pair.change)
    rows += [(pair.label or "—", pair.variant, *["—"] * 3, missing_text(pair, say)) for pair in unmeasured]
    columns = (
        say("treatment"), say("variant"), answer.reference, say("variant's mean"), say("change for the worse"), "",
    )  # fmt: skip
    title = f"{metric_heading(answer.metric)}, {direction_text(answer.metric, say)}"
    yield Table("variants", title, columns, tuple(rows), numeric(2, 5))
    yield Items(tuple(_notes(answer, say)))


def _notes(answer: VariantAnswer, say: Language) -> Iterator[str]:
    """Yield what each variant changes, which tools differ, the design, and the family of the intervals."""
    for variant, changes in answer.report.study.variants.items():
        change_text = ", ".join(f"{name} = {value}" for name, value in changes.items())
        yield f"{variant}: {change_text or say('nothing is changed')}"
    if tools := differing_tools(answer.report):
        shown = "; ".join(
            " → ".join(dict.fromkeys(version or "—" for version in versions)) for versions in tools.values()
        )
        yield say("Tools differ between the root filesystems, and the change includes them: {shown}", shown=shown)
    yield say(
        "{blocks}, each with all variants in random order; a change of at most {margin} counts as none.",
        blocks=say.count(answer.n_blocks, "block"),
        margin=percent(answer.test.margin, say),
    )
    yield say(
        "The intervals hold together for all pairs and {looks}, with {confidence} confidence; a change for the worse "
        "fails only after new blocks alone have confirmed it.",
        looks=say.count(max(1, len(answer.looks)), "look"),
        confidence=percent(answer.report.study.design.confidence, say),
    )

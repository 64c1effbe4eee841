"""Export the comparison of a study's variants: one JSON document, and JUnit XML for CI systems. Pure.

outcome: worse, no worse, undecided, alarm (not repeated yet), or unconfirmed (new blocks did not confirm an alarm).
Changes are fractions of the reference, above zero if the variant is worse; null where an interval is unbounded.

JUnit: a testsuite for the metric, a testcase for each pair. A testcase fails if the variant is worse and, after an
alarm, new blocks have confirmed it. A testcase is skipped if nothing could be compared, or the outcome is undecided."""

from __future__ import annotations

from typing import Any

from lastro.analysis.variants import VariantAnswer
from lastro.builders.data.encoder import encode
from lastro.builders.data.junit import add_case, add_failure, add_output, add_skip, add_suite, new_root, xml_file
from lastro.words.language import ENGLISH
from lastro.words.variants import headline, missing_text, size_text


def document(answer: VariantAnswer) -> dict[str, Any]:
    """Return the answer as JSON-serializable data; this module's docstring explains outcomes and changes."""
    answered = {
        "format": "lastro-ab/1",
        "answer": headline(answer, ENGLISH),
        "outcome": answer.outcome,
        "metric": answer.metric.name,
        "margin": answer.test.margin,
        "reference": answer.reference,
        "variants": answer.report.study.variants,
        "confidence": answer.report.study.design.confidence,
        "blocks": answer.n_blocks,
        "alarm_after_block": answer.alarm,
        "new_blocks": answer.new_blocks,
        "more_blocks": answer.more_blocks if answer.outcome == "undecided" else None,
        "looks": [look.block for look in answer.looks],
        "pairs": [
            {
                "variant": pair.variant,
                "levels": pair.row.treatment.levels,
                "change": pair.change and pair.change.loss.value,
                "low": pair.change and pair.change.low,
                "high": pair.change and pair.change.high,
                "verdict": answer.verdict(pair),
                "confirmed": pair.confirmed,
                "missing": missing_text(pair, ENGLISH) or None,
            }
            for pair in answer.pairs
        ],
    }
    return encode(answered, {})


def junit(answer: VariantAnswer) -> bytes:
    """Return JUnit XML in UTF-8, with the testcases that this module's docstring describes."""
    name = answer.report.study.name
    root = new_root(f"lastro ab {name}")
    metric_suite = add_suite(root, answer.metric.name, [("answer", headline(answer, ENGLISH))])
    for pair in answer.pairs:
        pair_case = add_case(
            metric_suite, " · ".join(filter(None, (pair.variant, pair.label))), f"{name}.{answer.metric.name}"
        )
        if pair.change is None:
            add_skip(pair_case, missing_text(pair, ENGLISH))
        elif pair.confirmed:
            add_failure(pair_case, "regression", f"worse than {answer.reference} by {size_text(pair.change, ENGLISH)}")
        elif (verdict := answer.verdict(pair)) == "no worse":
            add_output(
                pair_case, f"no worse than {answer.reference}; change for the worse: {size_text(pair.change, ENGLISH)}"
            )
        else:
            why = "an alarm that new blocks have not confirmed" if verdict == "worse" else "undecided"
            add_skip(pair_case, f"{why}; change for the worse: {size_text(pair.change, ENGLISH)}")
    return xml_file(root)

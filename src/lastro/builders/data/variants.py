"""The answer on variants, for programs: one JSON document, and JUnit XML for CI systems. Pure.

outcome: worse, no worse, undecided, alarm (not tried again yet), or unconfirmed (new blocks did not confirm an alarm).
Changes are fractions of the reference, above zero if the variant is worse; null where an interval is unbounded.

JUnit: a testsuite for the metric, a testcase for each pair. It fails if the variant is worse, which new blocks have
confirmed if there was an alarm. It is skipped if nothing could be compared, and where that is undecided."""

from __future__ import annotations

from typing import Any

from lastro.analysis.variants import VariantAnswer
from lastro.builders.data.encoder import encode
from lastro.builders.data.junit import case, failed, file_of, skipped, suite, suites, told
from lastro.words.language import ENGLISH
from lastro.words.variants import headline, missing_text, size_text


def document(found: VariantAnswer) -> dict[str, Any]:
    """Return the answer as JSON-serializable data."""
    answer = {
        "format": "lastro-ab/1",
        "answer": headline(found, ENGLISH),
        "outcome": found.outcome,
        "metric": found.metric.name,
        "margin": found.test.margin,
        "reference": found.reference,
        "variants": found.report.study.variants,
        "confidence": found.report.study.design.confidence,
        "blocks": found.n_blocks,
        "alarm_after_block": found.alarm,
        "new_blocks": found.new_blocks,
        "more_blocks": found.more_blocks if found.outcome == "undecided" else None,
        "looks": [each.block for each in found.looks],
        "pairs": [
            {
                "variant": pair.variant,
                "levels": pair.row.treatment.levels,
                "change": pair.change and pair.change.loss,
                "low": pair.change and pair.change.low,
                "high": pair.change and pair.change.high,
                "verdict": found.verdict(pair),
                "confirmed": pair.confirmed,
                "missing": missing_text(pair, ENGLISH) or None,
            }
            for pair in found.pairs
        ],
    }
    return encode(answer, {})


def junit(found: VariantAnswer) -> bytes:
    """Return UTF-8 XML for CI systems."""
    name = found.report.study.name
    root = suites(f"lastro ab {name}")
    of_metric = suite(root, found.metric.name, [("answer", headline(found, ENGLISH))])
    for pair in found.pairs:
        of_pair = case(of_metric, " · ".join(filter(None, (pair.variant, pair.label))), f"{name}.{found.metric.name}")
        if pair.change is None:
            skipped(of_pair, missing_text(pair, ENGLISH))
        elif pair.confirmed:
            failed(of_pair, "regression", f"worse than {found.reference} by {size_text(pair.change, ENGLISH)}")
        elif (verdict := found.verdict(pair)) == "no worse":
            told(of_pair, f"no worse than {found.reference}; change for the worse: {size_text(pair.change, ENGLISH)}")
        else:
            why = "an alarm that new blocks have not confirmed" if verdict == "worse" else "undecided"
            skipped(of_pair, f"{why}; change for the worse: {size_text(pair.change, ENGLISH)}")
    return file_of(root)

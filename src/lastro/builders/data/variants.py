"""The answer on variants as a JSON document. Pure.

outcome: worse, no worse, undecided, alarm (not tried again yet), or unconfirmed (new blocks did not confirm an alarm).
Changes are fractions of the reference, above zero if the variant is worse; null where an interval is unbounded."""

from __future__ import annotations

import math

from lastro.analysis.variants import VariantAnswer
from lastro.plain import json_text
from lastro.words.language import ENGLISH
from lastro.words.variants import headline, missing_text


def document_text(found: VariantAnswer) -> str:
    return json_text(
        {
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
                    "levels": dict(pair.row.treatment.levels),
                    "change": None if change is None else change.loss,
                    "low": None if change is None or not math.isfinite(change.low) else change.low,
                    "high": None if change is None or not math.isfinite(change.high) else change.high,
                    "verdict": found.verdict(pair),
                    "confirmed": pair.confirmed,
                    "missing": missing_text(pair, ENGLISH) or None,
                }
                for pair in found.pairs
                for change in [pair.change]
            ],
        }
    )

"""The table of what to expect next of each treatment. As text; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lastro.document import Table
from lastro.stats.intervals import Summary
from lastro.words.campaign import percent
from lastro.words.language import Language
from lastro.words.numbers import interval_text, ratio_text

if TYPE_CHECKING:
    from lastro.analysis.model import Expectation, MetricAnalysis
    from lastro.stats.intervals import Estimate


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

"""Sentences on what restricts the use of the means of a metric: a second mode, and lost trials."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.model import LostTrials, MetricAnalysis
from lastro.stats.intervals import Interval
from lastro.stats.notes import N_
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.numbers import MINUS, mean_text, percent, ratio_text
from lastro.words.phrases import unit_suffix

MOST = 6  # treatments that are named

_HOLDS = {
    True: N_("The verdict is the same at both ends."),
    False: N_("The verdict is not the same at both ends: it depends on the lost trials."),
}


def mode_sentences(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield sentences on a second mode: trials whose values are far from all others of their treatment and block.

    They say how many trials, how far, and in which treatments. Nothing if the metric has no second mode."""
    modes, name = metric.second_mode, metric.metric.name
    if modes is None:
        return
    size = {"n": say.integer(modes.n), "trials": say.count(modes.trials, "trial"), "metric": name}
    size["share"] = percent(modes.n / modes.trials, say, decimals=1)
    size["sds"] = say.number(f"{modes.sds:.1f}")
    distance = significant(modes.distance, 2).replace("-", MINUS)
    if modes.relative:
        yield say(
            "A second mode: in {n} of {trials} ({share}), {metric} is about {ratio} times that of the others of "
            "the same treatment and block, {sds} standard deviations of the noise away.",
            ratio=say.number(distance),
            **size,
        )
    else:
        yield say(
            "A second mode: in {n} of {trials} ({share}), {metric} differs by about {difference} from the others of "
            "the same treatment and block, {sds} standard deviations of the noise.",
            difference=say.number(distance) + unit_suffix(metric.metric.unit, say),
            **size,
        )
    affected = [(treatment, n, trials) for treatment, n, trials in modes.counts if n]
    named = [
        say("{treatment} {n} of {all}", treatment=treatment.label, n=n, all=trials)
        for treatment, n, trials in affected[:MOST]
    ]
    yield say(
        "These trials are: {treatments}. A mean describes neither group, and in simulations 95 % intervals of such "
        "means hold the truth in 62 to 95 %: look at the points.",
        treatments="; ".join((*named, *_more(len(affected), say))),
    )


def lost_sentences(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield a sentence with bounds for each treatment that lost many trials; after six, only count the treatments."""
    if not metric.lost:
        return
    for lost in metric.lost[:MOST]:
        yield " ".join(_lost(lost, say))
    yield from (f"{more[:1].upper()}{more[1:]}." for more in _more(len(metric.lost), say))
    yield say("Bounds hold if no lost trial was outside of the range of the valid trials of its treatment.")


def _more(n: int, say: Language) -> tuple[str, ...]:
    return (say("further treatments: {n}", n=say.integer(n - MOST)),) if n > MOST else ()


def _lost(lost: LostTrials, say: Language) -> Iterator[str]:
    """Yield how many trials a treatment lost, and bounds of its ratio or mean with the lost trials included."""
    words = {"treatment": lost.treatment.label, "n": say.integer(lost.lost), "trials": say.count(lost.trials, "trial")}
    words["and_baseline"] = (
        say(", and {n} of its baseline", n=say.integer(lost.baseline_lost)) if lost.baseline_lost else ""
    )
    if lost.bounds is not None and lost.ratio is not None:
        yield say(
            "{treatment}: {n} of {trials} lost{and_baseline}; the valid ones have a ratio of {ratio}, and with the "
            "lost ones it is between ×{low} and ×{high}.",
            ratio=ratio_text(lost.ratio, say),
            **_ends(lost.bounds, say),
            **words,
        )
        if lost.holds is not None:
            yield say(_HOLDS[lost.holds])
    elif lost.mean is not None and lost.summary is not None:
        yield say(
            "{treatment}: {n} of {trials} lost{and_baseline}; the valid ones have a mean of {mean}, and with the "
            "lost ones it is between {low} and {high}.",
            mean=mean_text(lost.summary, say),
            **_ends(lost.mean, say),
            **words,
        )
    else:
        yield say("{treatment}: {n} of {trials} lost{and_baseline}; too few are valid for bounds.", **words)


def _ends(bounds: Interval, say: Language) -> dict[str, str]:
    ends = {"low": bounds.low, "high": bounds.high}
    return {name: say.number(significant(end, 3).replace("-", MINUS)) for name, end in ends.items()}

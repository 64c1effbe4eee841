"""The document on a planned gate, and the same as JSON-serializable data. Pure.

format       "lastro-gate-plan/1"
pilot, margin, margins {metric: margin}, confidence, tests, metrics (names), n_treatments; margin is null if metrics
             have different ones
noise        [{metric, treatment, spread, df, assumed, between}], the noisiest last; spread is the standard deviation
             between blocks, as a fraction of the mean. assumed: the pilot lacks the treatment. between {variance, df}:
             the variance of logarithms between campaigns; null where the pilot has stored none
powers       [{blocks, median, noisiest, shown, duration_s}]; median and noisiest: the least loss found with a power of
             80 % in the median and in the noisiest cell, null if any loss may be missed; shown: the probability of the
             outcome "shown" if nothing changed; duration_s: the time of both campaigns
blocks_to_find                    {metric: the least number that finds a loss of twice the margin in any one cell}
blocks_to_show                    the least number that probably shows that nothing regressed; null above 1,000
unknown      metrics without a known noise
other_settings                    names of the settings in which the pilot differs from the study
guest        the guest in which the pilot ran {title, emulated, partly}, as in `lastro results --json`, or null"""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from lastro.analysis.gate_plan import GatePlan
from lastro.builders.data.encoder import Forms, encode, in_common, pick
from lastro.document import Block, Paragraph, Table
from lastro.results.samples import Metric
from lastro.stats.margins import POWER
from lastro.units import human_duration
from lastro.words.campaign import place_of
from lastro.words.language import Language
from lastro.words.numbers import margins_text, percent

_FORMS: Forms = {Metric: attrgetter("name")}


def gate_plan_blocks(plan: GatePlan, say: Language) -> Iterator[Block]:
    """Yield the document: which losses the gate finds by number of blocks, how many blocks it needs, and the noise."""
    margin, power = margins_text(plan.judged_margins, say), percent(POWER, say)
    yield Paragraph(
        say(
            "Gate: over {margin}, {treatments} and {metrics}: {tests}. What two campaigns of this many blocks find and "
            "show:",
            margin=margin,
            treatments=say.count(plan.n_treatments, "treatment"),
            metrics=say.count(len(plan.metrics), "metric"),
            tests=say.count(plan.tests, "test"),
        )
    )
    columns = (say("blocks"), say("median cell"), say("noisiest cell"), say("shown"), say("time of both"))
    rows = []
    for each in plan.powers:
        losses = (
            say("any may be missed") if math.isinf(loss) else percent(loss, say, digits=2)
            for loss in (each.median, each.noisiest)
        )
        rows.append((str(each.blocks), *losses, _chance(each.shown, say), human_duration(each.duration_s)))
    yield Table("gate", "", columns, tuple(rows))
    yield Paragraph(
        say(
            "median cell, noisiest cell: the least loss that is found with {power} power; the noisiest is {metric} of "
            "{treatment}. shown: the chance that every interval excludes a loss of more than {margin}, if nothing "
            "changed and cells were independent.",
            power=power,
            metric=plan.noisiest.metric.name,
            treatment=plan.noisiest.treatment,
            margin=margin,
        )
    )
    yield Paragraph(" ".join(_needed(plan, say)))
    yield Paragraph(" ".join(_noise(plan, say)))


def _needed(plan: GatePlan, say: Language) -> Iterator[str]:
    needed = {metric: _blocks(plan, n, say) for metric, n in plan.blocks_to_find.items()}
    texts = [f"{metric}, {blocks}" for metric, blocks in needed.items()] if len(needed) > 1 else list(needed.values())
    yield say(
        "To find a loss of {loss} (twice the margin) in any one cell with {power} power: {blocks}.",
        loss=margins_text({name: 2 * margin for name, margin in plan.judged_margins.items()}, say),
        power=percent(POWER, say),
        blocks="; ".join(texts),
    )
    yield say(
        "To show, with a chance of {power}, that nothing lost more than {margin} if nothing changed: {blocks}.",
        power=percent(POWER, say),
        margin=margins_text(plan.judged_margins, say),
        blocks=_blocks(plan, plan.blocks_to_show, say),
    )


def _blocks(plan: GatePlan, blocks: int | None, say: Language) -> str:
    if blocks is None:
        return say("more than 1,000 blocks")
    return say("{n} blocks ({time} for both campaigns)", n=blocks, time=human_duration(plan.duration_s(blocks)))


def _noise(plan: GatePlan, say: Language) -> Iterator[str]:
    """Yield in which campaign the noise was measured, and what it does not include."""
    yield say("The noise is that of {pilot}; how uncertainly it is known is included.", pilot=plan.pilot)
    if any(cell.between for cell in plan.cells):
        yield say("It contains the spread between campaigns that is stored there: more blocks do not reduce that part.")
    else:
        yield say(
            "The spread between campaigns is not known, and not included: `lastro noise-floor --campaigns 5` measures "
            "it."
        )
    if assumed := len({cell.treatment for cell in plan.cells if cell.assumed}):
        yield say(
            "It lacks {treatments}, taken to be as noisy as its noisiest.", treatments=say.count(assumed, "treatment")
        )
    if plan.unknown:
        yield say("It shows no noise of {metrics}.", metrics=", ".join(plan.unknown))
    if plan.other_settings:
        yield say(
            "It ran with other settings ({names}), so its noise may differ.", names=", ".join(plan.other_settings)
        )
    if where := place_of([plan.guest], say):
        yield say(
            "It was measured {where}, so the noise of a gate on a host, or in another guest, may differ.", where=where
        )
    yield say("What changes between two days is not included; see docs/howto-gate-in-ci.md.")


def _chance(probability: float, say: Language) -> str:
    if probability < 0.01:
        return say("under {share}", share=percent(0.01, say))
    if probability > 0.99:
        return say("over {share}", share=percent(0.99, say))
    return percent(probability, say, decimals=0)


def gate_plan_document(plan: GatePlan) -> dict[str, Any]:
    """Return the plan as JSON-serializable data, with the keys of this module's docstring."""
    planned = {
        "format": "lastro-gate-plan/1",
        **pick(plan, "pilot confidence tests metrics n_treatments"),
        "margin": in_common(plan.judged_margins.values()),
        "margins": plan.judged_margins,
        "noise": plan.cells,
        **pick(plan, "powers blocks_to_find blocks_to_show unknown other_settings guest"),
    }
    return encode(planned, _FORMS)

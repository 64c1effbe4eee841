"""A planned gate as plain text, and as JSON-serializable data.

format       "lastro-gate-plan/1"
pilot, margin, confidence, tests, metrics (names), n_treatments
noise        [{metric, treatment, spread, df, assumed, between}], the noisiest last; spread is the standard deviation
             between blocks, as a fraction of the mean. assumed: the pilot lacks the treatment. between {variance, df}
             is that between campaigns, of logarithms; null where the pilot has stored none
powers       [{blocks, median, noisiest, shown, duration_s}]; the least loss found with a power of 80 % in the
             median and in the noisiest cell, null if any loss may be missed; the probability of "shown" if nothing
             changed; the time of both campaigns
blocks_to_find                    {metric: the least number that finds a loss of twice the margin in any one cell}
blocks_to_show                    the least number that probably shows that nothing regressed; null above 1,000
unknown      metrics without a known noise
other_settings                    those in which the pilot differs from the study
guest        that of the pilot {title, emulated, partly}, as in `lastro results --json`; null for a real host"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from lastro.analysis.gate_plan import GatePlan, GatePower
from lastro.plain import aligned, plain
from lastro.report.encoder import Forms, encode, only
from lastro.report.language import ENGLISH
from lastro.report.numbers import count, percent
from lastro.report.words import place_of
from lastro.results.samples import Metric
from lastro.stats.gate_power import POWER
from lastro.units import human_duration

_FORMS: Forms = {Metric: attrgetter("name")}


def gate_plan_lines(plan: GatePlan) -> list[str]:
    heads = ("blocks", "median cell", "noisiest cell", "shown", "time of both")
    likely = f"with {percent(POWER)} power"
    first = (
        f"Gate: over {_margin(plan.margin)}, {count(plan.n_treatments, 'treatment')} and "
        f"{count(len(plan.metrics), 'metric')}: {count(plan.tests, 'test')}. What two campaigns of this many blocks "
        f"find and show:"
    )
    below = (
        f"median cell, noisiest cell: the least loss that is found {likely}; the noisiest is "
        f"{plan.noisiest.metric.name} of {plan.noisiest.treatment}. shown: the chance that every interval excludes "
        f"a loss of more than {_margin(plan.margin)}, if nothing changed and cells were independent."
    )
    table = aligned([heads, *map(_row, plan.powers)])
    parts = [
        _wrapped(first),
        table,
        _wrapped(below),
        _wrapped(" ".join(_needed(plan))),
        _wrapped(" ".join(_noise(plan))),
    ]
    return [plain(line) for part in parts for line in ["", *part]]


def _row(power: GatePower) -> tuple[str, ...]:
    losses = ("any may be missed" if math.isinf(loss) else percent(loss) for loss in (power.median, power.noisiest))
    return (str(power.blocks), *losses, _chance(power.shown), human_duration(power.duration_s))


def _needed(plan: GatePlan) -> Iterator[str]:
    """Yield the blocks that find twice the margin, and those that show that nothing regressed."""
    needed = plan.blocks_to_find
    several = len(needed) > 1
    each = [f"{name}, {_blocks(plan, blocks)}" if several else _blocks(plan, blocks) for name, blocks in needed.items()]
    yield (
        f"To find a loss of {_margin(2 * plan.margin)} (twice the margin) in any one cell with {percent(POWER)} "
        f"power: {'; '.join(each)}."
    )
    yield (
        f"To show, with a chance of {percent(POWER)}, that nothing lost more than {_margin(plan.margin)} if nothing "
        f"changed: {_blocks(plan, plan.blocks_to_show)}."
    )


def _blocks(plan: GatePlan, blocks: int | None) -> str:
    if blocks is None:
        return "more than 1,000 blocks"
    return f"{blocks} blocks ({human_duration(plan.duration_s(blocks))} for both campaigns)"


def _noise(plan: GatePlan) -> Iterator[str]:
    """Yield where the noise comes from, and what it leaves out."""
    yield f"The noise is that of {plan.pilot}; how uncertainly it is known is included."
    if any(cell.between for cell in plan.cells):
        yield "It contains the spread between campaigns that is stored there: more blocks do not reduce that part."
    else:
        yield (
            "The spread between campaigns is not known, and not included: `lastro noise-floor --campaigns 5` measures "
            "it."
        )
    if assumed := len({cell.treatment for cell in plan.cells if cell.assumed}):
        yield f"It lacks {count(assumed, 'treatment')}, taken to be as noisy as its noisiest."
    if plan.unknown:
        yield f"It shows no noise of {', '.join(plan.unknown)}."
    if plan.other_settings:
        yield f"It ran with other settings ({', '.join(plan.other_settings)}), so its noise may differ."
    if where := place_of([plan.guest], ENGLISH):
        yield f"It was measured {where}, so the noise of a gate on a host, or in another guest, may differ."
    yield "What changes between two days is not included; see docs/howto-gate-in-ci.md."


def _chance(probability: float) -> str:
    if probability < 0.01:
        return "under 1 %"
    return "over 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"


def _margin(share: float) -> str:
    return f"{100 * share:g} %"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100)


def gate_plan_document(plan: GatePlan) -> dict[str, Any]:
    """Return the plan as JSON-serializable data, with the keys of this module's docstring."""
    found = {
        "format": "lastro-gate-plan/1",
        **only(plan, "pilot margin confidence tests metrics n_treatments"),
        "noise": plan.cells,
        **only(plan, "powers blocks_to_find blocks_to_show unknown other_settings guest"),
    }
    return encode(found, _FORMS)

"""Noise floors as plain text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from lastro.analysis.between import BetweenCampaigns
from lastro.analysis.noise_floor import MetricFloor, NoiseFloors
from lastro.plain import aligned, plain
from lastro.report.language import ENGLISH
from lastro.report.numbers import ratio_text
from lastro.report.words import of_guest, place_of
from lastro.stats.noise_floor import Rate
from lastro.units import human_duration, significant


def noise_floor_text(floors: NoiseFloors) -> str:
    """Return the table of noise floors, below the guest that has them, if any, and above an explanation."""
    heads = ("metric", "noise floor", "A/A ratio", "excludes 1", "noisiest baseline")
    stated = f"{100 * (1 - floors.confidence):.4g} %"
    table = aligned([heads, *(_row(each) for each in floors.metrics)])
    place = place_of([floors.guest], ENGLISH)
    where = f", {place}," if place else " on this host"
    above = _wrapped(map(plain, of_guest(floors.guest, ENGLISH)))
    below = [
        f"Noise floor: with {floors.blocks} blocks, the baseline differs from itself{where} by more than that in "
        f"{stated} of campaigns. Excludes 1: how often an interval shows a difference that is "
        f"not there, in pseudo-experiments on the pairs; the stated rate is {stated}.",
        "The two trials of a pair were as far apart as in a block of the study: "
        f"{floors.apart} block{'' if floors.apart == 1 else 's'} of the A/A campaign.",
        f"Of {floors.observed.n} comparisons within the A/A campaign itself, {_rate(floors.observed)} "
        "excluded 1 (metrics of one trial depend on each other).",
        *(
            f"{each.metric.name}: no floor: {each.found.absent_because}"
            for each in floors.metrics
            if each.found.absent_because
        ),
    ]
    if short := [each for each in floors.metrics if each.found.pairs < floors.blocks]:
        least = min(each.found.pairs for each in short)
        below.append(
            f"Only {least} of {floors.pairs} pairs were complete for some metrics: their floors are uncertain."
        )
    if floors.between is not None:
        below.append(_between(floors.between))
    return "\n".join([*above, *([""] if above else []), *table, "", *_wrapped(below)])


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, 100)]


def _between(found: BetweenCampaigns) -> str:
    spreads = ", ".join(f"{name} {_share(each.spread)}" for name, each in found.spreads.items())
    return (
        f"Between {found.campaigns} A/A campaigns, begun within {human_duration(found.span_s)}, means differ with a "
        f"standard deviation of: {spreads or 'not known, since means may be zero'}. `lastro compare` takes it into "
        "account."
    )


def _row(each: MetricFloor) -> tuple[str, ...]:
    found = each.found
    return (
        each.metric.name,
        _share(found.floor),
        ratio_text(found.ratio) if found.ratio else "—",
        "—" if found.resampled.share is None else _share(found.resampled.share),
        each.treatment,
    )


def _share(value: float | None) -> str:
    return "—" if value is None else f"{significant(100 * value, 3)} %"


def _rate(found: Rate) -> str:
    if found.interval is None:
        return str(found.count)
    return f"{found.count} ({found.interval.low:.0%} to {found.interval.high:.0%})"

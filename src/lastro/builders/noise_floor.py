"""The document on the noise floors that an A/A campaign measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.noise_floor import BetweenCampaigns, MetricFloor, NoiseFloors
from lastro.document import Block, Items, Table
from lastro.stats.intervals import alpha_of
from lastro.stats.notes import N_
from lastro.units import human_duration
from lastro.words.campaign import guest_sentences, place_of
from lastro.words.language import Language
from lastro.words.numbers import percent, ratio_text

KEPT_WITH, KEPT_IN = N_("kept with {place}, for its report"), N_("kept in {place}")


def noise_floor_blocks(floors: NoiseFloors, say: Language) -> Iterator[Block]:
    """Yield a sentence on the guest, if the noise floors were measured in one, their table, and an explanation."""
    yield Items(tuple(guest_sentences(floors.guest, say)))
    columns = (say("metric"), say("noise floor"), say("A/A ratio"), say("noisiest baseline"))
    yield Table("noise-floor", "", columns, tuple(_row(metric_floor, say) for metric_floor in floors.metrics))
    yield Items(tuple(_explanation(floors, say)))


def _row(metric_floor: MetricFloor, say: Language) -> tuple[str, ...]:
    floor = metric_floor.floor
    return (
        metric_floor.metric.name,
        "—" if floor.floor is None else percent(floor.floor, say, digits=3),
        ratio_text(floor.ratio, say) if floor.ratio else "—",
        metric_floor.treatment,
    )


def _explanation(floors: NoiseFloors, say: Language) -> Iterator[str]:
    """Yield what a noise floor is, how it was measured, and why some metrics have none."""
    place = place_of([floors.guest], say)
    yield say(
        "Noise floor: with {blocks} blocks, the baseline differs from itself{where} by more than that in {rate} of "
        "campaigns.",
        blocks=floors.blocks,
        where=f", {place}," if place else f" {say('on this host')}",
        rate=percent(alpha_of(floors.confidence), say),
    )
    yield say(
        "The two trials of a pair were as far apart as in a block of the study: {blocks} of the A/A campaign.",
        blocks=say.count(floors.distance, "block"),
    )
    for metric_floor in floors.metrics:
        if metric_floor.floor.absent_because:
            yield say(
                "{metric}: no floor: {why}",
                metric=metric_floor.metric.name,
                why=say.note(metric_floor.floor.absent_because),
            )
    least = min((metric_floor.floor.pairs for metric_floor in floors.metrics), default=floors.blocks)
    if least < floors.blocks:
        yield say(
            "Only {n} of {pairs} pairs were complete for some metrics: their floors are uncertain.",
            n=least,
            pairs=floors.pairs,
        )
    if floors.between is not None:
        yield _between(floors.between, say)


def _between(between: BetweenCampaigns, say: Language) -> str:
    spreads = ", ".join(f"{name} {percent(spread.spread, say, digits=3)}" for name, spread in between.spreads.items())
    return say(
        "Between {n} A/A campaigns, begun within {span}, means differ with a standard deviation of: {spreads}. "
        "`lastro compare` takes it into account.",
        n=between.campaigns,
        span=human_duration(between.span_s),
        spreads=spreads or say("not known, since means may be zero"),
    )

"""The document on the noise floors that an A/A campaign measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.noise_floor import NoiseFloors
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
    rows = []
    for metric_floor in floors.metrics:
        floor = metric_floor.floor
        share = "—" if floor.floor is None else percent(floor.floor, say, digits=3)
        ratio = ratio_text(floor.ratio, say) if floor.ratio else "—"
        rows.append((metric_floor.metric.name, share, ratio, metric_floor.treatment))
    yield Table("noise-floor", "", columns, tuple(rows))
    yield Items(tuple(_explanation(floors, say)))


def _explanation(floors: NoiseFloors, say: Language) -> Iterator[str]:
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
        if why := metric_floor.floor.absent_because:
            yield say("{metric}: no floor: {why}", metric=metric_floor.metric.name, why=say.note(why))
    least = min((metric_floor.floor.pairs for metric_floor in floors.metrics), default=floors.blocks)
    if least < floors.blocks:
        text = N_("Only {n} of {pairs} pairs were complete for some metrics: their floors are uncertain.")
        yield say(text, n=least, pairs=floors.pairs)
    if between := floors.between:
        spreads = [f"{name} {percent(spread.spread, say, digits=3)}" for name, spread in between.spreads.items()]
        yield say(
            "Between {n} A/A campaigns, begun within {span}, means differ with a standard deviation of: {spreads}. "
            "`lastro compare` takes it into account.",
            n=between.campaigns,
            span=human_duration(between.span_s),
            spreads=", ".join(spreads) or say("not known, since means may be zero"),
        )

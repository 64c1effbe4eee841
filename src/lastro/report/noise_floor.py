"""Noise floors: made of an A/A campaign, kept with the campaign that they judge, read back for a report. Pure.

As a campaign keeps them:

    format       1
    directory    of the A/A campaign; at_utc, when it was judged
    blocks       of the study that is judged; pairs, how many the A/A campaign planned; confidence
    metrics      {name: {floor, typical, treatment, absent_because, n_pairs, ratio, interval, observed, resampled}}
                 of the baseline treatment with the highest floor; floor and typical are shares (0.03: 3 %)
                 observed, resampled: false positives {count, n, interval}
    observed     the same over all metrics and treatments; metrics of one trial depend on each other"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lastro.report.language import N_
from lastro.report.model import Report
from lastro.results.samples import Metric
from lastro.stats.intervals import Interval
from lastro.stats.noise_floor import NoiseFloor, Rate, noise_floor, pairs_of, rate, rescaled
from lastro.stats.notes import Note

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Floor:
    """What a report needs of one metric: differences smaller than `share` (0.03: 3 %) are not distinguishable here.

    It is of one treatment against one; `stats.noise_floor.hides` judges by it. `blocks` is the number of blocks for
    which it holds, `treatment` the baseline that is noisiest; `note` says what was made of the floor that was found."""

    share: float
    blocks: int
    treatment: str
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class MetricFloor:
    metric: Metric
    treatment: str
    found: NoiseFloor


@dataclass(frozen=True, slots=True)
class NoiseFloors:
    """`metrics` has the noisiest treatment of each. `observed` counts false positives over all of both."""

    directory: str
    blocks: int
    pairs: int
    confidence: float
    metrics: tuple[MetricFloor, ...]
    observed: Rate


def noise_floors(report: Report, blocks: int) -> NoiseFloors:
    """The noise floors of an A/A campaign for a study of so many blocks (2 or more)."""
    design = report.study.design
    found: list[MetricFloor] = []
    for index, metric in enumerate(report.metrics):
        for row in report.rows:
            # Where a search was ended by the study, that the values are alike says nothing of the noise.
            exact = () if row.cells[index].bounded else row.cells[index].points
            pairs = pairs_of({point.block: point.value for point in exact})
            # By treatment and not by metric: metrics of one trial share the coin, as they share the trial.
            seed = f"{design.seed}:{row.treatment.label}"
            floor = noise_floor(pairs, blocks, design.confidence, seed)
            found.append(MetricFloor(metric, row.treatment.label, floor))
    return NoiseFloors(
        directory=report.directory,
        blocks=blocks,
        pairs=design.replicates // 2,
        confidence=design.confidence,
        metrics=tuple(_noisiest([each for each in found if each.metric == metric]) for metric in report.metrics),
        observed=_pooled([each.found.observed for each in found], design.confidence),
    )


def _noisiest(floors: Sequence[MetricFloor]) -> MetricFloor:
    return max(floors, key=lambda each: -1.0 if each.found.floor is None else each.found.floor)


def _pooled(rates: Iterable[Rate], confidence: float) -> Rate:
    rates = list(rates)
    return rate(sum(each.count for each in rates), sum(each.n for each in rates), confidence)


def kept_floors(kept: Any) -> dict[str, Floor]:
    """By metric, what `lastro noise-floor` left in a campaign; empty when it left nothing.

    A metric whose floor is not known is not in it."""
    return {
        name: Floor(metric["floor"], kept["blocks"], metric.get("treatment", ""))
        for name, metric in (kept["metrics"] if kept else {}).items()
        if metric.get("floor") is not None
    }


def floor_here(report: Report, index: int) -> Floor | None:
    """The noise floor of the report's metric number `index`, for as many blocks as the campaign has valid values in.

    A campaign that is unfinished, lost trials or went on has another number than the floor was made for; the floor is
    then scaled and its note says so. None where no floor is known, or for a number of blocks that has no interval."""
    floor = kept_floors(report.noise_floor).get(report.metrics[index].name)
    blocks = len({point.block for row in report.rows for point in row.cells[index].points})
    if floor is None or min(floor.blocks, blocks) < 2:
        return None
    if floor.blocks == blocks:
        return floor
    share = rescaled(floor.share, floor.blocks, blocks, report.study.design.confidence)
    return replace(floor, share=share, blocks=blocks, note=Note(_SCALED, found=floor.blocks, here=blocks))


_SCALED = N_("the noise floor was found for {found} blocks and scaled to the {here} that this campaign has")


def to_dict(floors: NoiseFloors, at_utc: str) -> dict[str, Any]:
    """Plain JSON-able data, as this module's docstring says."""
    return {
        "format": FORMAT,
        "directory": floors.directory,
        "at_utc": at_utc,
        "blocks": floors.blocks,
        "pairs": floors.pairs,
        "confidence": floors.confidence,
        "metrics": {each.metric.name: _metric(each) for each in floors.metrics},
        "observed": _rate(floors.observed),
    }


def _metric(each: MetricFloor) -> dict[str, Any]:
    ratio = each.found.ratio
    return {
        "floor": each.found.floor,
        "typical": each.found.typical,
        "treatment": each.treatment,
        "absent_because": each.found.absent_because,
        "n_pairs": each.found.pairs,
        "ratio": ratio.value if ratio else None,
        "interval": _interval(ratio.interval if ratio else None),
        "observed": _rate(each.found.observed),
        "resampled": _rate(each.found.resampled),
    }


def _rate(found: Rate) -> dict[str, Any]:
    return {"count": found.count, "n": found.n, "interval": _interval(found.interval)}


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {"low": interval.low, "high": interval.high}

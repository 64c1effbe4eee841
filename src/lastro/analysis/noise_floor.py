"""Compute noise floors and the spread between campaigns from A/A campaigns, and read those that a campaign has stored.

The spread is between campaigns in which nothing changed. A campaign stores its noise floors in this format:

    format       `stats.noise_floor.FORMAT`; others are not read
    directory    of the A/A campaign; at_utc, when its floors were computed
    blocks       of the study that is judged; confidence
    pairs        the number that the A/A campaign planned; apart, the blocks from one trial of a pair to the other
    metrics      {name: {floor, treatment, absent_because, n_pairs, ratio, interval}}
                 of the baseline treatment with the highest floor, a fraction (0.03: 3 %)
    between      the spread between several A/A campaigns; null for one: {campaigns: their number, first_utc, last_utc:
                 when the first and the last of them began, spreads: {metric: the standard deviation of the campaigns'
                 means, as a fraction}}
    guest        the virtual machine that was the host {title, emulated, partly}, as in `lastro results --json`; null
                 for a real host

Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lastro.analysis.campaign import CAMPAIGNS_IN, CampaignResults, MeasuredIn, MetricView, by_block
from lastro.analysis.trends import parse_utc
from lastro.results.samples import Metric
from lastro.stats.noise_floor import FORMAT, NoiseFloor, blocks_apart, floor_for_blocks, noise_floor, pairs_of
from lastro.stats.notes import N_, Note
from lastro.stats.sampled_mean import CampaignSpread, spread_between
from lastro.study.design import treatments
from lastro.study.model import Study


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor of one metric: equal treatments rarely differ by more than `share` here (0.03: 3 %).

    It applies to a comparison of two treatments, each measured in `blocks` blocks. `note` says that the measured floor
    was scaled to this number of blocks; None if it was not."""

    share: float
    blocks: int
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class MetricFloor:
    """The noise floor of one metric of one treatment, given by its label."""

    metric: Metric
    treatment: str
    floor: NoiseFloor


@dataclass(frozen=True, slots=True)
class BetweenCampaigns:
    """The spread between equal campaigns of this host, by metric; metrics without means above zero are absent.

    `campaigns` is the number of campaigns. The first began at `first_utc`, the last at `last_utc`, if known."""

    campaigns: int
    first_utc: str | None
    last_utc: str | None
    spreads: Mapping[str, CampaignSpread]

    @property
    def span_s(self) -> float:
        """The seconds from the start of the first campaign to the start of the last; 0 if that is not known."""
        return seconds_between(self.first_utc, self.last_utc) or 0.0


@dataclass(frozen=True, slots=True)
class NoiseFloors:
    """The noise floors that an A/A campaign shows for a study of `blocks` blocks."""

    directory: str
    blocks: int
    pairs: int  # planned number of pairs of trials
    distance: int  # in blocks, between the two trials of a pair
    confidence: float
    metrics: tuple[MetricFloor, ...]  # for each metric, the floor of the noisiest treatment
    between: BetweenCampaigns | None = None  # spread between several A/A campaigns; None for a single campaign
    guest: MeasuredIn | None = None  # the virtual machine in which they ran; None for real hosts


def noise_floors(reports: Sequence[CampaignResults], study: Study) -> NoiseFloors:
    """Compute noise floors for a study of two blocks or more, from A/A campaigns.

    The floors come from the first campaign, and the spread between campaigns from all of them."""
    report = reports[0]
    design, blocks = report.study.design, study.design.replicates
    distance = blocks_apart(len(treatments(study)), max(1, sum(row.status != "unavailable" for row in report.rows)))
    floors: list[MetricFloor] = []
    for view in report.views:
        for row, cell in view:
            # If the study ended the searches, equal values do not show low noise.
            pairs = pairs_of(by_block(() if cell.bounded else cell.points), design.replicates, distance)
            # Seed by treatment, not by metric, so that all metrics of a trial get the same coin.
            seed = f"{design.seed}:{row.treatment.label}"
            floor = noise_floor(pairs, blocks, design.confidence, seed)
            if floor.ratio and view.metric.non_negative:
                floor = replace(floor, ratio=floor.ratio.above_zero())
            floors.append(MetricFloor(view.metric, row.treatment.label, floor))
    floors.sort(key=lambda found: -1.0 if found.floor.floor is None else found.floor.floor, reverse=True)
    noisiest = tuple(next(floor for floor in floors if floor.metric == metric) for metric in report.metrics)
    return NoiseFloors(
        directory=report.directory,
        blocks=blocks,
        pairs=design.replicates // 2,
        distance=distance,
        confidence=design.confidence,
        metrics=noisiest,
        between=between_campaigns(reports),
        guest=MeasuredIn.among([report.guest for report in reports], CAMPAIGNS_IN),
    )


def stored_floors(kept: Any) -> dict[str, Floor]:
    """Return {metric: the floor that `lastro noise-floor` stored in a campaign}; empty if it stored none.

    `kept` is the stored document (`CampaignResults.noise_floor`). Unknown and negative floors are left out."""
    if not kept or kept["blocks"] < 1:
        return {}
    floors = {name: metric.get("floor") for name, metric in kept["metrics"].items()}
    return {name: Floor(floor, kept["blocks"]) for name, floor in floors.items() if floor is not None and floor >= 0}


def applicable_floor(view: MetricView) -> Floor | None:
    """Return the noise floor of a metric, for the number of blocks with valid values.

    If the campaign is unfinished, lost trials or was extended, this number of blocks differs from the number for which
    the floor was computed. The floor is then scaled, and its note says so. None if no floor is known, or with fewer
    than two blocks."""
    floor = stored_floors(view.report.noise_floor).get(view.metric.name)
    blocks = view.n_blocks
    if floor is None or blocks < 2:
        return None
    if floor.blocks == blocks:
        return floor
    share = floor_for_blocks(floor.share, floor.blocks, blocks)
    return replace(floor, share=share, blocks=blocks, note=Note(_SCALED, found=floor.blocks, here=blocks))


_SCALED = N_("the noise floor was measured for {found} blocks and scaled to the {here} of this campaign")


def to_dict(floors: NoiseFloors, at_utc: str) -> dict[str, Any]:
    """Return the floors as JSON-serializable data, with the keys of this module's docstring."""
    return {
        "format": FORMAT,
        "directory": floors.directory,
        "at_utc": at_utc,
        "blocks": floors.blocks,
        "pairs": floors.pairs,
        "apart": floors.distance,
        "confidence": floors.confidence,
        "metrics": {metric_floor.metric.name: _metric(metric_floor) for metric_floor in floors.metrics},
        "between": between_dict(floors.between),
        "guest": floors.guest and floors.guest.to_dict(),
    }


def _metric(metric_floor: MetricFloor) -> dict[str, Any]:
    ratio = metric_floor.floor.ratio
    interval = ratio.interval if ratio else None
    return {
        "floor": metric_floor.floor.floor,
        "treatment": metric_floor.treatment,
        "absent_because": metric_floor.floor.absent_because,
        "n_pairs": metric_floor.floor.pairs,
        "ratio": ratio.value if ratio else None,
        "interval": {"low": interval.low, "high": interval.high} if interval else None,
    }


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two UTC times, positive in either order; None if one is not known."""
    first, last = (parse_utc(at or "") for at in (start, end))
    return None if first is None or last is None else abs((last - first).total_seconds())


def between_campaigns(reports: Sequence[CampaignResults]) -> BetweenCampaigns | None:
    """Return the spread between the A/A campaigns of one study; None for fewer than two."""
    if len(reports) < 2:
        return None
    starts = [report.progress.first_utc for report in reports if report.progress.first_utc]
    spreads = {
        metric.name: spread
        for index, metric in enumerate(reports[0].metrics)
        if (spread := spread_between([_means(report, index) for report in reports])) is not None
    }
    return BetweenCampaigns(len(reports), min(starts, default=None), max(starts, default=None), spreads)


def _means(report: CampaignResults, index: int) -> dict[int, float]:
    """Return {treatment: mean} of one metric, without means that are at most zero or only lower bounds."""
    cells = ((row.treatment.index, row.cells[index]) for row in report.rows)
    return {at: cell.summary.mean for at, cell in cells if cell.summary and cell.summary.mean > 0 and not cell.bounded}


def read_between(noise_floor: Any) -> BetweenCampaigns | None:
    """Return the spread between campaigns that `lastro noise-floor --campaigns` stored, from a campaign's noise floors.

    None if it stored nothing, or a spread of fewer than two campaigns."""
    between = (noise_floor or {}).get("between")
    if not between or between.get("campaigns", 0) < 2:
        return None
    n = between["campaigns"]
    spreads = {
        name: CampaignSpread(spread**2, n - 1) for name, spread in between.get("spreads", {}).items() if spread >= 0
    }
    return BetweenCampaigns(n, between.get("first_utc"), between.get("last_utc"), spreads)


def spreads_of(report: CampaignResults) -> Mapping[str, CampaignSpread]:
    """Return {metric: the spread between equal campaigns} that a campaign has stored; empty if it stored none."""
    between = read_between(report.noise_floor)
    return between.spreads if between else {}


def between_dict(between: BetweenCampaigns | None) -> dict[str, Any] | None:
    """Return the spread as JSON-serializable data, with the keys of this module's docstring; None stays None."""
    if between is None:
        return None
    spreads = {name: of_metric.spread for name, of_metric in between.spreads.items()}
    began = {"first_utc": between.first_utc, "last_utc": between.last_utc}
    return {"campaigns": between.campaigns, **began, "spreads": spreads}

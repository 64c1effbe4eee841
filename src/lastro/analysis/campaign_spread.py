"""The spread between campaigns in which nothing changed, estimated from several A/A campaigns, and its format. Pure.

A campaign stores the spread together with its noise floors, in this format:

    campaigns    the number of A/A campaigns
    first_utc, last_utc   when the first and the last of them began
    spreads      {metric: the standard deviation of the campaigns' means, as a fraction (0.03: 3 %)}"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.trends import parse_utc
from lastro.stats.sampled_mean import CampaignSpread, spread_between


@dataclass(frozen=True, slots=True)
class BetweenCampaigns:
    """The spread between equal campaigns of this host, by metric; metrics without means above zero are absent.

    `campaigns` is the number of campaigns. The first began at `first_utc`, the last at `last_utc`; None if not
    known."""

    campaigns: int
    first_utc: str | None
    last_utc: str | None
    spreads: Mapping[str, CampaignSpread]

    @property
    def span_s(self) -> float:
        """The seconds from the start of the first campaign to the start of the last; 0 if that is not known."""
        return seconds_between(self.first_utc, self.last_utc) or 0.0


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two UTC times, positive in either order; None if one is not known."""
    first, last = (parse_utc(at or "") for at in (start, end))
    return None if first is None or last is None else abs((last - first).total_seconds())


def between_campaigns(reports: Sequence[CampaignResults]) -> BetweenCampaigns | None:
    """Return the spread between the A/A campaigns of one study; None for fewer than two."""
    if len(reports) < 2:
        return None
    starts = sorted(report.progress.first_utc for report in reports if report.progress.first_utc)
    spreads = {}
    for index, metric in enumerate(reports[0].metrics):
        spread = spread_between([_means(report, index) for report in reports])
        if spread is not None:
            spreads[metric.name] = spread
    first, last = (starts[0], starts[-1]) if starts else (None, None)
    return BetweenCampaigns(len(reports), first, last, spreads)


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


def to_dict(between: BetweenCampaigns | None) -> dict[str, Any] | None:
    """Return the spread as JSON-serializable data, with the keys of this module's docstring; None stays None."""
    if between is None:
        return None
    spreads = {name: of_metric.spread for name, of_metric in between.spreads.items()}
    return {
        "campaigns": between.campaigns,
        "first_utc": between.first_utc,
        "last_utc": between.last_utc,
        "spreads": spreads,
    }

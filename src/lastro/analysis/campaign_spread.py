"""The spread between campaigns in which nothing changed: measured from several A/A campaigns, stored, read. Pure.

The format in which a campaign stores it, beside its noise floors:

    campaigns    the number of A/A campaigns
    first_utc, last_utc   when the first and the last of them began
    spreads      {metric: the standard deviation of the campaigns' means, as a fraction (0.03: 3 %)}"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.trends import parse_utc
from lastro.stats.sampled import CampaignSpread, between


@dataclass(frozen=True, slots=True)
class BetweenCampaigns:
    """The spread between equal campaigns of this host, by metric; a metric whose mean may be zero has none.

    The first of the `campaigns` began at `first_utc`, the last at `last_utc`; None if that is not known."""

    campaigns: int
    first_utc: str | None
    last_utc: str | None
    spreads: Mapping[str, CampaignSpread]

    @property
    def span_s(self) -> float:
        """The time from the start of the first campaign to that of the last, in seconds; 0 if it is not known."""
        return seconds_between(self.first_utc, self.last_utc) or 0.0


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the time between two UTC times in seconds, positive in either order; None where one is not known."""
    first, last = (parse_utc(at or "") for at in (start, end))
    return None if first is None or last is None else abs((last - first).total_seconds())


def between_campaigns(reports: Sequence[CampaignResults]) -> BetweenCampaigns | None:
    """Return the spread between the A/A campaigns of one study; None for fewer than two."""
    if len(reports) < 2:
        return None
    starts = sorted(report.progress.first_utc for report in reports if report.progress.first_utc)
    spreads = {}
    for index, metric in enumerate(reports[0].metrics):
        spread = between([_means(report, index) for report in reports])
        if spread is not None:
            spreads[metric.name] = spread
    first, last = (starts[0], starts[-1]) if starts else (None, None)
    return BetweenCampaigns(len(reports), first, last, spreads)


def _means(report: CampaignResults, index: int) -> dict[int, float]:
    """Return {treatment: mean} of one metric, where the mean is above zero and no value only a lower bound."""
    cells = ((row.treatment.index, row.cells[index]) for row in report.rows)
    return {at: cell.summary.mean for at, cell in cells if cell.summary and cell.summary.mean > 0 and not cell.bounded}


def kept_between(kept: Any) -> BetweenCampaigns | None:
    """Return what `lastro noise-floor --campaigns` stored in a campaign; None when it stored nothing usable."""
    stored = (kept or {}).get("between")
    if not stored or stored.get("campaigns", 0) < 2:
        return None
    n = stored["campaigns"]
    spreads = {
        name: CampaignSpread(spread**2, n - 1) for name, spread in stored.get("spreads", {}).items() if spread >= 0
    }
    return BetweenCampaigns(n, stored.get("first_utc"), stored.get("last_utc"), spreads)


def spreads_of(report: CampaignResults) -> Mapping[str, CampaignSpread]:
    """Return {metric: the spread between campaigns} that a campaign has stored; empty when it has none."""
    stored = kept_between(report.noise_floor)
    return stored.spreads if stored else {}


def to_dict(between: BetweenCampaigns | None) -> dict[str, Any] | None:
    """Return it as JSON-serializable data, with the keys of this module's docstring."""
    if between is None:
        return None
    spreads = {name: each.spread for name, each in between.spreads.items()}
    return {
        "campaigns": between.campaigns,
        "first_utc": between.first_utc,
        "last_utc": between.last_utc,
        "spreads": spreads,
    }

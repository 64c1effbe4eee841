"""The histograms of the valid trials of each treatment, added up. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults
from lastro.results.rows import Attempt
from lastro.stats.histograms import Histogram
from lastro.stats.intervals import sample_mean


@dataclass(frozen=True, slots=True)
class PooledHistogram:
    """The sum of the histograms of several attempts, and the attempts themselves in running order."""

    histogram: Histogram
    attempts: tuple[Attempt, ...]

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric, which the study need not list, over the attempts; None if none has a value."""
        values = [attempt.measurements[metric] for attempt in self.attempts if metric in attempt.measurements]
        return sample_mean(values) if values else None


def pooled_histograms(report: CampaignResults, names: Collection[str]) -> dict[int, dict[str, PooledHistogram]]:
    """Return {treatment: {name: the sum of its valid trials' histograms of this name}}.

    Only histograms whose name is in `names` are included, and empty ones are left out. Trials are added up, not
    averaged, so that a rare event counts as often as it occurred."""
    valid = [attempt for attempt in report.attempts if attempt.valid]
    stored = report.later_histograms([(attempt.trial, attempt.attempt) for attempt in valid])
    by_treatment: dict[int, dict[str, list[tuple[Attempt, Histogram]]]] = {}
    for attempt, histograms in zip(valid, stored, strict=True):
        for named in histograms:
            if named.name in names and named.histogram.n_events:
                by_name = by_treatment.setdefault(attempt.treatment, {})
                by_name.setdefault(named.name, []).append((attempt, named.histogram))
    return {
        treatment: {name: _pool(histograms) for name, histograms in by_name.items()}
        for treatment, by_name in by_treatment.items()
    }


def _pool(histograms: Collection[tuple[Attempt, Histogram]]) -> PooledHistogram:
    return PooledHistogram(
        Histogram.merged(histogram for _, histogram in histograms), tuple(attempt for attempt, _ in histograms)
    )

"""The valid trials of a treatment as one: their histograms, added up, and the trials that have one. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults
from lastro.grouping import by_key
from lastro.results.rows import Attempt
from lastro.stats.histograms import Histogram
from lastro.stats.intervals import sample_mean


@dataclass(frozen=True, slots=True)
class PooledHistogram:
    """The histograms of several trials as one, and the attempts that have one, in order."""

    histogram: Histogram
    attempts: tuple[Attempt, ...]

    def mean(self, metric: str) -> float | None:
        """Return the mean of a measurement of these attempts, also of one that the study does not report."""
        values = [attempt.measurements[metric] for attempt in self.attempts if metric in attempt.measurements]
        return sample_mean(values) if values else None


def pooled(report: CampaignResults, names: Collection[str]) -> dict[int, dict[str, PooledHistogram]]:
    """Return the histograms with these names by treatment and name; those without any event are left out.

    Trials are added up, so that a rare event counts as often as it occurred."""
    valid = [attempt for attempt in report.attempts if attempt.valid]
    stored = report.later_histograms([(attempt.trial, attempt.attempt) for attempt in valid])
    kept = by_key(
        ((attempt.treatment, each.name), (attempt, each.histogram))
        for attempt, histograms in zip(valid, stored, strict=True)
        for each in histograms
        if each.name in names and each.histogram.n_in_all
    )
    found = by_key((treatment, (name, _pool(own))) for (treatment, name), own in kept.items())
    return {treatment: dict(named) for treatment, named in found.items()}


def _pool(histograms: Collection[tuple[Attempt, Histogram]]) -> PooledHistogram:
    return PooledHistogram(
        Histogram.merged(histogram for _, histogram in histograms), tuple(attempt for attempt, _ in histograms)
    )

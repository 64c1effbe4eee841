"""The valid trials of a treatment as one: their histograms, added up, and the means of any measurement. Pure."""

from __future__ import annotations

from collections.abc import Collection

from lastro.analysis.campaign import Report
from lastro.stats.histograms import Histogram
from lastro.stats.intervals import sample_mean


def histograms_of(report: Report, names: Collection[str]) -> dict[int, dict[str, Histogram]]:
    """Return the histograms with these names by treatment and name; those without any event are left out.

    Trials are added up, so that a rare event counts as often as it occurred."""
    valid = [attempt for attempt in report.attempts if attempt.valid]
    found: dict[int, dict[str, list[Histogram]]] = {}
    stored = report.later_histograms([(attempt.trial, attempt.attempt) for attempt in valid])
    for attempt, histograms in zip(valid, stored, strict=True):
        for each in histograms:
            if each.name in names and each.histogram.n_in_all:
                found.setdefault(attempt.treatment, {}).setdefault(each.name, []).append(each.histogram)
    return {
        treatment: {name: Histogram.merged(each) for name, each in named.items()} for treatment, named in found.items()
    }


def means_of(report: Report, names: Collection[str]) -> dict[int, dict[str, float]]:
    """Return the means of measurements by treatment and name, also of those that the study does not report."""
    found: dict[int, dict[str, list[float]]] = {}
    for attempt in report.attempts:
        for name in names:
            if attempt.valid and name in attempt.measurements:
                found.setdefault(attempt.treatment, {}).setdefault(name, []).append(attempt.measurements[name])
    return {treatment: {name: sample_mean(each) for name, each in named.items()} for treatment, named in found.items()}

"""The report as one JSON document, for programs. Its keys are stable: `format` changes when one changes its meaning.

    format       "lastro-results/1"
    directory    the campaign's directory
    study        name, title, scenario, profile, factors {name: [level]}, settings, confidence, replicates, stopping,
                 seed, baseline {factor: level}
    counts       trials by state (pending, running, valid, invalid, unavailable), trials, attempts, invalid_attempts
    finished     whether no trial is left to run
    metrics      [{name, unit, better, summary}]
    treatments   [{id, label, levels, status, reason, remedy, baseline (id or null), trials {state: n}, metrics}]
                 metrics {name: {n, mean, sd, interval {low, high, confidence}, median, ratio, generator_limited,
                 values}}
                 median {value, interval, absent_because}: its interval's confidence is the one that n allows
                 ratio {value, interval, pairing, n [treatment, baseline], unbounded, absent_because, verdict}
                 verdict is that of the interval alone, uncorrected; analysis.comparisons have the corrected decision
                 values [{block, trial, attempt, value}]
    unavailable  [{reason, remedy, where, treatments [id], trials}]
    invalid_attempts [{trial, attempt, block, treatment, reasons, trial_state}]
    scaling      [{factor, levels (of the other factors), metrics {name: line}}], for factors of three numbers or more
                 line {slope, slope_interval, intercept, intercept_interval, r2, n}
    analysis     {metric: {anova, effects, interactions, comparisons, pairs, checks, drift, scaling, headline ...}}, as
                 the docstring of `report.analysis_document` tells key by key

What does not exist is null, never absent and never NaN."""

from __future__ import annotations

import json
from typing import Any

from lastro.report.analysis import analyse
from lastro.report.analysis_document import analysis_document
from lastro.report.model import Cell, Gap, InvalidAttempt, Report, Row
from lastro.report.numbers import verdict
from lastro.report.scaling import Scaling, ScalingRow, scalings
from lastro.stats.intervals import Interval
from lastro.stats.order import median_interval
from lastro.stats.ratios import Ratio
from lastro.stats.scaling import Line

FORMAT = "lastro-results/1"
_STATES = ("pending", "running", "valid", "invalid", "unavailable")


def document_text(report: Report) -> str:
    return json.dumps(document(report), indent=2, ensure_ascii=False, allow_nan=False)


def document(report: Report) -> dict[str, Any]:
    """The report as plain JSON-able data, with the keys of this module's docstring."""
    progress = report.progress
    return {
        "format": FORMAT,
        "directory": report.directory,
        "study": _study(report),
        "counts": {state: progress.counts.get(state, 0) for state in _STATES}
        | {
            "trials": progress.n_trials,
            "attempts": progress.n_attempts,
            "invalid_attempts": progress.n_invalid_attempts,
        },
        "finished": progress.finished,
        "metrics": [{"name": m.name, "unit": m.unit, "better": m.better, "summary": m.summary} for m in report.metrics],
        "treatments": [_treatment(row, report.study.design.confidence) for row in report.rows],
        "unavailable": [_gap(gap) for gap in report.gaps],
        "invalid_attempts": [_invalid(attempt) for attempt in report.invalid_attempts],
        "scaling": [_scaling(report, scaling, row) for scaling in scalings(report) for row in scaling.rows],
        "analysis": analysis_document(analyse(report)),
    }


def _study(report: Report) -> dict[str, Any]:
    study = report.study
    return {
        "name": study.name,
        "title": study.title,
        "scenario": study.scenario,
        "profile": study.profile,
        "factors": {factor.name: list(factor.levels) for factor in study.factors},
        "settings": dict(study.settings),
        "confidence": study.design.confidence,
        "replicates": study.design.replicates,
        "stopping": study.design.stopping,
        "seed": study.design.seed,
        "baseline": dict(study.design.baseline),
    }


def _treatment(row: Row, confidence: float) -> dict[str, Any]:
    return {
        "id": row.treatment.id,
        "label": row.treatment.label,
        "levels": dict(row.treatment.levels),
        "status": row.status,
        "reason": row.reason,
        "remedy": row.remedy,
        "baseline": row.baseline.id if row.baseline else None,
        "trials": dict(row.trials),
        "metrics": {cell.metric.name: _cell(cell, confidence) for cell in row.cells},
    }


def _cell(cell: Cell, confidence: float) -> dict[str, Any]:
    summary = cell.summary
    return {
        "n": summary.n if summary else 0,
        "mean": summary.mean if summary else None,
        "sd": summary.sd if summary else None,
        "interval": _interval(summary.interval if summary else None),
        "median": _median(cell, confidence) if summary else None,
        "ratio": _ratio(cell, cell.ratio) if cell.ratio else None,
        "generator_limited": cell.limited > 0,
        "values": [{"block": p.block, "trial": p.trial, "attempt": p.attempt, "value": p.value} for p in cell.points],
    }


def _median(cell: Cell, confidence: float) -> dict[str, Any]:
    found = median_interval([point.value for point in cell.points], confidence)
    return {
        "value": found.value,
        "interval": _interval(found.interval),
        "absent_because": found.absent_because,
    }


def _ratio(cell: Cell, ratio: Ratio) -> dict[str, Any]:
    return {
        "value": ratio.value,
        "interval": _interval(ratio.interval),
        "pairing": ratio.pairing,
        "n": list(ratio.n),
        "unbounded": ratio.unbounded,
        "absent_because": ratio.absent_because,
        "verdict": verdict(cell.metric, ratio) or None,
    }


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence} if interval else None


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "reason": gap.reason,
        "remedy": gap.remedy,
        "where": gap.where,
        "treatments": [treatment.id for treatment in gap.treatments],
        "trials": gap.n_trials,
    }


def _invalid(attempt: InvalidAttempt) -> dict[str, Any]:
    return {
        "trial": attempt.trial,
        "attempt": attempt.attempt,
        "block": attempt.block,
        "treatment": attempt.treatment.id,
        "reasons": list(attempt.reasons),
        "trial_state": attempt.trial_state,
    }


def _scaling(report: Report, scaling: Scaling, row: ScalingRow) -> dict[str, Any]:
    return {
        "factor": scaling.factor,
        "levels": dict(zip(scaling.others, row.levels, strict=True)),
        "metrics": {m.name: _line(line) for m, line in zip(report.metrics, row.lines, strict=True)},
    }


def _line(line: Line | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {
        "slope": line.slope,
        "slope_interval": _interval(line.slope_interval),
        "intercept": line.intercept,
        "intercept_interval": _interval(line.intercept_interval),
        "r2": line.r2,
        "n": line.n,
    }

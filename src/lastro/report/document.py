"""The report as one JSON document, for programs. Its keys are stable: if one changes its meaning, `format` changes.

    format       "lastro-results/1"
    directory    the campaign's directory
    study        name, title, scenario, profile, factors {name: [level]}, settings, confidence, replicates, stopping,
                 seed, baseline {factor: level}
    counts       trials by state (pending, running, valid, invalid, unavailable), trials, attempts, invalid_attempts
    finished     whether all trials have run
    key_findings [sentence], in English; first what each noisy neighbour costs and isolation recovers
    metrics      [{name, unit, better, summary}]
    treatments   [{id, label, levels, status, reason, remedy, baseline (id or null), trials {state: n}, metrics}]
                 metrics {name: {n, bounded, mean, sd, interval {low, high, confidence}, median, ratio,
                 generator_limited, marks, ended, values}}
                 bounded: how many of the n values are only lower bounds, because the study ended the search for them;
                 with any, the mean is a lower bound too, and has neither sd nor interval
                 ended [{limit, trials, least, greatest, text}]: for a metric that is searched for, what ended the
                 search: a limit that was found (limit is true) or the study; text is from the first of these trials
                 marks [{kind, trials, text}]: the remarks of valid trials on the metric; text is from the first trial
                 median {value, at_least, interval, absent_because}: the confidence of its interval is the one that n
                 allows; at_least: the value is only a lower bound
                 ratio {value, bound, interval, pairing, n [treatment, baseline], unbounded, absent_because, verdict}
                 bound is ">=" or "<=" where only a bound of the true ratio is known: ratio >= value or ratio <= value
                 verdict is by the interval alone, uncorrected; analysis.comparisons have the corrected decision
                 values [{block, trial, attempt, value, at_least}]
    unavailable  [{reason, remedy, where, treatments [id], trials}]
    invalid_attempts [{trial, attempt, block, treatment, reasons, trial_state}]
    really       {platform with its options: {property: text}}: how each platform was measured, as trials recorded it
    curves       [{factor, lines (the factor that provides the lines, or null), panel {factor: level}, line,
                 is_baseline, points [{level, number, treatment (id)}]}], for each numeric factor or option; the values
                 are those of the treatments
    scaling      [{factor, levels (of the other factors), metrics {name: line}}], for factors of three numbers or more
                 line {slope, slope_interval, intercept, intercept_interval, r2, n}
    growth       [{levels (of the factors other than `topology`), metrics {name: growth}}], where topologies differ
                 growth {sizes {topology: {routers, links}}, ratio, routers, links}
                 ratio {value, interval, pairing, n}: for two sizes, the mean of the larger to that of the smaller
                 routers and links {ratio (of their numbers), line, bend, verdict}; bend is the interval of the
                 quadratic coefficient; verdict is "in proportion", "slower", "slower or not", "faster", "shrinks",
                 "line", "grows", "bends up", "bends down" or "unknown"
    analysis     {metric: {anova, effects, interactions, comparisons, pairs, checks, drift, scaling, headline ...}}; the
                 docstring of `report.analysis_document` describes each key

A value that does not exist is null, never absent and never NaN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lastro.analysis import analyse
from lastro.analysis.campaign import Cell, Gap, InvalidAttempt, Report, Row
from lastro.analysis.curves import Curve, Line, Panel, curves
from lastro.analysis.growth import MEASURES, Against, Growth, Growths, growths
from lastro.analysis.measured import median_of
from lastro.analysis.properties import ABSENT
from lastro.analysis.scaling import Scaling, ScalingRow, scalings
from lastro.analysis.searches import Ending, endings
from lastro.analysis.verdicts import verdict
from lastro.plain import json_text
from lastro.report.analysis_document import analysis_document
from lastro.report.key_findings import key_findings
from lastro.report.language import ENGLISH
from lastro.stats.intervals import Interval
from lastro.stats.ratios import Ratio
from lastro.stats.scaling import Line as FittedLine

if TYPE_CHECKING:
    from lastro.results.store import Attempt

FORMAT = "lastro-results/1"
_STATES = ("pending", "running", "valid", "invalid", "unavailable")


def document_text(report: Report) -> str:
    return json_text(document(report))


def document(report: Report) -> dict[str, Any]:
    """Return the report as JSON-serializable data, with the keys of this module's docstring."""
    progress = report.progress
    kept = {(attempt.trial, attempt.attempt): attempt for attempt in report.attempts}
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
        "key_findings": list(key_findings(report, ENGLISH)),
        "metrics": [{"name": m.name, "unit": m.unit, "better": m.better, "summary": m.summary} for m in report.metrics],
        "treatments": [_treatment(row, report, kept) for row in report.rows],
        "unavailable": [_gap(gap) for gap in report.gaps],
        "invalid_attempts": [_invalid(attempt) for attempt in report.invalid_attempts],
        "really": _really(report),
        "curves": [
            _curve(curve, panel, line) for curve in curves(report) for panel in curve.panels for line in panel.lines
        ],
        "scaling": [_scaling(report, scaling, row) for scaling in scalings(report) for row in scaling.rows],
        "growth": _growths(report, growths(report)),
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


def _treatment(row: Row, report: Report, kept: Mapping[tuple[int, int], Attempt]) -> dict[str, Any]:
    confidence = report.study.design.confidence
    return {
        "id": row.treatment.id,
        "label": row.treatment.label,
        "levels": dict(row.treatment.levels),
        "status": row.status,
        "reason": row.reason,
        "remedy": row.remedy,
        "baseline": row.baseline.id if row.baseline else None,
        "trials": dict(row.trials),
        "metrics": {
            cell.metric.name: _cell(cell, confidence) | {"ended": [_ending(each) for each in endings(cell, kept)]}
            for cell in row.cells
        },
    }


def _cell(cell: Cell, confidence: float) -> dict[str, Any]:
    summary = cell.summary
    return {
        "n": summary.n if summary else 0,
        "bounded": cell.bounded,
        "mean": summary.mean if summary else None,
        "sd": summary.sd if summary else None,
        "interval": _interval(summary.interval if summary else None),
        "median": _median(cell, confidence) if summary else None,
        "ratio": _ratio(cell, cell.ratio) if cell.ratio else None,
        "generator_limited": cell.limited,
        "marks": [{"kind": mark.kind, "trials": mark.n, "text": mark.text} for mark in cell.marks],
        "values": [
            {"block": p.block, "trial": p.trial, "attempt": p.attempt, "value": p.value, "at_least": p.at_least}
            for p in cell.points
        ],
    }


def _ending(each: Ending) -> dict[str, Any]:
    return {
        "limit": each.limit,
        "trials": len(each.values),
        "least": min(each.values),
        "greatest": max(each.values),
        "text": each.text,
    }


def _median(cell: Cell, confidence: float) -> dict[str, Any]:
    found = median_of(cell, confidence)
    return {
        "value": found.value,
        "at_least": found.at_least,
        "interval": _interval(found.interval),
        "absent_because": found.absent_because,
    }


def _ratio(cell: Cell, ratio: Ratio) -> dict[str, Any]:
    return {
        "value": ratio.value,
        "bound": {"": None, "≥": ">=", "≤": "<="}[ratio.bound],
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


def _really(report: Report) -> dict[str, dict[str, str]]:
    told = report.properties.really
    found = {name: {row.name: row.values[at] for row in told.rows} for at, name in enumerate(told.columns)}
    return {name: {key: text for key, text in facts.items() if text != ABSENT} for name, facts in found.items()}


def _curve(curve: Curve, panel: Panel, line: Line) -> dict[str, Any]:
    places = zip(curve.labels, curve.numbers, line.rows, strict=True)
    return {
        "factor": curve.factor,
        "lines": curve.lines or None,
        "panel": dict(zip(curve.others, panel.levels, strict=True)),
        "line": line.name or None,
        "is_baseline": line.is_baseline,
        "points": [
            {"level": level, "number": number, "treatment": row.treatment.id}
            for level, number, row in places
            if row is not None
        ],
    }


def _scaling(report: Report, scaling: Scaling, row: ScalingRow) -> dict[str, Any]:
    return {
        "factor": scaling.factor,
        "levels": dict(zip(scaling.others, row.levels, strict=True)),
        "metrics": {m.name: _line(line) for m, line in zip(report.metrics, row.lines, strict=True)},
    }


def _growths(report: Report, found: Growths) -> list[dict[str, Any]]:
    return [
        {
            "levels": dict(zip(found.others, row.levels, strict=True)),
            "metrics": {m.name: _growth(growth) for m, growth in zip(report.metrics, row.metrics, strict=True)},
        }
        for row in (found.rows if found else ())
    ]


def _growth(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    ratio = growth.ratio
    return {
        "sizes": {level: size._asdict() for level, size in growth.sizes.items()},
        "ratio": None
        if ratio is None
        else {
            "value": ratio.value, "interval": _interval(ratio.interval), "pairing": ratio.pairing, "n": list(ratio.n),
        },
        **{name: _against(against) for name, against in zip(MEASURES, growth.against, strict=True)},
    }  # fmt: skip


def _against(against: Against) -> dict[str, Any]:
    return {
        "ratio": against.ratio,
        "line": _line(against.line),
        "bend": _interval(against.bend),
        "verdict": against.verdict,
    }


def _line(line: FittedLine | None) -> dict[str, Any] | None:
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

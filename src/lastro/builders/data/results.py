"""The report as one JSON document, for programs. Its keys are stable: if one changes its meaning, `format` changes.

    format       "lastro-results/1"
    directory    the campaign's directory
    study        name, title, scenario, profile, changes [option of the command line], factors {name: [level]},
                 settings, confidence, replicates, stopping, allocation, seed, baseline {factor: level}
    counts       trials by state (pending, running, valid, invalid, unavailable), trials, attempts, invalid_attempts
    guest        the virtual machine that was the host: title, emulated (in software: its times are not comparable with
                 those of a host), partly (of several campaigns or testbeds, some ran on real hosts; then title counts
                 those in guests); null for a real host
    testbeds     [{name, blocks [number], facts {name: text or null}}] of a fleet on which several testbeds measured;
                 empty for one host
    segments     [{after, at_utc, testbed (or null), changes {fact: [before, since]}}]: where the campaign continued on
                 a changed host; `after` counts the attempts before. Trials of a block in different segments have
                 different blocks
    finished     whether all trials have run
    key_findings [sentence], in English; first what each noisy neighbour costs and isolation recovers
    caveats      [sentence], in English, to be read with the key findings
    metrics      [{name, unit, better, summary}]
    shown        {where {factor: [level]}, sort, worst_first, top}: which `treatments` the options of the command line
                 chose, and their order; null for all, in the order of the study. All other keys are on the whole
                 campaign: they may name treatments that were not chosen, and p-values, intervals and verdicts are
                 corrected for all
    treatments   [{id, label, levels, status, reason, remedy, baseline (id or null), trials {state: n}, dose, metrics}]
                 dose {quantity: {mean, least, greatest}}: what the neighbour really did in valid trials; null without
                 a neighbour. cpus; memory_peak_bytes; held (units of a resource of the kernel); each per second of the
                 measurement: written_bytes, used (units), refused, moved_bytes (on a link of its own, or in memory)
                 metrics {name: {n, bounded, mean, sd, interval {low, high, confidence}, ratio,
                 generator_limited, marks, ended, values}}
                 bounded: how many of the n values are only lower bounds, because the study ended the search for them;
                 with any, the mean is a lower bound too, and has neither sd nor interval
                 ended [{limit, trials, least, greatest, text}]: for a metric that is searched for, what ended the
                 search: a limit that was found (limit is true) or the study; text is from the first of these trials
                 marks [{kind, trials, text}]: the remarks of valid trials on the metric; text is from the first trial
                 ratio {value, bound, interval, pairing, n [treatment, baseline], unbounded, absent_because, verdict}
                 bound is ">=" or "<=" where only a bound of the true ratio is known: ratio >= value or ratio <= value
                 verdict and interval are corrected for the number of ratios of the metric
                 values [{block, trial, attempt, value, at_least}]
    unavailable  [{reason, remedy, where, treatments [id], trials}]
    invalid_attempts [{trial, attempt, block, treatment, reasons, trial_state}]
    really       {platform with its options: {property: text}}: how each platform was measured, recorded by its trials
    curves       [{factor, lines (the factor that provides the lines, or null), panel {factor: level}, line,
                 is_baseline, points [{level, number, treatment (id)}]}], for each numeric factor or option; the values
                 are those of the treatments
    growth       [{levels (of the other factors), metrics {name: growth}}], where a factor of the scenario has sizes
                 growth {sizes {level: {measure}}, ratio, and each measure, such as routers and links}
                 ratio {value, interval, pairing, n}: for two sizes, the mean of the larger to that of the smaller
                 measure {ratio (of the sizes), line {slope, intercept, bend}, verdict}; each of a line is {value,
                 interval, n}, and bend is the quadratic coefficient; verdict is "in proportion", "slower",
                 "slower or not", "faster", "shrinks", "line", "bends up", "bends down" or "unknown"
    as_published {tables, figures}: what the source of the study printed, with this campaign beside it; null without
                 either; the docstring of `builders.data.published` describes each key
    analysis     {metric: {anova, effects, interactions, comparisons, pairs, drift, headline ...}}; the
                 docstring of `builders.data.statistics` describes each key

A value that does not exist is null, never absent and never NaN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from lastro.analysis import analyse
from lastro.analysis.as_published import MatchedPublication
from lastro.analysis.campaign import CampaignResults, Cell, Gap, Point, Row
from lastro.analysis.curves import Curve, CurveLine, Panel, curves
from lastro.analysis.doses import DoseSpread, spreads_of
from lastro.analysis.growth import Growth, Line
from lastro.analysis.host_facts import named_facts
from lastro.analysis.model import Analysis
from lastro.analysis.properties import ABSENT
from lastro.analysis.remarks import Mark
from lastro.analysis.searches import SearchEnding, endings
from lastro.analysis.table_choice import TableChoice
from lastro.analysis.verdicts import cell_verdict
from lastro.builders.data.encoder import BOUNDS, Forms, as_object, encode, pick
from lastro.builders.data.statistics import analysis_document
from lastro.figures.scenario import growth_of
from lastro.results.rows import Attempt
from lastro.results.samples import Metric
from lastro.stats.intervals import Estimate
from lastro.study.design import Treatment
from lastro.words.caveats import caveats
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH

FORMAT = "lastro-results/1"
_STATES = ("pending", "running", "valid", "invalid", "unavailable")
_FORMS: Forms = {
    SearchEnding: lambda ending: {
        "limit": ending.limit,
        "trials": len(ending.values),
        "least": min(ending.values),
        "greatest": max(ending.values),
        "text": ending.text,
    },
    Estimate: lambda ratio: pick(ratio, "value interval pairing") | {"n": ratio.sides},
    Gap: lambda gap: as_object(gap, n_trials="trials"),
    Growth: lambda growth: as_object(growth, "against") | growth.against,
    Line: lambda line: {name: pick(estimate, "value interval n") for name, estimate in as_object(line).items()},
    Mark: lambda mark: as_object(mark, n="trials"),
    Metric: lambda metric: as_object(metric, "signed cell"),
    Point: lambda point: pick(point, "block trial attempt value at_least"),
    Treatment: attrgetter("id"),
}


def document(
    report: CampaignResults,
    published: MatchedPublication | None = None,
    analysis: Analysis | None = None,
    choice: TableChoice | None = None,
) -> dict[str, Any]:
    """Return the report as JSON-serializable data, with the keys of this module's docstring.

    `published` are the tables and figures of the source; None without any. `analysis` is the analysis of `report`; if
    it is None, it is computed here, which takes seconds. `choice` are the treatments to show; None for all.

    Raises: InputError for a factor, a level or a metric of `choice` that the campaign does not have."""
    rows: Sequence[Row] = report.rows
    if choice is not None:
        from lastro.analysis.decision import decision_of, table_rows

        rows = table_rows(report, decision_of(report), choice)
    as_published = None
    if published:
        from lastro.builders.data.published import published_document  # it imports pydantic, which few documents need

        as_published = published_document(published)
    analysis = analysis or analyse(report)
    study, progress, valid = report.study, report.progress, report.valid_attempts()
    really = report.properties.really
    attempts = {(attempt.trial, attempt.attempt): attempt for attempt in report.attempts}
    results = {
        "format": FORMAT,
        "directory": report.directory,
        "study": pick(study, "name title scenario profile changes")
        | {"factors": {factor.name: factor.levels for factor in study.factors}, "settings": study.settings}
        | pick(study.design, "confidence replicates stopping allocation seed baseline"),
        "counts": {state: progress.counts.get(state, 0) for state in _STATES}
        | {"trials": progress.n_trials, "attempts": progress.n_attempts}
        | {"invalid_attempts": progress.n_invalid_attempts},
        "guest": report.guest,
        "testbeds": [
            {"name": bed.directory, "blocks": sorted(bed.blocks), "facts": named_facts(bed.provenance.chapters)}
            for bed in (report.members if report.of_fleet else ())
        ],
        "segments": [
            pick(segment, "after at_utc") | {"testbed": segment.testbed or None, "changes": segment.changes}
            for segment in report.segments
        ],
        "finished": progress.finished,
        "key_findings": key_findings(report, ENGLISH, analysis),
        "caveats": caveats(report, ENGLISH),
        "metrics": report.metrics,
        "shown": choice,
        "treatments": [_treatment(row, attempts, spreads_of(valid.get(row.treatment.index, ()))) for row in rows],
        "unavailable": report.gaps,
        "invalid_attempts": report.invalid_attempts,
        "really": {
            platform: {row.name: row.values[column] for row in really.rows if row.values[column] != ABSENT}
            for column, platform in enumerate(really.columns)
        },
        "curves": [
            _curve(curve, panel, line) for curve in curves(report) for panel in curve.panels for line in panel.lines
        ],
        "growth": list(_growth(report)),
        "as_published": as_published,
        "analysis": analysis_document(analysis),
    }
    return encode(results, _FORMS)


def _treatment(row: Row, attempts: Mapping[tuple[int, int], Attempt], dose: Mapping[str, DoseSpread]) -> dict[str, Any]:
    metrics = {cell.metric.name: _cell(cell) | {"ended": endings(cell, attempts)} for cell in row.cells}
    return (
        pick(row.treatment, "id label levels")
        | as_object(row, "treatment cells")
        | {"dose": dose or None, "metrics": metrics}
    )


def _cell(cell: Cell) -> dict[str, Any]:
    summary = cell.summary
    return {
        "n": summary.n if summary else 0,
        "bounded": cell.bounded,
        **{name: getattr(summary, name, None) for name in ("mean", "sd", "interval")},
        "ratio": _ratio(cell, cell.ratio) if cell.ratio else None,
        "generator_limited": cell.limited,
        "marks": cell.marks,
        "values": cell.points,
    }


def _ratio(cell: Cell, ratio: Estimate) -> dict[str, Any]:
    first = {"value": ratio.value, "bound": BOUNDS[ratio.bound]} | pick(ratio, "interval pairing")
    last = {"verdict": cell_verdict(cell) or None}
    return first | {"n": ratio.sides} | pick(ratio, "unbounded absent_because") | last


def _curve(curve: Curve, panel: Panel, line: CurveLine) -> dict[str, Any]:
    places = zip(curve.labels, curve.numbers, line.rows, strict=True)
    return {
        "factor": curve.factor,
        "lines": curve.lines or None,
        "panel": dict(zip(curve.others, panel.levels, strict=True)),
        "line": line.name or None,
        "is_baseline": line.is_baseline,
        "points": [
            {"level": level, "number": number, "treatment": row.treatment}
            for level, number, row in places
            if row is not None
        ],
    }


def _growth(report: CampaignResults) -> Iterator[dict[str, Any]]:
    if growths := growth_of(report):
        for row in growths.rows:
            levels = dict(zip(growths.others, row.levels, strict=True))
            names = (metric.name for metric in report.metrics)
            yield {"levels": levels, "metrics": dict(zip(names, row.metrics, strict=True))}

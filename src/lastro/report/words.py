"""The sentences of a report, made from its data: what was compared, what came of it, and what it cannot show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lastro.report.model import Report
from lastro.report.numbers import count, ratio_text, verdict
from lastro.results.samples import Metric
from lastro.units import human_bytes, human_duration

_HOST_KEYS = (
    ("hostname", "host_name", "node"),
    ("cpu_model", "model", "model_name", "cpu"),
    ("kernel", "kernel_release", "release"),
)


def summary(report: Report) -> str:
    """One paragraph: what was compared, how many trials count, where and when."""
    study, progress = report.study, report.progress
    factors = " × ".join(f"{factor.name} ({len(factor.levels)})" for factor in report.varying)
    compared = f"{count(len(report.rows), 'treatment')}{f': {factors}' if factors else ''}"
    blocks = f"in {count(study.design.replicates, 'randomised block')}"
    sentences = [f"This campaign ran the scenario “{study.scenario}” to compare {compared}, {blocks}.", _tally(report)]
    if where := host_line(report.provenance):
        sentences.append(f"Host: {where}.")
    if progress.first_utc and progress.last_utc:
        first, last = when(progress.first_utc), when(progress.last_utc)
        span = f"on {first}" if first == last else f"from {first} to {last}"
        sentences.append(f"Measured {span} UTC, {human_duration(progress.measured_s)} of trials.")
    return " ".join(sentences)


def _tally(report: Report) -> str:
    progress = report.progress
    text = f"Of {count(progress.n_trials, 'trial')}, {progress.counts.get('valid', 0):,} yielded a valid result"
    waiting = progress.counts.get("pending", 0) + progress.counts.get("running", 0)
    others = [
        f"{progress.counts[state]:,} {words}"
        for state, words in (("invalid", "stayed invalid"), ("unavailable", "cannot run on this host"))
        if progress.counts.get(state)
    ] + ([f"{waiting:,} have not run yet"] if waiting else [])
    repeats = f"; {count(progress.n_invalid_attempts, 'attempt')} judged invalid and set aside"
    return text + "".join(f", {item}" for item in others) + (repeats if progress.n_invalid_attempts else "") + "."


def findings(report: Report) -> tuple[str, ...]:
    """A sentence for each metric: how many treatments differ from their baseline, and the widest difference."""
    return tuple(sentence for index in range(len(report.metrics)) if (sentence := _finding(report, index)))


def _finding(report: Report, index: int) -> str:
    metric = report.metrics[index]
    cells = [(row, row.cells[index]) for row in report.rows]
    judged = [(row, cell.ratio, verdict(metric, cell.ratio)) for row, cell in cells if verdict(metric, cell.ratio)]
    if not judged:
        return ""
    tally = Counter(word for _, _, word in judged)
    parts = [f"{tally[word]} {word}" for word in ("worse", "better", "lower", "higher") if tally[word]]
    parts += [f"{tally['same']} not distinguishable"] if tally["same"] else []
    text = f"{metric.name}: of {count(len(judged), 'treatment')} set against the baseline, {', '.join(parts)}"
    differing = [(row, ratio) for row, ratio, word in judged if word != "same" and ratio is not None]
    if not differing:
        return text + "."
    row, ratio = max(differing, key=lambda pair: _distance(pair[1].value))
    return f"{text}. The widest difference is {ratio_text(ratio)}, for {row.treatment.label}."


def _distance(ratio: float | None) -> float:
    """How far a ratio is from 1, the same for a half as for a double; not above zero counts as farthest."""
    if ratio is None or ratio <= 0:
        return float("inf")
    return max(ratio, 1 / ratio)


def limitations(report: Report) -> tuple[str, ...]:
    """What a reader must keep in mind, from the design and from what befell this campaign."""
    design, progress = report.study.design, report.progress
    said = [
        "One host, one campaign: the figures hold for this hardware, kernel and day. Repeat on yours before deciding.",
        f"Intervals are {design.confidence:.0%} confidence intervals; the unit is the trial. Each comparison stands "
        f"alone, without correction for their number. Of 100 comparisons without any true difference, about "
        f"{round((1 - design.confidence) * 100)} would still exclude 1.",
    ]
    if not progress.finished:
        said.append("The campaign is unfinished: what is shown may change when the remaining trials have run.")
    if progress.counts.get("valid", 0) == 0:
        said.append("No trial is valid, so nothing can be concluded.")
    if design.replicates == 1:
        said.append("There is one replicate only, so nothing is known of the spread: no interval, no comparison.")
    elif design.replicates < 5:
        said.append(f"With {design.replicates} replicates the intervals are wide; small differences cannot be seen.")
    if not design.baseline:
        said.append("The study names no baseline, so there are no ratios.")
    if report.gaps:
        said.append("Unavailable levels leave holes in the design: effects can be read only across what was measured.")
    if report.n_limited:
        said.append(LIMITED_EXPLANATION)
    if progress.n_invalid_attempts:
        said.append(
            "Invalid attempts enter no mean. Were they invalid because of what they measured, means are biased."
        )
    return tuple(said)


LIMITED_EXPLANATION = (
    "generator-limited: the load generator, not the function, was the bottleneck (as much went through with function "
    "“none” on that attachment), so that throughput is a lower bound of what the function can carry."
)


def host_line(provenance: Mapping[str, Any]) -> str:
    """'edge-7, AMD EPYC 7B13, 2 CPUs, 23.5 GiB, Linux 6.1.0', as far as the provenance tells."""
    name, model, kernel = (_find(provenance, keys) for keys in _HOST_KEYS)
    cpus = _find(provenance, ("cpus", "n_cpus", "logical_cpus", "online_cpus"))
    memory = _find(provenance, ("memory_bytes", "total_bytes", "memory_total_bytes"))
    parts = [name, model, f"{cpus} CPUs" if cpus else "", human_bytes(memory) if _is_count(memory) else "", kernel]
    return ", ".join(str(part) for part in parts if part)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _find(data: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The first plain value under one of these keys, nearest to the top."""
    level: list[Mapping[str, Any]] = [data]
    while level:
        for key in keys:
            for mapping in level:
                if isinstance(mapping.get(key), str | int | float):
                    return mapping[key]
        level = [item for mapping in level for item in mapping.values() if isinstance(item, Mapping)]
    return ""


def when(utc: str) -> str:
    """'2026-11-02 10:00' out of an ISO time; the text as it stands when it is none."""
    try:
        return datetime.fromisoformat(utc).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return utc


def metric_note(metric: Metric) -> str:
    """'TCP throughput; higher is better'."""
    parts = [metric.summary, "" if metric.better == "neither" else f"{metric.better} is better"]
    return "; ".join(part for part in parts if part)

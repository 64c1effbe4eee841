"""A comparison of two campaigns, for programs: one JSON document, JUnit XML, and annotations for GitHub Actions.

    format       "lastro-compare/1"
    a, b         the campaigns' directories
    study        name and title, of A
    guest        {title, emulated, partly}, as in `lastro results A B --json`; partly if only one campaign was measured
                 in a guest (differences has the guest of each campaign); null for real hosts
    confidence   of the intervals; 1 - confidence is the family-wise error rate of verdicts and gate
    between      {campaigns, first_utc, last_utc, spreads {metric: spread}}: the spread between campaigns in which
                 nothing changed, a standard deviation as a fraction of the mean; all intervals and tests allow for it;
                 null if it is not known
    differences  [{what, a, b}]: provenance and settings that differ
    changed_host [what]: the differences that --fail-changed-host does not allow; null without that option
    notes        [text]
    only_in      [{side, treatments [{factor: level}], reason}]
    tests        the number of tests for which p is corrected
    cells        [{metric, unit, better, levels {factor: level}, a, b, ratio, p, p_adjusted, verdict, not_compared,
                 gate}], worst first
                 a, b {n, mean, values, variance_factor}; the factor is above 1 where a mean varies more than a mean
                 of independent trials would, because neighbouring trials are correlated
                 ratio {value, interval {low, high}, absent_because}
                 gate {limit, p, p_adjusted, regressed, least_found, outcome}, null where the gate does not judge
                 least_found is the least loss, a fraction, that the gate would have found with a power of 80 %; null
                 if it might miss a loss of any size. outcome is "regressed", "shown" (the interval excludes a loss of
                 more than the margin) or "undecided"
    gate         {margin, margins {metric: margin}, outcome, tests, not_judged, undecided, regressions, lost,
                 most_allowed}, null without --fail-over; margin is null if metrics have different ones;
                 undecided includes what was not judged
                 not_judged counts cells of metrics with a better direction that had nothing to test
                 most_allowed {metric, levels, loss}: the largest regression that the interval of a cell allows, as a
                 fraction; loss is null where the interval is unbounded

A value that does not exist is null, never absent and never NaN.

JUnit: a testsuite for each metric, a testcase for each treatment. Only the gate produces failures. Each testsuite has
properties: `differs` for each difference between A and B, and `guest` with sentences on the guest if a campaign ran in
one. With --fail-changed-host, a testsuite `host` has one testcase, which fails if the host changed and lists the facts
that changed.

Annotations for GitHub Actions are workflow commands, one per line. GitHub shows ten errors per step
(docs.github.com, "Workflow commands for GitHub Actions"). The worst nine have a line each; the tenth line counts the
remaining errors."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

import lastro.words.comparison as words
from lastro.analysis.comparison import ComparedCell, Comparison
from lastro.analysis.noise_floor import between_dict
from lastro.builders.data.encoder import Forms, as_object, encode, in_common, pick
from lastro.builders.data.junit import add_case, add_failure, add_output, add_skip, add_suite, new_root, xml_file
from lastro.stats.intervals import Estimate, Interval, sample_mean
from lastro.stats.margins import GateTest
from lastro.words.estimates import p_text
from lastro.words.language import ENGLISH
from lastro.words.numbers import ratio_text

FORMAT = "lastro-compare/1"


def document(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON-serializable data, with the keys of this module's docstring."""
    changed = comparison.changed_host
    compared = {
        "format": FORMAT,
        "a": comparison.a.directory,
        "b": comparison.b.directory,
        "study": pick(comparison.study, "name title"),
        "guest": comparison.guest,
        "confidence": comparison.confidence,
        "between": between_dict(comparison.between),
        "differences": [{"what": what, "a": a, "b": b} for what, a, b in words.differences(comparison)],
        "changed_host": None if changed is None else [difference.what for difference in changed],
        "notes": list(words.comparison_notes(comparison)),
        "only_in": [
            {"side": side.only_in, "treatments": list(map(dict, side.levels)), "reason": words.why_unmatched(side)}
            for side in comparison.one_sided
        ],
        "tests": comparison.n_tests,
        "cells": comparison.cells,
        "gate": _gate(comparison) if comparison.margins is not None else None,
    }
    return encode(compared, _FORMS)


def _gate(comparison: Comparison) -> dict[str, Any]:
    loss, cell = comparison.most_allowed or (None, None)
    return {
        "margin": in_common(comparison.judged_margins.values()),
        "margins": comparison.judged_margins,
        "outcome": comparison.outcome,
        "tests": comparison.n_judged,
        "not_judged": len(comparison.not_judged),
        "undecided": len(comparison.undecided),
        "regressions": len(comparison.regressions),
        "lost": len(comparison.lost),
        "most_allowed": cell and {"metric": cell.metric.name, "levels": dict(cell.levels), "loss": loss},
    }


def _cell(cell: ComparedCell) -> dict[str, Any]:
    return {
        "metric": cell.metric.name,
        **pick(cell.metric, "unit better"),
        "levels": dict(cell.levels),
        "a": _side(cell.a, cell.factors[0]),
        "b": _side(cell.b, cell.factors[1]),
        "ratio": cell.ratio,
        "p": cell.test.p if cell.test else None,
        "p_adjusted": cell.p_adjusted,
        "verdict": cell.verdict or None,
        "not_compared": words.not_compared(cell),
        "gate": cell.judged and {**_FORMS[GateTest](cell.judged), "outcome": cell.outcome},
    }


def _side(values: tuple[float, ...], factor: float) -> dict[str, Any]:
    mean = sample_mean(values) if values else None
    return {"n": len(values), "mean": mean, "values": values, "variance_factor": factor}


_FORMS: Forms = {
    ComparedCell: _cell,
    Interval: lambda interval: as_object(interval, "confidence"),
    GateTest: lambda judged: pick(judged.test, "limit p") | pick(judged, "p_adjusted regressed least_found"),
    Estimate: lambda ratio: pick(ratio, "value interval absent_because"),
}


def junit(comparison: Comparison, *, fail_lost: bool = False) -> bytes:
    """Return JUnit XML in UTF-8 (see this module's docstring); with `fail_lost`, a cell that only A measured fails."""
    root = new_root(f"lastro compare {comparison.study.name}")
    measured = " ".join(words.guest_notes(comparison))
    properties = [("guest", measured)] if measured else []
    properties += [("differs", f"{what}: A {a}, B {b}") for what, a, b in words.differences(comparison)]
    if comparison.changed_host is not None:
        unchanged = add_case(add_suite(root, "host"), "unchanged", f"{comparison.study.name}.host")
        if changed := words.changed_host_text(comparison):
            facts = [f"{fact.what}: A {fact.a}, B {fact.b}" for fact in comparison.changed_host]
            add_failure(unchanged, "changed-host", changed, "\n".join(facts))
    for metric in comparison.metrics:
        metric_suite = add_suite(root, metric.name, properties)
        for cell in comparison.cells:
            if cell.metric.name == metric.name:
                cell_case = add_case(metric_suite, words.label(cell), f"{comparison.study.name}.{metric.name}")
                _add_outcome(cell_case, cell, comparison, fail_lost)
    return xml_file(root)


def _add_outcome(cell_case: Element, cell: ComparedCell, comparison: Comparison, fail_lost: bool) -> None:
    if cell.regressed or (fail_lost and cell.lost):
        message = figures(cell) if cell.regressed else f"B has no value: {words.not_compared(cell)}"
        values = f"A {comparison.a.directory}: {list(cell.a)}\nB {comparison.b.directory}: {list(cell.b)}"
        add_failure(cell_case, "regression" if cell.regressed else "lost", message, values)
    elif why := words.not_compared(cell):
        add_skip(cell_case, why)
    elif comparison.margins is not None and cell.judged is None:
        add_skip(cell_case, "neither higher nor lower is better: the gate cannot judge it")
    elif cell.test is not None:
        add_output(cell_case, figures(cell))


def figures(cell: ComparedCell) -> str:
    """Return a cell as one line of English: ratio, means, n, p-values and, with a gate, its outcome."""
    ratio = ratio_text(cell.ratio) if cell.ratio is not None else "no ratio"
    means = f"{sample_mean(cell.a):.5g} to {sample_mean(cell.b):.5g} {cell.metric.unit}".rstrip()
    n, p = f"n = {len(cell.a)} and {len(cell.b)}", p_text(cell.test.p if cell.test else None)
    text = f"{cell.metric.name} of {words.label(cell)}: {ratio}, {means}, {n}, p {p}"
    if cell.judged is None:
        return f"{text}, corrected {p_text(cell.p_adjusted)}"
    beyond = f"{'above' if cell.judged.test.side == 'above' else 'below'} ×{cell.judged.test.limit:g}"
    return (
        f"{text}; {beyond}: p {p_text(cell.judged.test.p)}, corrected {p_text(cell.judged.p_adjusted)}: {cell.outcome}"
    )


_MOST = 9  # errors with a line each


def workflow_commands(comparison: Comparison, *, fail_lost: bool = False) -> list[str]:
    """Return the workflow commands: an error for each regression, worst first, or a notice with the gate's conclusion.

    With `fail_lost`, a cell that A measured and B did not is an error, too. With --fail-changed-host, a changed host is
    an error; without it, a warning lists what else differs between A and B. Notices say which campaign ran in a guest.
    The list is empty if there are no errors and no gate."""
    failed = [cell for cell in comparison.cells if cell.regressed or (fail_lost and cell.lost)]
    changed = words.changed_host_text(comparison)
    most = _MOST - bool(changed)
    lines = []
    for cell in failed[:most]:
        title = f"{cell.metric.name} {'regressed' if cell.regressed else 'was lost'}: {words.label(cell)}"
        message = figures(cell) if cell.regressed else f"B has no value: {words.not_compared(cell)}"
        lines.append(_command("error", title, message))
    if changed:
        lines.append(_command("error", "lastro compare", f"{changed}: {'; '.join(words.difference_lines(comparison))}"))
    if len(failed) > most:
        lines.append(_command("error", "lastro compare", f"and {ENGLISH.count(len(failed) - most, 'more failure')}"))
    if not failed and (text := words.gate_conclusion(comparison)):
        lines.append(_command("notice", "lastro compare", text))
    if not changed and lines and (differing := "; ".join(words.difference_lines(comparison))):
        lines.append(_command("warning", "lastro compare", f"A and B differ: {differing}"))
    return [*lines, *(_command("notice", "lastro compare", note) for note in words.guest_notes(comparison) if lines)]


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escaped(title).replace(':', '%3A').replace(',', '%2C')}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

"""Compare two campaigns of one study, treatment by treatment: two hosts, two days, or before and after a change.

For each cell (a treatment and a metric), the comparison has the ratio of the means B / A with Fieller's interval, and
the p-value of no difference (Welch), corrected by Holm's method over all cells that could be compared. Blocks of two
campaigns are not paired. If a campaign has stored the spread between campaigns, it is added to the variance of both
means (`stats.sampled_mean`). With a margin, the gate of `stats.margins` also tests for a regression of more than the
margin (one-sided, corrected for all cells that it judges). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lastro.analysis.campaign import CampaignResults, Cell, Row, centres, mean_width
from lastro.analysis.comparison import (
    CampaignDifference,
    ComparedCell,
    Comparison,
    Levels,
    MissingSide,
    Side,
    UnmatchedTreatments,
)
from lastro.analysis.host_facts import APPARATUS, changed_facts, matches_any, named_facts, unnamed_facts
from lastro.analysis.noise_floor import read_between
from lastro.analysis.trends import TrialOrder, correlated_orders
from lastro.analysis.verdicts import Verdict
from lastro.errors import InputError, did_you_mean
from lastro.grouping import by_key
from lastro.results.samples import Metric, depends_on_speed
from lastro.stats.families import holm
from lastro.stats.intervals import alpha_of, unit_of
from lastro.stats.margins import GateCandidate, gate, ratio_test
from lastro.stats.notes import N_, Note
from lastro.stats.ratios import ratio_of_means
from lastro.stats.resolution import resolution
from lastro.stats.sampled_mean import CampaignSpread, SampledMean
from lastro.study.margins import Margins
from lastro.study.model import PATIENCE, Study

OTHER_SPEED = N_("one of A and B was emulated, so times, rates and CPU use are not comparable with those of the other")
_WORST_FIRST: tuple[Verdict, ...] = ("worse", "higher", "lower", "same", "better", "")


class Uncertainty(NamedTuple):
    """What makes means more uncertain than independent noise, by name of the metric.

    `order_a` and `order_b` have the order of the trials of A and of B, for metrics whose consecutive trials are
    correlated. `between` has the spread between equal campaigns, and `steps` the resolution of the values.
    `other_speed` is true if only one campaign ran on emulated processors, so that times are not comparable."""

    order_a: Mapping[str, TrialOrder]
    order_b: Mapping[str, TrialOrder]
    between: Mapping[str, CampaignSpread]
    steps: Mapping[str, float]
    other_speed: bool = False


def compare(
    a: CampaignResults,
    b: CampaignResults,
    *,
    metrics: Sequence[str] = (),
    margins: Margins | None = None,
    confidence: float | None = None,
    fail_changed_host: bool = False,
    may_differ: Sequence[str] = (),
) -> Comparison:
    """Compare campaign B with campaign A, treatment by treatment.

    `metrics` are names of metrics (default: those that both studies list). `confidence` is by default that of A's
    study. With `margins`, the gate judges the cells. With `fail_changed_host`, the gate also fails if a fact about the
    host differs between A and B, unless the name of the fact matches a pattern in `may_differ`.

    Raises: InputError if A and B are not campaigns of one study, for copies, and for an unknown metric or fact."""
    _check_same_study(a.study, b.study)
    _check_two_campaigns(a, b)
    chosen = _metrics(a, b, metrics)
    confidence = a.study.design.confidence if confidence is None else confidence
    alpha = alpha_of(confidence)
    rows_a, rows_b = ({_levels(row, a.study): row for row in report.rows} for report in (a, b))
    shared = [levels for levels in rows_a if levels in rows_b]
    order_a, order_b = (correlated_orders(report.views, alpha) for report in (a, b))
    between = read_between(a.noise_floor) or read_between(b.noise_floor)
    rows = (*rows_a.values(), *rows_b.values())
    steps = {
        metric.name: resolution([point.value for row in rows for point in _cell(row, metric)[1].points])
        for metric in chosen
    }
    emulated = {report.guest is not None and report.guest.emulated for report in (a, b)}
    noise = Uncertainty(order_a, order_b, between.spreads if between else {}, steps, len(emulated) > 1)
    cells = [
        _compare_cell(metric, levels, _cell(rows_a[levels], metric), _cell(rows_b[levels], metric), noise, confidence)
        for metric in chosen
        for levels in shared
    ]
    adjusted = holm([None if cell.test is None else cell.test.p for cell in cells])
    cells = [replace(cell, p_adjusted=p, alpha=alpha) for cell, p in zip(cells, adjusted, strict=True)]
    if margins is not None:
        cells = _judge_by_gate(cells, margins, alpha)
    differences = tuple(_differences(a, b))
    cells.sort(key=lambda cell: (not cell.regressed, _WORST_FIRST.index(cell.verdict), -cell.loss))
    return Comparison(
        a=a,
        b=b,
        metrics=chosen,
        cells=tuple(cells),
        one_sided=(*_unmatched("A", rows_a, rows_b), *_unmatched("B", rows_b, rows_a)),
        differences=differences,
        confidence=confidence,
        margins=margins,
        between=between,
        changed_host=_unexpected(a, b, differences, may_differ) if fail_changed_host else None,
    )


# Checks that both campaigns are of one study


def _check_same_study(a: Study, b: Study) -> None:
    """Raise InputError unless both studies have the same scenario and factors."""
    hint = "compare takes two campaigns of the same study: same scenario, same factors, same metrics"
    if a.scenario != b.scenario:
        raise InputError(f"A runs scenario {a.scenario}, B runs {b.scenario}: they cannot be compared", hint)
    names_a, names_b = ({factor.name for factor in study.factors} for study in (a, b))
    if names_a != names_b:
        only = [f"only {side} has {', '.join(sorted(more))}" for side, more in
                (("A", names_a - names_b), ("B", names_b - names_a)) if more]  # fmt: skip
        raise InputError(f"the two studies have different factors: {'; '.join(only)}", hint)


def _check_two_campaigns(a: CampaignResults, b: CampaignResults) -> None:
    """Raise InputError if one campaign is a copy of the other, with equal values and attempts at the same times."""
    starts = [[(attempt.trial, attempt.started_utc) for attempt in report.attempts] for report in (a, b)]
    points = [[cell.points for row in report.rows for cell in row.cells] for report in (a, b)]
    if a.attempts and starts[0] == starts[1] and points[0] == points[1] and a.directory != b.directory:
        raise InputError(f"{b.directory} is a copy of {a.directory}", "give two different campaigns of the same study")


def _metrics(a: CampaignResults, b: CampaignResults, names: Sequence[str]) -> tuple[Metric, ...]:
    """Return the metrics with these names, by default those of both studies. Raises: InputError without one."""
    known_a, known_b = ({metric.name: metric for metric in report.metrics} for report in (a, b))
    common = [metric.name for metric in a.study.metrics if metric.name in {m.name for m in b.study.metrics}]
    for name in names:
        if name not in known_a or name not in known_b:
            raise InputError(f"metric '{name}' is not in both campaigns", did_you_mean(name, known_a.keys() & known_b))
    chosen = list(dict.fromkeys(names)) or common
    if not chosen:
        raise InputError(
            "the two studies have no metric in common",
            f"A has {', '.join(known_a) or 'none'}; B has {', '.join(known_b) or 'none'}",
        )
    for name in chosen:
        first, second = known_a[name], known_b[name]
        if (first.unit, first.better) != (second.unit, second.better):
            raise InputError(
                f"metric {name} differs between A and B: {first.unit}, {first.better} is better in A; "
                f"{second.unit}, {second.better} in B",
                "run both campaigns again with this version of Lastro",
            )
    return tuple(known_a[name] for name in chosen)


def _levels(row: Row, study: Study) -> Levels:
    """Return the levels of a treatment as (factor, level) pairs, in the order of the factors of `study`."""
    return tuple((factor.name, row.treatment.levels[factor.name]) for factor in study.factors)


def _cell(row: Row, metric: Metric) -> tuple[Row, Cell]:
    return row, next(cell for cell in row.cells if cell.metric.name == metric.name)


def _compare_cell(
    metric: Metric, levels: Levels, a: tuple[Row, Cell], b: tuple[Row, Cell], noise: Uncertainty, confidence: float
) -> ComparedCell:
    """Compare the values of one treatment and metric in both campaigns; its p-value is not corrected yet."""
    values_a, values_b = (tuple(point.value for point in cell.points) for _, cell in (a, b))
    sides: tuple[tuple[Side, tuple[Row, Cell]], ...] = (("A", a), ("B", b))
    absent = tuple(MissingSide(side, row, cell) for side, (row, cell) in sides if cell.bounded or not cell.points)
    ratio, test, no_test, means = None, None, None, None
    orders = [orders.get(metric.name) for orders in (noise.order_a, noise.order_b)]
    factors = tuple(
        order.variance_factor(cell) if order else 1.0 for order, (_, cell) in zip(orders, (a, b), strict=True)
    )
    if noise.other_speed and depends_on_speed(metric.unit) and not absent:
        no_test = Note(OTHER_SPEED)
    elif not absent:
        between, unit = noise.between.get(metric.name), unit_of(values_a, values_b)
        step = noise.steps[metric.name] / unit
        means_a, means_b = (
            SampledMean.of(
                [value / unit for value in centres(points).values()], factor, between, step, mean_width(points) / unit
            )
            for points, factor in zip((a[1].points, b[1].points), factors, strict=True)
        )
        means = means_a, means_b
        if means_a.value >= 0:
            ratio = ratio_of_means(means_b, means_a, confidence)
            ratio = ratio.above_zero() if metric.non_negative else ratio
        try:
            test = ratio_test(means_b, means_a, 1.0, "either")
        except ValueError as error:
            no_test = error.args[0]
    lost = bool(values_a) and not values_b
    marks = tuple(frozenset(mark.kind for mark in cell.marks) for _, cell in (a, b))
    return ComparedCell(
        metric, levels, values_a, values_b, ratio, test, absent, no_test,
        lost=lost, factors=factors, means=means, marks=marks,
    )  # fmt: skip


def _judge_by_gate(cells: Sequence[ComparedCell], margins: Margins, alpha: float) -> list[ComparedCell]:
    """Return the cells, with the judgement of the gate added to tested cells whose metric has a better direction."""
    candidates = {}
    for at, cell in enumerate(cells):
        if cell.means is not None and cell.test is not None and cell.metric.better != "neither":
            mean_a, mean_b = cell.means
            candidates[at] = GateCandidate(mean_b, mean_a, cell.metric.better)
    of_cells = [margins.of(cell.metric.name) for cell in cells]
    tests = gate(list(candidates.values()), [of_cells[at] for at in candidates], alpha)
    judged = dict(zip(candidates, tests, strict=True))
    return [replace(cell, judged=judged.get(at), margin=of_cells[at]) for at, cell in enumerate(cells)]


def _unmatched(
    side: Side, rows: Mapping[Levels, Row], other_rows: Mapping[Levels, Row]
) -> Iterable[UnmatchedTreatments]:
    """Yield the treatments of one campaign that the other lacks, grouped by the levels that the other does not have."""
    known = {level for levels in other_rows for level in levels}
    unmatched = [levels for levels in rows if levels not in other_rows]
    groups = by_key((tuple(level for level in levels if level not in known), levels) for levels in unmatched)
    for lacking, group in groups.items():
        yield UnmatchedTreatments(side, tuple(group), lacking)


# Provenance, settings and design


def _unexpected(
    a: CampaignResults, b: CampaignResults, differences: Sequence[CampaignDifference], may_differ: Sequence[str]
) -> tuple[CampaignDifference, ...]:
    """Return the differences between the hosts whose names do not match any pattern of `may_differ`.

    Facts about Lastro itself, such as its version, may always differ. Raises: InputError for a name in
    `may_differ` that neither campaign recorded."""
    known = [
        name for side in (a, b) for facts in (named_facts, unnamed_facts) for name in facts(side.provenance.chapters)
    ]
    for name in may_differ:
        if "*" not in name and name not in known:
            raise InputError(f"neither campaign recorded a fact '{name}'", did_you_mean(name, known))
    expected = ("Lastro", *APPARATUS, *may_differ)
    of_hosts = [difference for difference in differences if difference.kind == "provenance"]
    return tuple(difference for difference in of_hosts if not matches_any(difference.what, expected))


def _differences(a: CampaignResults, b: CampaignResults) -> Iterator[CampaignDifference]:
    """Yield the differences between the campaigns in provenance, profile, settings and design."""
    named_of_a, named_of_b = named_facts(a.provenance.chapters), named_facts(b.provenance.chapters)
    constants_of_a, constants_of_b = (
        {name: str(value) for name, value in side.study.constants.items()} for side in (a, b)
    )
    more = changed_facts(unnamed_facts(a.provenance.chapters), unnamed_facts(b.provenance.chapters))
    differences = [
        *(CampaignDifference("provenance", name, named_of_a[name], named_of_b[name]) for name in named_of_a),
        *(CampaignDifference("provenance", name, *values) for name, values in more.items()),
        CampaignDifference("profile", "profile", a.study.profile or None, b.study.profile or None),
        *(
            CampaignDifference("setting", name, constants_of_a.get(name), constants_of_b.get(name))
            for name in {**constants_of_a, **constants_of_b}
            if name not in PATIENCE
        ),
        CampaignDifference("design", "stopping", a.study.design.stopping, b.study.design.stopping),
        CampaignDifference("design", "replicates", str(a.study.design.replicates), str(b.study.design.replicates)),
    ]
    return (difference for difference in differences if difference.a != difference.b)

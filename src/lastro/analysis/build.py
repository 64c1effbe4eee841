"""Build the results of a campaign from its data: cells with their comparisons, progress, gaps. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from lastro.analysis.campaign import (
    CampaignResults,
    Cell,
    Decision,
    Gap,
    InvalidAttempt,
    Point,
    Progress,
    Row,
    Status,
    by_block,
    centres,
    mean_width,
)
from lastro.analysis.properties import build_properties
from lastro.analysis.remarks import (
    FEWER_BLOCKS,
    LOST_TRIALS,
    SECOND_MODE,
    Mark,
    bounded_by,
    marks_by_metric,
    values_lost_by_size,
)
from lastro.grouping import by_key
from lastro.results.members import campaigns_of_blocks
from lastro.results.samples import AT_LEAST, Metric
from lastro.results.segments import split_blocks
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.families import MOST_PLANNED
from lastro.stats.intervals import Estimate, Summary, alpha_of, describe_bounded, ratio_of_bounded
from lastro.stats.ratios import as_baseline_ratio, ratio_to_baseline
from lastro.study.design import Treatment, baseline_indices
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.results.read import CampaignData
    from lastro.results.rows import Attempt, TreatmentRow
    from lastro.stats.block_model import BlockModel
    from lastro.stats.modes import SecondMode

MANY_LOST = 0.10  # if a cell lost a larger fraction of its finished trials, its mean may be biased


def build_report(data: CampaignData, *, all_metrics: bool = False) -> CampaignResults:
    """Build the results of a campaign, finished or not.

    With `all_metrics`, the results include all measured metrics, not only those that the study lists."""
    study, data = data.study, _split_by_segment(data)
    metrics = study.metrics + (_other_metrics(study, data.attempts) if all_metrics else ())
    treatments = [row.treatment for row in data.treatments]
    rows, fits = _rows(data, metrics)
    return CampaignResults(
        directory=data.directory,
        study=study,
        varying=tuple(factor for factor in study.factors if len(factor.levels) > 1),
        metrics=metrics,
        models=tuple(fit.model for fit in fits),
        second_modes=tuple(fit.second_mode for fit in fits),
        rows=rows,
        progress=progress_of(data),
        invalid_attempts=_invalid_attempts(data),
        gaps=_gaps(data),
        later_properties=cache(partial(build_properties, study, treatments, data.attempts)),
        later_series=data.later_series,
        later_histograms=data.later_histograms,
        events=tuple((at, kind, text) for at, kind, text in data.events),
        provenance=data.provenance,
        calibrations=data.calibrations,
        noise_floor=data.noise_floor,
        attempts=data.attempts,
        segments=data.segments,
        looks=data.looks,
        members=data.members,
    )


def _split_by_segment(data: CampaignData) -> CampaignData:
    """Return the data, with each block that spans several segments of host time split into one block per segment."""
    attempts, old_blocks = split_blocks(data.attempts, data.segments)
    members = []
    for member in data.members:
        new_blocks = {new for new, old in old_blocks.items() if old in member.blocks}
        members.append(replace(member, blocks=frozenset(member.blocks) | new_blocks) if old_blocks else member)
    return replace(data, attempts=attempts, members=tuple(members))


def _other_metrics(study: Study, attempts: Iterable[Attempt]) -> tuple[Metric, ...]:
    """Return the measured metrics that the study does not list, as the scenario declared them."""
    listed = {metric.name for metric in study.metrics}
    declared = {metric.name: metric for metric in study.all_metrics}
    names = sorted({name for attempt in attempts for name in attempt.measurements} - listed)
    return tuple(declared.get(name, Metric(name, "", "neither", "")) for name in names)


@dataclass(frozen=True, slots=True)
class _Trials:
    """The valid attempts of one treatment, their marks as {metric: marks}, and the number of invalid trials.

    `reference` is the index of the treatment's baseline; the treatment's own index if it is a baseline or has none."""

    valid: Sequence[Attempt]
    marks: Mapping[str, tuple[Mark, ...]]
    invalid: int
    reference: int


class _MetricFit(NamedTuple):
    """The fit of one metric: {treatment: comparison with its baseline}, the model, and the second mode."""

    compared: Mapping[int, MeanComparison]
    model: BlockModel | None
    second_mode: SecondMode[int] | None


def _rows(data: CampaignData, metrics: Sequence[Metric]) -> tuple[tuple[Row, ...], tuple[_MetricFit, ...]]:
    """Return a row for each treatment, and a fit for each metric, in the order of `metrics`."""
    treatments = [row.treatment for row in data.treatments]
    references = baseline_indices(data.study, treatments)
    states: dict[int, Counter[str]] = defaultdict(Counter)
    for trial in data.trials:
        states[trial.treatment][trial.state] += 1
    valid = by_key((attempt.treatment, attempt) for attempt in data.attempts if attempt.valid)
    by_index = {treatment.index: treatment for treatment in treatments}
    names = [metric.name for metric in metrics]
    trials = {}
    for index in by_index:
        own, reference = valid.get(index, ()), references.get(index, index)  # a baseline has no ratio to itself
        trials[index] = _Trials(own, marks_by_metric(own, names), states[index]["invalid"], reference)
    campaigns = campaigns_of_blocks(data.members)
    columns = [_cells(metric, trials, data.study.design.confidence, campaigns) for metric in metrics]
    rows = tuple(
        Row(
            treatment=row.treatment,
            status=_status(row, states[row.treatment.index]),
            reason=row.unavailable,
            remedy=row.remedy,
            baseline=by_index.get(references.get(row.treatment.index, -1)),
            trials=dict(states[row.treatment.index]),
            cells=tuple(column[row.treatment.index] for column, _ in columns),
        )
        for row in data.treatments
    )
    return rows, tuple(fit for _, fit in columns)


def _status(row: TreatmentRow, states: Mapping[str, int]) -> Status:
    if states["valid"]:
        return "measured" if states["valid"] == sum(states.values()) else "partly"
    if row.unavailable is not None:
        return "unavailable"
    return "pending" if states["pending"] or states["running"] else "invalid"


def _cells(
    metric: Metric, trials: Mapping[int, _Trials], confidence: float, campaigns: Mapping[int, int] | None
) -> tuple[dict[int, Cell], _MetricFit]:
    """Return {treatment: cell} of one metric, and the fit; `campaigns` are {block: campaign} if there are several."""
    points = {
        index: _points(metric, treatment.valid, treatment.marks.get(metric.name, ()))
        for index, treatment in trials.items()
    }
    values = {index: by_block(cell_points) for index, cell_points in points.items()}
    bounded = {index for index, cell_points in points.items() if any(point.at_least for point in cell_points)}
    exact = {index: cell_points for index, cell_points in points.items() if cell_points and index not in bounded}
    fit = _fit(metric, exact, trials, confidence, campaigns)
    step = fit.model.step if fit.model else 0.0
    cells = {}
    for index, cell_points in points.items():
        treatment = trials[index]
        reference, comparison = treatment.reference, fit.compared.get(index)
        ratio = None
        if comparison is not None:
            ratio = as_baseline_ratio(comparison.ratio, (len(values[index]), len(values[reference])))
        elif reference != index and values[index] and values[reference] and not campaigns:
            ratio = ratio_to_baseline(values[index], values[reference], confidence)
            ratio = ratio and ratio_of_bounded(ratio, of=index in bounded, to=reference in bounded)
        in_second_mode = fit.second_mode.trials.get(index, ()) if fit.second_mode else ()
        most = max(len(values[index]), len(values[reference]))
        added_marks = _added_marks(treatment, len(cell_points), ratio, most, len(in_second_mode))
        summary = describe_points(metric, cell_points, confidence, step) if cell_points else None
        decision = decision_by_p(comparison.p_adjusted if comparison else None, alpha_of(confidence))
        marks, missing = (*treatment.marks.get(metric.name, ()), *added_marks), len(treatment.valid) - len(cell_points)
        cells[index] = Cell(metric, cell_points, summary, ratio, comparison, decision, marks=marks, missing=missing)
    return cells, fit


def _added_marks(trials: _Trials, n: int, ratio: Estimate | None, most: int, n_in_second_mode: int) -> Iterator[Mark]:
    """Yield the marks that the analysis adds to a cell of `n` values, of which `n_in_second_mode` are in a second mode.

    `most` is the number of values of its treatment or of its baseline, whichever has more."""
    # A paired ratio has only the blocks with a trial of both.
    if ratio and ratio.pairing == "paired" and ratio.sides[0] < most:
        yield Mark(FEWER_BLOCKS, ratio.sides[0], "with a trial of the baseline in the same block")
    finished = len(trials.valid) + trials.invalid
    if n and finished - n > MANY_LOST * finished:
        yield Mark(LOST_TRIALS, finished - n, f"without a valid value, of {finished}")
    if n_in_second_mode:
        yield Mark(SECOND_MODE, n_in_second_mode, f"apart from the others, of {n}")


def _fit(
    metric: Metric,
    exact: Mapping[int, Sequence[Point]],
    trials: Mapping[int, _Trials],
    confidence: float,
    campaigns: Mapping[int, int] | None,
) -> _MetricFit:
    """Fit a model to the exact values of a metric, {treatment: points}, and compare treatments with their baselines."""
    from lastro.stats.modes import second_mode

    model = fit_model(metric, exact, campaigns)
    pairs = [(index, trials[index].reference) for index in exact]
    pairs = [(index, reference) for index, reference in pairs if reference != index and reference in exact]
    sides = [({index: 1.0}, {reference: 1.0}) for index, reference in pairs]
    comparisons = compare(model, sides, confidence, planned=len(pairs) <= MOST_PLANNED) if model else ()
    compared = {index: comparison for (index, _), comparison in zip(pairs, comparisons, strict=True)}
    return _MetricFit(compared, model, second_mode({index: by_block(points) for index, points in exact.items()}))


def fit_model(
    metric: Metric, points: Mapping[int, Sequence[Point]], campaigns: Mapping[int, int] | None, log: bool | None = None
) -> BlockModel | None:
    """Fit the model of a metric to {treatment: points}; None without any points. `log` is as in `BlockModel.of`."""
    from lastro.stats.block_model import BlockModel

    cells = {index: centres(of_cell) for index, of_cell in points.items()}
    widths = {index: mean_width(of_cell) for index, of_cell in points.items()}
    return BlockModel.of(cells, log=log, campaigns=campaigns, non_negative=metric.non_negative, widths=widths)


def describe_points(metric: Metric, points: Sequence[Point], confidence: float, step: float) -> Summary:
    """Return the summary of the values of a metric, whose resolution is `step`. Raises: ValueError without points."""
    values, bounded, widths = zip(*((p.value, p.at_least, p.width) for p in points), strict=True)
    return describe_bounded(values, bounded, confidence, step, widths=widths, non_negative=metric.non_negative)


def decision_by_p(p_adjusted: float | None, alpha: float) -> Decision:
    """Return "different" if `p_adjusted` is below `alpha`, "same" if it is not, and "unknown" if it is None."""
    if p_adjusted is None:
        return "unknown"
    return "different" if p_adjusted < alpha else "same"


def _points(metric: Metric, attempts: Collection[Attempt], marks: Sequence[Mark]) -> tuple[Point, ...]:
    """Return the values of a metric in the valid attempts of a treatment, in the order of blocks.

    Empty if a value is absent because it was too large or too small: the mean of the others would be biased."""
    if values_lost_by_size(metric.name, attempts, marks):
        return ()
    bounded = bounded_by(attempts, metric.name) if any(mark.kind == AT_LEAST for mark in marks) else frozenset()
    points = []
    for attempt in attempts:
        number, value = (attempt.trial, attempt.attempt), attempt.measurements.get(metric.name)
        if value is not None and math.isfinite(value):
            width = metric.width(attempt.measurements) if metric.cell else 0.0
            points.append(Point(*number, attempt.block, value, number in bounded, width))
    return tuple(sorted(points, key=attrgetter("block")))


def progress_of(data: CampaignData) -> Progress:
    """Return the counts and times of the trials and attempts of a campaign, without any statistics."""
    counts: Counter[str] = Counter(trial.state for trial in data.trials)
    starts = [attempt.started_utc for attempt in data.attempts]
    return Progress(
        counts=dict(counts),
        n_trials=len(data.trials),
        n_attempts=len(data.attempts),
        n_invalid_attempts=sum(not attempt.valid for attempt in data.attempts),
        measured_s=math.fsum(attempt.duration_s for attempt in data.attempts),
        first_utc=min(starts, default=None),
        last_utc=max(starts, default=None),
    )


def _invalid_attempts(data: CampaignData) -> tuple[InvalidAttempt, ...]:
    treatments = {row.treatment.index: row.treatment for row in data.treatments}
    states = {trial.number: trial.state for trial in data.trials}
    return tuple(
        InvalidAttempt(a.trial, a.attempt, a.block, treatments[a.treatment], a.reasons, states[a.trial])
        for a in data.attempts
        if not a.valid
    )


def _gaps(data: CampaignData) -> tuple[Gap, ...]:
    """Return the unavailable treatments grouped by reason and remedy, the group with the most treatments first."""
    unavailable = ((row.unavailable, row) for row in data.treatments if row.unavailable is not None)
    groups = by_key(((reason, row.remedy), row.treatment) for reason, row in unavailable)
    lost = Counter(trial.treatment for trial in data.trials if trial.state == "unavailable")
    gaps = [
        Gap(reason, remedy, common_levels(data.study, group), tuple(group), sum(lost[t.index] for t in group))
        for (reason, remedy), group in groups.items()
    ]
    return tuple(sorted(gaps, key=lambda gap: -len(gap.treatments)))


def common_levels(study: Study, treatments: Sequence[Treatment]) -> str:
    """Return as text which levels these treatments have: 'isolation = apparmor, cgroups'.

    A factor is left out if the treatments have all of its levels; the text is empty if no factor remains."""
    parts = []
    for factor in study.factors:
        present = {treatment.levels[factor.name] for treatment in treatments}
        if len(present) < len(factor.levels):
            parts.append(f"{factor.name} = {', '.join(str(level) for level in factor.levels if level in present)}")
    return "; ".join(parts)

"""The statistical analysis of a campaign: for each metric, the effects of the factors and how certain they are.

Pure: it takes the results of a campaign and returns frozen data. The analysis never fails: a result that cannot be
computed is None, with a reason.
`analyse` takes seconds on large campaigns, so call it only where its results are shown."""

from __future__ import annotations

from dataclasses import replace

from lastro.analysis.campaign import CampaignResults, MetricView
from lastro.analysis.effects import baseline_comparisons, factor_pairs, headline, main_effects, with_marks
from lastro.analysis.factorial import analyse_variance, interactions, spread_notes
from lastro.analysis.lost_trials import lost_trials
from lastro.analysis.metric_values import values_of
from lastro.analysis.model import Analysis, MetricAnalysis, TwoModes
from lastro.analysis.noise_floor import applicable_floor
from lastro.analysis.trends import drift_of, serial_dependence
from lastro.stats.notes import N_, Note

__all__ = ["analyse", "analyse_metric"]


def analyse(report: CampaignResults) -> Analysis:
    """Analyse every metric of the report, with the noise floors that `lastro noise-floor` stored in the campaign."""
    metrics = tuple(analyse_metric(view) for view in report.views)
    return Analysis(metrics, report.study.design.confidence)


def analyse_metric(view: MetricView) -> MetricAnalysis:
    """Analyse one metric of a report."""
    data, known_floor = values_of(view), applicable_floor(view)
    floor = known_floor.share if known_floor else None
    anova, why_none, notes = analyse_variance(data)
    bounded = sum(cell.bounded > 0 for cell in view.cells)
    if bounded and not data.cells:
        why_none = Note(N_("only a lower bound is known for every treatment"))
    effects = main_effects(data, floor)
    comparisons, correction = baseline_comparisons(view, data, floor)
    return MetricAnalysis(
        metric=view.metric,
        n=data.n,
        anova=anova,
        why_none=why_none,
        effects=with_marks(view, effects),
        interactions=tuple(
            replace(interaction, effects=with_marks(view, interaction.effects))
            for interaction in interactions(data, anova, floor)
        ),
        comparisons=comparisons,
        correction=correction,
        pairs=factor_pairs(data, effects, floor),
        drift=drift_of(view),
        serial=serial_dependence(view),
        second_mode=_two_modes(view),
        lost=lost_trials(view),
        headline=headline(anova, effects, comparisons),
        notes=(*notes, *spread_notes(data)),
        floor=floor,
        floor_note=known_floor.note if known_floor else None,
        bounded=bounded,
        log=data.model is not None and data.model.log,
        fraction=data.fraction,
    )


def _two_modes(view: MetricView) -> TwoModes | None:
    """Return the second mode of a metric, with the number of its trials by treatment; None without a second mode."""
    mode = view.second_mode
    if mode is None:
        return None
    exact = [(row, cell) for row, cell in view if cell.points and not cell.bounded]
    counts = [(row.treatment, len(mode.trials.get(row.treatment.index, ())), len(cell.points)) for row, cell in exact]
    counts.sort(key=lambda count: -count[1] / count[2])
    n_trials = sum(len(cell.points) for _, cell in exact)
    return TwoModes(mode.n, n_trials, mode.distance, mode.relative, mode.sds, tuple(counts))

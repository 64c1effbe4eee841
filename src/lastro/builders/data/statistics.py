"""The analysis as JSON-serializable data: the value of `analysis` in the output of `lastro results --json`.

{metric: {n, log, anova, why_no_anova, notes [text], effects, interactions, comparisons, correction, pairs, drift,
serial, second_mode, lost, noise_floor, headline, bounded, fraction}}

anova        {type, log (whether of logarithms), effects [{name, factors, df, ss, ms, f, p, explained}], residual,
             total_ss, n, notes [text]}; explained is the fraction of the total variation; f and p assume that all
             treatments are equally noisy, and no verdict depends on them
effects      [{factor, level, reference, given {factor: level}, ratio, difference, p, p_adjusted, marks [kind],
             decision, cells [used, all], aliases, n [level, reference], noise_floor, under_noise_floor}]; decision is
             different, same or unknown, after correction; marks are the marks on the numbers of both levels;
             difference.n counts blocks where paired, n counts trials; noise_floor is the noise floor of this ratio,
             lower for means over several treatments
interactions [{given, shown, explained, p_adjusted, effects, aliases}]: p_adjusted belongs to the largest contrast
fraction     {resolution, relation, aliases {effect: what is measured together with it}} of a fraction of the design, or
             null; the aliases of an effect are the main effects and interactions of two factors among them
comparisons  [{treatment, baseline (ids), ratio {value, interval}, difference {value, interval, pairing, df}, p,
             p_adjusted, under_noise_floor, decision}]; correction is max-t or benjamini-hochberg
pairs        [{factor, strata, all_strata, left_out, comparisons [{level, reference, ratio, difference, p, p_adjusted,
             strata}]}]: of two levels other than the reference. The intervals of effects, comparisons and pairs are
             corrected as p_adjusted
log          whether the model is of logarithms: then ratios are of geometric means, and a difference is the geometric
             mean of the reference times (ratio - 1)
drift        {tau, p, slope_per_hour, interval, relative, n, absent_because}, from block means
serial       {lag1, p, n, trials, counts_as}: the autocorrelation of trials that follow each other, or null; of the
             treatment whose mean it affects most, the trials count as counts_as independent ones
second_mode  {n, trials, distance, relative, sds, treatments [{treatment (id), n, trials}]}, or null: n of
             the trials lie apart from the others of their treatment and block, by distance: a ratio if relative, else
             in the unit of the metric; sds is its size in standard deviations of the noise
lost         [{treatment (id), lost, trials, baseline_lost, mean, bounds, holds}]: treatments that lost more than a
             tenth of their finished trials, or whose baseline did. mean, and bounds of the ratio, are intervals
             for lost trials anywhere within the range of the valid ones of their treatment; holds is whether the
             verdict is the same in both extreme cases, or null
noise_floor  the relative difference (0.03: 3 %) that two equal treatments rarely exceed here, with the campaign's
             number of blocks; or null. It changes no decision
headline     {factor, explained, widest, different, same, unknown}
bounded      the number of treatments left out of the analysis because only a lower bound is known for them"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import lastro.analysis.model as model
from lastro.builders.data.encoder import Forms, as_object, encode, pick
from lastro.stats.anova import TYPE, Anova, Effect
from lastro.stats.drift import Drift
from lastro.stats.intervals import Estimate
from lastro.stats.simultaneous import Pair
from lastro.study.design import Treatment
from lastro.study.fraction import Fraction

_FORMS: Forms = {
    model.MetricAnalysis: lambda metric: as_object(
        metric, "metric floor_note", why_none="why_no_anova", floor="noise_floor"
    ),
    Anova: lambda anova: {"type": TYPE} | as_object(anova),
    Effect: lambda effect: {"name": effect.name} | as_object(effect),
    model.LevelEffect: lambda effect: (
        as_object(effect, "all_cells comparison", kinds="marks", floor="noise_floor", under_floor="under_noise_floor")
        | pick(effect.comparison, "ratio difference p p_adjusted")
        | {"given": dict(effect.given), "cells": (effect.cells, effect.all_cells)}
    ),
    Estimate: lambda estimate: pick(estimate, "value interval pairing df n absent_because"),
    model.BaselineComparison: lambda comparison: (
        as_object(comparison, under_floor="under_noise_floor")
        | {"ratio": comparison.ratio and pick(comparison.ratio, "value interval")}
    ),
    Treatment: attrgetter("id"),
    model.FactorPairs: lambda factor: (
        pick(factor, "factor strata all_strata left_out")
        | {"comparisons": [_pair(levels, factor.pairs[levels]) for levels in factor.in_order]}
    ),
    model.TwoModes: lambda modes: (
        as_object(modes, "counts")
        | {"treatments": [{"treatment": row, "n": n, "trials": trials} for row, n, trials in modes.counts]}
    ),
    model.LostTrials: lambda lost: as_object(lost, "summary ratio"),
    Drift: lambda drift: (
        pick(drift, "tau relative")
        | {"slope_per_hour": drift.slope_per_hour.value}
        | pick(drift.slope_per_hour, "p interval n absent_because")
    ),
    Fraction: lambda fraction: fraction.document() if fraction else None,
}


def _pair(levels: tuple[str, str], pair: Pair) -> dict[str, Any]:
    level, reference = levels
    compared = pick(pair.comparison, "ratio difference p p_adjusted")
    return {"level": level, "reference": reference} | compared | {"strata": pair.strata}


def analysis_document(analysis: model.Analysis) -> dict[str, Any]:
    """Return {name of a metric: its analysis} as JSON-serializable data, with the keys of this module's docstring."""
    return encode({metric.metric.name: metric for metric in analysis.metrics}, _FORMS)

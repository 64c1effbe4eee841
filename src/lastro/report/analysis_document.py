"""The analysis as JSON-serializable data: the value of `analysis` in the output of `lastro results --json`.

{metric: {n, anova, why_no_anova, notes [text], effects, interactions, comparisons, correction, pairs, checks,
drift, scaling, omnibus, noise_floor, headline, bounded}}

anova        {type, log (whether of logarithms), effects [{name, factors, df, ss, ms, f, p, explained}], residual,
             total_ss, n, notes [text]}; explained is the fraction of the total variation
effects      [{factor, level, reference, given {factor: level}, ratio, difference, p, p_adjusted (Holm), marks [kind],
             decision, cells [used, all], n [level, reference], noise_floor, under_noise_floor}]; decision is different,
             same or unknown, after correction; marks are those on the numbers of both levels; difference.n counts
             blocks where paired, n counts trials; noise_floor is that of this ratio, lower for means over several
             treatments
interactions [{given, shown, explained, p, p_adjusted, effects}]
comparisons  [{treatment, baseline (ids), ratio {value, interval}, difference {value, interval, pairing, df}, p,
             p_adjusted, ranks {p, shift, shift_interval, delta, delta_interval, can_reject}, agrees, no_ranks,
             under_noise_floor, decision}]; correction is holm or benjamini-hochberg
pairs        [{factor, method (tukey-hsd, paired-holm), blocks, means {level: mean}, comparisons [{first, second,
             difference, interval, p}]}]; interval and p are adjusted for the family
checks       {shapiro_w, shapiro_p, brown_forsythe_f, brown_forsythe_p, outliers}; outliers is their number
drift        {tau, p, slope_per_hour, interval, relative, n, absent_because}, from block means
scaling      [{factor, levels, n, lambda, sigma, kappa, peak, no_peak_because}], the Universal Scalability Law;
             a parameter is {value, interval, at_bound}, the peak {n, throughput, interval}
omnibus      {welch {f, df1, df2, p}, kruskal_wallis {h, p}}, or null
noise_floor  the relative difference (0.03: 3 %) below which one treatment is not distinguishable from another here,
             for the campaign's number of blocks; or null
headline     {factor, explained, widest, different, same, unknown}
bounded      the number of treatments left out of the analysis because only a lower bound is known for them"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lastro.analysis.model import (
    Analysis,
    BaselineComparison,
    CountScaling,
    Headline,
    LevelEffect,
    LevelPairs,
    MetricAnalysis,
)
from lastro.stats.anova import TYPE
from lastro.stats.intervals import Interval

if TYPE_CHECKING:
    from lastro.stats.anova import Anova, Effect
    from lastro.stats.contrasts import Contrast
    from lastro.stats.drift import Drift
    from lastro.stats.residual_checks import Checks
    from lastro.stats.usl import Parameter


def analysis_document(analysis: Analysis) -> dict[str, Any]:
    """Return {metric: its analysis}, with the keys of this module's docstring."""
    return {metric.metric.name: _metric(metric) for metric in analysis.metrics}


def interval_document(interval: Interval | None) -> dict[str, float | None] | None:
    """Return the interval as JSON-serializable data; an end that is not finite is null."""
    if interval is None:
        return None
    return {"low": _finite(interval.low), "high": _finite(interval.high), "confidence": interval.confidence}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _metric(metric: MetricAnalysis) -> dict[str, Any]:
    return {
        "n": metric.n,
        "anova": _anova(metric.anova) if metric.anova else None,
        "why_no_anova": _text(metric.why_none),
        "notes": [str(note) for note in metric.notes],
        "effects": [_effect(effect) for effect in metric.effects],
        "interactions": [
            {
                "given": found.given,
                "shown": found.shown,
                "explained": found.explained,
                "p": found.p,
                "p_adjusted": found.p_adjusted,
                "effects": [_effect(effect) for effect in found.effects],
            }
            for found in metric.interactions
        ],
        "comparisons": [_comparison(comparison) for comparison in metric.comparisons],
        "correction": metric.correction,
        "pairs": [_pairs(pairs) for pairs in metric.pairs],
        "checks": _checks(metric.checks) if metric.checks else None,
        "drift": _drift(metric.drift) if metric.drift else None,
        "scaling": [_scaling(scaling) for scaling in metric.scaling],
        "omnibus": metric.omnibus
        and {
            "welch": {
                "f": _finite(metric.omnibus.welch.f),
                "df1": metric.omnibus.welch.df1,
                "df2": _finite(metric.omnibus.welch.df2),
                "p": _finite(metric.omnibus.welch.p),
            },
            "kruskal_wallis": {"h": _finite(metric.omnibus.ranks.statistic), "p": _finite(metric.omnibus.ranks.p)},
        },
        "noise_floor": metric.floor,
        "headline": _headline(metric.headline),
        "bounded": metric.bounded,
    }


def _anova(anova: Anova) -> dict[str, Any]:
    return {
        "type": TYPE,
        "log": anova.log,
        "effects": [_line(effect) for effect in anova.effects],
        "residual": _line(anova.residual),
        "total_ss": anova.total_ss,
        "n": anova.n,
        "notes": [str(note) for note in anova.notes],
    }


def _line(effect: Effect) -> dict[str, Any]:
    return {
        "name": effect.name,
        "factors": list(effect.factors),
        "df": effect.df,
        "ss": _finite(effect.ss),
        "ms": _finite(effect.ms),
        "f": _finite(effect.f),
        "p": _finite(effect.p),
        "explained": _finite(effect.explained),
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return {
        "value": _finite(contrast.value),
        "interval": interval_document(contrast.interval),
        "pairing": contrast.pairing,
        "df": _finite(contrast.df),
        "n": contrast.n,
        "absent_because": _text(contrast.absent_because),
    }


def _effect(effect: LevelEffect) -> dict[str, Any]:
    return {
        "factor": effect.factor,
        "level": effect.level,
        "reference": effect.reference,
        "given": dict(effect.given),
        "ratio": _contrast(effect.ratio),
        "difference": _contrast(effect.difference),
        "p": _finite(effect.difference.p),
        "p_adjusted": _finite(effect.p_adjusted),
        "marks": list(effect.kinds),
        "decision": effect.decision,
        "cells": [effect.cells, effect.all_cells],
        "n": list(effect.n),
        "noise_floor": _finite(effect.floor),
        "under_noise_floor": effect.under_floor,
    }


def _comparison(found: BaselineComparison) -> dict[str, Any]:
    ratio, difference, ranks = found.ratio, found.difference, found.ranks
    return {
        "treatment": found.treatment.id,
        "baseline": found.baseline.id,
        "ratio": ratio and {"value": ratio.value, "interval": interval_document(ratio.interval)},
        "difference": difference
        and {
            "value": _finite(difference.value),
            "interval": interval_document(difference.interval),
            "pairing": difference.pairing,
            "df": _finite(difference.df),
        },
        "p": _finite(found.p),
        "p_adjusted": _finite(found.p_adjusted),
        "ranks": ranks
        and {
            "p": ranks.p,
            "shift": _finite(ranks.shift),
            "shift_interval": interval_document(ranks.shift_interval),
            "delta": ranks.delta,
            "delta_interval": interval_document(ranks.delta_interval),
            "can_reject": ranks.can_reject,
        },
        "agrees": found.agrees,
        "no_ranks": _text(found.no_twin),
        "under_noise_floor": found.under_floor,
        "decision": found.decision,
    }


def _pairs(pairs: LevelPairs) -> dict[str, Any]:
    return {
        "factor": pairs.factor,
        "method": pairs.method,
        "blocks": pairs.n_blocks,
        "means": dict(pairs.means),
        "comparisons": [
            {
                "first": comparison.first,
                "second": comparison.second,
                "difference": _finite(comparison.difference),
                "interval": interval_document(comparison.interval),
                "p": _finite(comparison.p),
            }
            for comparison in pairs.comparisons
        ],
    }


def _checks(checks: Checks) -> dict[str, Any]:
    return {
        "shapiro_w": checks.shapiro_w,
        "shapiro_p": checks.shapiro_p,
        "brown_forsythe_f": _finite(checks.brown_forsythe_f),
        "brown_forsythe_p": _finite(checks.brown_forsythe_p),
        "outliers": len(checks.outliers),
    }


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "tau": _finite(drift.tau),
        "p": _finite(drift.p),
        "slope_per_hour": _finite(drift.slope_per_hour),
        "interval": interval_document(drift.interval),
        "relative": drift.relative,
        "n": drift.n,
        "absent_because": _text(drift.absent_because),
    }


def _scaling(scaling: CountScaling) -> dict[str, Any]:
    fit = scaling.fit
    return {
        "factor": scaling.factor,
        "levels": dict(scaling.levels),
        "n": fit.n,
        "lambda": _parameter(fit.lambda_),
        "sigma": _parameter(fit.sigma),
        "kappa": _parameter(fit.kappa),
        "peak": fit.peak
        and {"n": fit.peak.n, "throughput": fit.peak.throughput, "interval": interval_document(fit.peak.interval)},
        "no_peak_because": _text(fit.no_peak_because),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    interval = interval_document(parameter.interval)
    return {"value": _finite(parameter.value), "interval": interval, "at_bound": parameter.at_bound}


def _headline(headline: Headline) -> dict[str, Any]:
    return {
        "factor": headline.factor,
        "explained": _finite(headline.explained),
        "widest": headline.widest and _effect(headline.widest),
        "different": headline.different,
        "same": headline.same,
        "unknown": headline.unknown,
    }

"""The section on the statistics of each metric: sentences, then tables. Pure.

The sentences report the factor that explains most, the largest effect, how many treatments differ from their baseline,
and the smallest difference that is distinguishable on this host."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.model import Analysis, LevelEffect, MetricAnalysis
from lastro.builders.content import Content
from lastro.builders.stat_tables import METHODS, effect_name, of_variation, tables_behind
from lastro.builders.tables import table_with_place
from lastro.document import Block, Fold, Heading, Paragraph, Span
from lastro.figures.effects import effect_verdict
from lastro.stats.anova import Anova
from lastro.stats.notes import N_, PERCENT
from lastro.units import human_duration, significant
from lastro.words.campaign import HOW_TO_READ
from lastro.words.caveats import lost_sentences, mode_sentences
from lastro.words.estimates import p_text
from lastro.words.language import Language
from lastro.words.numbers import MINUS, VERDICTS, percent, ratio_text
from lastro.words.pairs import with_aliases


def statistics_sentences(metric: MetricAnalysis, say: Language) -> tuple[str, ...]:
    """Return sentences on a metric: the factor that explains most, the largest effect, interactions, comparisons.

    The first sentences warn of a second mode and of lost trials, which restrict the use of the means."""
    caveats = (*mode_sentences(metric, say), *lost_sentences(metric, say))
    return (*caveats, *_effect_sentences(metric, say), *_comparison_sentences(metric, say))


def _effect_sentences(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    if metric.anova is None and metric.why_none is not None:
        yield say("The effects of its factors cannot be estimated: {why}.", why=say.note(metric.why_none))
    if metric.bounded:
        treatments = say.count(metric.bounded, "treatment")
        yield say("Left out of effects and comparisons, because only a lower bound is known: {n}.", n=treatments)
    if metric.anova is not None and metric.headline.factor is not None:
        yield say(
            "{factor} explains most, {share} {of_variation}; {residual} makes up {noise}.",
            factor=effect_name(metric, (metric.headline.factor,), say),
            share=percent(metric.headline.explained or 0.0, say, decimals=1),
            of_variation=of_variation(metric, say),
            residual=residual_words(metric.anova, say),
            noise=percent(metric.anova.residual.explained, say, decimals=1),
        )
    yield from _widest(metric, say)
    for interaction in metric.interactions:
        yield say(
            "The effect of {shown} depends on {given}: their interaction{aliases} explains {share} {of_variation}.",
            shown=interaction.shown,
            given=interaction.given,
            aliases=with_aliases(interaction.aliases, say),
            share=percent(interaction.explained, say, decimals=1),
            of_variation=of_variation(metric, say),
        )


def residual_words(anova: Anova, say: Language) -> str:
    """Return the name of the residual: 'noise between trials' if it contains nothing else.

    It also contains interactions if there are no blocks, or if the highest interaction has no line in the table."""
    names = [effect.factors for effect in anova.effects]
    if ("block",) not in names:
        return say("the residual (no replication: interactions and noise are not separable)")
    n_factors = sum(len(factors) == 1 for factors in names) - 1  # the block is not a factor
    if max(map(len, names)) < n_factors:  # the highest interaction has no line
        return say("the residual (noise and higher interactions)")
    return say("noise between trials")


def _widest(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield a sentence on the largest effect of a level, significant or not; nothing if no effect could be tested."""
    effect = metric.headline.widest
    if effect is None or effect.decision == "unknown" or effect.distance == 0:
        return
    n = sum(other.p is not None for other in metric.effects)
    ratio = ratio_text(effect.ratio, say)
    if effect.decision == "same":
        yield say(
            "No level of any factor differs significantly from its reference, after correction for {comparisons}; "
            "the largest effect is that of {level}, {ratio}.",
            comparisons=say.count(n, "comparison"),
            level=_level(effect, say),
            ratio=ratio,
        )
        return
    yield say(
        "The largest effect is that of {level} instead of {reference}: {ratio}, {verdict} (p {p} after correction "
        "for {comparisons}).",
        level=_level(effect, say),
        reference=effect.reference,
        ratio=ratio,
        verdict=say(VERDICTS[effect_verdict(metric.metric, effect)]),
        p=p_text(effect.p_adjusted, say, sign=True),
        comparisons=say.count(n, "comparison"),
    )


def _level(effect: LevelEffect, say: Language) -> str:
    return f"{effect.factor} = {effect.level}" + with_aliases(effect.aliases, say)


def _comparison_sentences(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield a sentence on how many treatments differ from their baseline; nothing without any to compare."""
    different, same = metric.headline.different, metric.headline.same
    if metric.headline.unknown and not different + same:
        yield say("Too few trials to test any difference from the baseline.")
    if different + same:
        yield say(
            "Of {treatments} compared with the baseline, {different} can be distinguished from it here and {same} "
            "cannot, after correction for {comparisons} ({method}).",
            treatments=say.count(different + same, "treatment"),
            different=say.integer(different),
            same=say.integer(same),
            comparisons=say.count(different + same, "comparison"),
            method=METHODS[metric.correction],
        )


def noise_floor_sentence(analysis: Analysis, say: Language) -> str:
    """Return a sentence with the noise floor of each metric, or that it is not known; empty without measurements."""
    known = [(metric.metric.name, metric.floor) for metric in analysis.metrics if metric.floor is not None]
    if known:
        floors = ", ".join(f"{name} {percent(floor, say, decimals=1)}" for name, floor in known)
        return say("Equal treatments rarely differ on this host by more than the noise floor: {floors}.", floors=floors)
    unknown = N_(
        "The noise floor of this host is not known; the command lastro noise-floor measures it by comparing the "
        "baseline with itself."
    )
    return say(unknown) if any(metric.n for metric in analysis.metrics) else ""


def time_sentences(metric: MetricAnalysis, alpha: float, say: Language) -> Iterator[str]:
    """Yield a sentence on the drift of a metric, and one if trials close in time are significantly correlated."""
    yield from filter(None, [drift_sentence(metric, alpha, say)])
    serial = metric.serial
    if serial is not None and serial.p < alpha and serial.matters:
        yield say(
            "{metric}: trials close in time are correlated (autocorrelation {r}, p {p}). So {n} trials of a treatment "
            "count as about {k}, and the intervals of means are too narrow. Ratios within blocks hold.",
            metric=metric.metric.name,
            r=say.number(f"{serial.lag1:.2f}"),
            p=p_text(serial.p, say, sign=True),
            n=say.integer(serial.trials),
            k=say.number(f"{serial.counts_as:.1f}"),
        )


def drift_sentence(metric: MetricAnalysis, alpha: float, say: Language) -> str:
    """Return a sentence on the drift of a metric over the campaign, significant or not; empty without an analysis."""
    drift, name = metric.drift, metric.metric.name
    if drift is None:
        return ""
    slope = drift.slope_per_hour
    if slope.p is None or slope.value is None:
        why = say.note(slope.absent_because) if slope.absent_because else say("no valid value")
        return say("{metric}: no trend can be estimated ({why}).", metric=name, why=why)
    if slope.p >= alpha:
        p = p_text(slope.p, say, sign=True)
        return say("{metric}: no significant drift (p {p}, {n} points in time).", metric=name, p=p, n=slope.n)
    scale, unit = (100.0, PERCENT) if drift.relative else (1.0, f" {metric.metric.unit}".rstrip())
    return say(
        "{metric}: a drift of {change} over {time} (p {p}, {n} points in time). Blocks balance it between "
        "treatments; it widens intervals that are not paired.",
        metric=name,
        change=say.number(significant(scale * slope.value * drift.span_hours, 2).replace("-", MINUS)) + unit,
        time=human_duration(3600 * drift.span_hours),
        p=p_text(slope.p, say, sign=True),
        n=slope.n,
    )


def metric_summary(metric: MetricAnalysis, say: Language) -> str:
    """Return one line for the heading of the fold of a metric: trials, leading factor, comparisons."""
    parts = [say.count(metric.n, "trial")]
    if metric.anova is not None and metric.headline.factor is not None:
        share = percent(metric.headline.explained or 0.0, say, decimals=1)
        factor = effect_name(metric, (metric.headline.factor,), say)
        parts.append(say("{factor} explains {share}", factor=factor, share=share))
    if metric.comparisons:
        n = say.count(len(metric.comparisons), "comparison")
        text = N_("{comparisons}, {different} of them significant")
        parts.append(say(text, comparisons=n, different=metric.headline.different))
    return "; ".join(parts)


def statistics_blocks(content: Content) -> Iterator[Block]:
    """Yield the statistics of each metric, folded; effects and interactions have sections of their own."""
    say = content.say
    yield Heading(say("The statistics behind it"), "statistics", say("Statistics"))
    yield Paragraph(say(HOW_TO_READ), dim=True)
    yield Paragraph(noise_floor_sentence(content.analysis, say))
    for metric in content.analysis.metrics:
        tables = (table_with_place(table, content.report, say) for table in tables_behind(metric, say))
        blocks = (table if table else Paragraph(table.note, dim=True) for table in tables)
        body = (Paragraph(" ".join(statistics_sentences(metric, say))), *blocks)
        summary = (Span(metric.metric.name, "strong"), Span(f": {metric_summary(metric, say)}"))
        yield Fold(summary, tuple(filter(None, body)))

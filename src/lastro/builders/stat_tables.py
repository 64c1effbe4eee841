"""The tables of the statistics behind the findings: effects, interactions, variance, comparisons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastro.analysis.claims import Judgement
from lastro.analysis.model import BaselineComparison, FactorPairs, Interaction, LevelEffect, MetricAnalysis
from lastro.document import Table
from lastro.figures.effects import effect_verdict, mark_texts
from lastro.stats.anova import TYPE, Anova, Effect
from lastro.stats.contrasts import MeanComparison
from lastro.stats.intervals import Estimate
from lastro.stats.notes import N_
from lastro.words import claims as claim_words
from lastro.words.claims import measured_text
from lastro.words.estimates import difference_text, number_text, numeric, p_text
from lastro.words.language import Language
from lastro.words.numbers import VERDICT_MARKS, metric_heading, percent, ratio_text
from lastro.words.pairs import with_aliases
from lastro.words.remarks import signs_of

LEAST_LEVELS, MOST_LEVELS = 3, 8  # of a factor with a table of pairs
METHODS = {"max-t": "max-|t|", "benjamini-hochberg": "Benjamini–Hochberg"}
DECISIONS = {"different": N_("different"), "same": N_("not distinguishable here"), "unknown": N_("not testable")}


def tables_behind(metric: MetricAnalysis, say: Language) -> list[Table]:
    """Return the tables of the statistics section of one metric: variance, comparisons, pairs of levels.

    Tables without rows are left out, except the analysis of variance, whose note says why there is none."""
    factors = [factor for factor in metric.pairs if LEAST_LEVELS <= len(factor.levels) <= MOST_LEVELS]
    pairs = [pairs_table(metric, factor, say) for factor in factors]
    tables = [anova_table(metric, say), comparisons_table(metric, say), *pairs]
    return [table for table in tables if table or table.name.startswith("anova")]


def effects_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of the main effects: each level of a factor against its reference, over all other factors."""
    return Table(
        f"effects-{metric.metric.name}",
        say("Effect of each level on {metric}", metric=metric.metric.name),
        (say("factor"), *_effect_columns(metric, say)),
        tuple((effect.factor, *_effect_row(metric, effect, say)) for effect in metric.effects),
        numeric(3, 10),
        note=_notes(
            say("Intervals and p are corrected for all effects of this table (max-|t|)."), metric, metric.effects, say
        ),
    )


def interaction_table(metric: MetricAnalysis, interaction: Interaction, say: Language) -> Table:
    """Return a table of the effects of factor `interaction.shown` at each level of factor `interaction.given`."""
    given, shown = interaction.given, interaction.shown
    explains = say(
        "The interaction{aliases} explains {share} {of_variation} (p {p} after correction).",
        aliases=with_aliases(interaction.aliases, say),
        share=percent(interaction.explained, say, decimals=1),
        of_variation=of_variation(metric, say),
        p=p_text(interaction.p_adjusted, say, sign=True),
    )
    return Table(
        f"interaction-{metric.metric.name}-{given}-{shown}",
        say("{shown} under each {given}, on {metric}", shown=shown, given=given, metric=metric.metric.name),
        (given, *_effect_columns(metric, say)),
        tuple(
            (", ".join(level for _, level in effect.given), *_effect_row(metric, effect, say))
            for effect in interaction.effects
        ),
        numeric(3, 10),
        note=_notes(explains, metric, interaction.effects, say),
    )


def of_variation(metric: MetricAnalysis, say: Language) -> str:
    """Return 'of the variation', or 'of the variation (of logarithms)', to follow a percentage in a sentence."""
    return say("of the variation (of logarithms)") if metric.log else say("of the variation")


def _notes(first: str, metric: MetricAnalysis, effects: Sequence[LevelEffect], say: Language) -> str:
    shared = {effect.factor: effect.aliases for effect in effects if effect.aliases}
    aliases = (f"{factor}{with_aliases(aliases, say)}." for factor, aliases in shared.items())
    return " ".join((first, *_floor_notes(metric, say), *mark_texts(effects, say), *aliases))


def _floor_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield notes on the noise floor with which ratios were compared; nothing without a noise floor."""
    if metric.floor is None:
        return
    yield say(
        "Noise floor: {share} for one treatment against another, less for means over several.",
        share=percent(metric.floor, say, decimals=1),
    )
    if metric.floor_note is not None:
        note = say.note(metric.floor_note)
        yield f"{note[:1].upper()}{note[1:]}."


def _effect_columns(metric: MetricAnalysis, say: Language) -> tuple[str, ...]:
    unit = metric_heading(metric.metric).partition(" (")[2].rstrip(")")
    difference = say("difference ({unit})", unit=unit) if unit else say("difference")
    return (
        say("level"), say("against"), say("ratio"), difference, "p", say("p corrected"), "n (df)", say("trials"),
        say("combinations"),
    )  # fmt: skip


def _effect_row(metric: MetricAnalysis, effect: LevelEffect, say: Language) -> tuple[str, ...]:
    """Return the cells of the row of an effect, without the factor, in the order of `_effect_columns`."""
    mark = VERDICT_MARKS[effect_verdict(metric.metric, effect)]
    ratio = f"{mark} {ratio_text(effect.ratio, say)}".strip() + signs_of(effect.kinds)
    return (
        effect.level,
        effect.reference,
        f"{ratio} ({say('below the noise floor')})" if effect.under_floor else ratio,
        difference_text(effect.difference, say),
        p_text(effect.p, say),
        p_text(effect.p_adjusted, say),
        _n_text(effect.difference, say),
        f"{say.integer(effect.n[0])} / {say.integer(effect.n[1])}",
        say("{n} of {all}", n=effect.cells, all=effect.all_cells),
    )


def _n_text(estimate: Estimate, say: Language) -> str:
    """Format n and the degrees of freedom of a test: '12 blocks (11)' if paired, else '24 trials (22)'."""
    n = say.count(estimate.n, "block" if estimate.pairing == "paired" else "trial")
    if estimate.df is None:
        return n
    df = say.integer(round(estimate.df)) if estimate.df >= 100 else say.number(f"{estimate.df:.3g}")
    return f"{n} ({df})"


def pairs_table(metric: MetricAnalysis, pairs: FactorPairs, say: Language) -> Table:
    """Return a table of the pairs of levels of one factor, averaged over the levels of all other factors.

    Pairs with the reference are main effects, in a table of their own."""
    unit = metric.metric.unit
    return Table(
        f"pairs-{metric.metric.name}-{pairs.factor}",
        say("Pairs of other levels of {factor}, in {metric}", factor=pairs.factor, metric=metric.metric.name),
        (
            say("level"),
            say("against"),
            say("ratio"),
            say("difference ({unit})", unit=unit) if unit else say("difference"),
            say("p corrected"),
        ),
        tuple((*level_pair, *_pair_texts(pairs.pairs[level_pair].comparison, say)) for level_pair in pairs.in_order),
        numeric(2, 5),
        note=say(
            "Comparisons with {reference} are in the table of effects. Intervals and p are corrected for the pairs of "
            "other levels of all factors (max-|t|).",
            reference=pairs.reference,
        ),
    )


def _pair_texts(comparison: MeanComparison, say: Language) -> tuple[str, str, str]:
    return (
        ratio_text(comparison.ratio, say),
        difference_text(comparison.difference, say),
        p_text(comparison.p_adjusted, say),
    )


def claims_table(judgements: Sequence[Judgement], note: str, say: Language) -> Table:
    """Return a table of claims: text, published and measured effect, p-values, n, and the verdict with its reason."""
    columns = (say("claim"), say("published"), say("measured"), "p", say("p corrected"), "n", say("verdict"))
    rows = tuple(_claim_row(judgement, say) for judgement in judgements)
    title = say("Every claim, with what was published and what was measured")
    return Table("claims", title, columns, rows, frozenset({3, 4, 5}), frozenset({0, 2, 6}), note)


def _claim_row(judgement: Judgement, say: Language) -> tuple[str, ...]:
    claim, part = judgement.claim, judgement.part
    where = " · ".join(text for text in (claim.statement.metric, claim.where) if text)
    verdict = f"{claim_words.verdict_text(judgement, say)}: {claim_words.reason_text(judgement, say)}"
    return (
        f"{claim.text(say.code)} ({where})" if where else claim.text(say.code),
        claim_words.published_text(claim.published, say) or "—",
        measured_text(judgement, say) if part else "—",
        p_text(judgement.p, say),
        p_text(judgement.p_adjusted, say),
        str(part.effect.n) if part else "",
        "; ".join(filter(None, (verdict, claim_words.beside_text(claim, say)))),
    )


def anova_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return the table of the analysis of variance, with the fraction of the variation that each effect explains.

    Without an analysis, the table has no rows, and its note says why."""
    anova = metric.anova
    columns = (say("source"), "df", "SS", say("explained"))
    title = say("Analysis of variance of {metric}", metric=metric.metric.name)
    name = f"anova-{metric.metric.name}"
    if anova is None:
        why = say.note(metric.why_none) if metric.why_none else ""
        return Table(name, title, columns, (), note=say("No analysis of variance: {why}.", why=why))
    rows = [_anova_row(metric, effect, say) for effect in (*anova.effects, anova.residual)]
    df = sum(effect.df for effect in (*anova.effects, anova.residual))
    rows.append((say("total"), say.integer(df), number_text(anova.total_ss, say), percent(1.0, say, decimals=1)))
    return Table(name, title, columns, tuple(rows), numeric(1, 4), note=" ".join(_anova_notes(metric, anova, say)))


def effect_name(metric: MetricAnalysis, effect: tuple[str, ...], say: Language) -> str:
    """Return the name of an effect, followed by the effects that a fraction of the design measures together with it.

    `effect` has the names of its factors. An alias of three or more factors is left out if it also has more factors
    than the effect."""
    most = max(2, len(effect))
    aliases = [metric.fraction.text(alias) for alias in metric.fraction.aliases(effect) if len(alias) <= most]
    return " × ".join(effect) + with_aliases(aliases, say)


def _anova_row(metric: MetricAnalysis, effect: Effect, say: Language) -> tuple[str, ...]:
    names = {"block": N_("block"), "residual": N_("residual")}
    return (
        say(names[effect.name]) if effect.name in names else effect_name(metric, effect.factors, say),
        say.integer(effect.df),
        number_text(effect.ss, say),
        percent(effect.explained, say, decimals=1),
    )


def _anova_notes(metric: MetricAnalysis, anova: Anova, say: Language) -> Sequence[str]:
    kind = say("Type {kind}, n = {n}.", kind=TYPE, n=say.integer(anova.n))
    notes = dict.fromkeys(say.note(note) for note in (*metric.notes, *anova.notes))
    return (kind, *(f"{note[:1].upper()}{note[1:]}." for note in notes))


def comparisons_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of every treatment against its baseline: ratio, raw and corrected p, and verdict."""
    method = METHODS[metric.correction]
    columns = (say("treatment"), say("ratio to the baseline"), "p", f"p ({method})", say("verdict"))
    return Table(
        f"comparisons-{metric.metric.name}",
        say("Comparisons with the baseline in {metric}", metric=metric.metric.name),
        columns,
        tuple(_comparison_row(comparison, say) for comparison in metric.comparisons),
        numeric(2, 4),
        frozenset({0}),
        note=say("Corrected by {method} over the {n} of this table.", method=method, n=len(metric.comparisons)),
    )


def _comparison_row(comparison: BaselineComparison, say: Language) -> tuple[str, ...]:
    verdict = say(DECISIONS[comparison.decision])
    if comparison.under_floor:
        verdict = say("{verdict}: below the noise floor", verdict=verdict)
    return (
        comparison.treatment.label,
        ratio_text(comparison.ratio, say) if comparison.ratio else say("no ratio"),
        p_text(comparison.p, say),
        p_text(comparison.p_adjusted, say),
        verdict,
    )

"""The tables of the statistics behind the findings: effects, interactions, variance, comparisons. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.analysis.claims import Judgement
from lastro.analysis.model import FactorPairs, Interaction, LevelEffect, MetricAnalysis
from lastro.document import Table
from lastro.figures.effects import effect_verdict, mark_texts
from lastro.stats.anova import TYPE
from lastro.stats.intervals import Estimate
from lastro.stats.notes import N_
from lastro.words import claims as claim_words
from lastro.words.claims import measured_text
from lastro.words.estimates import difference_text, number_text, numeric, p_text
from lastro.words.language import Language
from lastro.words.numbers import VERDICT_MARKS, percent, ratio_text
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
    name, title = metric.metric.name, say("Effect of each level on {metric}", metric=metric.metric.name)
    columns = (say("factor"), *_effect_columns(metric, say))
    rows = tuple((effect.factor, *_effect_row(metric, effect, say)) for effect in metric.effects)
    corrected = say("Intervals and p are corrected for all effects of this table (max-|t|).")
    note = _notes(corrected, metric, metric.effects, say)
    return Table(f"effects-{name}", title, columns, rows, numeric(3, 10), note=note)


def interaction_table(metric: MetricAnalysis, interaction: Interaction, say: Language) -> Table:
    """Return a table of the effects of factor `interaction.shown` at each level of factor `interaction.given`."""
    given, shown, name = interaction.given, interaction.shown, metric.metric.name
    explains = say(
        "The interaction{aliases} explains {share} {of_variation} (p {p} after correction).",
        aliases=with_aliases(interaction.aliases, say),
        share=percent(interaction.explained, say, decimals=1),
        of_variation=of_variation(metric, say),
        p=p_text(interaction.p_adjusted, say, sign=True),
    )
    title = say("{shown} under each {given}, on {metric}", shown=shown, given=given, metric=name)
    rows = tuple(
        (", ".join(level for _, level in effect.given), *_effect_row(metric, effect, say))
        for effect in interaction.effects
    )
    columns, note = (given, *_effect_columns(metric, say)), _notes(explains, metric, interaction.effects, say)
    return Table(f"interaction-{name}-{given}-{shown}", title, columns, rows, numeric(3, 10), note=note)


def of_variation(metric: MetricAnalysis, say: Language) -> str:
    """Return 'of the variation', or 'of the variation (of logarithms)', to follow a percentage in a sentence."""
    return say("of the variation (of logarithms)") if metric.log else say("of the variation")


def _notes(first: str, metric: MetricAnalysis, effects: Sequence[LevelEffect], say: Language) -> str:
    texts = [first]
    if metric.floor is not None:
        text = N_("Noise floor: {share} for one treatment against another, less for means over several.")
        texts.append(say(text, share=percent(metric.floor, say, decimals=1)))
        note = say.note(metric.floor_note) if metric.floor_note else ""
        texts += [f"{note[:1].upper()}{note[1:]}."] if note else []
    shared = {effect.factor: effect.aliases for effect in effects if effect.aliases}
    aliases = (f"{factor}{with_aliases(aliases, say)}." for factor, aliases in shared.items())
    return " ".join((*texts, *mark_texts(effects, say), *aliases))


def _effect_columns(metric: MetricAnalysis, say: Language) -> tuple[str, ...]:
    return (
        say("level"), say("against"), say("ratio"), _difference_heading(metric, say), "p", say("p corrected"), "n (df)",
        say("trials"), say("combinations"),
    )  # fmt: skip


def _difference_heading(metric: MetricAnalysis, say: Language) -> str:
    unit = metric.metric.unit
    return say("difference ({unit})", unit=unit) if unit else say("difference")


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
    compared = [(levels, pairs.pairs[levels].comparison) for levels in pairs.in_order]
    return Table(
        f"pairs-{metric.metric.name}-{pairs.factor}",
        say("Pairs of other levels of {factor}, in {metric}", factor=pairs.factor, metric=metric.metric.name),
        (say("level"), say("against"), say("ratio"), _difference_heading(metric, say), say("p corrected")),
        tuple(
            (*levels, ratio_text(of.ratio, say), difference_text(of.difference, say), p_text(of.p_adjusted, say))
            for levels, of in compared
        ),
        numeric(2, 5),
        note=say(
            "Comparisons with {reference} are in the table of effects. Intervals and p are corrected for the pairs of "
            "other levels of all factors (max-|t|).",
            reference=pairs.reference,
        ),
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
        "; ".join(filter(None, (verdict, claim_words.contradiction_text(claim, say), claim.note_text(say.code)))),
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
    names, rows = {"block": N_("block"), "residual": N_("residual")}, []
    for effect in (*anova.effects, anova.residual):
        source = say(names[effect.name]) if effect.name in names else effect_name(metric, effect.factors, say)
        ss, share = number_text(effect.ss, say), percent(effect.explained, say, decimals=1)
        rows.append((source, say.integer(effect.df), ss, share))
    df = sum(effect.df for effect in (*anova.effects, anova.residual))
    rows.append((say("total"), say.integer(df), number_text(anova.total_ss, say), percent(1.0, say, decimals=1)))
    kind = say("Type {kind}, n = {n}.", kind=TYPE, n=say.integer(anova.n))
    notes = dict.fromkeys(say.note(note) for note in (*metric.notes, *anova.notes))
    note = " ".join((kind, *(f"{note[:1].upper()}{note[1:]}." for note in notes)))
    return Table(name, title, columns, tuple(rows), numeric(1, 4), note=note)


def effect_name(metric: MetricAnalysis, effect: tuple[str, ...], say: Language) -> str:
    """Return the name of an effect, followed by the effects that a fraction of the design measures together with it.

    `effect` has the names of its factors. An alias of three or more factors is left out if it also has more factors
    than the effect."""
    most = max(2, len(effect))
    aliases = [metric.fraction.text(alias) for alias in metric.fraction.aliases(effect) if len(alias) <= most]
    return " × ".join(effect) + with_aliases(aliases, say)


def comparisons_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of every treatment against its baseline: ratio, raw and corrected p, and verdict."""
    method = METHODS[metric.correction]
    columns = (say("treatment"), say("ratio to the baseline"), "p", f"p ({method})", say("verdict"))
    rows = []
    for comparison in metric.comparisons:
        verdict = say(DECISIONS[comparison.decision])
        if comparison.under_floor:
            verdict = say("{verdict}: below the noise floor", verdict=verdict)
        ratio = ratio_text(comparison.ratio, say) if comparison.ratio else say("no ratio")
        ps = p_text(comparison.p, say), p_text(comparison.p_adjusted, say)
        rows.append((comparison.treatment.label, ratio, *ps, verdict))
    name, title = metric.metric.name, say("Comparisons with the baseline in {metric}", metric=metric.metric.name)
    note = say("Corrected by {method} over the {n} of this table.", method=method, n=len(rows))
    return Table(f"comparisons-{name}", title, columns, tuple(rows), numeric(2, 4), frozenset({0}), note)

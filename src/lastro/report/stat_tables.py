"""The tables of the statistics behind the findings: effects, interactions, variance, comparisons. As text; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lastro.report import claim_words
from lastro.report.claims_text import measured_text
from lastro.report.expected_table import expected_table
from lastro.report.figures.effects import judged, mark_words
from lastro.report.language import Language
from lastro.report.numbers import MINUS, VERDICT_MARKS, contrast_ratio, fixed, metric_heading, ratio_text
from lastro.report.remark_words import signs_of
from lastro.report.tables import Table
from lastro.stats.anova import TYPE
from lastro.stats.notes import N_
from lastro.units import significant

if TYPE_CHECKING:
    from lastro.analysis.claims import Judgement
    from lastro.analysis.model import (
        BaselineComparison,
        FactorPairs,
        Interaction,
        LevelEffect,
        MetricAnalysis,
        RankTwin,
    )
    from lastro.stats.anova import Anova, Effect
    from lastro.stats.contrasts import Contrast, MeanComparison
    from lastro.stats.intervals import Interval
    from lastro.stats.randomisation import Randomisation
    from lastro.stats.usl import Parameter

LEAST_LEVELS, MOST_LEVELS = 3, 8  # of a factor with a table of all pairs
METHODS = {"max-t": "max-|t|", "benjamini-hochberg": "Benjamini–Hochberg"}
DECISIONS = {
    "different": N_("different"),
    "same": N_("not distinguishable here"),
    "unknown": N_("not testable"),
}


def tables_behind(metric: MetricAnalysis, say: Language) -> list[Table]:
    """Return the tables of the statistics section of one metric, variance first; those without rows are left out."""
    pairs = [pairs_table(metric, one, say) for one in metric.pairs if LEAST_LEVELS <= len(one.levels) <= MOST_LEVELS]
    against = [comparisons_table(metric, say), ranks_table(metric, say), quantiles_table(metric, say)]
    against.append(expected_table(metric, say))
    found = [anova_table(metric, say), *against, *pairs, usl_table(metric, say)]
    return [table for table in found if table or table.name.startswith("anova")]


def effects_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of the main effects: each level of a factor against its reference, over all other factors."""
    return Table(
        f"effects-{metric.metric.name}",
        say("Effect of each level on {metric}", metric=metric.metric.name),
        (say("factor"), *_effect_columns(metric, say)),
        tuple((effect.factor, *_effect_row(metric, effect, say)) for effect in metric.effects),
        _numbers(3, 10),
        note=_notes(
            say("Intervals and p are corrected for all effects of this table (max-|t|)."), metric, metric.effects, say
        ),
    )


def interaction_table(metric: MetricAnalysis, interaction: Interaction, say: Language) -> Table:
    """Return a table of the simple effects of one factor, at each level of the other factor."""
    given, shown = interaction.given, interaction.shown
    explains = say(
        "The interaction explains {share} {of_variation} (p {p} after correction).",
        share=share_text(interaction.explained, say),
        of_variation=of_variation(metric, say),
        p=p_text(interaction.p_adjusted, say, sign=True),
    )
    return Table(
        f"interaction-{metric.metric.name}-{given}-{shown}",
        say("{shown} under each {given}, on {metric}", shown=shown, given=given, metric=metric.metric.name),
        (given, *_effect_columns(metric, say)),
        tuple((_given(effect), *_effect_row(metric, effect, say)) for effect in interaction.effects),
        _numbers(3, 10),
        note=_notes(explains, metric, interaction.effects, say),
    )


def of_variation(metric: MetricAnalysis, say: Language) -> str:
    """Return 'of the variation', to follow a percentage from the analysis of variance; it may be of logarithms."""
    return say("of the variation (of logarithms)") if metric.log else say("of the variation")


def _notes(first: str, metric: MetricAnalysis, effects: Sequence[LevelEffect], say: Language) -> str:
    return " ".join((first, *_floor_notes(metric, say), *mark_words(effects, say)))


def _floor_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield the noise floor by which ratios were judged, and the note on it; nothing without a noise floor."""
    if metric.floor is None:
        return
    yield say(
        "Noise floor: {share} for one treatment against another, less for means over several.",
        share=share_text(metric.floor, say),
    )
    if metric.floor_note is not None:
        note = say.note(metric.floor_note)
        yield f"{note[:1].upper()}{note[1:]}."


def _numbers(first: int, end: int) -> frozenset[int]:
    return frozenset(range(first, end))


def _given(effect: LevelEffect) -> str:
    return ", ".join(level for _, level in effect.given)


def _effect_columns(metric: MetricAnalysis, say: Language) -> tuple[str, ...]:
    unit = metric_heading(metric.metric).partition(" (")[2].rstrip(")")
    difference = say("difference ({unit})", unit=unit) if unit else say("difference")
    return (
        say("level"), say("against"), say("ratio"), difference, "p", say("p corrected"), "n (df)", say("trials"),
        say("combinations"),
    )  # fmt: skip


def _effect_row(metric: MetricAnalysis, effect: LevelEffect, say: Language) -> tuple[str, ...]:
    mark = VERDICT_MARKS[judged(metric.metric, effect)]
    ratio = f"{mark} {contrast_ratio(effect.ratio, say)}".strip() + signs_of(effect.kinds)
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


def _n_text(found: Contrast, say: Language) -> str:
    """Format n and the degrees of freedom of a test: '12 blocks (11)'; trials where it is not paired."""
    n = say.count(found.n, "block" if found.pairing == "paired" else "trial")
    if found.df is None:
        return n
    df = say.integer(round(found.df)) if found.df >= 100 else say.number(f"{found.df:.3g}")
    return f"{n} ({df})"


def anova_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return the analysis of variance, with the fraction of the variation that each effect explains."""
    anova = metric.anova
    columns = (say("source"), "df", "SS", "MS", "F", "p", say("explained"))
    title = say("Analysis of variance of {metric}", metric=metric.metric.name)
    name = f"anova-{metric.metric.name}"
    if anova is None:
        why = say.note(metric.why_none) if metric.why_none else ""
        notes = (say("No analysis of variance: {why}.", why=why), *_omnibus_notes(metric, say))
        return Table(name, title, columns, (), note=" ".join(notes))
    rows = [_anova_row(effect, say) for effect in (*anova.effects, anova.residual)]
    df = sum(effect.df for effect in (*anova.effects, anova.residual))
    rows.append((say("total"), say.integer(df), _number(anova.total_ss, say), "", "", "", share_text(1.0, say)))
    return Table(name, title, columns, tuple(rows), _numbers(1, 7), note=" ".join(_anova_notes(metric, anova, say)))


def _anova_row(effect: Effect, say: Language) -> tuple[str, ...]:
    names = {"block": N_("block"), "residual": N_("residual")}
    return (
        say(names[effect.name]) if effect.name in names else effect.name,
        say.integer(effect.df),
        _number(effect.ss, say),
        "" if effect.ms is None else _number(effect.ms, say),
        "" if effect.f is None else _number(effect.f, say),
        p_text(effect.p, say),
        share_text(effect.explained, say),
    )


def _anova_notes(metric: MetricAnalysis, anova: Anova, say: Language) -> Sequence[str]:
    kind = say("Type {kind}, n = {n}.", kind=TYPE, n=say.integer(anova.n))
    notes = dict.fromkeys(say.note(note) for note in (*metric.notes, *anova.notes))
    return (kind, *(f"{note[:1].upper()}{note[1:]}." for note in notes), *_omnibus_notes(metric, say))


def _omnibus_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield notes on whether the treatments differ at all, by tests with fewer assumptions than the ANOVA."""
    if metric.omnibus is None:
        return
    welch, orders = metric.omnibus.welch, metric.omnibus.randomisation
    if orders is not None:
        yield from _orders_notes(orders, say)
    if welch.f is not None and welch.df2 is not None:
        yield say(
            "All treatments, without assuming equal spreads and without blocks: Welch’s F = {f} with {df1} and {df2} "
            "degrees of freedom (p {p}).",
            f=_number(welch.f, say),
            df1=say.integer(welch.df1),
            df2=_number(welch.df2, say),
            p=p_text(welch.p, say, sign=True),
        )


def _orders_notes(orders: Randomisation, say: Language) -> Iterator[str]:
    if orders.f is not None:
        yield say(
            "All treatments, adjusted for blocks: F = {f} with {df1} and {df2} degrees of freedom (p {p}).",
            f=_number(orders.f, say),
            df1=say.integer(orders.df1),
            df2=say.integer(orders.df2),
            p=p_text(orders.p_of_f, say, sign=True),
        )
    how = N_("Randomisation within blocks: p {p}, of {n} orders at random.")
    if orders.exact:
        how = N_("Randomisation within blocks: p {p}, of all {n} orders.")
        if orders.p == orders.least:
            how = N_("Randomisation within blocks: p {p}, of all {n} orders, the least that they allow.")
    yield say(how, p=p_text(orders.p, say, sign=True), n=say.integer(orders.orders))


def comparisons_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return a table of every treatment against its baseline: raw and corrected p, and the tests beside them."""
    method = METHODS[metric.correction]
    columns = (
        say("treatment"), say("ratio to the baseline"), "p", f"p ({method})", say("p by ranks"),
        say("p by randomisation"), say("these agree"), say("verdict"),
    )  # fmt: skip
    return Table(
        f"comparisons-{metric.metric.name}",
        say("Comparisons with the baseline in {metric}", metric=metric.metric.name),
        columns,
        tuple(_comparison_row(comparison, say) for comparison in metric.comparisons),
        _numbers(2, 6),
        frozenset({0}),
        note=say("Corrected by {method} over the {n} of this table.", method=method, n=len(metric.comparisons)),
    )


def _comparison_row(comparison: BaselineComparison, say: Language) -> tuple[str, ...]:
    verdict = say(DECISIONS[comparison.decision])
    if comparison.under_floor:
        verdict = say("{verdict}: below the noise floor", verdict=verdict)
    agrees = {True: say("yes"), False: say("no"), None: "—"}[comparison.agrees]
    return (
        comparison.treatment.label,
        ratio_text(comparison.ratio, say) if comparison.ratio else say("no ratio"),
        p_text(comparison.p, say),
        p_text(comparison.p_adjusted, say),
        p_text(comparison.ranks.p, say) if comparison.ranks else "",
        p_text(comparison.randomisation.p, say) if comparison.randomisation else "",
        agrees,
        verdict,
    )


def ranks_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return the nonparametric results: medians, and Hodges and Lehmann's shift and Cliff's delta to the baseline."""
    unit = metric.metric.unit
    against = {comparison.treatment.index: comparison.ranks for comparison in metric.comparisons}
    shift = say("shift ({unit})", unit=unit) if unit else say("shift")
    columns = (say("treatment"), "n", say("median"), say("confidence"))
    rows = []
    for treatment, median in metric.medians:
        assert median.value is not None, "a median exists wherever there is a value"
        confidence = share_text(median.interval.confidence, say) if median.interval else "—"
        bound = "≥ " if median.at_least else ""
        text = bound + _estimate_text(median.value, median.interval, say)
        row = (treatment.label, say.integer(median.n), text, confidence)
        rows.append((*row, *_twin_texts(against.get(treatment.index), say)) if against else row)
    return Table(
        f"ranks-{metric.metric.name}",
        say("Medians and ranks in {metric}", metric=metric.metric.name),
        (*columns, shift, say("Cliff’s delta")) if against else columns,
        tuple(rows),
        _numbers(1, 6 if against else 4),
        frozenset({0}),
        note=" ".join(_ranks_notes(metric, say)),
    )


def _twin_texts(twin: RankTwin | None, say: Language) -> tuple[str, str]:
    if twin is None:
        return "—", "—"
    delta = fixed(twin.delta, 2)
    if twin.delta_interval is not None:
        delta += f" [{fixed(twin.delta_interval.low, 2)}, {fixed(twin.delta_interval.high, 2)}]"
    return _estimate_text(twin.shift, twin.shift_interval, say), say.number(delta)


def _ranks_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    yield say("The interval of a median lies between two of the values, at the confidence beside it.")
    if metric.comparisons:
        yield say(
            "Shift: treatment minus baseline (Hodges–Lehmann). Cliff’s delta: how much more often a value of the "
            "treatment is above one of the baseline than below, from −1 to 1. Each interval is for one comparison."
        )
    absent = dict.fromkeys(say.note(one.absent_because) for _, one in metric.medians if one.absent_because)
    if absent:
        yield say("No interval of the median: {why}.", why="; ".join(absent))


def quantiles_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return contrasts of quantiles with the baseline, beside the trials apart; without rows if no trial is."""
    modes = metric.second_mode
    counts = {treatment.index: (n, trials) for treatment, n, trials in modes.counts} if modes else {}
    rows = []
    for one in modes.contrasts if modes else ():
        n, trials = counts[one.treatment.index]
        within = one.within
        median = _times(one.middle, None, say) if within is None else _times(within.value, within.interval, say)
        confidence = share_text(within.interval.confidence, say) if within and within.interval else "—"
        ends = (_times(end, None, say) for end in (one.low, one.high))
        rows.append((one.treatment.label, say("{n} of {all}", n=n, all=trials), median, confidence, *ends))
    columns = (
        say("treatment"), say("trials apart"), say("ratio of medians"), say("confidence"),
        say("ratio of 10 % quantiles"), say("ratio of 90 % quantiles"),
    )  # fmt: skip
    return Table(
        f"quantiles-{metric.metric.name}",
        say("Medians and quantiles against the baseline in {metric}", metric=metric.metric.name),
        columns,
        tuple(rows),
        _numbers(1, 6),
        frozenset({0}),
        note=" ".join(_quantiles_notes(metric, say)),
    )


def _quantiles_notes(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    yield say(
        "Where blocks are shared, the ratio of medians is the median of the ratios within blocks. The ratios of "
        "quantiles have no interval: few trials say little so far out."
    )
    contrasts = metric.second_mode.contrasts if metric.second_mode else ()
    absent = dict.fromkeys(
        say.note(one.within.absent_because) for one in contrasts if one.within and one.within.absent_because
    )
    if absent:
        yield say("No interval of the median: {why}.", why="; ".join(absent))


def _times(value: float | None, interval: Interval | None, say: Language) -> str:
    if value is None or interval is None:
        return "—" if value is None else say.number(f"×{significant(value, 3)}")
    return f"×{_estimate_text(value, interval, say)}"


def pairs_table(metric: MetricAnalysis, pairs: FactorPairs, say: Language) -> Table:
    """Return all pairs of levels of one factor, over the levels of all other factors."""
    unit = metric.metric.unit
    return Table(
        f"pairs-{metric.metric.name}-{pairs.factor}",
        say("All pairs of levels of {factor}, in {metric}", factor=pairs.factor, metric=metric.metric.name),
        (
            say("level"),
            say("against"),
            say("ratio"),
            say("difference ({unit})", unit=unit) if unit else say("difference"),
            say("p corrected"),
        ),
        tuple((*at, *_pair_texts(pairs.pairs[at].comparison, say)) for at in pairs.in_order),
        _numbers(2, 5),
        note=say("Intervals and p are corrected for all pairs of levels of all factors (max-|t|)."),
    )


def _pair_texts(found: MeanComparison, say: Language) -> tuple[str, str, str]:
    return contrast_ratio(found.ratio, say), difference_text(found.difference, say), p_text(found.p_adjusted, say)


def usl_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return the parameters of the Universal Scalability Law for each combination of the other factors, if any fits."""
    factor = metric.scaling[0].factor if metric.scaling else ""
    columns = (say("treatment"), "λ", "σ", "κ", say("peak at"), "n")
    rows = tuple(
        (
            " · ".join(one.levels.values()) or say("all"),
            *(_parameter(found, say) for found in (one.fit.lambda_, one.fit.sigma, one.fit.kappa)),
            _number(one.fit.peak.n, say) if one.fit.peak else say(_NO_PEAK[one.fit.no_peak_because or ""]),
            str(one.fit.n),
        )
        for one in metric.scaling
    )
    return Table(
        f"usl-{metric.metric.name}",
        say("Scalability law of {metric} by {factor}", metric=metric.metric.name, factor=factor),
        columns,
        rows,
        frozenset({5}),
        note=say("λ per unit of the factor, σ contention, κ coherency, with their intervals; no peak beyond the data."),
    )


_NO_PEAK = {
    "coherency may be zero": N_("none: coherency may be zero"),
    "beyond the measured range": N_("beyond the measured range"),
    "": "",
}


def _parameter(found: Parameter, say: Language) -> str:
    if found.interval is None:
        return f"{_number(found.value, say)} ({say('no interval')})"
    low, high = (significant(end, 3) for end in (found.interval.low, found.interval.high))
    return say.number(f"{significant(found.value, 3)} [{low}, {high}]".replace("-", MINUS))


def claims_table(judgements: Sequence[Judgement], note: str, say: Language) -> Table:
    """Return the table of claims: the claim, the published and the measured effect, and the verdict with its reason."""
    columns = (say("claim"), say("published"), say("measured"), "p", say("p corrected"), "n", say("verdict"))
    rows = tuple(_claim_row(judgement, say) for judgement in judgements)
    title = say("Every claim, with what was published and what was measured")
    return Table("claims", title, columns, rows, frozenset({3, 4, 5}), frozenset({0, 2, 6}), note)


def _claim_row(judgement: Judgement, say: Language) -> tuple[str, ...]:
    claim, part = judgement.claim, judgement.part
    where = " · ".join(text for text in (claim.statement.metric, claim.where) if text)
    judged = f"{claim_words.verdict_text(judgement, say)}: {claim_words.reason_text(judgement, say)}"
    contradiction = claim_words.contradiction_text(claim, say)
    return (
        f"{claim.text(say.code)} ({where})" if where else claim.text(say.code),
        claim_words.published_text(claim.published, say) or "—",
        measured_text(judgement, say) if part else "—",
        p_text(judgement.p, say),
        p_text(judgement.p_adjusted, say),
        str(part.effect.n) if part else "",
        f"{judged}; {contradiction}" if contradiction else judged,
    )


# Numbers


def difference_text(found: Contrast, say: Language) -> str:
    """Format a difference as '−312 [−334, −290]'; the width of the interval determines the number of decimals."""
    return "" if found.value is None else _estimate_text(found.value, found.interval, say)


def _estimate_text(value: float, interval: Interval | None, say: Language) -> str:
    if interval is None:
        return _number(value, say)
    low, high = interval.low, interval.high
    digits = significant(interval.half_width, 2) if interval.half_width else significant(value, 4)
    if "e" in digits:
        return say.number(f"{value:.2e} [{low:.2e}, {high:.2e}]".replace("-", MINUS))
    decimals = len(digits.partition(".")[2])
    text, low_text, high_text = (fixed(number, decimals) for number in (value, low, high))
    return say.number(f"{text} [{low_text}, {high_text}]")


def p_text(p: float | None, say: Language, *, sign: bool = False) -> str:
    """Format p as '0.012' or '< 0.001'; with `sign`, as '= 0.012', to follow the letter p. Empty for None."""
    text = claim_words.p_text(p, say)
    return f"= {text}" if sign and text and not text.startswith("<") else text


def share_text(share: float, say: Language) -> str:
    """Format a percentage as '78.9 %', with a no-break space."""
    return say.number(f"{100 * share:.1f}\xa0%")


def _number(value: float, say: Language) -> str:
    return say.number(significant(value, 4).replace("-", MINUS))

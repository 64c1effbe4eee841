"""The table of the analysis of variance, and notes on the test of all treatments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lastro.document import Table
from lastro.stats.anova import TYPE
from lastro.stats.notes import N_
from lastro.words.estimates import number_text, numeric, p_text, share_text
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.analysis.model import MetricAnalysis
    from lastro.stats.anova import Anova, Effect
    from lastro.stats.randomisation import Randomisation


def anova_table(metric: MetricAnalysis, say: Language) -> Table:
    """Return the analysis of variance, with the fraction of the variation that each effect explains."""
    anova = metric.anova
    columns = (say("source"), "df", "SS", say("explained"))
    title = say("Analysis of variance of {metric}", metric=metric.metric.name)
    name = f"anova-{metric.metric.name}"
    if anova is None:
        why = say.note(metric.why_none) if metric.why_none else ""
        notes = (say("No analysis of variance: {why}.", why=why), *_orders_notes(metric.randomisation, say))
        return Table(name, title, columns, (), note=" ".join(notes))
    rows = [_anova_row(effect, say) for effect in (*anova.effects, anova.residual)]
    df = sum(effect.df for effect in (*anova.effects, anova.residual))
    rows.append((say("total"), say.integer(df), number_text(anova.total_ss, say), share_text(1.0, say)))
    return Table(name, title, columns, tuple(rows), numeric(1, 4), note=" ".join(_anova_notes(metric, anova, say)))


def _anova_row(effect: Effect, say: Language) -> tuple[str, ...]:
    names = {"block": N_("block"), "residual": N_("residual")}
    return (
        say(names[effect.name]) if effect.name in names else effect.name,
        say.integer(effect.df),
        number_text(effect.ss, say),
        share_text(effect.explained, say),
    )


def _anova_notes(metric: MetricAnalysis, anova: Anova, say: Language) -> Sequence[str]:
    kind = say("Type {kind}, n = {n}.", kind=TYPE, n=say.integer(anova.n))
    notes = dict.fromkeys(say.note(note) for note in (*metric.notes, *anova.notes))
    return (kind, *(f"{note[:1].upper()}{note[1:]}." for note in notes), *_orders_notes(metric.randomisation, say))


def _orders_notes(orders: Randomisation | None, say: Language) -> Iterator[str]:
    """Yield notes on whether the treatments differ at all, by a test with fewer assumptions than the ANOVA."""
    if orders is None:
        return
    if orders.f is not None:
        yield say(
            "All treatments, adjusted for blocks: F = {f} with {df1} and {df2} degrees of freedom (p {p}).",
            f=number_text(orders.f, say),
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

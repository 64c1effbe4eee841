"""Analysis of variance of any number of factors, with their interactions and a block, balanced or not.

Sources: Jain, The Art of Computer Systems Performance Analysis (1991), chapters 17 to 23, for the fraction of variation
that an effect explains; Montgomery, Design and Analysis of Experiments (8th ed.), chapters 4 and 5, for blocks and
interactions; Searle, Linear Models for Unbalanced Data (1987), chapters 4, 5 and 12, for sums of squares of Type II."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from lastro.stats.notes import Note

if TYPE_CHECKING:
    from lastro.stats._projections import Codes

TYPE = "II"
# The notes; the report's catalogues translate these.
ONE_LEVEL = "{factor} has one level: there is nothing to compare"
ONE_BLOCK = "there is one block: it explains nothing"
TOO_MANY = "interactions of more than {order} factors are left in the residual: there are too many"
EMPTY_CELLS = "not every combination was measured, which takes degrees of freedom from {effects}"
CONSTANT = "every value is the same: nothing varies, so there is nothing to explain"
NO_RESIDUAL = "no degrees of freedom are left for the residual: repeat trials, or leave out interactions"
NO_SPREAD = "the residual does not vary: F and p cannot be computed"
OVERLAP = "unbalanced: effects overlap, so their percentages add up to {percent} %, not 100 %"

# With more columns, the arithmetic takes seconds, and no campaign has enough trials to distinguish the interactions.
MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of the table: a factor, an interaction, the block or the residual.

    `ss` and `ms` are in the squared unit of the values (of their logarithms for a log model)."""

    factors: tuple[str, ...]
    df: int
    ss: float
    ms: float | None
    f: float | None  # None if there is no test; the notes say why; `p` alike
    p: float | None
    explained: float  # fraction of the total variation, from 0 to 1 (Jain, section 17.4)

    @property
    def name(self) -> str:
        return " × ".join(self.factors)


@dataclass(frozen=True, slots=True)
class Anova:
    """The table of an analysis of variance."""

    log: bool  # whether logarithms were fitted
    effects: tuple[Effect, ...]  # the block first, then factors, then interactions
    residual: Effect
    total_ss: float
    n: int  # number of values
    notes: tuple[Note, ...]  # on aliased and untestable effects


def anova(
    values: Sequence[float],
    factors: Mapping[str, Sequence[object]],
    *,
    block: Sequence[object] | None = None,
    order: int | None = None,
    log: bool = False,
    repeats: Callable[[Collection[str]], bool] = lambda effect: False,
) -> Anova:
    """Analyse which factors, and which of their interactions, explain the variation of the values.

    `factors` is {factor: the level of each value}. `block` has the block of each value, and enters as an additive
    factor. Interactions are of up to `order` factors (default: all). An effect is adjusted for all effects that do not
    contain it (Type II). Degrees of freedom that empty cells take away are dropped, with a note. With `log`, the
    logarithms of the values are fitted, for effects that multiply. `repeats` returns whether an effect, a collection of
    factors, is the same contrast of these values as an earlier effect, as in a fractional factorial, and gets no line.

    Raises: ValueError without values, for non-finite values, for unequal lengths, and with `log` for values that are
    not above zero."""
    if not len(values):
        raise ValueError("there are no values to analyse")
    for name, levels in (*factors.items(), *([("block", block)] if block is not None else [])):
        if len(levels) != len(values):
            raise ValueError(f"{len(values)} values and {len(levels)} levels of {name}")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value is not finite")
    if log and min(values) <= 0:
        raise ValueError(f"logarithms need values above 0, and one is {min(values)}")
    from lastro.stats._projections import CentredValues, LinearModel, sum_of_squares

    data = CentredValues.of([math.log(value) for value in values] if log else values)
    plan = _Plan.of(factors, block, order, repeats)
    terms = [term for _, term in plan.effects if term]
    model = LinearModel.of(data.y, plan.codes, terms)
    unit = data.scale**2
    total = float(data.y @ data.y)
    residual_df = len(values) - model.rank
    rss = sum_of_squares(data.y - model.fitted, len(values)) if residual_df else 0.0
    effects = []
    for names, term in plan.effects:
        df, ss = 0, 0.0
        if term:  # adjusted for all terms that do not contain it
            others = [index for index, other in enumerate(terms) if not set(term) <= set(other)]
            df, ss = model.effect(terms.index(term), others)
        effects.append(_effect(names, df, ss, (residual_df, rss), total, unit))
    residual = _effect(("residual",), residual_df, rss, (0, 0.0), total, unit)
    notes = (*plan.notes, *_notes(effects, plan, residual, total))
    return Anova(log, tuple(effects), residual, total * unit, len(values), notes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The effects, as (names of the factors, the term of the model that is fitted), and notes.

    A term is a tuple of indices into `codes`, which has the levels of the values for the block and for each factor that
    varies. It is empty for a factor with one level."""

    effects: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]
    codes: tuple[Codes, ...]
    notes: tuple[Note, ...]

    @classmethod
    def of(
        cls,
        factors: Mapping[str, Sequence[object]],
        block: Sequence[object] | None,
        order: int | None,
        repeats: Callable[[Collection[str]], bool],
    ) -> _Plan:
        """Plan the effects of the block, of every factor, and of interactions of up to `order` factors that vary."""
        from lastro.stats._projections import level_codes

        columns = {name: level_codes(levels) for name, levels in factors.items()}
        varying = [name for name, codes in columns.items() if codes.max() > 0]
        notes = [Note(ONE_LEVEL, factor=name) for name in columns if name not in varying]
        freedom = {name: int(columns[name].max()) for name in varying}
        wanted = len(varying) if order is None else min(order, len(varying))
        reach, n_columns = wanted, 0
        for size in range(1, wanted + 1):
            n_columns += sum(math.prod(freedom[name] for name in group) for group in combinations(freedom, size))
            if size > 1 and n_columns > MOST_COLUMNS:
                reach = size - 1
                break
        if reach < wanted:
            notes.append(Note(TOO_MANY, order=reach))
        has_block = block is not None and len(set(block)) > 1
        if block is not None and not has_block:
            notes.append(Note(ONE_BLOCK))
        codes = [level_codes(block)] if block is not None and has_block else []
        index = {name: number for number, name in enumerate(varying, len(codes))}
        effects: list[tuple[tuple[str, ...], tuple[int, ...]]] = [(("block",), (0,))] if has_block else []
        for size in range(1, max(reach, 1) + 1):
            for group in combinations(columns if size == 1 else varying, size):
                if not repeats(group):
                    effects.append((group, tuple(index[name] for name in group if name in index)))
        codes += [columns[name] for name in varying]
        return cls(tuple(effects), tuple(codes), tuple(notes))


def _effect(
    names: tuple[str, ...], df: int, ss: float, residual: tuple[int, float], total: float, unit: float
) -> Effect:
    """Return a line of the table. F and p are None for an effect without degrees of freedom or a residual of zero.

    `residual` is (degrees of freedom, sum of squares). `ss`, `total` and the sum of squares in `residual` are sums over
    scaled values; multiplied by `unit`, they are in the squared unit of the values."""
    ms = ss / df if df else None
    residual_df, rss = residual
    f = p = None
    if ms is not None and residual_df and rss:
        from scipy.special import fdtrc

        f = ms / (rss / residual_df)
        p = float(fdtrc(df, residual_df, f))
    return Effect(names, df, ss * unit, None if ms is None else ms * unit, f, p, ss / total if total else 0.0)


def _notes(effects: Sequence[Effect], plan: _Plan, residual: Effect, total: float) -> list[Note]:
    """Return the notes on the fitted model: aliased effects, no residual, and percentages that do not add up to 100."""
    notes = []
    aliased = []
    for effect, (_, term) in zip(effects, plan.effects, strict=True):
        df = math.prod(int(plan.codes[index].max()) for index in term)  # when no cell is empty
        if term and effect.df < df:
            aliased.append(f"{effect.name} ({effect.df}/{df})")
    if aliased:
        notes.append(Note(EMPTY_CELLS, effects="; ".join(aliased)))
    if total == 0:
        return [*notes, Note(CONSTANT)]
    if residual.df == 0:
        notes.append(Note(NO_RESIDUAL))
    elif residual.ss == 0:
        notes.append(Note(NO_SPREAD))
    percent = round(100 * math.fsum(effect.explained for effect in (*effects, residual)), 1)
    if percent != 100:
        notes.append(Note(OVERLAP, percent=percent))
    return notes

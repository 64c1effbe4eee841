"""Turn the statement of a claim into contrasts of the campaign's cells: which treatments, and with what weights.

A stratum is one combination of the levels of all factors that the statement does not compare. Means are over the strata
in which every treatment that the statement needs was measured, so that both sides of a comparison have the same
conditions. The numbers of these strata and of all strata are recorded. Pure: a report in, contrasts out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import NOT_ABOVE_ZERO, Comparisons, MetricCells, Untestable, Weights, not_varied
from lastro.results.samples import depends_on_speed
from lastro.stats.censored import BOTH_ARE_BOUNDS, RATIO_IS_BOUND
from lastro.stats.contrasts import Contrast
from lastro.stats.intervals import Bound
from lastro.stats.notes import N_, Note
from lastro.stats.weights import less, weighted_sum
from lastro.study.claims import Absolute, Additive, Alike, Compare, Extreme, Measure, Order, Recovery, Statement
from lastro.study.model import Level
from lastro.study.sides import Levels


@dataclass(frozen=True, slots=True)
class ClaimContrast:
    """One of the contrasts that a statement depends on. A statement is true if all of its parts are.

    The judgement is of `effect`, in the unit of `measure`. `beside` is the same effect as a difference in the unit of
    the metric; comparisons have it. `p_for` is the p-value of the hypothesis that the part is false, `p_against` of the
    hypothesis that it is true. So a small `p_for` is evidence for the part, and a small `p_against` evidence against.

    `under_floor`: the effect is smaller than the noise floor of this host, which changes no verdict.

    `incomparable`: why no published difference can be compared with that in the unit of the metric.

    `open_for`: a mean is only a lower bound, and its true value could overturn the evidence for the part.
    `open_against`: it could overturn the evidence against the part. `bound` is the side of `effect` on which the true
    effect lies. See `_opened`."""

    label: str
    measure: Measure
    effect: Contrast
    beside: Contrast | None
    p_for: float | None
    p_against: float | None
    under_floor: bool = False
    open_for: bool = False
    open_against: bool = False
    bound: Bound | None = ""  # None: the true effect may lie on either side
    incomparable: Note | None = None

    @property
    def open(self) -> bool:
        return self.open_for or self.open_against


@dataclass(frozen=True, slots=True)
class ClaimEffects:
    """The parts of a statement, the number of measured strata, and the number of all strata in the design.

    `nothing` is the reason if the data show that there is nothing to judge. The statement still has a p-value, so that
    the number of tests in a file does not depend on their results. `bounded` names the compared treatments for which
    only a lower bound is known; empty without any."""

    parts: tuple[ClaimContrast, ...]
    strata: int
    all_strata: int
    nothing: Note | None = None
    bounded: str = ""


def effects_of(
    statement: Statement, margin: float | None, report: CampaignResults, confidence: float | None = None
) -> ClaimEffects:
    """Return the effects that a statement depends on; `confidence` of the intervals is by default the study's.

    Raises: Untestable, with the reason, when the campaign lacks the data that the statement needs."""
    emulated = _emulated(report)
    if isinstance(statement, Absolute) and emulated:
        raise Untestable(emulated)
    every = [MetricCells(report, metric, confidence) for metric in metrics_of(statement)]
    found = effects_in(statement, margin, *every)
    if emulated and depends_on_speed(every[0].metric.unit):
        found = replace(found, parts=tuple(replace(part, incomparable=emulated) for part in found.parts))
    return replace(found, bounded=next(filter(None, (cells.bounds_used() for cells in every)), ""))


def metrics_of(statement: Statement) -> tuple[str, ...]:
    """Return the metrics whose values a statement compares: only an extreme may have several."""
    return (statement.metric, *(statement.also if isinstance(statement, Extreme) else ()))


def _emulated(report: CampaignResults) -> Note | None:
    """Return why a figure of a host cannot be compared with this report; None unless a guest in software measured."""
    if report.guest is None or not report.guest.emulated:
        return None
    return Note(_PARTLY_EMULATED if report.guest.partly else _EMULATED)


_EMULATED = N_("it is about a figure of a host, and the host was a guest emulated in software")
_PARTLY_EMULATED = N_("it is about a figure of a host, and some of it was measured in a guest emulated in software")


def effects_in(statement: Statement, margin: float | None, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
    """Return the effects that a statement depends on, by the comparisons of its metrics. Raises: as `effects_of`."""
    if isinstance(statement, Compare):
        return _compare(statement, margin or 0.0, cells)
    if isinstance(statement, Recovery):
        return _recovery(statement, cells)
    if isinstance(statement, Order):
        return _order(statement, cells)
    if isinstance(statement, Alike):
        return _alike(statement, margin or 0.0, cells)
    if isinstance(statement, Absolute):
        return _absolute(statement, cells)
    if isinstance(statement, Extreme):
        return _extreme(statement, (cells, *also))
    return _additive(statement, margin or 0.0, cells)


# One function for each kind of statement


def _compare(statement: Compare, margin: float, cells: Comparisons) -> ClaimEffects:
    (of, to), used, total = cells.sides([statement.of, statement.to], statement.at)
    label = f"{_words(statement.of, statement.to)} / {_words(statement.to, statement.of)}"
    if statement.direction == "alike":
        return ClaimEffects((_equivalence(label, of, to, margin, cells),), used, total)
    return ClaimEffects((_direction(label, of, to, statement.direction == "higher", cells),), used, total)


def _recovery(statement: Recovery, cells: Comparisons) -> ClaimEffects:
    sides, used, total = cells.sides([statement.ideal, statement.without, statement.protected], statement.at)
    ideal, without, protected = sides
    found = cells.recovered(ideal, without, protected)
    loss, gain = found.loss, found.gain
    higher = (loss.value or 0) > 0
    lost = cells.metric.better == "neither" or higher == (cells.metric.better == "higher")
    name = cells.metric.name
    unclear = N_("there is nothing to recover: the loss of {metric} is not distinguishable from zero")
    nothing = None
    if loss.p is None:
        if loss.absent_because is None:
            raise Untestable(Note(unclear, metric=name))
    elif loss.p >= 1 - cells.confidence:
        nothing = Note(unclear, metric=name)
    elif not lost:
        nothing = Note(N_("there is nothing to recover: {metric} is no worse without protection"), metric=name)
    label = f"{_words(statement.protected, statement.without)} / {_words(statement.without, statement.protected)}"
    part = _signed(label, "share", found.fraction, gain, gain, higher)
    if loss.p is not None and part.p_for is not None and part.p_against is not None:
        # A recovery needs a loss and a gain, and each must be significant (Berger 1982).
        p_loss = loss.p if lost else 1.0
        gaps = ((less(ideal, without), loss), (less(protected, without), gain))
        under = any(cells.gap_under_floor(weights, gap.value) for weights, gap in gaps)
        p_for, p_against = max(p_loss, part.p_for), max(p_loss, part.p_against)
        part = replace(part, p_for=p_for, p_against=p_against, under_floor=under)
    if any(any(cells.slack(side)) for side in sides):
        part = _opened(part, (True, True), None)
    return ClaimEffects((part,), used, total, nothing)


def _order(statement: Order, cells: Comparisons) -> ClaimEffects:
    groups: list[list[tuple[str, list[Levels]]]] = [
        [(str(level), _sides_at(statement, level)) for level in group] for group in statement.falling
    ] or [[(_words(side, {}), [side]) for side in group] for group in statement.sides]
    each = [one for group in groups for one in group]
    weights, used, total = cells.sides([side for _, sides in each for side in sides], statement.at)
    share = len(weights) // len(each)
    shares = iter([weights[at * share : (at + 1) * share] for at in range(len(each))])
    ordered = [[(label, next(shares)) for label, _ in group] for group in groups]
    parts = []
    for upper, lower in itertools.pairwise(ordered):
        for (first, above), (second, below) in itertools.product(upper, lower):
            if share == 1:
                parts.append(_direction(f"{first} / {second}", above[0], below[0], True, cells))
            else:
                effects = less(*above), less(*below)
                part = (_farther if statement.distance else _larger)(f"{first} − {second}", *effects, cells)
                parts.append(part)
    return ClaimEffects(tuple(parts), used, total)


def _larger(label: str, upper: Weights, lower: Weights, cells: Comparisons) -> ClaimContrast:
    """Test that one difference is larger than another."""
    effects = less(upper, lower)
    gap = cells.linear(effects)
    under = cells.gap_under_floor(effects, gap.value)
    part = replace(_signed(label, "difference", gap, gap, None, True), under_floor=under)
    return _opened(part, cells.slack(effects), True)


def _farther(label: str, upper: Weights, lower: Weights, cells: Comparisons) -> ClaimContrast:
    """Test that one difference is farther from zero than another, regardless of their signs.

    |a| > |b| where a - b and a + b have the same sign. Both must be significant: the larger p counts (Berger 1982)."""
    apart = cells.linear(less(upper, lower))
    together = cells.linear(weighted_sum([(upper, 1.0), (lower, 1.0)]))
    signs = [math.copysign(1.0, cells.linear(each).value or 0.0) for each in (upper, lower)]
    effects = weighted_sum([(upper, signs[0]), (lower, -signs[1])])
    gap = cells.linear(effects)
    part = ClaimContrast(
        label, "difference", gap, None, None, None, under_floor=cells.gap_under_floor(effects, gap.value)
    )
    if apart.p is not None and together.p is not None:
        p, same = max(apart.p, together.p), (apart.value or 0.0) * (together.value or 0.0)
        part = replace(part, p_for=p if same > 0 else 1.0, p_against=p if same < 0 else 1.0)
    return _opened(part, (True, True), None) if any(cells.slack(effects)) else part


def _sides_at(statement: Order, level: Level) -> list[Levels]:
    own: Levels = {statement.factor: (level,)}
    return [{**own, **statement.of}, {**own, **statement.to}] if statement.of else [own]


def _alike(statement: Alike, margin: float, cells: Comparisons) -> ClaimEffects:
    sides: list[Levels] = [{statement.factor: (level,)} for level in statement.levels]
    weights, used, total = cells.sides(sides, statement.at)
    pairs = itertools.combinations(zip(statement.levels, weights, strict=True), 2)
    parts = [_equivalence(f"{a} / {b}", of, to, margin, cells) for (a, of), (b, to) in pairs]
    return ClaimEffects(tuple(parts), used, total)


def _additive(statement: Additive, margin: float, cells: Comparisons) -> ClaimEffects:
    first, second = ((name, [*cells.factors.get(name, {}).values()]) for name in statement.factors)
    for name, levels in (first, second):
        if len(levels) < 2:
            raise not_varied(name)
    pairs = list(itertools.product(first[1], second[1]))
    sides: list[Levels] = [{first[0]: (a,), second[0]: (b,)} for a, b in pairs]
    weights, used, total = cells.sides(sides, statement.at)
    mean = weighted_sum((side, 1 / len(pairs)) for side in weights)
    parts = []
    for a, b in pairs:
        off = weighted_sum(
            (side, (a == x) * (b == y) - (a == x) / len(second[1]) - (b == y) / len(first[1]) + 1 / len(pairs))
            for side, (x, y) in zip(weights, pairs, strict=True)
        )
        parts.append(_within(f"{a} · {b}", off, mean, margin, cells))
    return ClaimEffects(tuple(parts), used, total)


def _absolute(statement: Absolute, cells: Comparisons) -> ClaimEffects:
    """Test a stated level: a value with a tolerance by two one-sided tests (equivalence), a bound by one test."""
    (of,), used, total = cells.sides([{}], statement.at)
    mean = cells.linear(of)
    above_low, above_high = (_above(of, level, cells) for level in (statement.low, statement.high))
    label = _words(statement.at, {}) or statement.metric
    if above_low is None or above_high is None:
        return ClaimEffects((ClaimContrast(label, "level", mean, None, None, None),), used, total)
    sides = 2 if math.isfinite(statement.low) and math.isfinite(statement.high) else 1
    outside = min(1.0, sides * min(above_high, 1 - above_low))
    part = ClaimContrast(label, "level", mean, None, max(above_low, 1 - above_high), outside)
    higher = None if sides == 2 else math.isinf(statement.high)
    return ClaimEffects((_opened(part, cells.slack(of), higher),), used, total)


def _extreme(statement: Extreme, every: Sequence[Comparisons]) -> ClaimEffects:
    """Test that the ratio goes beyond its extreme nowhere, and comes near it somewhere: at a level, in a metric.

    Each place has a part for the former. The last part is a union: it is shown by the smallest p times the number of
    places, and refuted by the largest."""
    falls, places = statement.ratio < 1, [*itertools.product(*statement.over.values())]
    held: list[Levels] = [
        {name: (level,) for name, level in zip(statement.over, place, strict=True)} for place in places
    ]
    sides = [{**place, **side} for place in held for side in (statement.of, statement.to)]
    away = statement.tolerance if falls else -statement.tolerance
    beyond, near = statement.ratio - away, statement.ratio + away
    parts, close, used, total = list[ClaimContrast](), list[ClaimContrast](), 0, 0
    for cells in every:
        weights, used, total = cells.sides(sides, statement.at)
        named = (cells.metric.name,) if len(every) > 1 else ()
        for place, of, to in zip(places, weights[::2], weights[1::2], strict=True):
            label = " · ".join(map(str, (*named, *place)))
            parts.append(_side(label, of, to, beyond, falls, cells))
            close.append(_side(label, of, to, near, not falls, cells))
    shown = [part.p_for for part in close if part.p_for is not None]
    refuted = [part.p_against for part in close if part.p_against is not None]
    best = min(close, key=lambda part: 1.0 if part.p_for is None else part.p_for)
    if len(shown) == len(refuted) == len(close):
        best = replace(best, p_for=min(1.0, len(close) * min(shown)), p_against=max(refuted))
    return ClaimEffects((*parts, best), used, total)


# One function for each kind of test


def _side(label: str, of: Weights, to: Weights, bound: float, above: bool, cells: Comparisons) -> ClaimContrast:
    """Test that the ratio of two means lies above a bound, or below it."""
    _require_positive(to, cells)
    found, above_bound = cells.compared(of, to), cells.one_sided_p(of, to, bound)
    if found.ratio.value is None or above_bound is None:
        return ClaimContrast(label, "ratio", found.ratio, found.difference, None, None)
    p = above_bound if above else 1 - above_bound
    part = ClaimContrast(label, "ratio", found.ratio, found.difference, p, 1 - p)
    return _opened(part, (True, True), None) if any(map(any, map(cells.slack, (of, to)))) else part


def _direction(label: str, of: Weights, to: Weights, higher: bool, cells: Comparisons) -> ClaimContrast:
    """Test for a difference of the stated sign; show the effect as a ratio if there is one."""
    compared = cells.compared(of, to)
    gap, ratio = compared.difference, compared.ratio
    slack = cells.slack(less(of, to))
    if ratio.value is None or ratio.value <= 0:
        return _opened(_signed(label, "difference", gap, gap, None, higher), slack, higher)
    part = _signed(label, "ratio", ratio, gap, gap, higher)
    under = cells.under_floor(less(of, to), ratio.value - 1)
    return _opened(replace(part, under_floor=under), slack, higher)


def _opened(part: ClaimContrast, slack: tuple[bool, bool], higher: bool | None) -> ClaimContrast:
    """Return the part with its open sides, for an effect of means that are only lower bounds.

    `slack` is whether the true effect may lie above the measured one, and whether it may lie below. A sign still holds
    if the true effect can only lie further on the same side. An equivalence or a fraction (`higher` is None) is open on
    both sides. The size of the effect is not known, so it has no interval."""
    above, below = slack
    if not (above or below):
        return part
    undone = {True: (below, above), False: (above, below), None: (True, True)}[higher]
    bound: Bound | None = None if (above and below) or higher is None else "≥" if above else "≤"
    why = Note(RATIO_IS_BOUND if bound else BOTH_ARE_BOUNDS)
    effect = replace(part.effect, interval=None, absent_because=part.effect.absent_because or why)
    beside = part.beside and replace(part.beside, interval=None, absent_because=why)
    return replace(part, effect=effect, beside=beside, open_for=undone[0], open_against=undone[1], bound=bound)


def _signed(
    label: str, measure: Measure, effect: Contrast, tested: Contrast, beside: Contrast | None, higher: bool
) -> ClaimContrast:
    """Return a part judged by the sign of the `tested` contrast.

    Its p counts for the statement if the contrast has the stated sign, and against the statement otherwise."""
    if tested.p is None or tested.value is None:
        return ClaimContrast(label, measure, effect, beside, None, None)
    so = tested.value > 0 if higher else tested.value < 0
    return ClaimContrast(label, measure, effect, beside, tested.p if so else 1.0, 1.0 if so else tested.p)


def _equivalence(label: str, of: Weights, to: Weights, margin: float, cells: Comparisons) -> ClaimContrast:
    """Test by two one-sided tests that the ratio lies within 1/(1 + margin) and 1 + margin (Schuirmann 1987)."""
    found = cells.compared(of, to)
    return _bounded(label, found.ratio, found.difference, of, to, (1 / (1 + margin), 1 + margin), cells)


def _within(label: str, off: Weights, mean: Weights, margin: float, cells: Comparisons) -> ClaimContrast:
    """Test by two one-sided tests that a deviation from zero lies within ± `margin`, a fraction of the mean."""
    return _bounded(label, cells.share(off, mean), cells.linear(off), off, mean, (-margin, margin), cells)


def _bounded(
    label: str,
    effect: Contrast,
    beside: Contrast,
    of: Weights,
    to: Weights,
    bounds: tuple[float, float],
    cells: Comparisons,
) -> ClaimContrast:
    part = _within_bounds(label, effect, beside, of, to, bounds, cells)
    slack = [cells.slack(side) for side in (of, to)]
    return _opened(part, (True, True), None) if any(map(any, slack)) else part


def _within_bounds(
    label: str,
    effect: Contrast,
    beside: Contrast,
    of: Weights,
    to: Weights,
    bounds: tuple[float, float],
    cells: Comparisons,
) -> ClaimContrast:
    _require_positive(to, cells)
    above_low, above_high = (cells.one_sided_p(of, to, bound) for bound in bounds)
    if effect.value is None or above_low is None or above_high is None:
        return ClaimContrast(label, "ratio" if bounds[0] > 0 else "share", effect, beside, None, None)
    inside = max(above_low, 1 - above_high)
    outside = min(1.0, 2 * min(above_high, 1 - above_low))
    if bounds[0] > 0:
        under = cells.under_floor(less(of, to), effect.value - 1)
        return ClaimContrast(label, "ratio", effect, beside, inside, outside, under_floor=under)
    return ClaimContrast(
        label, "share", effect, beside, inside, outside, under_floor=cells.under_floor(of, effect.value)
    )


def _require_positive(to: Weights, cells: Comparisons) -> None:
    """Raise Untestable when the mean below a ratio is not above zero."""
    if not cells.is_positive(to):
        raise Untestable(Note(NOT_ABOVE_ZERO, metric=cells.metric.name))


def _above(of: Weights, level: float, cells: Comparisons) -> float | None:
    """Return the p of the hypothesis that a mean is not above a level, which may be infinite."""
    return float(level > 0) if math.isinf(level) else cells.p_above(of, level)


def _words(side: Levels, other: Levels) -> str:
    """Return the levels in which one side differs from the other."""
    return " · ".join(", ".join(map(str, levels)) for name, levels in side.items() if levels != other.get(name))

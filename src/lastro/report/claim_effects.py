"""From a claim's statement to contrasts of the campaign's cells: which treatments it compares, and with what weights.

A stratum is one combination of the levels of all factors that the statement does not compare. Means are taken over the
strata in which every treatment that the statement needs was measured, so that both sides of a comparison lie under the
same conditions; how many of how many strata these are is kept. Pure: a report in, contrasts out."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lastro.report.calibration import floor_here
from lastro.report.language import Language
from lastro.report.model import Report, Row
from lastro.report.numbers import MINUS
from lastro.stats.contrasts import Contrast, linear, ratio_of_linears
from lastro.stats.noise_floor import hides
from lastro.study.claims import Additive, Alike, Compare, Levels, Measure, Order, Recovery, Statement
from lastro.study.model import Level

Weights = Mapping[int, float]  # {index of a treatment: its weight}
Key = frozenset[tuple[str, object]]


class Untestable(Exception):
    """A statement of which this campaign can say nothing, and why."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the contrasts that a statement stands on: all of them must be so for the statement to be.

    `effect` is what is judged, in `measure`; `beside` the same as a difference in the metric's unit, for comparisons.
    `p_for` is of the hypothesis that the statement is not so, `p_against` of the one that its contrary is not so.
    `hidden_for` and `hidden_against` tell that it lies so far under the noise floor of this host that it cannot speak
    for the statement, or against it: see `_Cells.hides`. A floor never hides a likeness, only what is against one."""

    label: str
    measure: Measure
    effect: Contrast
    beside: Contrast | None
    p_for: float | None
    p_against: float | None
    hidden_for: bool = False
    hidden_against: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    """The parts of a statement, and the strata that were measured, of all that the design has.

    `nothing` says why there is nothing to speak of, where the data show it: such a statement has its p all the same, so
    that how many tests a file has does not depend on what they found."""

    parts: tuple[Part, ...]
    strata: int
    all_strata: int
    nothing: str = ""


def effects_of(statement: Statement, margin: float | None, report: Report, say: Language) -> Effects:
    """Raises: Untestable when the campaign has nothing that the statement needs, with the reason."""
    cells = _Cells(report, statement.metric, say)
    if isinstance(statement, Compare):
        return _compare(statement, margin or 0.0, cells)
    if isinstance(statement, Recovery):
        return _recovery(statement, cells)
    if isinstance(statement, Order):
        return _order(statement, cells)
    if isinstance(statement, Alike):
        return _alike(statement, margin or 0.0, cells)
    return _additive(statement, margin or 0.0, cells)


class _Cells:
    """The valid values of one metric by treatment, and the strata in which they lie."""

    def __init__(self, report: Report, metric: str, say: Language) -> None:
        at = next((index for index, known in enumerate(report.metrics) if known.name == metric), None)
        if at is None:
            raise Untestable(say("{metric} was not measured", metric=metric))
        self.report, self.metric, self.say = report, report.metrics[at], say
        self.confidence = report.study.design.confidence
        self.floor = floor_here(report, at)
        self.rows = {_key(row.treatment.levels): row for row in report.rows}
        self.factors = {
            factor.name: {_plain(level): level for level in factor.levels} for factor in report.study.factors
        }
        values = {row.treatment.index: {p.block: p.value for p in row.cells[at].points} for row in report.rows}
        # A cell with one value has no spread to judge by, and would hide that of all others.
        least = min(2, max(map(len, values.values()), default=0))
        self.values = {index: by_block for index, by_block in values.items() if by_block and len(by_block) >= least}

    def sides(self, sides: Sequence[Levels], at: Levels) -> tuple[list[Weights], int, int]:
        """The weights of the mean of each side over the measured strata; how many these are, of how many.

        Raises: Untestable when there is none."""
        wanted = [self._settled(side) for side in sides]
        compared = set().union(*wanted)
        held = self._settled(at, condition=True)
        others = {name: held.get(name, tuple(levels)) for name, levels in self.factors.items() if name not in compared}
        weights: list[dict[int, float]] = [{} for _ in sides]
        used, lost = 0, []
        for stratum in _combinations(others):
            keys = [[stratum | choice for choice in _combinations(side)] for side in wanted]
            if any(key not in self.rows for side in keys for key in side):
                continue  # not part of the design
            rows = [[self.rows[key] for key in side] for side in keys]
            if missing := [row for side in rows for row in side if row.treatment.index not in self.values]:
                lost.append(missing)
                continue
            used += 1
            for side, found in zip(weights, rows, strict=True):
                side.update({row.treatment.index: 1 / len(found) for row in found})
        if not used:
            raise Untestable(self._why([row for rows in lost for row in rows]))
        return [{index: weight / used for index, weight in side.items()} for side in weights], used, used + len(lost)

    def _settled(self, side: Levels, *, condition: bool = False) -> dict[str, tuple[object, ...]]:
        """The levels of a side as the study spells them; what it holds constant is left out where it is a condition."""
        settled: dict[str, tuple[object, ...]] = {}
        for name, levels in side.items():
            known = self.factors.get(name)
            if known is None:
                self._check_constant(name, levels, condition)
                continue
            if absent := [level for level in levels if _plain(level) not in known]:
                near = difflib.get_close_matches(str(absent[0]), map(str, known.values()), n=1)
                say = self.say
                text = say("the study has no {factor} {level}", factor=name, level=absent[0])
                raise Untestable(f"{text}; {say('did you mean {level}?', level=near[0])}" if near else text)
            settled[name] = tuple(dict.fromkeys(_plain(level) for level in levels))
        return settled

    def _check_constant(self, name: str, levels: Sequence[Level], condition: bool) -> None:
        say, constant = self.say, self.report.study.settings.get(name)
        if constant is None:
            raise Untestable(say("this study does not vary {factor}", factor=name))
        if not condition or _plain(constant) not in {_plain(level) for level in levels}:
            text = say("this study holds {factor} at {level}, and does not vary it", factor=name, level=constant)
            raise Untestable(text)

    def _why(self, rows: Iterable[Row]) -> str:
        """Why none of these treatments has enough values, each reason once."""
        say, found = self.say, list(rows)
        lost = [row.reason or "" for row in found if row.status == "unavailable"]
        reasons = dict.fromkeys((_shared(self.report, reason), reason) for reason in lost)
        said = [
            say("{levels} is unavailable: {reason}", levels=where, reason=reason)
            if where
            else say("unavailable: {reason}", reason=reason)
            for where, reason in reasons
        ]
        if any(row.status == "pending" for row in found):
            said.append(say("trials that it needs have not run yet"))
        if any(row.status == "invalid" for row in found):
            said.append(say("of treatments that it needs, every attempt was invalid"))
        if any(row.status in ("measured", "partly") for row in found):
            said.append(say("treatments that it needs have fewer than two values of {metric}", metric=self.metric.name))
        return "; ".join(said) or say("the design has no treatments that it could be tested on")

    def difference(self, of: Weights, to: Weights) -> Contrast:
        return linear(_less(of, to), self.values, self.confidence)

    def ratio(self, of: Weights, to: Weights) -> Contrast:
        return ratio_of_linears(of, to, self.values, self.confidence)

    def hides(self, weights: Weights, deviation: float | None) -> bool:
        """Whether a deviation, a share, lies under the floor that `lastro calibrate` found, if it did, of the contrast

        with these weights: `of` less `to` for the deviation of their ratio from 1."""
        return bool(hides(self.floor.share if self.floor else None, deviation, weights.values()))

    def hides_ratio(self, of: Weights, to: Weights) -> bool:
        ratio = self.ratio(of, to).value
        return ratio is not None and ratio > 0 and self.hides(_less(of, to), ratio - 1)

    def hides_gap(self, weights: Weights, gap: float | None) -> bool:
        """The same of a difference, as a share of the mean of all that it is made of."""
        total = math.fsum(map(abs, weights.values()))
        mean = linear({index: abs(weight) / total for index, weight in weights.items()}, self.values, self.confidence)
        return bool(gap is not None and mean.value and mean.value > 0 and self.hides(weights, gap / mean.value))

    def above(self, of: Weights, to: Weights, bound: float) -> float | None:
        """The one-sided p of the hypothesis that `of` is not above `bound` times `to`."""
        found = linear(_less(of, {index: bound * weight for index, weight in to.items()}), self.values, self.confidence)
        if found.p is None or found.value is None:
            return None
        return found.p / 2 if found.value > 0 else 1 - found.p / 2


# One function for each kind of statement


def _compare(statement: Compare, margin: float, cells: _Cells) -> Effects:
    (of, to), used, total = cells.sides([statement.of, statement.to], statement.at)
    label = f"{_words(statement.of, statement.to)} / {_words(statement.to, statement.of)}"
    if statement.direction == "alike":
        return Effects((_likeness(label, of, to, margin, cells),), used, total)
    return Effects((_direction(label, of, to, statement.direction == "higher", cells),), used, total)


def _recovery(statement: Recovery, cells: _Cells) -> Effects:
    sides, used, total = cells.sides([statement.ideal, statement.without, statement.protected], statement.at)
    ideal, without, protected = sides
    loss = cells.difference(ideal, without)
    higher = (loss.value or 0) > 0
    lost = cells.metric.better == "neither" or higher == (cells.metric.better == "higher")
    say, name = cells.say, cells.metric.name
    nothing = ""
    if loss.p is None or loss.p >= 1 - cells.confidence:
        nothing = say("there is nothing to recover: the loss of {metric} cannot be told from none", metric=name)
    elif not lost:
        nothing = say("there is nothing to recover: {metric} is no worse without protection", metric=name)
    if loss.p is None:
        raise Untestable(nothing)
    gain = cells.difference(protected, without)
    share = ratio_of_linears(_less(protected, without), _less(ideal, without), cells.values, cells.confidence)
    label = f"{_words(statement.protected, statement.without)} / {_words(statement.without, statement.protected)}"
    part = _signed(label, "share", share, gain, gain, higher)
    if part.p_for is not None and part.p_against is not None:
        # Something is recovered when something was lost and something of it came back: each must be told (Berger 1982).
        p_loss = loss.p if lost else 1.0
        hidden = cells.hides_ratio(ideal, without) or cells.hides_ratio(protected, without)
        p_for, p_against = max(p_loss, part.p_for), max(p_loss, part.p_against)
        part = replace(part, p_for=p_for, p_against=p_against, hidden_for=hidden, hidden_against=hidden)
    return Effects((part,), used, total, nothing)


def _order(statement: Order, cells: _Cells) -> Effects:
    levels = [level for group in statement.falling for level in group]
    sides = [side for level in levels for side in _sides_at(statement, level)]
    weights, used, total = cells.sides(sides, statement.at)
    share = len(weights) // len(levels)
    of_level = {level: weights[at * share : (at + 1) * share] for at, level in enumerate(levels)}
    parts = []
    for upper, lower in itertools.pairwise(statement.falling):
        for first, second in itertools.product(upper, lower):
            if share == 1:
                parts.append(_direction(f"{first} / {second}", of_level[first][0], of_level[second][0], True, cells))
            else:
                label = f"{first} {MINUS} {second}"
                effects = [_less(*of_level[level]) for level in (first, second)]
                gap = cells.difference(effects[0], effects[1])
                hidden = cells.hides_gap(_less(*effects), gap.value)
                part = _signed(label, "difference", gap, gap, None, True)
                parts.append(replace(part, hidden_for=hidden, hidden_against=hidden))
    return Effects(tuple(parts), used, total)


def _sides_at(statement: Order, level: Level) -> list[Levels]:
    own: Levels = {statement.factor: (level,)}
    return [{**own, **statement.of}, {**own, **statement.to}] if statement.of else [own]


def _alike(statement: Alike, margin: float, cells: _Cells) -> Effects:
    sides: list[Levels] = [{statement.factor: (level,)} for level in statement.levels]
    weights, used, total = cells.sides(sides, statement.at)
    pairs = itertools.combinations(zip(statement.levels, weights, strict=True), 2)
    parts = [_likeness(f"{a} / {b}", of, to, margin, cells) for (a, of), (b, to) in pairs]
    return Effects(tuple(parts), used, total)


def _additive(statement: Additive, margin: float, cells: _Cells) -> Effects:
    first, second = ((name, [*cells.factors.get(name, {}).values()]) for name in statement.factors)
    for name, levels in (first, second):
        if len(levels) < 2:
            say = cells.say
            raise Untestable(say("this study does not vary {factor}", factor=name))
    pairs = list(itertools.product(first[1], second[1]))
    sides: list[Levels] = [{first[0]: (a,), second[0]: (b,)} for a, b in pairs]
    weights, used, total = cells.sides(sides, statement.at)
    mean = _sum((side, 1 / len(pairs)) for side in weights)
    parts = []
    for a, b in pairs:
        off = _sum(
            (side, (a == x) * (b == y) - (a == x) / len(second[1]) - (b == y) / len(first[1]) + 1 / len(pairs))
            for side, (x, y) in zip(weights, pairs, strict=True)
        )
        parts.append(_within(f"{a} · {b}", off, mean, margin, cells))
    return Effects(tuple(parts), used, total)


# One function for each kind of test


def _direction(label: str, of: Weights, to: Weights, higher: bool, cells: _Cells) -> Part:
    """A difference of the stated sign; the effect is shown as a ratio where there is one."""
    gap, ratio = cells.difference(of, to), cells.ratio(of, to)
    if ratio.value is None or ratio.value <= 0:
        return _signed(label, "difference", gap, gap, None, higher)
    part = _signed(label, "ratio", ratio, gap, gap, higher)
    hidden = cells.hides(_less(of, to), ratio.value - 1)
    return replace(part, hidden_for=hidden, hidden_against=hidden)


def _signed(
    label: str, measure: Measure, effect: Contrast, tested: Contrast, beside: Contrast | None, higher: bool
) -> Part:
    """For the statement speaks a `tested` contrast told from zero, of the stated sign; against it, of the other."""
    if tested.p is None or tested.value is None:
        return Part(label, measure, effect, beside, None, None)
    so = tested.value > 0 if higher else tested.value < 0
    return Part(label, measure, effect, beside, tested.p if so else 1.0, 1.0 if so else tested.p)


def _likeness(label: str, of: Weights, to: Weights, margin: float, cells: _Cells) -> Part:
    """Two one-sided tests that the ratio lies within 1/(1 + margin) and 1 + margin (Schuirmann 1987)."""
    return _bounded(label, cells.ratio(of, to), cells.difference(of, to), of, to, (1 / (1 + margin), 1 + margin), cells)


def _within(label: str, off: Weights, mean: Weights, margin: float, cells: _Cells) -> Part:
    """Two one-sided tests that a deviation lies within a margin, a share of the mean, to either side of zero."""
    return _bounded(label, cells.ratio(off, mean), cells.difference(off, {}), off, mean, (-margin, margin), cells)


def _bounded(
    label: str,
    effect: Contrast,
    beside: Contrast,
    of: Weights,
    to: Weights,
    bounds: tuple[float, float],
    cells: _Cells,
) -> Part:
    low, high = bounds
    if (linear(to, cells.values, cells.confidence).value or 0.0) <= 0:
        say = cells.say
        raise Untestable(say("there is no ratio: {metric} is not above zero", metric=cells.metric.name))
    above_low, above_high = cells.above(of, to, low), cells.above(of, to, high)
    if effect.value is None or above_low is None or above_high is None:
        return Part(label, "ratio", effect, beside, None, None)
    inside = max(above_low, 1 - above_high)
    outside = min(1.0, 2 * min(above_high, 1 - above_low))
    if low > 0:
        hidden = cells.hides(_less(of, to), effect.value - 1)
        return Part(label, "ratio", effect, beside, inside, outside, hidden_against=hidden)
    hidden = cells.hides(of, effect.value)
    return Part(label, "share", effect, beside, inside, outside, hidden_against=hidden)


# Words and weights


def _key(levels: Mapping[str, Level]) -> Key:
    return frozenset((name, _plain(level)) for name, level in levels.items())


def _plain(level: Level) -> object:
    """A level by what it means: the order of levels that '+' joins is none."""
    return "+".join(sorted(part.strip() for part in level.split("+"))) if isinstance(level, str) else level


def _combinations(levels: Mapping[str, Iterable[object]]) -> Iterator[Key]:
    for combination in itertools.product(*levels.values()):
        yield frozenset(zip(levels, combination, strict=True))


def _less(of: Weights, to: Weights) -> dict[int, float]:
    return _sum([(of, 1.0), (to, -1.0)])


def _sum(terms: Iterable[tuple[Weights, float]]) -> dict[int, float]:
    total: dict[int, list[float]] = {}
    for weights, factor in terms:
        for index, weight in weights.items():
            total.setdefault(index, []).append(factor * weight)
    return {index: math.fsum(parts) for index, parts in total.items()}


def _words(side: Levels, other: Levels) -> str:
    """The levels in which a side differs from the other."""
    return " · ".join(", ".join(map(str, levels)) for name, levels in side.items() if levels != other.get(name))


def _shared(report: Report, reason: str) -> str:
    """What the treatments that one reason forbids have in common: 'isolation = apparmor'."""
    return next((gap.where for gap in report.gaps if gap.reason == reason and gap.where), "")

"""What a noisy neighbour costs and what isolation recovers: the opening sentences of a study of both.

Every number is obtained like that of a claim: statements of comparison and recovery, with the contrasts and intervals
of `claim_effects`. The losses to the neighbours, the recoveries and the costs of isolation are one family of tests
each: all intervals of a family hold simultaneously, so any may be reported. Pure: a report in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastro.analysis.campaign import Report
from lastro.analysis.claim_cells import Untestable
from lastro.analysis.claim_effects import Effects, Part, effects_of
from lastro.report.language import Language
from lastro.report.phrases import PERCENT, Amount, behind_number, sentence
from lastro.stats.notes import N_, Note
from lastro.study.claims import Compare, Levels, Recovery, Statement
from lastro.study.model import Level

NEIGHBOUR, ISOLATION, NONE = "anomaly", "isolation", "none"
_MOST = 4  # sentences on neighbours
_DECIDED = (-1.0, 2.0)  # an interval of a recovery that extends further is too wide to be useful


@dataclass(frozen=True, slots=True)
class _Found:
    """A level with the effects of its statement, or with the reason why there are none.

    Intervals and `p` are corrected for all tests of its `family` (its number of tests)."""

    level: Level
    effects: Effects | None
    why_not: str = ""
    family: int = 1

    @property
    def part(self) -> Part:
        assert self.effects is not None
        return self.effects.parts[0]

    @property
    def raw_p(self) -> float | None:
        """The uncorrected p of no effect in either direction."""
        if self.effects is None or self.part.p_for is None or self.part.p_against is None:
            return None
        return min(self.part.p_for, self.part.p_against)

    @property
    def p(self) -> float | None:
        return None if self.raw_p is None else min(1.0, self.family * self.raw_p)


def interference(report: Report, say: Language, most: int = _MOST + 1) -> tuple[str, ...]:
    """Return at most `most` sentences on the study's first metric, worst neighbour first.

    Empty if the study does not vary the neighbour, or if the first metric was not measured."""
    levels = _levels(report, NEIGHBOUR)
    if NONE not in levels or len(levels) < 2 or not report.metrics:
        return ()
    if not any(row.cells[0].points for row in report.rows):
        return ()
    return tuple(_Opening(report, say).sentences(most))[:most]


class _Opening:
    """The statements of one study and the sentences on them."""

    def __init__(self, report: Report, say: Language) -> None:
        self.report, self.say, self.metric = report, say, report.metrics[0]
        self.alpha = 1 - report.study.design.confidence
        self.sign = -1.0 if self.metric.better == "higher" else 1.0
        self.neighbours = [level for level in _levels(report, NEIGHBOUR) if level != NONE]
        isolations = _levels(report, ISOLATION)
        self.unprotected: Levels = {ISOLATION: (NONE,)} if NONE in isolations else {}
        self.isolations = [level for level in isolations if level != NONE] if self.unprotected else []
        self.n_blocks = len({point.block for row in report.rows for point in row.cells[0].points})

    def sentences(self, most: int) -> Iterator[str]:
        losses = self._found([(level, self._loss(level)) for level in self.neighbours])
        known = sorted((found for found in losses if found.effects), key=self._rank)
        hurting = [found for found in known if self._is_loss(found)]
        recoveries = self._recoveries([found.level for found in hurting])
        cost, where = self._cost(), self._held()
        known = known[: min(_MOST, most - bool(cost and len(known) > 1))]
        for found in known:
            clauses = [self._loss_words(found) + where, *self._recovery_clauses(recoveries.get(found.level, ()))]
            yield sentence([*clauses, cost] if len(known) == 1 else clauses)
        if len(known) != 1 and cost:
            yield sentence([cost])
        for why, levels in _by_reason(losses).items():
            yield self.say(
                "The cost of the neighbour is not known here ({neighbours}): {reason}.", neighbours=levels, reason=why
            )

    # Statements

    def _loss(self, level: Level) -> Statement:
        return self._worse({NEIGHBOUR: (level,), **self.unprotected}, {NEIGHBOUR: (NONE,), **self.unprotected}, {})

    def _worse(self, of: Levels, to: Levels, at: Levels) -> Statement:
        return Compare(self.metric.name, of, to, at, "lower" if self.metric.better == "higher" else "higher")

    def _recovery(self, neighbour: Level, isolation: Level) -> Statement:
        return Recovery(
            self.metric.name,
            ideal={NEIGHBOUR: (NONE,), **self.unprotected},
            without={NEIGHBOUR: (neighbour,), **self.unprotected},
            protected={NEIGHBOUR: (neighbour,), ISOLATION: (isolation,)},
            at={},
        )

    def _found(self, statements: Sequence[tuple[Level, Statement]]) -> list[_Found]:
        """Test the statements; those that can be tested are one family, by Bonferroni's method."""
        found = [self._one(level, statement, 1) for level, statement in statements]
        n = sum(one.raw_p is not None for one in found)
        return [self._one(level, statement, n) for level, statement in statements] if n > 1 else found

    def _one(self, level: Level, statement: Statement, family: int) -> _Found:
        if self.n_blocks < 2:
            why = self.say("n = {n}: the spread is not known with fewer than two blocks", n=self.n_blocks)
            return _Found(level, None, why)
        try:
            effects = effects_of(statement, None, self.report, 1 - self.alpha / family)
        except Untestable as untestable:
            return _Found(level, None, "; ".join(map(self.say.note, untestable.why)))
        found = _Found(level, effects, family=family)
        if isinstance(statement, Recovery):
            return found
        if found.part.open:
            why = self.say("only a lower bound is known for {levels}", levels=effects.bounded)
            return _Found(level, None, why)
        return found if found.raw_p is not None else _Found(level, None, self._why_absent(found.part))

    def _why_absent(self, part: Part) -> str:
        why = (part.beside or part.effect).absent_because or part.effect.absent_because
        return self.say.note(why) if isinstance(why, Note) else self.say("there is no interval")

    # The cost of a neighbour

    def _amount(self, part: Part) -> Amount:
        """Return how much worse `of` is than `to`; a percentage if the ratio has an interval and `to` is above zero."""
        gap, above = part.beside, (part.effect.value or 0.0) - 1
        below_zero = gap is not None and (gap.value or 0.0) * above < 0
        if part.measure == "ratio" and not below_zero and (part.effect.interval or not gap or gap.interval is None):
            effect, scale, least, unit = part.effect, 100 * self.sign, 1.0, PERCENT
        else:
            effect, scale, least = gap or part.effect, self.sign, 0.0
            unit = behind_number(self.metric.unit, self.say)
        value = scale * ((effect.value or 0.0) - least)
        if effect.interval is None:
            return Amount(value, None, None, unit)
        low, high = sorted(scale * (end - least) for end in (effect.interval.low, effect.interval.high))
        return Amount(value, low, high, unit)

    def _distinguishable(self, found: _Found) -> bool:
        return found.p is not None and found.p < self.alpha and not found.part.hidden_for

    def _is_loss(self, found: _Found) -> bool:
        return self._distinguishable(found) and (self.metric.better == "neither" or self._amount(found.part).value > 0)

    def _rank(self, found: _Found) -> tuple[bool, float]:
        """Return a sort key: the worst first, then those that are not distinguishable."""
        size = self._amount(found.part).value
        return not self._distinguishable(found), -abs(size) if self.metric.better == "neither" else -size

    def _loss_words(self, found: _Found) -> str:
        say, amount = self.say, self._amount(found.part)
        words = {"neighbour": found.level, "metric": self.metric.name}
        if not self._distinguishable(found):
            text = self._nothing_words(found, amount, words)
        elif self.metric.better == "neither":
            text = say("The {neighbour} neighbour changes {metric} by {amount}", amount=amount.text(say), **words)
        elif amount.value > 0 and self.metric.better == "higher":
            text = say("The {neighbour} neighbour takes {amount} of {metric}", amount=amount.text(say), **words)
        elif amount.value > 0:
            text = say("The {neighbour} neighbour adds {amount} to {metric}", amount=amount.text(say), **words)
        else:
            better = (-amount).text(say)
            text = say("With the {neighbour} neighbour, {metric} is {amount} better", amount=better, **words)
        return text + self._over(found)

    def _nothing_words(self, found: _Found, amount: Amount, words: Mapping[str, object]) -> str:
        say = self.say
        text = say(
            "No effect of the {neighbour} neighbour on {metric} is distinguishable with {blocks}",
            blocks=say.count(self.n_blocks, "block"),
            **words,
        )
        if found.p is not None and found.p < self.alpha:
            return text + "; " + say("the effect is below the noise floor of this host")
        if corrected := self._by_correction([found]):
            text += " " + corrected
        most = {"higher": N_("at most {limit} is lost"), "lower": N_("at most {limit} is added")}
        if (limit := amount.limit(say)) and self.metric.better in most:
            text += "; " + say(most[self.metric.better], limit=limit)
        return text

    def _by_correction(self, found: Sequence[_Found]) -> str:
        """Return 'after correction for 4 comparisons' if correction makes one of these not distinguishable."""
        if not any(one.raw_p is not None and one.raw_p < self.alpha <= (one.p or 0.0) for one in found):
            return ""
        say = self.say
        return say("after correction for {comparisons}", comparisons=say.count(found[0].family, "comparison"))

    def _over(self, found: _Found) -> str:
        assert found.effects is not None
        n, total = found.effects.strata, found.effects.all_strata
        text = self.say("over {n} of {all} conditions of the design", n=n, all=total)
        return f" ({text})" if n < total else ""

    def _held(self) -> str:
        """Return the isolation under which everything was measured; empty if anything was measured without."""
        held = _levels(self.report, ISOLATION) or [self.report.study.settings.get(ISOLATION, NONE)]
        if NONE in held:
            return ""
        return ", " + self.say("measured only with isolation by {levels}", levels=", ".join(map(str, held)))

    # The recovery by isolation, and its cost

    def _recoveries(self, neighbours: Iterable[Level]) -> dict[Level, list[_Found]]:
        pairs = [(neighbour, isolation) for neighbour in neighbours for isolation in self.isolations]
        tested = self._found([(isolation, self._recovery(neighbour, isolation)) for neighbour, isolation in pairs])
        found: dict[Level, list[_Found]] = {}
        for (neighbour, _), one in zip(pairs, tested, strict=True):
            found.setdefault(neighbour, []).append(one)
        return found

    def _recovery_clauses(self, recoveries: Sequence[_Found]) -> Iterator[str]:
        say, higher = self.say, self.metric.better == "higher"
        known = [found for found in recoveries if found.effects]
        decided = sorted((found for found in known if _is_decided(found)), key=lambda found: -_recovered(found).value)
        shares = [(found, _recovered(found)) for found in decided if self._distinguishable(found)]
        if gains := [(found, share.text(say)) for found, share in shares if share.value > 0]:
            first = N_("isolation by {level} gives back {share} of it")
            yield self._listed(first if higher else N_("isolation by {level} removes {share} of it"), gains)
        if harms := [(found, (-share).text(say)) for found, share in shares if share.value <= 0]:
            yield self._listed(N_("isolation by {level} makes it {share} larger"), harms)
        if rest := [found for found in decided if not self._distinguishable(found)]:
            yield self._nothing_back(rest)
        if open_ := ", ".join(str(found.level) for found in known if not _is_decided(found)):
            text = N_("how much of it isolation by {levels} gives back is undecided")
            yield say(text if higher else N_("how much of it isolation by {levels} removes is undecided"), levels=open_)
        for why, levels in _by_reason(recoveries).items():
            yield say("what isolation by {levels} does is not known ({reason})", levels=levels, reason=why)

    def _nothing_back(self, found: Sequence[_Found]) -> str:
        say, several = self.say, len(found) > 1
        shares = ", ".join(
            (f"{one.level} " if several else "") + _recovered(one).text(say) + self._over(one) for one in found
        )
        text = N_("isolation by {levels} gives back nothing distinguishable ({shares})")
        if self.metric.better != "higher":
            text = N_("isolation by {levels} removes nothing distinguishable of it ({shares})")
        levels = ", ".join(str(one.level) for one in found)
        return say(text, levels=levels, shares="; ".join(filter(None, (shares, self._by_correction(found)))))

    def _listed(self, first: str, shares: Sequence[tuple[_Found, str]], **words: str) -> str:
        """Return a list such as 'isolation by cgroups gives back 71 % [50, 90] of it, by apparmor 3 % [1, 5]'."""
        say = self.say
        parts = [
            say("by {level} {share}", level=found.level, share=share)
            if at
            else say(first, level=found.level, share=share, **words)
            for at, (found, share) in enumerate(shares)
        ]
        return ", ".join(part + self._over(found) for part, (found, _) in zip(parts, shares, strict=True))

    def _cost(self) -> str:
        """Return what isolation costs, or gains, without a neighbour; empty where that is not distinguishable."""
        if not isolation_is_told(self.report):
            return ""
        alone: Levels = {NEIGHBOUR: (NONE,)}
        statements = [
            (level, self._worse({ISOLATION: (level,), **alone}, {**self.unprotected, **alone}, {}))
            for level in self.isolations
        ]
        known = [found for found in self._found(statements) if found.effects and self._distinguishable(found)]
        known.sort(key=self._rank)
        losses = [found for found in known if self._is_loss(found)]
        first = N_("without a neighbour, isolation by {level} takes {share} of {metric}")
        if self.metric.better == "lower":
            first = N_("without a neighbour, isolation by {level} adds {share} to {metric}")
        shares = [(found, self._amount(found.part).text(self.say)) for found in losses]
        cost = self._listed(first, shares, metric=self.metric.name) if shares else ""
        better = N_("without a neighbour, {metric} is {share} better with isolation by {level}")
        gains = [
            self.say(
                better, level=found.level, share=(-self._amount(found.part)).text(self.say), metric=self.metric.name
            )
            for found in known
            if found not in losses
        ]
        return "; ".join(filter(None, [cost, *gains]))


def isolation_is_told(report: Report) -> bool:
    """Whether the sentences on neighbours also report on isolation.

    They do if the study compares isolation with none, and the first metric has a better direction."""
    levels = _levels(report, ISOLATION)
    return NONE in levels and len(levels) > 1 and report.metrics[0].better != "neither"


def _levels(report: Report, factor: str) -> list[Level]:
    """Return the levels of a factor; empty if the study has no such factor."""
    return next((list(found.levels) for found in report.study.factors if found.name == factor), [])


def _by_reason(tested: Iterable[_Found]) -> dict[str, str]:
    """Return {reason why nothing is known: the levels it applies to}."""
    reasons: dict[str, list[str]] = {}
    for found in tested:
        if found.effects is None:
            reasons.setdefault(found.why_not, []).append(str(found.level))
    return {why: ", ".join(levels) for why, levels in reasons.items()}


def _is_decided(found: _Found) -> bool:
    """Whether the recovered fraction is known well enough to be reported."""
    interval = found.part.effect.interval
    if interval is None or found.effects is None or found.effects.nothing or found.part.hidden_for:
        return False
    return _DECIDED[0] <= interval.low and interval.high <= _DECIDED[1]


def _recovered(found: _Found) -> Amount:
    effect = found.part.effect
    assert effect.value is not None and effect.interval is not None
    return Amount(100 * effect.value, 100 * effect.interval.low, 100 * effect.interval.high)

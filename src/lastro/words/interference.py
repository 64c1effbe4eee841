"""Sentences on the cost of a noisy neighbour, of isolation and what it recovers, and of a further hop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lastro.analysis.growth import SizeRelation
from lastro.analysis.interference import Interference, TestedLevel
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.notes import N_, PERCENT
from lastro.words.language import Language
from lastro.words.phrases import Amount, join_names, sentence, unit_suffix

_MOST = 4  # sentences on neighbours


def interference_sentences(interference: Interference | None, say: Language, most: int = _MOST + 1) -> tuple[str, ...]:
    """Return at most `most` sentences on neighbours and isolation, worst neighbour first; none without effects."""
    return () if interference is None else tuple(_Sentences(interference, say).all(most))[:most]


class _Sentences:
    """The sentences on what neighbours cost and isolations recover, in one study."""

    def __init__(self, interference: Interference, say: Language) -> None:
        self.interference, self.say, self.metric = interference, say, interference.metric

    def all(self, most: int) -> Iterator[str]:
        """Yield a sentence for each neighbour, worst first, then the cost of isolation, then what is not known.

        The cost of isolation is among the first `most` sentences; neighbours are left out to make room for it."""
        known = [loss for loss in self.interference.losses if loss.effects]
        cost, only_with = self._cost(), ", ".join(map(str, self.interference.only_with))
        where = ", " + self.say("measured only with isolation by {levels}", levels=only_with) if only_with else ""
        known = known[: min(_MOST, most - bool(cost and len(known) > 1))]
        for loss in known:
            recoveries = self.interference.recoveries.get(loss.level, ())
            lost = self._loss_words(loss)
            if self.interference.costs:  # the other figures are means over isolations
                lost = self.say("without isolation, {text}", text=f"{lost[:1].lower()}{lost[1:]}")
            clauses = [lost + where, *self._recovery_clauses(recoveries)]
            yield sentence([*clauses, cost] if len(known) == 1 else clauses)
        if len(known) != 1 and cost:
            yield sentence([cost])
        text = N_("The cost of the neighbour is not known here ({neighbours}): {reason}.")
        for why, levels in self._by_reason(self.interference.losses).items():
            yield self.say(text, neighbours=levels, reason=why)

    def _change(self, tested: TestedLevel) -> Amount:
        return Amount.of(tested.change, PERCENT if tested.relative else unit_suffix(self.metric.unit, self.say))

    # The cost of a neighbour

    def _loss_words(self, tested: TestedLevel) -> str:
        """Return how much a neighbour takes from or adds to the metric, or that its effect is not distinguishable."""
        say, amount = self.say, self._change(tested)
        words = {"neighbour": tested.level, "metric": self.metric.name}
        if not tested.distinguishable:
            text = N_("No effect of the {neighbour} neighbour on {metric} is distinguishable with {blocks}")
            text = say(text, blocks=say.count(self.interference.n_blocks, "block"), **words)
            if corrected := self._by_correction([tested]):
                text += " " + corrected
            most = {"higher": N_("at most {limit} is lost"), "lower": N_("at most {limit} is added")}
            if (limit := amount.limit(say)) and self.metric.better in most:
                text += "; " + say(most[self.metric.better], limit=limit)
        elif self.metric.better == "neither":
            text = say("The {neighbour} neighbour changes {metric} by {amount}", amount=amount.text(say), **words)
        elif amount.value > 0 and self.metric.better == "higher":
            text = say("The {neighbour} neighbour takes {amount} of {metric}", amount=amount.text(say), **words)
        elif amount.value > 0:
            text = say("The {neighbour} neighbour adds {amount} to {metric}", amount=amount.text(say), **words)
        else:
            better = (-amount).text(say)
            text = say("With the {neighbour} neighbour, {metric} is {amount} better", amount=better, **words)
        if tested.distinguishable and tested.part.under_floor:
            text += ", " + say("less than the noise floor of this host")
        return text

    def _by_correction(self, tested: Sequence[TestedLevel]) -> str:
        """Return 'after correction for 4 comparisons' if an effect is not significant only due to the correction."""
        if not any(level.lost_to_correction for level in tested):
            return ""
        say = self.say
        return say("after correction for {comparisons}", comparisons=say.count(tested[0].family, "comparison"))

    # The recovery by isolation, and its cost

    def _recovery_clauses(self, recoveries: Sequence[TestedLevel]) -> Iterator[str]:
        """Yield clauses on the isolations: those that recover, harm, have no effect, are undecided, are not known."""
        say, higher = self.say, self.metric.better == "higher"
        known = [level for level in recoveries if level.effects]
        decided = sorted((level for level in known if level.decided), key=lambda level: -level.recovered.spread[0])
        recovered = [(level, Amount.of(level.recovered)) for level in decided if level.distinguishable]
        if gains := [(level, share.text(say)) for level, share in recovered if share.value > 0]:
            first = N_("isolation by {level} recovers {share} of it")
            yield self._listed(first if higher else N_("isolation by {level} removes {share} of it"), gains)
        if harms := [(level, (-share).text(say)) for level, share in recovered if share.value <= 0]:
            yield self._listed(N_("isolation by {level} makes it {share} larger"), harms)
        if undistinguished := [level for level in decided if not level.distinguishable]:
            text = N_("the recovery by {levels} is not distinguishable from zero ({shares})")
            less = N_("the reduction by {levels} is not distinguishable from zero ({shares})")
            changes = [(level, Amount.of(level.recovered)) for level in undistinguished]
            yield self._not_distinguishable(text if higher else less, changes)
        if open_ := join_names([str(level.level) for level in known if not level.decided], say):
            text = N_("how much of it isolation by {levels} recovers is undecided")
            yield say(text if higher else N_("how much of it isolation by {levels} removes is undecided"), levels=open_)
        for why, levels in self._by_reason(recoveries).items():
            yield say("the effect of isolation by {levels} is not known ({reason})", levels=levels, reason=why)

    def _not_distinguishable(self, text: str, tested: Sequence[tuple[TestedLevel, Amount]]) -> str:
        """Fill `text`, which says that amounts are not distinguishable from zero, with the levels and their amounts."""
        say = self.say
        has_several = len(tested) > 1
        levels_tested = [level for level, _ in tested]
        shares = ", ".join((f"{level.level} " if has_several else "") + amount.text(say) for level, amount in tested)
        levels = join_names([str(level.level) for level in levels_tested], say)
        return say(text, levels=levels, shares="; ".join(filter(None, (shares, self._by_correction(levels_tested)))))

    def _listed(self, first: str, shares: Sequence[tuple[TestedLevel, str]], **words: str) -> str:
        """Return a list such as 'isolation by cgroups recovers 71 % [50, 90] of it, by apparmor 3 % [1, 5]'.

        `first` is the message for the first level; `words` are its other values."""
        (tested, share), *others = shares
        texts = [self.say(first, level=tested.level, share=share, **words)]
        texts += [self.say("by {level} {share}", level=other.level, share=amount) for other, amount in others]
        return ", ".join(texts)

    def _cost(self) -> str:
        """Return what isolation costs or gains without a neighbour; empty if the study does not compare isolations."""
        say = self.say
        first = N_("without a neighbour, isolation by {level} takes {share} of {metric}")
        if self.metric.better == "lower":
            first = N_("without a neighbour, isolation by {level} adds {share} to {metric}")
        costs = [(tested, self._change(tested)) for tested in self.interference.costs]
        losses = [(tested, amount.text(say)) for tested, amount in costs if tested.is_loss]
        cost = self._listed(first, losses, metric=self.metric.name) if losses else ""
        better = N_("without a neighbour, {metric} is {share} better with isolation by {level}")
        gains = [
            say(better, level=tested.level, share=(-amount).text(say), metric=self.metric.name)
            for tested, amount in costs
            if tested.distinguishable and not tested.is_loss
        ]
        undistinguished = [(tested, amount) for tested, amount in costs if not tested.distinguishable]
        text = N_("the cost of isolation by {levels} without a neighbour is not distinguishable from zero ({shares})")
        return "; ".join(
            filter(None, [cost, *gains, self._not_distinguishable(text, undistinguished) if undistinguished else ""])
        )

    def _by_reason(self, tested: Iterable[TestedLevel]) -> dict[str, str]:
        """Return {why an effect is not known: the levels with that reason, joined by commas}."""
        unknown = (level for level in tested if level.effects is None)
        reasons = by_key(("; ".join(map(self.say.note, level.why_not)), str(level.level)) for level in unknown)
        return {why: ", ".join(levels) for why, levels in reasons.items()}


_MOST_NAMED = 4  # conditions whose amounts are all written; of more, only the least and the most


def hop_sentences(
    relations: Sequence[tuple[tuple[str, ...], SizeRelation]], metric: Metric, say: Language
) -> tuple[str, ...]:
    """Return a tuple of one sentence on the cost of each further hop, with its interval; empty if no slope is known.

    `relations` are (levels of the other factors, growth of the metric with the length). The sentence also names the
    levels for which each hop costs more, or less, in longer chains."""
    sign = -1 if metric.better == "higher" else 1
    costs: list[tuple[float, str]] = []
    dearer: list[str] = []
    cheaper: list[str] = []
    for levels, relation in relations:
        line, where = relation.line, " · ".join(levels)
        if line is None or line.slope.value is None or line.slope.interval is None:
            continue
        value, ends = sign * line.slope.value, line.slope.interval.mapped(lambda end: sign * end)
        amount = Amount(value, ends.low, ends.high, unit_suffix(metric.unit, say)).text(say)
        if line.direction:
            (dearer if sign * line.direction > 0 else cheaper).append(where or say("here"))
            amount = say("{amount} on average", amount=amount)
        costs.append((value, say("{amount} with {levels}", amount=amount, levels=where) if where else amount))
    if not costs:
        return ()
    text = N_("in {metric}, each further hop costs {amounts}")
    if metric.better == "neither":
        text = N_("each further hop changes {metric} by {amounts}")
    if len(costs) > _MOST_NAMED:
        costs = [min(costs), max(costs)]
        text = N_("in {metric}, each further hop costs between {amounts}")
    clauses = [say(text, amounts=join_names([words for _, words in costs], say), metric=metric.name)]
    if dearer:
        clauses.append(say("of more hops, each costs more ({levels})", levels=join_names(dearer, say)))
    if cheaper:
        clauses.append(say("of more hops, each costs less ({levels})", levels=join_names(cheaper, say)))
    return (sentence(clauses),)

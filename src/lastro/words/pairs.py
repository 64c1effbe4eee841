"""Phrases on the levels of one factor, compared with each other: changes, equivalence, undecided differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.analysis.interference import ISOLATION, NEIGHBOUR
from lastro.analysis.model import FactorPairs
from lastro.results.samples import Metric
from lastro.stats.notes import N_, PERCENT
from lastro.stats.simultaneous import Pair
from lastro.study.levels import NONE
from lastro.words.language import Language
from lastro.words.phrases import Amount, join_names, rounded_up, unit_suffix

_MOST_LEVELS = 4  # differing levels in one sentence
_MOST_NAMES = 8  # names in a list of levels
_MOST_MORE = 100  # further blocks: a larger number is written as 'more than 100'
_ANSWERS = frozenset({"true", "false", "yes", "no", "on", "off"})


@dataclass(frozen=True, slots=True)
class PairPhrases:
    """Phrases on the effect of one factor on one metric, without an initial capital or a full stop.

    `margin` is the relative difference up to which means are called alike. `shared` are the levels that another factor
    also has."""

    factor: FactorPairs
    metric: Metric
    say: Language
    margin: float
    shared: frozenset[str] = frozenset()

    def changed(self, levels: Sequence[str], reference: str = "") -> str:
        """Return how levels differ: 'with macvlan, throughput is 8.6 % [6.0, 11.2] higher than with bridge'.

        For several levels: 'against bridge, throughput is on average 8.6 % [6.0, 11.2] higher with macvlan, 3 % [1, 5]
        lower with routed'. If `reference` is empty, the reference of the factor is used."""
        reference = reference or self.factor.reference
        pairs = [self.factor.of(level, reference) for level in levels]
        names = [self.name(level) for level in levels]
        if len(levels) == 1:
            text = N_("with {level}, {metric} is {change} than with {reference}")
            if _is_multiple(pairs[0]):
                text = N_("with {level}, {metric} is {change} that with {reference}")
            change, to = self._average(pairs) + self._change(pairs[0]), self.name(reference)
            changed = self.say(text, level=names[0], metric=self.metric.name, change=change, reference=to)
        else:
            changed = self._several_changes(names, pairs, reference)
        if all(self.factor.under_floor(level, reference) for level in levels):
            changed += ", " + self.say("less than the noise floor of this host")
        return changed + self._aliases()

    def _several_changes(self, names: Sequence[str], pairs: Sequence[Pair], reference: str) -> str:
        changes = []
        for name, pair in zip(names[:_MOST_LEVELS], pairs, strict=False):
            text = N_("{change} as high with {level}") if _is_multiple(pair) else N_("{change} with {level}")
            changes.append(self.say(text, change=self._change(pair), level=name))
        if (more := len(names) - _MOST_LEVELS) > 0:
            changes.append(self.say("and it differs with {n} other levels, too", n=more))
        text = N_("against {reference}, {metric} is {changes}")
        joined_changes = self._average(pairs) + ", ".join(changes)
        return self.say(text, reference=self.name(reference), metric=self.metric.name, changes=joined_changes)

    def alike(self, levels: Sequence[str], widest: Pair) -> str:
        """Return that levels are equivalent: 'between native, docker and lxc, throughput differs by less than 4 %'.

        `widest` is the pair of these levels for which the data allow the largest difference."""
        text = N_("between {levels}, {metric} differs {average}by less than {most}")
        names = join_names([self.name(level) for level in levels], self.say, _MOST_NAMES)
        most, average = self.limit(widest), self._average([widest])
        return self.say(text, levels=names, metric=self.metric.name, average=average, most=most) + self._aliases()

    def undecided(self, levels: Sequence[str]) -> str:
        """Return which comparisons with the reference are undecided, and how many more blocks would decide them."""
        pairs = [self.factor.of(level) for level in levels]
        what = self.say(
            "whether {metric} with {levels} differs {average}from that with {reference}",
            metric=self.metric.name,
            levels=join_names([self.name(level) for level in levels], self.say, _MOST_NAMES),
            average=self._average(pairs),
            reference=self.name(self.factor.reference),
        )
        return undecided_text(what + self._aliases(), pairs, self.margin, self.say)

    def unknown(self) -> str:
        """Return why the effect of the factor is not known."""
        text = N_("the effect of {factor} on {metric} is not known: no two blocks have valid values of all its levels")
        if not self.factor.strata:
            text = N_(
                "the effect of {factor} on {metric} is not known: its levels were measured under no common condition"
            )
        return self.say(text, factor=self.factor.factor, metric=self.metric.name)

    def left_out(self) -> str:
        """Return which levels have too few valid trials for a comparison; empty if there are none."""
        names = [self.name(level) for level in self.factor.left_out]
        text = N_("too few valid trials of {levels} in common with the other levels")
        return self.say(text, levels=join_names(names, self.say, _MOST_NAMES)) if names else ""

    def limit(self, pair: Pair) -> str:
        """Return the largest difference between two levels that the data allow, rounded up: '4 %', '0.3 ms'."""
        most = 100 * pair.most if pair.relative else pair.most
        decimals = min(9, max(0, -math.floor(math.log10(most)))) if 0 < most < 1 else 0
        return rounded_up(most, decimals, self.say) + self._unit(pair)

    def name(self, level: str) -> str:
        """Return the name of a level in a sentence: 'count = 2', or only 'macvlan' if it is clear without the factor.

        The factor is added to numbers, to words such as 'on', and to levels that another factor also has."""
        factor, say = self.factor.factor, self.say
        if factor == NEIGHBOUR:
            return say("no neighbour") if level == NONE else say("the {level} neighbour", level=level)
        if factor == ISOLATION and level == NONE:
            return say("no isolation")
        plain = level[:1].isalpha() and level.lower() not in _ANSWERS and level != NONE and level not in self.shared
        return level if plain else f"{factor} = {level}"

    def size(self, pair: Pair) -> Amount:
        """Return how far two levels are apart, without a direction; a multiple if one is at least twice the other."""
        if pair.relative and not 0.5 < pair.value < 2:
            multiple = pair.shown if pair.value > 1 else pair.shown.mapped(lambda ratio: 1 / ratio)
            return Amount.of(multiple, f"\xa0{self.say('times')}", nothing=1.0)
        difference = self._difference(pair)
        return difference if difference.value > 0 else -difference

    def _change(self, pair: Pair) -> str:
        """Format a change: '8.6 % [6.0, 11.2] higher'; if the ratio is 2 or more, '3.0 times [2.8, 3.2]'."""
        if _is_multiple(pair):
            return self.size(pair).text(self.say)
        difference = self._difference(pair)
        if difference.value > 0:
            return self.say("{change} higher", change=difference.text(self.say))
        return self.say("{change} lower", change=(-difference).text(self.say))

    def _difference(self, pair: Pair) -> Amount:
        """Return the signed difference of a pair, in percent if it is relative, else in the unit of the metric."""
        zero, scale = (1.0, 100) if pair.relative else (0.0, 1)
        return Amount.of(pair.shown.mapped(lambda end: scale * (end - zero)), self._unit(pair))

    def _unit(self, pair: Pair) -> str:
        return PERCENT if pair.relative else unit_suffix(self.metric.unit, self.say)

    def _average(self, pairs: Sequence[Pair]) -> str:
        """Return 'on average ' if one of the pairs is a mean over levels of other factors; otherwise empty."""
        return self.say("on average") + " " if any(pair.strata > 1 for pair in pairs) else ""

    def _aliases(self) -> str:
        return with_aliases(self.factor.aliases, self.say)


def with_aliases(aliases: Sequence[str], say: Language) -> str:
    """Return the aliases of an effect, to follow its name: ' (together with attachment × isolation)', or empty."""
    return f" ({say('together with {effects}', effects=join_names(aliases, say))})" if aliases else ""


def undecided_text(what: str, pairs: Sequence[Pair], margin: float, say: Language) -> str:
    """Return `what` 'is undecided with 3 blocks; 9 more would decide with a probability of 50 %, 20 with 80 %'.

    If the levels are of different campaigns, they have no block in common, and the text states no number of blocks."""
    blocks = min(pair.n_blocks for pair in pairs)
    if not blocks:
        return say("{what} is undecided", what=what)
    text = say("{what} is undecided with {blocks}", what=what, blocks=say.count(blocks, "block"))
    likely, sure = (_more_blocks(pairs, margin, probability) for probability in (0.5, 0.8))
    if likely is None or sure is None:
        return text
    if likely > _MOST_MORE:
        return text + "; " + say("more than {n} further blocks would be needed", n=_MOST_MORE)
    decide = N_("{n} more would decide with a probability of 50 %, {m} with 80 %")
    if len(pairs) > 1:
        decide = N_("{n} more would decide each comparison with a probability of 50 %, {m} with 80 %")
    most = say.integer(sure) if sure <= _MOST_MORE else say("more than {n}", n=_MOST_MORE)
    return text + "; " + say(decide, n=say.integer(likely), m=most)


def _more_blocks(pairs: Sequence[Pair], margin: float, probability: float) -> int | None:
    """Return how many more blocks decide each pair with this probability; None if it is not known for some pair."""
    most = 0
    for pair in pairs:
        if (needed := pair.blocks_to_decide(margin, probability, most)) is None:
            return None
        most = needed
    return most - min(pair.n_blocks for pair in pairs)


def _is_multiple(pair: Pair) -> bool:
    """Return whether the ratio of a pair is 2 or more, so that 'three times' is more natural than '200 % higher'."""
    return pair.relative and pair.value >= 2

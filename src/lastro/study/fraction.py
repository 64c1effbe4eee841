"""Fractional factorial designs: which treatments a fraction has, and which effects it measures together.

Sources: Montgomery, Design and Analysis of Experiments (8th ed.), chapter 8; Box, Hunter and Hunter, Statistics for
Experimenters (2nd ed.), chapter 6; Chen and Wu, Annals of Statistics 19 (1991) 1028-1041, for words of minimum
aberration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from lastro.study.service_level import is_choice

if TYPE_CHECKING:
    from lastro.study.model import Level, Study

Effect = frozenset[str]  # names of factors: of one factor its main effect, of several their interaction

HALVINGS = {"1": 0, "1/2": 1, "1/4": 2, "1/8": 3}
FEWEST_FACTORS = {"1/2": 3, "1/4": 5, "1/8": 6}  # with fewer of two levels, main effects are measured together
_CLASSES = (1, 2, 4, 7, 3, 5, 6)  # each factor of two levels is in one, in turn
_UNITS = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


def halvable(study: Study) -> list[str]:
    """Return the factors of two levels; with service levels only choices, as each must hold in every condition."""
    two = [factor.name for factor in study.factors if len(factor.levels) == 2]
    return [name for name in two if is_choice(name)] if study.sla else two


@dataclass(frozen=True, slots=True)
class Fraction:
    """The part of a factorial design in which some interactions of factors with two levels are constant.

    `words` are these interactions, the shortest first: the defining relation without I. A full factorial has none.
    `names` are all factors. Those in no word are crossed with the fraction, however many levels they have. Without the
    `whole` fraction, effects overlap instead of being separate or the same."""

    names: tuple[str, ...] = ()
    words: tuple[Effect, ...] = ()
    whole: bool = True

    @classmethod
    def of(cls, study: Study) -> Fraction:
        """Return the fraction of a study, with words of minimum aberration over the factors that it may halve."""
        halvings, two = HALVINGS[study.design.fraction], halvable(study)
        classes = [each for each in _CLASSES if each < 2**halvings] or [0]
        of_class = {name: classes[at % len(classes)] for at, name in enumerate(two)}
        words = (
            frozenset(name for name in two if (of_class[name] & mask).bit_count() % 2) for mask in range(1, 2**halvings)
        )
        return cls(tuple(factor.name for factor in study.factors), tuple(sorted(words, key=len)))

    def __bool__(self) -> bool:
        return bool(self.words)

    @property
    def halved(self) -> Effect:
        """The factors of which no two treatments differ in that factor alone."""
        return frozenset[str]().union(*self.words)

    @property
    def size(self) -> int:
        """The full factorial has this many times as many treatments."""
        return len(self.words) + 1

    @property
    def resolution(self) -> int:
        """The length of the shortest word; 0 without words."""
        return min(map(len, self.words), default=0)

    @property
    def numeral(self) -> str:
        return "X" * (self.resolution // 10) + _UNITS[self.resolution % 10]

    def has(self, levels: Mapping[str, Level], references: Mapping[str, Level]) -> bool:
        """Return whether a treatment is in the fraction, as the one with all reference levels is."""
        return not any(sum(levels[name] != references[name] for name in word) % 2 for word in self.words)

    def aliases(self, effect: Collection[str]) -> list[Effect]:
        """Return the effects that are measured together with an effect, those of the fewest factors first."""
        return sorted((frozenset(effect) ^ word for word in self.words), key=self._place)

    def repeats(self, effect: Collection[str]) -> bool:
        """Return whether an effect is measured together with one that comes before it."""
        return any(self._place(alias) < self._place(effect) for alias in self.aliases(effect))

    def text(self, effect: Collection[str]) -> str:
        return " × ".join(name for name in self.names if name in effect)

    def chains(self) -> dict[str, str]:
        """Return {effect: its shortest aliases} of each main effect and interaction of two factors, each chain once."""
        found = {}
        for effect in (*combinations(self.names, 1), *combinations(self.names, 2)):
            if not self.repeats(effect):
                own = self.aliases(effect)
                found[self.text(effect)] = ", ".join(map(self.text, (each for each in own if len(each) == len(own[0]))))
        return found

    def document(self) -> dict[str, object]:
        """Return the fraction as JSON-able data."""
        relation = list(map(self.text, self.words))
        return {"resolution": self.resolution, "relation": relation, "aliases": self.chains()}

    def within(self, factors: Collection[str], rows: Sequence[Mapping[str, object]]) -> Fraction:
        """Return the fraction that these treatments are, of the factors that vary among them."""
        if not self:
            return FULL
        words = dict.fromkeys(shorter for word in self.words if (shorter := word & frozenset(factors)))
        fraction = Fraction(tuple(factors), tuple(sorted(words, key=len)))
        crossed = [name for name in factors if name not in fraction.halved]
        counts = Counter(tuple(row[name] for name in crossed) for row in rows)
        return replace(fraction, whole=set(counts.values()) == {2 ** len(fraction.halved) // fraction.size})

    def _place(self, effect: Iterable[str]) -> tuple[int, list[int]]:
        places = sorted(map(self.names.index, effect))
        return len(places), places


FULL = Fraction()

"""Fractional factorial designs: which treatments are in a fraction, and which effects it measures together (aliases).

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

Effect = frozenset[str]  # names of factors: one name is the factor's main effect, several are their interaction

HALVINGS = {"1": 0, "1/2": 1, "1/4": 2, "1/8": 3}
FEWEST_FACTORS = {"1/2": 3, "1/4": 5, "1/8": 6}  # with fewer factors of two levels, main effects are aliased
_CLASSES = (1, 2, 4, 7, 3, 5, 6)  # bit masks that are assigned in turn to the factors with two levels
_UNITS = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


def halvable(study: Study) -> list[str]:
    """Return the names of the factors that a fraction may halve: those with two levels.

    Service levels must hold in every condition. So in a study with service levels, only factors that users choose may
    be halved."""
    names = [factor.name for factor in study.factors if len(factor.levels) == 2]
    return [name for name in names if is_choice(name)] if study.sla else names


@dataclass(frozen=True, slots=True)
class Fraction:
    """A fraction of a factorial design: the treatments in which some interactions of two-level factors are constant.

    `words` are these interactions, the shortest first (the defining relation without I). A full factorial has no words,
    and is false. `names` are the names of all factors; factors that are not in any word are crossed with the fraction.
    `whole` is False if treatments of the fraction are missing: then the effects of its factors overlap partly."""

    names: tuple[str, ...] = ()
    words: tuple[Effect, ...] = ()
    whole: bool = True

    @classmethod
    def of(cls, study: Study) -> Fraction:
        """Return the fraction of a study, with words of minimum aberration over the factors that it may halve."""
        halvings, names = HALVINGS[study.design.fraction], halvable(study)
        classes = [number for number in _CLASSES if number < 2**halvings] or [0]
        class_of = {name: classes[at % len(classes)] for at, name in enumerate(names)}
        masks = range(1, 2**halvings)
        words = [frozenset(name for name in names if (class_of[name] & mask).bit_count() % 2) for mask in masks]
        return cls(tuple(factor.name for factor in study.factors), tuple(sorted(words, key=len)))

    def __bool__(self) -> bool:
        return bool(self.words)

    @property
    def halved(self) -> Effect:
        """The names of the halved factors; no two treatments differ in only one of these factors."""
        return frozenset[str]().union(*self.words)

    @property
    def size(self) -> int:
        """The number of treatments of the full factorial, divided by the number in the fraction: 4 for a quarter."""
        return len(self.words) + 1

    @property
    def resolution(self) -> int:
        """The length of the shortest word; 0 without words."""
        return min(map(len, self.words), default=0)

    @property
    def numeral(self) -> str:
        """The resolution as a Roman numeral, as textbooks write it."""
        return "X" * (self.resolution // 10) + _UNITS[self.resolution % 10]

    def has(self, levels: Mapping[str, Level], references: Mapping[str, Level]) -> bool:
        """Return whether a treatment is in the fraction; the treatment with all reference levels always is."""
        return not any(sum(levels[name] != references[name] for name in word) % 2 for word in self.words)

    def aliases(self, effect: Collection[str]) -> list[Effect]:
        """Return the aliases of an effect (the effects that are measured together with it), the shortest first."""
        return sorted((frozenset(effect) ^ word for word in self.words), key=self._place)

    def repeats(self, effect: Collection[str]) -> bool:
        """Return whether an effect has an alias with fewer factors, or with as many that are earlier in the study."""
        return any(self._place(alias) < self._place(effect) for alias in self.aliases(effect))

    def text(self, effect: Collection[str]) -> str:
        """Return the name of an effect, with the factors in the order of the study: 'platform × isolation'."""
        return " × ".join(name for name in self.names if name in effect)

    def chains(self) -> dict[str, str]:
        """Return {effect: its shortest aliases} for main effects and interactions of two factors, all as text.

        An effect that is an alias of an earlier effect is left out. Empty for a full factorial."""
        chains = {}
        for effect in (*combinations(self.names, 1), *combinations(self.names, 2)):
            if self and not self.repeats(effect):
                aliases = self.aliases(effect)
                shortest = [alias for alias in aliases if len(alias) == len(aliases[0])]
                chains[self.text(effect)] = ", ".join(map(self.text, shortest))
        return chains

    def document(self) -> dict[str, object]:
        """Return the fraction as JSON-serializable data."""
        relation = list(map(self.text, self.words))
        return {"resolution": self.resolution, "relation": relation, "aliases": self.chains()}

    def within(self, factors: Collection[str], rows: Sequence[Mapping[str, object]]) -> Fraction:
        """Return the fraction that the measured treatments form, with the `factors` that vary among them.

        `rows` are {factor: level} of the measured treatments. The result is not `whole` if some of its treatments were
        not measured."""
        if not self:
            return FULL
        words = dict.fromkeys(shorter for word in self.words if (shorter := word & frozenset(factors)))
        fraction = Fraction(tuple(factors), tuple(sorted(words, key=len)))
        crossed = [name for name in factors if name not in fraction.halved]
        counts = Counter(tuple(row[name] for name in crossed) for row in rows)
        return replace(fraction, whole=set(counts.values()) == {2 ** len(fraction.halved) // fraction.size})

    def _place(self, effect: Iterable[str]) -> tuple[int, list[int]]:
        """Return a sort key for effects: the number of factors, then their positions in the study."""
        places = sorted(map(self.names.index, effect))
        return len(places), places


FULL = Fraction()

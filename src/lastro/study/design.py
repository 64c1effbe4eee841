"""Order trials from factors: the full factorial or a fraction, without exclusions, in randomised complete blocks."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastro.study.fraction import FEWEST_FACTORS, Fraction, halvable
from lastro.study.model import Level, Study


@dataclass(frozen=True, slots=True)
class Treatment:
    """One level of every factor. `index` counts from 0 in the order of the factors' levels as written."""

    index: int
    levels: Mapping[str, Level]

    @property
    def id(self) -> str:
        return f"t{self.index + 1:03d}"

    @property
    def label(self) -> str:
        return " · ".join(str(level) for level in self.levels.values())


@dataclass(frozen=True, slots=True)
class Trial:
    """One treatment in one block. `number` counts from 1 in the order in which trials run."""

    number: int
    block: int
    treatment: int


def factorial_size(study: Study) -> int:
    """Return the number of treatments of the full factorial, before exclusions."""
    return math.prod(len(factor.levels) for factor in study.factors)


def combinations(study: Study) -> Iterator[dict[str, Level]]:
    """Every combination of levels in the design that no exclusion matches, the last factor varying fastest."""
    names = [factor.name for factor in study.factors]
    fraction = Fraction.of(study)
    references = {factor.name: study.design.baseline.get(factor.name, factor.levels[0]) for factor in study.factors}
    for combination in itertools.product(*(factor.levels for factor in study.factors)):
        levels = dict(zip(names, combination, strict=True))
        if fraction.has(levels, references) and not any(rule.matches(levels) for rule in study.exclusions):
            yield levels


def why_no_fraction(study: Study) -> str:
    """Return why a study cannot have the fraction that it asks for; empty if it can."""
    fraction, wanted = Fraction.of(study), study.design.fraction
    if not fraction:
        return ""
    two, least = len(halvable(study)), FEWEST_FACTORS[wanted]
    if two < least:
        which = " that are choices, since it has service levels" if study.sla else ""
        return f"{wanted} needs {least} factors of two levels{which}, or main effects are the same; it has {two}"
    crossed = [factor.name for factor in study.factors if factor.name not in fraction.halved]
    counts = Counter(tuple(levels[name] for name in crossed) for levels in combinations(study))
    whole = 2**two // fraction.size
    if part := next((count for count in counts.values() if count != whole), None):
        return f"exclusions leave {part} of {whole} treatments of the fraction, so that effects overlap"
    if study.design.sequential and all(of == to for of, to in baseline_indices(study, treatments(study)).items()):
        return "sequential stopping needs ratios, but no treatment has another one as its baseline in the fraction"
    return ""


def treatments(study: Study) -> list[Treatment]:
    """Every treatment of the study, numbered in the order of `combinations`."""
    return [Treatment(index, levels) for index, levels in enumerate(combinations(study))]


def trials(study: Study, n_treatments: int) -> Iterator[Trial]:
    """Yield every trial in running order.

    Block b is shuffled by a generator seeded with the study's seed and b alone, so the order of a block does not
    depend on how many blocks there are (Montgomery, Design and Analysis of Experiments, chapter 4: randomise within
    blocks)."""
    for number in range(1, study.design.replicates + 1):
        yield from block(study, n_treatments, number)


def block(study: Study, n_treatments: int, number: int) -> Iterator[Trial]:
    """Yield the trials of one block; the first block has the number 1."""
    order = list(range(n_treatments))
    random.Random(f"{study.design.seed}:{number}").shuffle(order)
    for place, treatment in enumerate(order, 1):
        yield Trial((number - 1) * n_treatments + place, number, treatment)


def baseline_indices(study: Study, all_treatments: Sequence[Treatment]) -> dict[int, int]:
    """Return {index of a treatment: index of the treatment against which its ratio is taken}.

    The latter has the same levels, except for the factors named in the baseline. A treatment whose baseline was
    excluded is left out; without a baseline, all are."""
    if not study.design.baseline:
        return {}
    by_levels = {tuple(treatment.levels.items()): treatment.index for treatment in all_treatments}
    found = {}
    for treatment in all_treatments:
        levels = {name: study.design.baseline.get(name, level) for name, level in treatment.levels.items()}
        reference = by_levels.get(tuple(levels.items()))
        if reference is not None:
            found[treatment.index] = reference
    return found

"""Derive treatments and trials from factors: a full or fractional factorial in randomised complete blocks. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastro.study.document import parse_toml
from lastro.study.fraction import FEWEST_FACTORS, Fraction, halvable
from lastro.study.levels import FUNCTION, ON, platforms_of_hops
from lastro.study.model import Level, Study, baseline_among
from lastro.study.problems import FieldError

PLACEMENT, EACH, TOGETHER = "placement", "each", "together"
_HINT = f'name one platform for all of them, use {PLACEMENT} = "{EACH}", or exclude these treatments'


@dataclass(frozen=True, slots=True)
class Treatment:
    """One level of every factor. `index` counts from 0 in the order of the levels in the study file."""

    index: int
    levels: Mapping[str, Level]

    @property
    def id(self) -> str:
        """The id that users see and type: 't001' for the first treatment."""
        return f"t{self.index + 1:03d}"

    @property
    def label(self) -> str:
        """The levels as text: 'docker · veth-bridge'."""
        return " · ".join(str(level) for level in self.levels.values())


@dataclass(frozen=True, slots=True)
class Trial:
    """One treatment, by its index, in one block. `number` counts from 1 in the order in which trials run."""

    number: int
    block: int
    treatment: int


def factorial_size(study: Study) -> int:
    """Return the number of treatments of the full factorial, before exclusions."""
    return math.prod(len(factor.levels) for factor in study.factors)


def combinations(study: Study) -> Iterator[dict[str, Level]]:
    """Yield {factor: level} of every treatment in the fraction that is not excluded; the last factor varies fastest."""
    names = [factor.name for factor in study.factors]
    fraction = Fraction.of(study)
    references = {factor.name: study.design.baseline.get(factor.name, factor.levels[0]) for factor in study.factors}
    for combination in itertools.product(*(factor.levels for factor in study.factors)):
        levels = dict(zip(names, combination, strict=True))
        if fraction.has(levels, references) and not any(rule.matches(levels) for rule in study.exclusions):
            yield levels


def why_no_fraction(study: Study) -> str:
    """Return why a study has too few factors for its `design.fraction`; empty if it has enough."""
    fraction, wanted = Fraction.of(study), study.design.fraction
    if not fraction:
        return ""
    n_factors, least = len(halvable(study)), FEWEST_FACTORS[wanted]
    if n_factors < least:
        which = " that are choices, since it has service levels" if study.sla else ""
        return f"{wanted} needs {least} factors of two levels{which}, or main effects are the same; it has {n_factors}"
    crossed = [factor.name for factor in study.factors if factor.name not in fraction.halved]
    counts = Counter(tuple(levels[name] for name in crossed) for levels in combinations(study))
    whole = 2**n_factors // fraction.size
    if part := next((count for count in counts.values() if count != whole), None):
        return f"exclusions leave {part} of {whole} treatments of the fraction, so that effects overlap"
    references = baseline_indices(study, treatments(study))
    if study.design.sequential and all(index == reference for index, reference in references.items()):
        return "sequential stopping needs ratios, but no treatment has another one as its baseline in the fraction"
    return ""


def treatments(study: Study) -> list[Treatment]:
    """Return every treatment of the study, numbered in the order of `combinations`."""
    return [Treatment(index, levels) for index, levels in enumerate(combinations(study))]


def configurations(study: Study) -> list[dict[str, Level]]:
    """Return the configuration of every treatment of the study, in the order of `treatments`."""
    return [study.config(levels) for levels in combinations(study)]


def trials(study: Study, n_treatments: int) -> Iterator[Trial]:
    """Yield every trial in running order.

    Each block is shuffled by a generator that is seeded with the study's seed and the number of the block only, so its
    order does not depend on how many blocks there are (Montgomery, Design and Analysis of Experiments, chapter 4:
    randomise within blocks)."""
    for number in range(1, study.design.replicates + 1):
        yield from block(study, n_treatments, number)


def block(study: Study, n_treatments: int, number: int) -> Iterator[Trial]:
    """Yield the trials of one block; the first block has the number 1."""
    order = list(range(n_treatments))
    random.Random(f"{study.design.seed}:{number}").shuffle(order)
    for place, treatment in enumerate(order, 1):
        yield Trial((number - 1) * n_treatments + place, number, treatment)


def baseline_indices(study: Study, all_treatments: Sequence[Treatment]) -> dict[int, int]:
    """Return {index of a treatment: index of its baseline, the treatment against which its ratio is taken}.

    The baseline has the levels in `design.baseline`, and the levels of the treatment for all other factors. It may be
    the treatment itself. Treatments whose baseline was excluded are left out. Empty if the study has no baseline."""
    if not study.design.baseline:
        return {}
    by_levels = {tuple(treatment.levels.items()): treatment.index for treatment in all_treatments}
    references = {}
    for treatment in all_treatments:
        levels = {name: study.design.baseline.get(name, level) for name, level in treatment.levels.items()}
        reference = by_levels.get(tuple(levels.items()))
        if reference is not None:
            references[treatment.index] = reference
    return references


def common_baseline(studies: Sequence[Study]) -> dict[str, Level]:
    """Return the baseline of one study, given parts of the study, each of which has some of the levels.

    A part that does not have the study's baseline level of a factor uses the first of its own levels instead
    (`model.baseline_among`). So the study's level is one that some part uses, and with which all parts are compatible.
    If several levels are possible, the level in the study file counts, or else that of the earliest part. A factor is
    left out if the parts contradict each other."""
    baseline = {}
    for name in studies[0].design.baseline:
        used = dict.fromkeys(study.design.baseline[name] for study in studies if name in study.design.baseline)
        possible = [level for level in used if all(is_compatible(study, name, level) for study in studies)]
        if possible:
            in_files = (_level_in_file(study, name) for study in studies)
            baseline[name] = next((level for level in in_files if level in possible), possible[0])
    return baseline


def is_compatible(study: Study, name: str, level: Level) -> bool:
    """Return whether a part of a study may have its baseline if this is the level of the whole study's baseline."""
    return study.design.baseline.get(name) in (level, baseline_among({name: level}, study.factors)[name])


def _level_in_file(study: Study, name: str) -> Any:
    """Return the baseline level of a factor that the text of the study file names; None if it names none."""
    try:
        design = parse_toml(study.source).get("design")
    except ValueError:
        return None
    baseline = design.get("baseline") if isinstance(design, dict) else None
    return baseline.get(name) if isinstance(baseline, dict) else None


def contradiction(config: Mapping[str, Level]) -> str:
    """Return why the functions of a treatment cannot share one instance; empty if they can, or if they do not share."""
    platforms = dict.fromkeys(platforms_of_hops(config)) if config.get(PLACEMENT) == TOGETHER else ()
    if len(platforms) < 2:
        return ""
    return f'{PLACEMENT} = "{TOGETHER}" puts {config[FUNCTION]} into one instance, but names {" and ".join(platforms)}'


def check_placement(study: Study) -> None:
    """Raise FieldError if a treatment has functions in one instance, but on several platforms."""
    levels = [*(level for factor in study.factors for level in factor.levels), study.settings.get(FUNCTION, "")]
    if not any(ON in str(level) for level in levels):
        return
    for treatment in combinations(study):
        if why := contradiction(study.config(treatment)):
            raise FieldError(why, _HINT)

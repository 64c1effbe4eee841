"""Check a claim against its study: names, sides, figures and their units, which pydantic cannot check.

Levels of a claim need not be in the study."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from lastro.analysis.claims.claim import BOTH_WAYS, Claim, Statement
from lastro.analysis.claims.sentence import check_sentence
from lastro.errors import did_you_mean
from lastro.study.model import Level, Levels, Study
from lastro.study.problems import FieldError, Key, Problems, shown
from lastro.study.sides import StandIn

_ROUNDING = 1e-9  # relative rounding error of an effect such as 0.9 - 1


def check_claim(claim: Claim, kinds: Sequence[str], index: int, study: Study, problems: Problems) -> bool:
    """Record the problems of a claim, and return whether it has exactly one statement of one of these `kinds`."""
    here: tuple[Key, ...] = ("claim", index)
    given = [kind for kind in kinds if getattr(claim, kind) is not None]
    if len(given) != 1:
        states = f"has {' and '.join(given)}" if given else "states nothing"
        problems.add(here, FieldError(states, f"a claim has exactly one of {', '.join(kinds)}"))
        return False
    statement = claim.statement
    _check_names(statement, study, (*here, statement.key), problems)
    for key, check in (("direction", _check_direction), ("margin", _check_margin), ("slight", _check_slight)):
        with problems.at(*here, key):
            check(claim)
    with problems.at(*here, statement.key):
        statement.check(claim, study)
    with problems.at(*here, "published"):
        _check_published(claim, study)
    unit = units_of(study).get(statement.metric, "")
    levels = {(factor.name, level) for factor in study.factors for level in factor.levels}
    # Constants below 1 are left out, since they are limits of the apparatus: "30 %" never means 0.3 foreign CPUs.
    levels |= {(name, level) for name, level in study.settings.items() if not isinstance(level, float) or level >= 1}
    check_sentence(claim, unit, levels | _levels_named(statement), problems.below(*here))
    for place, stand_in in enumerate(claim.stand_in):
        _check_stand_in(stand_in, statement, study, (*here, "stand_in", place), problems)
    return True


def _check_names(statement: Statement, study: Study, here: tuple[Key, ...], problems: Problems) -> None:
    """Record the problems of a statement's metrics, factors and sides."""
    for place, name in enumerate(statement.metrics):
        with problems.at(*here, "also" if place else "metric"):
            check_metric(name, study)
    factors, sides = factors_of(study), statement.choices()
    for key, side in (*sides.items(), ("at", statement.at)):
        for name in side:
            with problems.at(*here, key, name):
                check_factor(name, factors, study)
    list_key, listed = statement.listed_factors()
    for name in listed:
        with problems.at(*here, list_key):
            check_factor(name, factors, study)
    with problems.at(*here):
        _check_sides(statement, sides, listed)


def _check_sides(statement: Statement, sides: Mapping[str, Levels], outside: Sequence[str]) -> None:
    """Raise FieldError if sides differ in their factors or are equal, or if a factor is named twice.

    `outside` are the factors that the statement compares in addition to its sides (`Statement.listed_factors`)."""
    if len({frozenset(side) for side in sides.values()}) > 1:
        raise FieldError(f"{', '.join(sides)} must name the same factors", "what holds for all sides belongs in `at`")
    in_sides = {name for side in sides.values() for name in side}
    if common := sorted((in_sides | set(outside)) & set(statement.at)):
        raise FieldError(f"`at` names {shown(common[0])} again", "a factor is either compared or a condition")
    if twice := [name for name in outside if outside.count(name) > 1 or name in in_sides]:
        raise FieldError(f"names {shown(twice[0])} twice")
    as_sets = {key: {factor: set(levels) for factor, levels in side.items()} for key, side in sides.items() if side}
    for (first, levels), (second, other_levels) in itertools.combinations(as_sets.items(), 2):
        if levels == other_levels:
            raise FieldError(f"`{first}` and `{second}` are the same", BOTH_WAYS)


def _check_direction(claim: Claim) -> None:
    key = claim.statement.key
    if key == "compare" and claim.direction is None:
        raise FieldError("is missing", 'a comparison is "higher", "lower" or "alike"')
    if key != "compare" and claim.direction is not None:
        raise FieldError(f"does not apply to `{key}`", "only `compare` has a direction")


def _check_margin(claim: Claim) -> None:
    alike = claim.statement.is_equivalence(claim)
    if alike and claim.margin is None:
        raise FieldError("is missing", "the relative difference that still counts as alike: margin = 0.05 is 5 %")
    if not alike and claim.margin is not None:
        raise FieldError(
            "applies only to `alike`, `additive` and direction 'alike'", "use `published.tolerance` for a magnitude"
        )


def _check_slight(claim: Claim) -> None:
    """Raise FieldError if `slight` is set without a direction, or besides another magnitude of the claim."""
    if claim.slight is None:
        return
    if claim.direction not in ("higher", "lower"):
        raise FieldError(
            "applies only to `compare` with direction 'higher' or 'lower'", "an equivalence has a `margin`"
        )
    if claim.published is not None and claim.published.tolerance is not None:
        raise FieldError("is a second magnitude beside the published figure", "give one of the two")


def _check_published(claim: Claim, study: Study) -> None:
    """Raise FieldError if the published figure does not fit the statement, or is incomplete."""
    published, statement = claim.published, claim.statement
    if published is None:
        return
    given = published.given
    allowed = () if statement.is_equivalence(claim) else statement.figures
    if wrong := [name for name in given if name not in allowed]:
        raise FieldError(
            f"{wrong[0]} does not apply to {statement.key}", f"allowed here: {', '.join(allowed) or 'printed'}"
        )
    valued = [name for name in given if name not in ("at_least", "at_most")]
    if given != valued and len(given) > 1:
        raise FieldError(f"has {' and '.join(given)}", "give one of them")
    if published.tolerance is None and valued:
        raise FieldError("tolerance is missing", f"how far from {valued[0]} a measured effect may lie, in its unit")
    if published.tolerance is not None and not valued:
        raise FieldError("has a tolerance but no figure", "name a ratio, a share or a difference")
    if published.difference is not None and not published.unit:
        raise FieldError("a difference needs a unit")
    both = (None if published.ratio is None else published.ratio - 1, published.difference)
    effects = [effect for effect in both if effect is not None]
    is_share = published.share is not None
    largest = 1.0 if is_share else abs(next(iter(effects), 0.0))
    if published.tolerance is not None and published.tolerance > largest * (1 + _ROUNDING):
        raise FieldError(
            f"the tolerance {published.tolerance:g} is larger than "
            f"{'all of the loss' if is_share else 'the effect itself'}, {largest:g}",
            "with it, almost any effect would be near the figure: give a smaller one",
        )
    if claim.direction is not None and any((effect > 0) != (claim.direction == "higher") for effect in effects):
        raise FieldError(f"the figure contradicts the direction {shown(claim.direction)}")
    if published.difference is not None:
        check_unit(published.unit, statement.metric, study)


def _check_stand_in(
    stand_in: StandIn, statement: Statement, study: Study, here: tuple[Key, ...], problems: Problems
) -> None:
    """Record a problem for stand-ins of levels that the statement does not name, or with a metric in another unit."""
    named = _levels_named(statement)
    for factor, levels in stand_in.levels.items():
        for level, others in levels.items():
            with problems.at(*here, "levels", factor, level):
                if (factor, level) not in named:
                    raise FieldError("is not a level that the claim names", "name a level as the claim spells it")
                if factor == getattr(statement, "factor", None) and len(others) > 1:
                    raise FieldError("has several stand-ins", "a level that is ordered or compared has one")
                if named_too := [other for other in others if (factor, other) in named]:
                    raise FieldError(f"has the stand-in {shown(named_too[0])}, which the claim names too", BOTH_WAYS)
    if not stand_in.metric:
        return
    with problems.at(*here, "metric"):
        check_metric(stand_in.metric, study)
        if statement.limits:
            check_unit(str(getattr(statement, "unit", "")), stand_in.metric, study)


def _levels_named(statement: Statement) -> set[tuple[str, Level]]:
    """Return the set of (factor, level) of all levels that a statement names."""
    named: set[tuple[str, Level]] = set()

    def note(factor: str, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        named.update((factor, level) for level in levels)
        return levels

    statement.with_levels(note)
    return named


def factors_of(study: Study) -> set[str]:
    """Return the names that may occur in a choice of levels: the study's factors and its constants."""
    return {factor.name for factor in study.factors} | set(study.settings)


def units_of(study: Study) -> dict[str, str]:
    """Return {metric: unit} for all metrics of the study and of its scenario."""
    return {metric.name: metric.unit for metric in (*study.all_metrics, *study.metrics)}


def check_metric(name: str, study: Study) -> None:
    """Check that the study has a metric. Raises: FieldError with the nearest name if not."""
    if name not in (units := units_of(study)):
        raise FieldError(f"study {study.name} has no metric {shown(name)}", partial(did_you_mean, name, units))


def check_factor(name: str, factors: Iterable[str], study: Study) -> None:
    """Check that a factor is among `factors`. Raises: FieldError with the nearest name if not."""
    if name not in factors:
        raise FieldError(f"study {study.name} has no factor {shown(name)}", partial(did_you_mean, name, factors))


def check_unit(unit: str, metric: str, study: Study) -> None:
    """Check that a figure is in the unit of its metric. Raises: FieldError if not."""
    units = units_of(study)
    if unit != units.get(metric, unit):
        raise FieldError(f"is in {shown(unit)}, but {metric} is in {shown(units[metric])}", "convert the figure")

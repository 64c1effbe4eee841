"""Claims files: TOML text to the Claims model. All problems of a file become one StudyError.

A metric or a factor that the study does not know is an error. A level that it does not have is not an error, but makes
the claim untestable with this campaign."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from lastro.study.claims import (
    Absolute,
    Additive,
    Alike,
    Claim,
    Claims,
    Compare,
    Contradiction,
    Extreme,
    Order,
    Published,
    Recovery,
    Source,
    Statement,
)
from lastro.study.claims_names import check_factor, check_metric, factors_of, levels_of, units_of
from lastro.study.claims_schema import (
    KINDS,
    AdditiveTable,
    AlikeTable,
    ClaimsFile,
    ClaimTable,
    CompareTable,
    ExtremeTable,
    LevelTable,
    OrderTable,
    PublishedTable,
    RecoveryTable,
    StandInTable,
)
from lastro.study.document import read_document, read_text
from lastro.study.load_printed import checked_figures, checked_tables, printed_tables, resolved
from lastro.study.model import Level, Study
from lastro.study.printed import PrintedTable
from lastro.study.problems import FieldError, Key, Problems, shown
from lastro.study.schema import read_shape
from lastro.study.sides import StandIn

_Sides = Mapping[str, Mapping[str, Sequence[Level]]]  # {key of the side: {factor: levels}}
_Table = CompareTable | RecoveryTable | OrderTable | AlikeTable | AdditiveTable | LevelTable | ExtremeTable


def load_claims(path: Path, study: Study) -> Claims:
    """Return the claims in a file, on this study.

    Raises: StudyError when the file cannot be read, or is not a valid claims file of this study."""
    text = read_text(path, "claims", "docs/explanation-claims.md explains how to write one")
    return parse_claims(text, str(path), study, partial(_tables_beside, path))


def checked_tables_from(text: str, file: str) -> str:
    """Return the name of the file beside a claims file that it reads, too; empty without one.

    Raises: StudyError unless the text has the form of a claims file, on any study."""
    problems = Problems(file)
    shape = read_shape(read_document(text, problems), problems, ClaimsFile)
    problems.raise_if_any()
    return shape.tables_from


def parse_claims(
    text: str, file: str, study: Study, others: Callable[[str], Mapping[str, PrintedTable]] = lambda name: {}
) -> Claims:
    """Return the claims in a text; `file` is its name in errors, and `others` returns the tables of another file.

    Raises: StudyError when the text is not a valid claims file of this study."""
    problems = Problems(file)
    shape = read_shape(read_document(text, problems), problems, ClaimsFile)
    tables = checked_tables(shape, study, problems)
    readable = {**others(shape.tables_from), **{table.passage.id: table for table in tables}}
    figures = checked_figures(shape, readable, study, problems)
    seen: set[str] = set()
    claims = []
    for index, table in enumerate(shape.claim):
        with problems.at("claim", index, "id"):
            if table.id in seen:
                raise FieldError(f"{shown(table.id)} is already the id of a claim above")
        seen.add(table.id)
        with problems.at("claim", index, "published"):
            table.published = resolved(table, readable, study)
        claims.append(_claim(table, index, study, problems))
    problems.raise_if_any()
    source = Source(shape.source.title, shape.source.authors, shape.source.year)
    return Claims(source, tuple(claim for claim in claims if claim), file, tables, figures)


def _tables_beside(path: Path, name: str) -> Mapping[str, PrintedTable]:
    """Return the tables of another claims file in the same directory; none without a name."""
    if not name:
        return {}
    other = path.with_name(name)
    problems = Problems(str(other))
    text = read_text(other, "claims", f"{path} reads its tables: `tables_from`", base=path.parent)
    shape = read_shape(read_document(text, problems), problems, ClaimsFile)
    problems.raise_if_any()
    return printed_tables(shape)


def _claim(table: ClaimTable, index: int, study: Study, problems: Problems) -> Claim | None:
    """Return the claim of a table, or None after recording its problems."""
    here: tuple[Key, ...] = ("claim", index)
    given = [kind for kind in KINDS if getattr(table, kind) is not None]
    if len(given) != 1:
        found = f"has {' and '.join(given)}" if given else "states nothing"
        problems.add(here, FieldError(found, f"a claim has exactly one of {', '.join(KINDS)}"))
        return None
    statement: _Table = getattr(table, given[0])
    _check_names(statement, study, (*here, given[0]), problems)
    _check_direction(table, given[0], here, problems)
    with problems.at(*here, "slight"):
        _check_slight(table)
    if isinstance(statement, LevelTable):
        with problems.at(*here, "level"):
            _check_level(statement, study)
    if isinstance(statement, OrderTable):
        with problems.at(*here, "order"):
            _check_order(statement)
    if isinstance(statement, AlikeTable):
        with problems.at(*here, "alike"):
            _check_distinct(statement.levels)
    if isinstance(statement, ExtremeTable):
        with problems.at(*here, "extreme"):
            _check_extreme(statement, table.published)
    with problems.at(*here, "published"):
        _check_published(table, given[0])
        _check_unit(table.published, statement.metric, study)
    for place, each in enumerate(table.stand_in):
        _check_stand_in(each, statement, study, (*here, "stand_in", place), problems)
    published = Published(**table.published.model_dump(exclude={"table", "columns"})) if table.published else None
    contradiction = Contradiction(**table.contradicted_by.model_dump()) if table.contradicted_by else None
    stated = _statement(statement, table)
    stand_in = tuple(StandIn.of(each.levels, each.metric) for each in table.stand_in)
    own = table.model_dump(include={"id", "says", "says_in", "where", "margin", "slight", "note", "note_in"})
    return Claim(**own, statement=stated, published=published, contradicted_by=contradiction, stand_in=stand_in)


def _statement(table: _Table, claim: ClaimTable) -> Statement:
    at = levels_of(table.at)
    if isinstance(table, CompareTable):
        return Compare(table.metric, levels_of(table.of), levels_of(table.to), at, claim.direction or "alike")
    if isinstance(table, RecoveryTable):
        ideal, without, protected = map(levels_of, (table.ideal, table.without, table.protected))
        return Recovery(table.metric, ideal, without, protected, at)
    if isinstance(table, OrderTable):
        falling = tuple(tuple(group) for group in table.falling)
        choices = tuple(tuple(map(levels_of, group)) for group in table.sides)
        of, to = levels_of(table.of), levels_of(table.to)
        return Order(table.metric, table.factor, falling, of, to, at, choices, table.distance)
    if isinstance(table, AlikeTable):
        return Alike(table.metric, table.factor, tuple(table.levels), at)
    if isinstance(table, ExtremeTable):
        given = claim.published or PublishedTable()
        sides = (levels_of(table.of), levels_of(table.to), levels_of(table.over))
        return Extreme(table.metric, *sides, at, given.ratio or 1.0, given.tolerance or 0.0, tuple(table.also))
    if isinstance(table, LevelTable):
        return Absolute(table.metric, *_ends(table), table.unit, at)
    return Additive(table.metric, (table.factors[0], table.factors[1]), at)


def _ends(table: LevelTable) -> tuple[float, float]:
    if table.value is not None:
        return table.value - (table.tolerance or 0.0), table.value + (table.tolerance or 0.0)
    return (
        -math.inf if table.at_least is None else table.at_least,
        math.inf if table.at_most is None else table.at_most,
    )


# Checks that the models cannot make

_ROUNDING = 1e-9  # of 0.9 - 1, for example
_BOTH_WAYS = "a claim can come out both ways: reproduced on some host, and contradicted on another"


def _check_names(table: _Table, study: Study, here: tuple[Key, ...], problems: Problems) -> None:
    with problems.at(*here, "metric"):
        check_metric(table.metric, study)
    for name in table.also if isinstance(table, ExtremeTable) else ():
        with problems.at(*here, "also"):
            check_metric(name, study)
    factors = factors_of(study)
    sides = _sides(table)
    for key, side in (*sides.items(), ("at", table.at)):
        for name in side:
            with problems.at(*here, key, name):
                check_factor(name, factors, study)
    own = [table.factor] if isinstance(table, OrderTable | AlikeTable) and table.factor else []
    own += table.factors if isinstance(table, AdditiveTable) else []
    own += table.over if isinstance(table, ExtremeTable) else []
    key = "factors" if isinstance(table, AdditiveTable) else "over" if isinstance(table, ExtremeTable) else "factor"
    for name in own:
        with problems.at(*here, key):
            check_factor(name, factors, study)
    with problems.at(*here):
        _check_sides(table, sides, own)


def _sides(table: _Table) -> _Sides:
    if isinstance(table, OrderTable) and table.sides:
        return {f"side {n}": side for n, side in enumerate((side for group in table.sides for side in group), start=1)}
    if isinstance(table, RecoveryTable):
        return {"ideal": table.ideal, "without": table.without, "protected": table.protected}
    return {"of": table.of, "to": table.to} if isinstance(table, CompareTable | OrderTable | ExtremeTable) else {}


def _check_sides(table: _Table, sides: _Sides, own: Sequence[str]) -> None:
    if len({frozenset(side) for side in sides.values()}) > 1:
        raise FieldError(f"{', '.join(sides)} must name the same factors", "what holds for all sides belongs in `at`")
    named = {name for side in sides.values() for name in side} | set(own)
    if common := sorted(named & set(table.at)):
        raise FieldError(f"`at` names {shown(common[0])} again", "a factor is either compared or a condition")
    if twice := [name for name in own if own.count(name) > 1 or any(name in side for side in sides.values())]:
        raise FieldError(f"names {shown(twice[0])} twice")
    for (first, one), (second, other) in itertools.combinations(sides.items(), 2):
        if one and {k: set(v) for k, v in one.items()} == {k: set(v) for k, v in other.items()}:
            raise FieldError(f"`{first}` and `{second}` are the same", _BOTH_WAYS)


def _check_direction(table: ClaimTable, kind: str, here: tuple[Key, ...], problems: Problems) -> None:
    with problems.at(*here, "direction"):
        if kind == "compare" and table.direction is None:
            raise FieldError("is missing", 'a comparison is "higher", "lower" or "alike"')
        if kind != "compare" and table.direction is not None:
            raise FieldError(f"does not apply to `{kind}`", "only `compare` has a direction")
    alike = table.direction == "alike" or kind in ("alike", "additive")
    with problems.at(*here, "margin"):
        if alike and table.margin is None:
            raise FieldError("is missing", "the relative difference that still counts as alike: margin = 0.05 is 5 %")
        if not alike and table.margin is not None:
            raise FieldError(
                "applies only to `alike`, `additive` and direction 'alike'", "use `published.tolerance` for a magnitude"
            )


def _check_slight(table: ClaimTable) -> None:
    """Check that "slightly" is said of a direction, and is the only magnitude of the claim."""
    if table.slight is None:
        return
    if table.compare is None or table.direction == "alike":
        raise FieldError(
            "applies only to `compare` with direction 'higher' or 'lower'", "an equivalence has a `margin`"
        )
    if table.published is not None and table.published.tolerance is not None:
        raise FieldError("is a second magnitude beside the published figure", "give one of the two")


def _check_order(table: OrderTable) -> None:
    """Check that an order is of the levels of one factor, or of sides, and of two groups or more."""
    if bool(table.sides) == bool(table.factor and table.falling) or (table.sides and (table.of or table.factor)):
        raise FieldError("must have exactly one of two forms", "give `factor` and `falling`, or `sides` alone")
    if table.distance and not table.of:
        raise FieldError("`distance` is between two sides", "give `of` and `to`")
    if len(table.sides or table.falling) < 2:
        raise FieldError(f"`{'sides' if table.sides else 'falling'}` must have at least 2 entries")
    _check_distinct([level for group in table.falling for level in group])


def _check_distinct(levels: Sequence[Level]) -> None:
    """Check that no level is compared with itself, by which a claim would always hold or never."""
    if twice := [level for level in levels if levels.count(level) > 1]:
        raise FieldError(f"compares {shown(twice[0])} with itself", _BOTH_WAYS)


def _check_level(table: LevelTable, study: Study) -> None:
    given = [name for name in ("value", "at_most", "at_least") if getattr(table, name) is not None]
    if len(given) != 1:
        raise FieldError(f"has {' and '.join(given) or 'no figure'}", "a level has one of value, at_most, at_least")
    if (table.tolerance is None) == (given == ["value"]):
        raise FieldError(
            "tolerance is missing" if given == ["value"] else f"tolerance does not apply to {given[0]}",
            "how far from `value` the mean may lie, in its unit",
        )
    _same_unit(table.unit, table.metric, study)
    _check_violable(table, study)


def _check_violable(table: LevelTable, study: Study) -> None:
    """Check that some value of the metric is within the bounds, and some is not."""
    amounts = {each.name for each in (*study.all_metrics, *study.metrics) if each.non_negative}
    low, high = _ends(table)
    if table.metric in amounts and low <= 0 and math.isinf(high):
        raise FieldError(f"no value violates the bound: {table.metric} is never below zero", _BOTH_WAYS)
    if table.metric in amounts and high <= 0:
        raise FieldError(f"no value lies within the bound: {table.metric} is never below zero", _BOTH_WAYS)


def _check_stand_in(
    table: StandInTable, statement: _Table, study: Study, here: tuple[Key, ...], problems: Problems
) -> None:
    """Check that stand-ins are for levels of the statement, and that each has a metric of the same unit."""
    named = _levels_named(statement)
    for factor, levels in table.levels.items():
        for level, others in levels.items():
            with problems.at(*here, "levels", factor, level):
                if (factor, level) not in named:
                    raise FieldError("is not a level that the claim names", "name a level as the claim spells it")
                if factor == getattr(statement, "factor", None) and len(others) > 1:
                    raise FieldError("has several stand-ins", "a level that is ordered or compared has one")
                if named_too := [other for other in others if (factor, other) in named]:
                    raise FieldError(f"has the stand-in {shown(named_too[0])}, which the claim names too", _BOTH_WAYS)
    if not table.metric:
        return
    with problems.at(*here, "metric"):
        check_metric(table.metric, study)
        if isinstance(statement, LevelTable):
            _same_unit(statement.unit, table.metric, study)


def _levels_named(table: _Table) -> set[tuple[str, Level]]:
    sides = [*_sides(table).values(), table.at, getattr(table, "over", {})]
    named = {(name, level) for side in sides for name, levels in side.items() for level in levels}
    if isinstance(table, OrderTable):
        named |= {(table.factor, level) for group in table.falling for level in group}
    return named | {(table.factor, level) for level in table.levels} if isinstance(table, AlikeTable) else named


def _check_extreme(table: ExtremeTable, published: PublishedTable | None) -> None:
    """Check that the ratio has an extreme, and that the claim can come out both ways."""
    for levels in (*table.over.values(), [table.metric, *table.also]):
        _check_distinct(levels)
    if math.prod(map(len, table.over.values())) * (1 + len(table.also)) < 2:
        raise FieldError("`over` has one level", "name the levels among which the ratio is farthest from 1")
    ratio, tolerance = (published.ratio, published.tolerance) if published else (None, None)
    if ratio is None or tolerance is None:
        raise FieldError(
            "needs `published` with a ratio and a tolerance", "published = { ratio = 0.6, tolerance = 0.2 }"
        )
    if tolerance >= min(abs(1 - ratio), ratio):
        raise FieldError(f"with a tolerance of {tolerance:g}, no difference at all would be near the ratio {ratio:g}")


def _check_published(table: ClaimTable, kind: str) -> None:
    published = table.published
    if published is None:
        return
    judged = [name for name in ("ratio", "share", "difference") if getattr(published, name) is not None]
    allowed = {"compare": {"ratio", "difference"}, "recovery": {"share"}, "extreme": {"ratio"}}.get(kind, set())
    if table.direction == "alike":
        allowed = set()
    if wrong := [name for name in judged if name not in allowed]:
        raise FieldError(
            f"{wrong[0]} does not apply to {kind}", f"allowed here: {', '.join(sorted(allowed)) or 'printed'}"
        )
    if published.tolerance is None and judged:
        raise FieldError("tolerance is missing", f"how far from {judged[0]} a measured effect may lie, in its unit")
    if published.tolerance is not None and not judged:
        raise FieldError("has a tolerance but no figure", "name a ratio, a share or a difference")
    if published.difference is not None and not published.unit:
        raise FieldError("a difference needs a unit")
    _check_tolerance(published)
    _check_sign(published, table.direction)


def _check_tolerance(published: PublishedTable) -> None:
    """Reject a tolerance larger than the published effect, or than all of a loss: almost any effect would be near."""
    effect = published.difference if published.ratio is None else published.ratio - 1
    largest = 1.0 if published.share is not None else abs(effect or 0.0)
    if published.tolerance is not None and published.tolerance > largest * (1 + _ROUNDING):
        what = "all of the loss" if published.share is not None else "the effect itself"
        raise FieldError(
            f"the tolerance {published.tolerance:g} is larger than {what}, {largest:g}",
            "with it, almost any effect would be near the figure: give a smaller one",
        )


def _check_unit(published: PublishedTable | None, name: str, study: Study) -> None:
    if published and published.difference is not None:
        _same_unit(published.unit, name, study)


def _same_unit(unit: str, name: str, study: Study) -> None:
    units = units_of(study)
    if unit != units.get(name, unit):
        raise FieldError(f"is in {shown(unit)}, but {name} is in {shown(units[name])}", "convert the figure")


def _check_sign(published: PublishedTable, direction: str | None) -> None:
    """Reject a figure that contradicts the direction, such as 'higher' with a ratio below 1: one is mistyped."""
    signs = [] if published.ratio is None else [published.ratio - 1]
    signs += [] if published.difference is None else [published.difference]
    if direction is not None and any((sign > 0) != (direction == "higher") for sign in signs):
        raise FieldError(f"the figure contradicts the direction {shown(direction)}")

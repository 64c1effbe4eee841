"""The exclusions of a study file, and its profiles: the blocks, settings and levels of each, and what it excludes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lastro.errors import did_you_mean
from lastro.stats.stopping import LEAST_BLOCKS
from lastro.study.levels import check_level, listed_level, names_in_profiles
from lastro.study.model import Exclusion, Level, ScenarioSchema
from lastro.study.problems import FieldError, Key, Problems, shown

if TYPE_CHECKING:
    from lastro.study.schema import DesignTable, ExcludeTable, ProfileTable, StudyFile

_CHANGEABLE = "durations, amounts of work, tools, CPUs and memory"

Factors = Mapping[str, Mapping[Level, Level]]  # {factor: {identity of a level: its spelling}}


def known_factor(factors: Factors, name: str) -> Mapping[Level, Level]:
    """Return the levels of a factor, {identity: spelling}. Raises: FieldError if the study does not have it."""
    if name not in factors:
        raise FieldError(f"this study has no factor {shown(name)}", partial(did_you_mean, name, factors))
    return factors[name]


def exclusions(
    rules: Sequence[ExcludeTable], where: Sequence[Key], schema: ScenarioSchema, factors: Factors, problems: Problems
) -> tuple[Exclusion, ...]:
    """Return the exclusions that can apply to the study, without rules whose levels the study does not have.

    A note is added for each excluded level that the study does not have. `where` is the key path of the rules in the
    file."""
    applicable = []
    for index, rule in enumerate(rules):
        when: dict[str, tuple[Level, ...]] = {}
        for name, raw_levels in rule.when.items():
            place = (*where, index, "when", name)
            levels: list[Level] = []
            absent: list[Level] = []
            for raw in raw_levels:
                with problems.at(*place):
                    level = _level_or_none(schema, known_factor(factors, name), name, raw)
                    if level is None:
                        absent.append(raw)
                    else:
                        levels.append(level)
            when[name] = tuple(levels)
            if absent:
                listed = ", ".join(map(shown, absent))
                leaves = "" if levels else ", so the rule leaves out nothing"
                problems.note(place, f"the study has no {name} {listed}{leaves}")
        if all(when.values()):
            applicable.append(Exclusion(when, rule.reason))
    return tuple(applicable)


def _level_or_none(schema: ScenarioSchema, levels: Mapping[Level, Level], name: str, raw: Level) -> Level | None:
    """Return a level as the factor spells it; None if the scenario knows the level, but the study does not have it.

    A study that was copied and reduced may exclude levels that it no longer has.

    Raises: FieldError for a level that the scenario does not know, and for a value that is probably misspelt."""
    try:
        return listed_level(schema, levels, name, raw)
    except FieldError as wrong:
        try:
            check_level(schema, name, raw)
        except FieldError:
            raise wrong from None
        if name not in schema.parts and difflib.get_close_matches(str(raw), map(str, levels.values())):
            raise
        return None


def profiles(
    file: StudyFile, schema: ScenarioSchema, factors: Factors, problems: Problems
) -> dict[str, dict[str, Level]]:
    """Return {profile: {setting, factor or number of blocks: its value}}."""
    changeable = names_in_profiles(schema)
    by_profile: dict[str, dict[str, Level]] = {}
    for profile in [name for name in type(file.profiles).model_fields if name in file.profiles.model_fields_set]:
        table = getattr(file.profiles, profile)
        changes = by_profile.setdefault(profile, {})
        with problems.at("profiles", profile, "max_replicates"):
            changes |= _blocks(table, file.design)
        for name, raw in table.model_extra.items():
            with problems.at("profiles", profile, name):
                if name not in changeable and name in factors:
                    raise FieldError(f"is a factor of this study; a profile can fix only {_CHANGEABLE}")
                if name not in changeable:
                    hint = partial(did_you_mean, name, {"replicates", "max_replicates", *changeable})
                    raise FieldError(f"a profile can change only replicates, {_CHANGEABLE}", hint)
                if name in factors:
                    level, baseline = listed_level(schema, factors[name], name, raw), file.design.baseline
                    if name in baseline and check_level(schema, name, baseline[name]) != level:
                        raise FieldError(f"would exclude {shown(baseline[name])}, the level of the baseline")
                    changes[name] = level
                else:
                    changes[name] = check_level(schema, name, raw)
    return by_profile


def profile_exclusions(
    file: StudyFile, schema: ScenarioSchema, factors: Factors, problems: Problems
) -> dict[str, tuple[Exclusion, ...]]:
    """Return {profile: its exclusions}, for profiles that have any."""
    tables = {name: getattr(file.profiles, name) for name in type(file.profiles).model_fields}
    return {
        name: exclusions(table.exclude, ("profiles", name, "exclude"), schema, factors, problems)
        for name, table in tables.items()
        if table.exclude
    }


def profile_levels(
    file: StudyFile, schema: ScenarioSchema, factors: Factors, problems: Problems
) -> dict[str, dict[str, tuple[Level, ...]]]:
    """Return {profile: {factor: levels to keep, in the order of the study}}, for profiles with a table `only`."""
    by_profile: dict[str, dict[str, tuple[Level, ...]]] = {}
    for profile in type(file.profiles).model_fields:
        table = getattr(file.profiles, profile)
        for name, raw_levels in table.only.items():
            kept: set[Level] = set()
            for raw in raw_levels:
                with problems.at("profiles", profile, "only", name):
                    if name in (table.model_extra or {}):
                        raise FieldError("is already fixed by this profile", f"remove `{name}` or this")
                    kept.add(listed_level(schema, known_factor(factors, name), name, raw))
            levels = tuple(level for level in factors.get(name, {}).values() if level in kept)
            by_profile.setdefault(profile, {})[name] = levels
    return by_profile


def _blocks(table: ProfileTable, design: DesignTable) -> dict[str, Level]:
    """Return the numbers of blocks that a profile sets, as {"replicates": n, "max_replicates": n}.

    Numbers that the profile leaves out are absent. With `max_replicates`, "replicates" is at least `LEAST_BLOCKS`,
    which sequential stopping needs to judge the spread. Raises: FieldError if `max_replicates` is below "replicates",
    or if stopping is not sequential."""
    named = {"replicates": table.replicates, "max_replicates": table.max_replicates}
    changes: dict[str, Level] = {name: number for name, number in named.items() if number is not None}
    if table.max_replicates is None:
        return changes
    if design.stopping != "sequential":
        raise FieldError("is for sequential stopping, but this study has a fixed number of blocks")
    least = max(design.replicates if table.replicates is None else table.replicates, LEAST_BLOCKS)
    if table.max_replicates < least:
        raise FieldError(f"must be at least `replicates` ({least}), but is {table.max_replicates}")
    return changes | {"replicates": least}

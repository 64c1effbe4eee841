"""Check a study file of valid shape against its scenario, and build the `Study` from it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lastro.errors import did_you_mean
from lastro.results.samples import Metric
from lastro.shapes import from_plain
from lastro.stats.stopping import LEAST_BLOCKS
from lastro.study._profiles import Factors, exclusions, known_factor, profile_exclusions, profile_levels, profiles
from lastro.study.design import check_placement, combinations, factorial_size, why_no_fraction
from lastro.study.levels import (
    FUNCTION,
    NONE,
    PLATFORM,
    all_options,
    check_level,
    identity,
    known_names,
    listed_level,
    options_of_one,
    split_options,
    unknown_name,
    written_parts,
)
from lastro.study.model import PATIENCE, Design, Factor, Level, ScenarioSchema, Study
from lastro.study.own_function import OwnFunction
from lastro.study.problems import FieldError, Problems, shown
from lastro.study.requirement import Requirement
from lastro.study.service_level import RESOURCES, ServiceLevel
from lastro.study.variants import check_changes, values_in_variants, variants_of
from lastro.units import parse_fraction

if TYPE_CHECKING:
    from lastro.study.schema import StudyFile

MAX_TRIALS = 1_000_000
V = TypeVar("V", str, float)


def resolve(file: StudyFile, schemas: Mapping[str, ScenarioSchema], problems: Problems) -> Study:
    """Return the study that the file describes.

    Raises: StudyError if it uses names that its scenario does not know, or if the study could not be run."""
    if (schema := schemas.get(file.study.scenario)) is None:
        hint = partial(did_you_mean, file.study.scenario, schemas)
        problems.add(("study", "scenario"), FieldError(f"no scenario is named {shown(file.study.scenario)}", hint))
        near = difflib.get_close_matches(file.study.scenario, schemas, n=1)
        if not near:
            problems.raise_if_any()
        schema = schemas[near[0]]  # so that a misspelling hides no other problem
    functions = tuple(
        from_plain(OwnFunction, {"name": name, **table.model_dump()}) for name, table in file.functions.items()
    )
    schema = _own_functions(functions, schema, problems)
    factors = _factors(file, schema, problems)
    settings = _settings(file, schema, problems)
    variants = variants_of(file, schema, functions, problems)
    chosen = {**settings, **factors, **values_in_variants(settings, variants)}
    metrics = _metrics(file, schema, chosen, problems)
    problems.raise_if_any()  # the rest refers to factors, and would only repeat their problems
    study = Study(
        name=file.study.name,
        title=file.study.title,
        description=file.study.description,
        scenario=schema.name,
        factors=tuple(Factor(name, tuple(levels.values())) for name, levels in factors.items()),
        settings=settings,
        metrics=metrics,
        all_metrics=tuple(schema.metrics_for(chosen).values()),
        design=_design(file, schema, factors, metrics, problems),
        exclusions=exclusions(file.exclude, ("exclude",), schema, factors, problems),
        profiles=profiles(file, schema, factors, problems),
        profile_exclusions=profile_exclusions(file, schema, factors, problems),
        profile_levels=profile_levels(file, schema, factors, problems),
        sla=_by_metric(file.sla, metrics, problems, "sla"),
        cost=_by_metric(file.cost, metrics, problems, "cost"),
        require=_requirements(file.require, problems, "require"),
        wish=_requirements(file.wish, problems, "wish"),
        margins=_margins(file.margins, metrics, problems),
        functions=functions,
        variants=variants,
    )
    problems.raise_if_any()
    _check_size(study, problems)
    problems.raise_if_any()
    with problems.at("factors" if "placement" in file.factors else "settings", "placement"):
        check_placement(study)
    problems.raise_if_any()
    return replace(study, notes=tuple(problems.notes))


def _factors(file: StudyFile, schema: ScenarioSchema, problems: Problems) -> Factors:
    """Return the factors of the file with their checked levels, {factor: {identity of a level: its spelling}}."""
    factors: dict[str, dict[Level, Level]] = {}
    for name, raw_levels in file.factors.items():
        if name not in known_names(schema):
            problems.add(("factors", name), unknown_name(schema, name))
            continue
        if name in options_of_one(schema):
            with problems.at("factors", name):
                _require_part_of_option(file, name)
        levels = factors.setdefault(name, {})
        for index, raw in enumerate(raw_levels):
            with problems.at("factors", name, index):
                level = check_level(schema, name, raw)
                key = identity(schema, name, level)
                if key in levels:
                    raise FieldError(f"{shown(raw)} is the same level as {shown(levels[key])}, which is listed already")
                levels[key] = level
    return factors


def _own_functions(own: Sequence[OwnFunction], schema: ScenarioSchema, problems: Problems) -> ScenarioSchema:
    """Return the schema with the functions that the study defines, and record the problems of their definitions."""
    if own and "function" not in schema.chainable:
        hint = "remove [functions], or use a scenario such as chain or load"
        problems.add(("functions",), FieldError(f"scenario {schema.name} sends nothing through a function", hint))
        return schema
    for function in own:
        with problems.at("functions", function.name):
            function.check(schema.parts["function"])
    return schema.with_functions(own)


def _require_part_of_option(file: StudyFile, name: str) -> None:
    """Raise FieldError unless a factor such as `platform.docker.storage` has an effect in every treatment.

    Without an effect, treatments with different levels of the factor would be equal."""
    kind, part, option = name.split(".", 2)
    if f"{kind}.{option}" in {*file.factors, *file.settings}:
        raise FieldError(f"has no effect beside {kind}.{option}, which sets the same option", "keep one of them")
    parts = {level: written_parts({kind: level}, kind) for level in _levels_of(file, kind)}
    of_hops = {level: written_parts({FUNCTION: level}, kind)[1:] for level in _levels_of(file, FUNCTION)}
    of_hops = of_hops if kind == PLATFORM else {}
    for factor, parts_of_levels in ((kind, parts), (FUNCTION, of_hops)):
        for level, in_level in parts_of_levels.items():
            if any(name == part and option in written for name, written in in_level):
                message = f"has no effect in the {factor} {shown(level)}, which sets the option itself"
                raise FieldError(message, "keep one of them")
    in_all_hops = bool(of_hops) and all(any(name == part for name, _ in in_level) for in_level in of_hops.values())
    others = sorted(level for level, in_level in parts.items() if all(name != part for name, _ in in_level))
    if others and not in_all_hops:
        hint = f"write the option into the levels of {kind}: '{part}:{option}=VALUE'"
        message = f"varies an option of {part}, but not every treatment has it: {kind} {', '.join(others)}"
        raise FieldError(message, hint)


def _levels_of(file: StudyFile, kind: str) -> list[str]:
    """Return the levels of a kind of part in the file, whether a factor or a constant; [`NONE`] if it is neither."""
    return [str(level) for level in file.factors.get(kind) or [file.settings.get(kind, NONE)]]


def _settings(file: StudyFile, schema: ScenarioSchema, problems: Problems) -> dict[str, Level]:
    """Return all constants of the study: those in the file, and defaults of other settings that are not factors."""
    written: dict[str, Level] = {}
    for name, raw in file.settings.items():
        with problems.at("settings", name):
            if name in file.factors:
                raise FieldError("is also a factor of this study", "keep it either in [factors] or in [settings]")
            written[name] = check_level(schema, name, raw)
    defaults: dict[str, Level] = {kind: NONE for kind, known in schema.parts.items() if NONE in known}
    defaults |= {name: setting.default for name, setting in schema.settings.items()}
    for kind, known in schema.parts.items():
        if kind not in defaults and kind not in file.settings and kind not in file.factors:
            hint = f"name one in [settings], or several in [factors]; valid names: {', '.join(sorted(known))}"
            problems.add(("settings", kind), FieldError(f"the {kind} has no default, and this study names none", hint))
    options = all_options(schema)
    chosen = [name for name in file.settings if name in options]
    names = [name for name in (*schema.parts, *schema.settings, *chosen) if name not in file.factors]
    return {name: written.get(name, defaults.get(name, "")) for name in names}


def _metrics(
    file: StudyFile, schema: ScenarioSchema, chosen: Mapping[str, object], problems: Problems
) -> tuple[Metric, ...]:
    """Return the metrics that the file lists or, if it lists none, all metrics of the chosen parts."""
    metrics: dict[str, Metric] = {}
    known = schema.metrics_for(chosen)
    for index, name in enumerate(file.study.metrics):
        with problems.at("study", "metrics", index):
            if name not in known:
                hint = partial(did_you_mean, name, known)
                raise FieldError(f"scenario {schema.name} has no metric {shown(name)}", hint)
            if name in metrics:
                raise FieldError(f"{shown(name)} is listed already")
            metrics[name] = known[name]
    return tuple(metrics.values()) or metrics_of(schema, chosen)


def _by_metric(table: Mapping[str, V], metrics: Sequence[Metric], problems: Problems, name: str) -> Mapping[str, V]:
    """Return the table "sla" or "cost" (`name`), and record a problem for each metric or value that cannot be used."""
    known = [metric.name for metric in metrics]
    priced = RESOURCES if name == "cost" else {}
    for key, value in table.items():
        with problems.at(name, key):
            if key not in known and not (key in priced and priced[key].metric(known)):
                raise FieldError(f"the study has no metric {shown(key)}", partial(did_you_mean, key, known))
            if name == "sla":
                ServiceLevel.parse(f"{key} {value}", metrics)
            elif not isinstance(value, float) or not 0 < value < math.inf:
                raise FieldError(f"a weight must be above zero, but is {shown(value)}")
    return table


def _margins(table: Mapping[str, str], metrics: Sequence[Metric], problems: Problems) -> Mapping[str, float]:
    """Return the table "margins" as fractions, and record a problem for each metric or value that cannot be used."""
    known, margins = [metric.name for metric in metrics], dict[str, float]()
    for name, text in table.items():
        with problems.at("margins", name):
            if name not in known:
                raise FieldError(f"the study has no metric {shown(name)}", partial(did_you_mean, name, known))
            margins[name] = parse_fraction(text, above_zero=True)
    return margins


def _requirements(table: Mapping[str, bool | str], problems: Problems, key: str) -> Mapping[str, bool | str]:
    """Return the table "require" or "wish" (`key`), and record a problem for each property that cannot be required."""
    for name, value in table.items():
        with problems.at(key, name):
            Requirement.of(name, value)
    return table


def metrics_of(schema: ScenarioSchema, chosen: Mapping[str, object]) -> tuple[Metric, ...]:
    """Return all metrics except those of parts that are not chosen; `chosen` is as in `metrics_for`."""
    absent: set[str] = set()
    for kind, parts in schema.metrics_of.items():
        levels = chosen.get(kind, "")
        names = {split_options(str(level))[0] for level in (levels if isinstance(levels, Mapping) else [levels])}
        yielded = frozenset[str]().union(*(parts.get(name, frozenset()) for name in names))
        absent |= frozenset[str]().union(*parts.values()) - yielded
    return tuple(metric for metric in schema.metrics_for(chosen).values() if metric.name not in absent)


def _design(
    file: StudyFile, schema: ScenarioSchema, factors: Factors, metrics: Sequence[Metric], problems: Problems
) -> Design:
    """Return the design, and record a problem for each key that contradicts another."""
    baseline: dict[str, Level] = {}
    for name, raw in file.design.baseline.items():
        with problems.at("design", "baseline", name):
            baseline[name] = listed_level(schema, known_factor(factors, name), name, raw)
    design = file.design
    sequential = design.stopping == "sequential"
    if sequential:
        _check_sequential(file, metrics, problems)
    else:
        _reject_sequential_keys(file, problems)
    checked = {
        "baseline": baseline,
        "replicates": max(design.replicates, LEAST_BLOCKS if sequential else 1),
        "precise_metrics": tuple(design.precise_metrics),
    }
    result = Design(**design.model_dump() | checked)  # fields of DesignTable have the names of those of Design
    key = "allocation" if design.allocation == "adaptive" else "stopping"
    if key == "stopping" and design.stopping != "decided":
        return result
    if not file.sla:
        hint = "add the levels that must hold, such as latency_p95 = '< 1 ms'"
        problems.add(("design", key), FieldError("decides by service levels, but this study has no table [sla]", hint))
    if sequential:
        hint = "remove `stopping`: the campaign ends with the decision"
        problems.add(("design", key), FieldError("does not go with sequential stopping", hint))
    return result.until_decided()


def _check_sequential(file: StudyFile, metrics: Sequence[Metric], problems: Problems) -> None:
    """Record problems of sequential stopping: it needs a baseline, known metrics and a large enough maximum."""
    design, known = file.design, {metric.name for metric in metrics}
    if not design.baseline:
        hint = "name a baseline, or leave the number of blocks fixed"
        problems.add(("design", "stopping"), FieldError("needs ratios, but this study has no baseline", hint))
    if design.max_replicates < design.replicates:
        message = f"must be at least `replicates` ({design.replicates}), but is {design.max_replicates}"
        problems.add(("design", "max_replicates"), FieldError(message))
    for index, name in enumerate(design.precise_metrics):
        if name not in known:
            wrong = FieldError(f"the study has no metric {shown(name)}", partial(did_you_mean, name, known))
            problems.add(("design", "precise_metrics", index), wrong)


def _reject_sequential_keys(file: StudyFile, problems: Problems) -> None:
    """Record a problem for each key that is only for sequential stopping, in a study without sequential stopping."""
    fixed = file.design.stopping == "fixed" and file.design.allocation == "equal"
    how = "this study has a fixed number of blocks" if fixed else "this study ends with a decision"
    for name in ("precision", "max_replicates", "precise_metrics"):
        if name in file.design.model_fields_set:
            hint = 'write stopping = "sequential", or remove this key'
            wrong = FieldError(f"is for sequential stopping, but {how}", hint)
            problems.add(("design", name), wrong)


def check_stored(study: Study, schema: ScenarioSchema, where: str) -> None:
    """Check a study from a campaign's database, which is untrusted, as strictly as one from a study file.

    `where` names the campaign in messages. The profiles are not checked. Raises: StudyError with all problems."""
    problems = Problems(where)
    schema = _own_functions(study.functions, schema, problems)
    chosen = {factor.name: factor.levels for factor in study.factors}
    for table, values in (("factors", chosen), ("settings", {name: (v,) for name, v in study.settings.items()})):
        for name, levels in values.items():
            with problems.at(table, name):
                for level in levels:
                    check_level(schema, name, level)
    for level, changes in study.variants.items():
        with problems.at("variants", level):
            check_changes(schema, changes, chosen)
    for name in {*schema.parts, *schema.settings} - set(chosen) - set(study.settings) - PATIENCE:
        wrong = FieldError("is missing", "resume it with the version of Lastro that started it")
        problems.add(("settings", name), wrong)
    _by_metric(study.sla, study.metrics, problems, "sla")
    _by_metric(study.cost, study.metrics, problems, "cost")
    _margins({name: f"{margin:.15f}" for name, margin in study.margins.items()}, study.metrics, problems)
    _requirements(study.require, problems, "require")
    _requirements(study.wish, problems, "wish")
    # The chosen profile is already applied. `--only` may have left no treatment of another profile, which is not used.
    _check_size(replace(study, profiles={}, profile_exclusions={}, profile_levels={}), problems)
    problems.raise_if_any()


def _check_size(study: Study, problems: Problems) -> None:
    """Record problems if the study, or one of its profiles, has no treatments, too many trials or a wrong fraction."""
    n_treatments = factorial_size(study)
    if n_treatments > MAX_TRIALS:
        message = f"the levels make {n_treatments:,} treatments, but a study has at most {MAX_TRIALS:,} trials"
        problems.add(("factors",), FieldError(message))
        return
    if study.exclusions or study.design.fraction != "1":
        n_treatments = sum(1 for _ in combinations(study))
    if not n_treatments:
        problems.add(("exclude",), FieldError("the exclusions leave no treatment"))
    for profile in {**study.profile_exclusions, **study.profile_levels}:
        if n_treatments and not any(combinations(study.with_profile(profile))):
            problems.add(("profiles", profile, "exclude"), FieldError("the exclusions leave no treatment"))
    variants: dict[tuple[str, ...], Study] = {("design",): study}
    variants |= {("profiles", name): study.with_profile(name) for name in study.profiles}
    for table, variant in variants.items():
        if why := why_no_fraction(variant):
            hint = 'let more factors have two levels, exclude none of these levels, or write fraction = "1"'
            problems.add((*table, "fraction") if table == ("design",) else table, FieldError(why, hint))
        design, n_trials = variant.design, n_treatments * variant.design.most_blocks
        if n_trials > MAX_TRIALS:
            message = f"{n_treatments:,} treatments make {n_trials:,} trials, but a study has at most {MAX_TRIALS:,}"
            problems.add((*table, "max_replicates" if design.sequential else "replicates"), FieldError(message))

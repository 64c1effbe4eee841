"""Change a study on the command line: its profile, fewer levels, other constants, another number of blocks. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lastro.errors import InputError, did_you_mean
from lastro.study.design import check_placement, combinations, why_no_fraction
from lastro.study.levels import find_levels, identity, known_names, level_from_text
from lastro.study.model import MOST_BLOCKS, VARIANT, Exclusion, Factor, Level, ScenarioSchema, Study, baseline_among
from lastro.study.problems import FieldError, shown
from lastro.study.resolve import MAX_TRIALS, metrics_of
from lastro.study.variants import any_change_applies, change_from_text, check_changes, values_in_variants

SAME_IN_VARIANTS = "the variants do not differ here"  # the reason why treatments are excluded


def name_in(text: str) -> str:
    """Return the name in a text such as 'tcp_s=5'."""
    return text.partition("=")[0].strip()


def options_of(texts: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the words of a command line for {option: its values}: each value follows its option."""
    return [word for option, values in texts.items() for value in values for word in (option, value)]


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices of a user for a study: a profile, levels, constants, and the number of blocks.

    If several texts of `only` name the same factor, the levels of all of them are kept."""

    profile: str | None = None
    only: tuple[str, ...] = ()  # texts such as 'platform=lxc,runc'
    settings: tuple[str, ...] = ()  # texts such as 'tcp_s=5'
    replicates: int | None = None
    until_decided: bool = False
    within_s: float = 0.0  # time limit of `until_decided`; 0 without a limit

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options that make these choices, except --profile, as a campaign stores them."""
        words = options_of({"--only": self.only, "--set": self.settings})
        if self.replicates is not None:
            words += ["--replicates", str(self.replicates)]
        if self.until_decided:
            words += ["--until", "decided"]
        if self.within_s:
            words += ["--within", f"{self.within_s:g}s"]
        return tuple(words)

    def within(self, study: Study, schema: ScenarioSchema) -> Selection:
        """Return the selection without the factors and constants that a study does not have."""
        factors = {factor.name for factor in study.factors}
        constants = set(known_names(schema)) - factors
        return replace(
            self,
            only=tuple(text for text in self.only if name_in(text) in factors),
            settings=tuple(text for text in self.settings if name_in(text) in constants),
        )

    def of(self, study: Study, schema: ScenarioSchema) -> Study:
        """Return the study with these choices applied, the profile first.

        If the level of the baseline is left out, the first remaining level of the factor replaces it.

        Raises: InputError if the study has no such profile, factor, level or setting, or if no treatment remains."""
        schema = schema.with_functions(study.functions)
        if self.profile is not None:
            if self.profile not in study.profiles:
                hint = did_you_mean(self.profile, study.profiles) if study.profiles else "this study has no profiles"
                raise InputError(f"{study.file} has no profile '{self.profile}'", hint)
            study = with_metrics(study.with_profile(self.profile), study, schema)
        for name, wanted in _by_name("--only", self.only).items():
            study = _with_levels(study, schema, name, wanted)
        for name, texts in _by_name("--set", self.settings).items():
            study = _with_setting(study, schema, name, texts)
        if self.replicates is not None:
            n_trials = self.replicates * sum(1 for _ in combinations(study))
            if not 1 <= self.replicates <= MOST_BLOCKS or n_trials > MAX_TRIALS:
                hint = f"give at least 1; a study has at most {MAX_TRIALS:,} trials"
                raise InputError(f"--replicates {self.replicates} is not possible", hint)
            study = replace(study, design=study.design.with_blocks(self.replicates))
        if self.until_decided:
            if not study.sla:
                hint = "add a table [sla] to the study, such as latency_p95 = '< 1 ms'"
                raise InputError(f"--until decided needs service levels, and {study.file} has none", hint)
            study = replace(study, design=study.design.until_decided(self.within_s))
        if self.options and not any(combinations(study)):
            raise InputError(f"{shlex.join(self.options)} leaves no treatment of {study.file}", "choose more levels")
        try:
            check_placement(study)
        except FieldError as wrong:
            raise InputError(f"{study.file}: {wrong.message}", str(wrong.hint)) from None
        if why := why_no_fraction(study):
            raise InputError(f"{study.file}: `design.fraction`: {why}", "choose other options, or remove `fraction`")
        return replace(study, changes=self.options)


WHOLE_STUDY = Selection()


def with_variants(study: Study, schema: ScenarioSchema, a: Sequence[str], b: Sequence[str]) -> Study:
    """Return the study with the variants a and b, whose changes are texts such as 'cpus=1'; a is the reference.

    If the study file defines variants, `a` and `b` must be empty, and the variants of the file are used. Treatments in
    which `a` and `b` cannot differ are excluded. The comparison of variants replaces all other questions of the study:
    its baseline becomes the reference variant, and its service levels are dropped.

    Raises: InputError if there are no changes, for a change that is not possible, and for changes to a study whose file
    defines variants."""
    variant = next((factor for factor in study.factors if factor.name == VARIANT.name), None)
    if variant:
        if a or b:
            levels = ", ".join(map(str, variant.levels))
            raise InputError(f"{study.file} has variants: {levels}", "leave out --a and --b")
    else:
        variants = {"a": _changes(study, schema, "--a", a), "b": _changes(study, schema, "--b", b)}
        if not (a or b):
            hint = "such as --b runc=/opt/runc-1.2/runc, or --a cpus=1 --b cpus=2"
            raise InputError("nothing says what differs between a and b", hint)
        with_changes = replace(study, variants=variants)
        untouched = [levels for levels in combinations(study) if not any_change_applies(with_changes, levels)]
        rules = [Exclusion.of(levels, SAME_IN_VARIANTS) for levels in untouched]
        variant = Factor(VARIANT.name, tuple(variants))
        changed = replace(with_changes, factors=(*study.factors, variant), exclusions=(*study.exclusions, *rules))
        options = options_of({"--a": a, "--b": b})
        study = with_metrics(replace(changed, changes=(*study.changes, *options)), study, schema)
        if not any(combinations(study)):
            message = f"{shlex.join(options)} changes nothing in any treatment of {study.file}"
            raise InputError(message, "change another")
    reference = study.design.baseline.get(VARIANT.name, variant.levels[0])
    design = replace(study.design, baseline={VARIANT.name: reference}, fraction="1", allocation="equal")
    return replace(study, design=design, sla={}, cost={}, require={}, wish={})


def _changes(study: Study, schema: ScenarioSchema, option: str, texts: Sequence[str]) -> dict[str, Level]:
    """Return the changes that the texts of --a or --b make. Raises: InputError for a change that is not possible."""
    changes: dict[str, Level] = {}
    for text in texts:
        try:
            change = change_from_text(schema, text, study.functions)
            check_changes(schema, change, {factor.name for factor in study.factors})
        except FieldError as wrong:
            raise InputError(f"{option} {text}: {wrong.message}", wrong.hint_text or None) from None
        changes |= change
    return changes


def _by_name(option: str, texts: Iterable[str]) -> dict[str, list[str]]:
    """Return {name: [its values]} of texts NAME=VALUE. Raises: InputError if a text has no name or no value."""
    values: dict[str, list[str]] = {}
    for text in texts:
        name, _, value = (word.strip() for word in text.partition("="))
        if not name or not value:
            example = "--only platform=lxc,runc" if option == "--only" else "--set tcp_s=5"
            raise InputError(f"{option} {shlex.quote(text)} is not NAME=VALUE", f"such as {example}")
        values.setdefault(name, []).append(value)
    return values


def _with_levels(study: Study, schema: ScenarioSchema, name: str, texts: Iterable[str]) -> Study:
    """Return the study with only those levels of factor `name` that the texts list, in the order of the study."""
    factors = {factor.name: factor for factor in study.factors}
    if name not in factors:
        constant = name in study.settings
        hint = f"it is a constant: --set {name}=VALUE changes it" if constant else did_you_mean(name, factors)
        raise InputError(f"--only: {study.file} has no factor '{name}'", hint)
    by_identity = {identity(schema, name, level): level for level in factors[name].levels}

    def find(text: str) -> Level:
        try:
            return by_identity[identity(schema, name, level_from_text(schema, name, text))]
        except (FieldError, KeyError):
            hint = did_you_mean(text, [str(level) for level in by_identity.values()])
            raise InputError(f"--only: factor {name} of {study.file} has no level {shown(text)}", hint) from None

    wanted = {level for text in texts for level in find_levels(text.split(","), find)}
    factors[name] = Factor(name, tuple(level for level in factors[name].levels if level in wanted))
    remaining = tuple(factors.values())
    design = replace(study.design, baseline=baseline_among(study.design.baseline, remaining))
    return replace(study, factors=remaining, design=design)


def _with_setting(study: Study, schema: ScenarioSchema, name: str, texts: list[str]) -> Study:
    """Return the study with another value of a constant."""
    if any(factor.name == name for factor in study.factors):
        raise InputError(f"--set: '{name}' is a factor of {study.file}", f"--only {name}=LEVEL keeps one of its levels")
    if len(texts) > 1:
        raise InputError(f"--set {name} is given {len(texts)} times", "a constant has one value")
    try:
        value = level_from_text(schema, name, texts[0])
    except FieldError as wrong:
        raise InputError(f"--set {name}: {wrong.message}", wrong.hint_text or None) from None
    return with_metrics(replace(study, settings={**study.settings, name: value}), study, schema)


def with_metrics(changed: Study, before: Study, schema: ScenarioSchema) -> Study:
    """Return a changed study with its metrics determined again, since they depend on its settings and parts.

    The reported metrics are those of the study `before` if its file lists metrics, else those of the chosen parts."""
    lists_metrics = before.metrics != metrics_of(schema, _chosen(before))
    return replace(
        changed,
        metrics=before.metrics if lists_metrics else metrics_of(schema, _chosen(changed)),
        all_metrics=tuple(schema.metrics_for(_chosen(changed)).values()),
    )


def _chosen(study: Study) -> Mapping[str, object]:
    """Return the choices of a study as `ScenarioSchema.metrics_for` needs them."""
    factors = {factor.name: {level: level for level in factor.levels} for factor in study.factors}
    return {**study.settings, **factors, **values_in_variants(study.settings, study.variants)}

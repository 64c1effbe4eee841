"""Variants of a study: named sets of changes, to compare before and after. Pure.

Each variant is a level of the factor `variant`, so both sides of a change run in the same blocks. Its changes are part
of the configuration of its treatments (`Study.config`), under the names that studies use: settings, kinds of part,
options of parts. A program is an option of a platform. A setting of the kernel's network has the name `sysctl.net.…`,
and is set in the network namespaces of instances. Changes of the root filesystem have the names of `root_change`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from lastro.errors import did_you_mean
from lastro.study import root_change
from lastro.study.levels import check_level, functions_in, known_names, level_from_text, unknown_name, written_parts
from lastro.study.model import SYSCTL, VARIANT, Level, ScenarioSchema, Study
from lastro.study.own_function import OwnFunction
from lastro.study.problems import FieldError, Problems, shown

if TYPE_CHECKING:
    from lastro.study.schema import StudyFile

PROGRAM = "program"
Changes = dict[str, Level]

_SYSCTL = re.compile(r"net(\.[A-Za-z0-9_-]+)+", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9_.,:+-]+( [A-Za-z0-9_.,:+-]+)*", re.ASCII)
_OF_KERNEL = ("abi", "debug", "dev", "fs", "kernel", "user", "vm", "sunrpc", "net")  # where /proc/sys begins
_GUESTS = (
    "it needs another kernel or another boot: give each its own guest in a testbed file, and compare them by the factor"
    ' guest = ["before", "after"]'
)


def change_of_sysctl(schema: ScenarioSchema, name: str, value: Level) -> Changes:
    """Return the change of a setting in /proc/sys, as {name in the configuration: value}.

    Raises: FieldError if it is not a setting of a network namespace, or if the scenario does not set any."""
    if not _SYSCTL.fullmatch(name):
        raise FieldError(f"{shown(name)} is a setting of the whole host, and a variant changes those of net.*", _GUESTS)
    if not schema.sysctls:
        raise FieldError(f"scenario {schema.name} sets no sysctl in its instances", "choose the scenario chain or load")
    if isinstance(value, bool) or not _VALUE.fullmatch(str(value)):
        raise FieldError(f"{shown(value)} is not a value of a sysctl", "such as 'bbr', 1 or '4096 131072 6291456'")
    return {SYSCTL + name: str(value)}


def change_of_program(schema: ScenarioSchema, name: str, path: Level) -> Changes:
    """Return the change of a program that a platform starts, such as runc or docker.containerd.

    Raises: FieldError for a platform whose program cannot be chosen, and for a path that is not allowed."""
    known = {
        part if option.name == PROGRAM else f"{part}.{option.name}": f"platform.{part}.{option.name}"
        for part, options in schema.options.get("platform", {}).items()
        for option in options.values()
        if option.prints
    }
    if name not in known:
        hint = partial(did_you_mean, name, sorted(known))
        raise FieldError(f"no platform of scenario {schema.name} can start another program {shown(name)}", hint)
    return change_of_setting(schema, known[name], path)


def change_of_root(schema: ScenarioSchema, name: str, value: object, functions: Iterable[OwnFunction]) -> Changes:
    """Return a change of the root filesystem of instances or of parts. Raises: FieldError if it is not possible."""
    if not schema.roots and name != "parts":
        raise FieldError(f"scenario {schema.name} starts no instances, which have a root filesystem", "change another")
    if name == "git" and not any(function.repository for function in functions):
        hint = 'add repository = "DIRECTORY" and build = ["COMMAND"] to its table [functions.NAME]'
        raise FieldError("no function of the study is built from a repository", hint)
    return {name: root_change.checked(name, value)}


def change_of_setting(schema: ScenarioSchema, name: str, value: Level | list[Level]) -> Changes:
    """Return the change of a setting, a part, or an option of parts. Raises: FieldError if it is not allowed."""
    _require_changeable(schema, name)
    return {name: check_level(schema, name, value)}


def change_from_text(schema: ScenarioSchema, text: str, functions: Iterable[OwnFunction] = ()) -> Changes:
    """Return the change in a text NAME=VALUE: runc=/opt/runc, net.ipv4.x=1, release=trixie or cpus=1.

    Raises: FieldError if it is not possible."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (name and sign and value):
        raise FieldError(f"{shown(text)} is not NAME=VALUE", "such as runc=/opt/runc/bin/runc or cpus=1")
    known = known_names(schema)
    if name in root_change.NAMES:
        return change_of_root(schema, name, value, functions)
    if value.startswith("/") and name not in known:
        return change_of_program(schema, name, value)
    if name not in known and name.partition(".")[0] in _OF_KERNEL:
        return change_of_sysctl(schema, name, value)
    _require_changeable(schema, name)
    return {name: level_from_text(schema, name, value)}


def check_changes(schema: ScenarioSchema, changes: Mapping[str, Level], factors: Iterable[str]) -> None:
    """Raise FieldError if a change of a variant is not allowed; `changes` is {name: value}.

    The changes may come from a study file or a campaign's database. `factors` are the names of the study's factors,
    which a variant cannot change."""
    for name, value in changes.items():
        if name in factors:
            raise FieldError(f"{name} is a factor of this study, and every variant has its levels", "keep one")
        if name.startswith(SYSCTL):
            change_of_sysctl(schema, name.removeprefix(SYSCTL), value)
        elif name in root_change.NAMES:
            root_change.checked(name, value)
        else:
            change_of_setting(schema, name, value)


def variants_of(
    file: StudyFile, schema: ScenarioSchema, functions: Iterable[OwnFunction], problems: Problems
) -> dict[str, Changes]:
    """Return {variant: its changes} of a study file, and record problems.

    `functions` are the functions that the study defines."""
    levels = list(map(str, file.factors.get(VARIANT.name, [])))
    for name in set(file.variants) - set(levels):
        hint = f'add variant = ["{name}", …] to [factors]'
        problems.add(("variants", name), FieldError("is not a level of the factor `variant`", hint))
    for name in set(levels) - set(file.variants):
        hint = "write the table, which may be empty for what nothing changes"
        problems.add(("factors", VARIANT.name), FieldError(f"has no table [variants.{name}]", hint))
    variants: dict[str, Changes] = {level: {} for level in levels if level in file.variants}
    for level, changes in variants.items():
        table = file.variants[level]
        for key, given, change in (
            ("programs", table.programs, change_of_program),
            ("sysctl", table.sysctl, change_of_sysctl),
            ("settings", table.settings, change_of_setting),
        ):
            for name, value in given.items():
                with problems.at("variants", level, key, name):
                    checked = change(schema, name, value)
                    check_changes(schema, checked, file.factors)
                    changes.update(checked)
        for name in root_change.NAMES:
            if given := getattr(table, name):
                with problems.at("variants", level, name):
                    changes.update(change_of_root(schema, name, given, functions))
    if len(variants) == len(levels) > 1 and all(changes == variants[levels[0]] for changes in variants.values()):
        problems.add(("variants",), FieldError("all variants are the same", "change something in one of them"))
    return variants


def values_in_variants(
    settings: Mapping[str, Level], variants: Mapping[str, Mapping[str, Level]]
) -> dict[str, dict[Level, Level]]:
    """Return {setting that any variant changes: its values in all variants}, each as {value: value}, as for a factor.

    In a variant that does not change a setting, the setting has the study's constant value."""
    levels_of: dict[str, dict[Level, Level]] = {}
    for name in dict.fromkeys(name for changes in variants.values() for name in changes):
        levels = [changes.get(name, settings.get(name)) for changes in variants.values()]
        levels_of[name] = {level: level for level in levels if level is not None}
    return levels_of


def _require_changeable(schema: ScenarioSchema, name: str) -> None:
    """Raise FieldError for a name that no variant may change: the variant itself, or where a treatment runs."""
    if name == VARIANT.name:
        raise FieldError("a variant cannot change which variant it is", "remove it")
    if name in schema.placed:
        raise FieldError(f"`{name}` says where a treatment runs, which no variant changes", f"make {name} a factor")
    if name.startswith(SYSCTL):
        raise unknown_name(schema, name)


def any_change_applies(study: Study, levels: Mapping[str, Level]) -> bool:
    """Return whether any variant's change applies to a treatment.

    A change of an option does not apply if the treatment does not use the part with the option."""
    built, config = {function.name for function in study.functions if function.repository}, study.config(levels)
    return any(_applies(config, name, built) for changes in study.variants.values() for name in changes)


def _applies(config: Mapping[str, Level], name: str, built: set[str]) -> bool:
    """Return whether a change applies to a treatment; `built` are the functions that are built from a repository."""
    if name == "git":
        return bool(built.intersection(functions_in(str(config.get("function", "")))))
    kind, *part = name.split(".")
    if len(part) < 2 or name.startswith(SYSCTL) or kind not in config:
        return True
    part_name, option = part[0], part[1]
    is_open = any(name == part_name and option not in written for name, written in written_parts(config, kind))
    return is_open and f"{kind}.{option}" not in config

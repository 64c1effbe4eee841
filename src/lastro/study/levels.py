"""One level or setting, checked against what its scenario knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from lastro.errors import InputError, did_you_mean
from lastro.study.model import Level, ScenarioSchema, Setting
from lastro.study.problems import Wrong, kind_of, shown

NONE = "none"


def check_level(schema: ScenarioSchema, name: str, raw: Level) -> Level:
    """The value that `name`, a part factor or a setting of the scenario, may take.

    Raises: Wrong when it may not take this one, or when the scenario knows no such name."""
    if name in schema.parts:
        return _part(schema, name, raw)
    if name in schema.settings:
        return _setting(schema.settings[name], raw)
    raise unknown_name(schema, name)


def unknown_name(schema: ScenarioSchema, name: str) -> Wrong:
    known = [*schema.parts, *schema.settings]
    return Wrong(
        f"scenario {schema.name} has no part factor and no setting of this name", partial(did_you_mean, name, known)
    )


def identity(schema: ScenarioSchema, name: str, level: Level) -> Level:
    """What two spellings of one level have in common: 'b+a' is the same combination of parts as 'a+b'."""
    return "+".join(sorted(level.split("+"))) if name in schema.combinable and isinstance(level, str) else level


def listed_level(schema: ScenarioSchema, levels: Mapping[Level, Level], name: str, raw: Level) -> Level:
    """A level of a factor, as the factor spells it. `levels` maps the identity of each to its spelling.

    Raises: Wrong when the factor has no such level."""
    try:
        return levels[identity(schema, name, check_level(schema, name, raw))]
    except (Wrong, KeyError):
        known = [str(level) for level in levels.values()]
        raise Wrong(f"{shown(raw)} is no level of factor {name}", partial(did_you_mean, str(raw), known)) from None


def _part(schema: ScenarioSchema, kind: str, raw: Level) -> str:
    if not isinstance(raw, str):
        raise Wrong(f"the name of a part of kind {kind} is a string, and this is {kind_of(raw)}")
    known = schema.parts[kind]
    if raw in known:
        return raw
    words = raw.split("+")
    if len(words) > 1 and kind not in schema.combinable:
        raise Wrong(f"levels of factor {kind} cannot be combined by '+'")
    for word in words:
        if word not in known:
            raise Wrong(f"no {kind} is named {shown(word)}", partial(did_you_mean, word, known))
        if word == NONE:
            raise Wrong(f"{shown(raw)} combines '{NONE}' with something")
        if words.count(word) > 1:
            raise Wrong(f"{shown(raw)} names '{word}' more than once")
    return raw


def _setting(setting: Setting, raw: Level) -> Level:
    wanted = type(setting.default)
    value = float(raw) if wanted is float and type(raw) is int else raw  # tcp_s = 15 is as good as 15.0
    if type(value) is not wanted:
        raise Wrong(f"must be {kind_of(setting.default)}, such as {shown(setting.default)}, and is {kind_of(raw)}")
    if isinstance(value, str):
        if setting.choices and value not in setting.choices:
            raise Wrong(f"{shown(raw)} is no choice for {setting.name}", partial(did_you_mean, value, setting.choices))
        if setting.check:
            _try_text(setting.check, value)
        return value
    if setting.minimum is not None and value < setting.minimum:
        raise Wrong(f"must be at least {setting.minimum:g}, and is {shown(raw)}")
    if setting.maximum is not None and value > setting.maximum:
        raise Wrong(f"must be at most {setting.maximum:g}, and is {shown(raw)}")
    return value


def _try_text(check: Callable[[str], object], value: str) -> None:
    try:
        check(value)
    except InputError as error:
        raise Wrong(error.message, error.hint or "") from None

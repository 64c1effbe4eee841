"""Check one level or setting against its scenario, and split levels into parts, options and hops.

A part may have options. They are written into the part's level, `docker:storage=vfs`, or are separate factors and
constants named after the kind of part: `"platform.storage" = ["overlay2", "vfs"]`. A constant may also apply to only
one part, such as `"instrument.gzip.size" = "2G"`: it replaces the default of that option.

The level of a function may be a chain of hops. Each hop is a function, and may name the platform of its instance, both
with options: `firewall@docker>nat:flows=5@qemu-tcg:nic=virtio`. The platform of a hop begins after its first '@'."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from lastro.errors import InputError, did_you_mean
from lastro.study.model import Level, ScenarioSchema, Setting
from lastro.study.problems import FieldError, kind_of, shown
from lastro.units import quantity

T = TypeVar("T")
NONE = "none"
MOST_HOPS = 8
_THEN = ">"  # between the hops of a chain
ON = "@"  # between a function and the platform of its instance
FUNCTION, PLATFORM = "function", "platform"


def check_level(schema: ScenarioSchema, name: str, raw: Level | list[Level]) -> Level:
    """Return the checked value of a part factor, a setting or an option of parts.

    A list is the value of a setting that accepts lists; its entries are joined by commas. Raises: FieldError if the
    value is not allowed, or if the scenario does not know the name."""
    if isinstance(raw, list):
        if name not in schema.settings or not schema.settings[name].listed:
            raise FieldError("must be a string, a number, true or false, but is a list")
        raw = ", ".join(map(str, raw))
    if name in schema.parts:
        return _part(schema, name, raw)
    if name in schema.settings:
        return _setting(schema.settings[name], raw)
    return _option_of_any(_offered(schema, name), lambda _: raw)


def _offered(schema: ScenarioSchema, name: str) -> Sequence[Setting[Any]]:
    """Return the options of all parts to which a name such as `platform.nic` may refer.

    Raises: FieldError if the scenario does not know the name."""
    if offered := all_options(schema).get(name):
        return offered
    raise unknown_name(schema, name)


def level_from_text(schema: ScenarioSchema, name: str, text: str) -> Level:
    """Return the checked value of a part factor, a setting or an option, from the text of a command line.

    The text '5' is a number if the setting is one. Raises: FieldError if the value is not allowed, or if the scenario
    does not know the name."""
    if name in schema.parts:
        return _part(schema, name, text)
    offered = [schema.settings[name]] if name in schema.settings else _offered(schema, name)
    return _option_of_any(offered, lambda option: _typed(option, text))


def options_named(schema: ScenarioSchema) -> dict[str, list[Setting[Any]]]:
    """Return {"platform.nic": [the option `nic` of every platform that has it]}, and so on for all options of parts.

    The settings of the testbed (`placed`) are included, because a study may omit them, like options."""
    named = {name: [setting] for name, setting in schema.placed.items()}
    for name, (option,) in options_of_one(schema).items():
        named.setdefault(f"{name.partition('.')[0]}.{option.name}", []).append(option)
    return named


def options_of_one(schema: ScenarioSchema) -> dict[str, list[Setting[Any]]]:
    """Return {"instrument.gzip.size": [the option]} for every option of every part."""
    return {
        f"{kind}.{part}.{option.name}": [option]
        for kind, parts in schema.options.items()
        for part, options in parts.items()
        for option in options.values()
    }


def all_options(schema: ScenarioSchema) -> dict[str, list[Setting[Any]]]:
    """Return {name: the options to which it may refer}, for the names of both forms."""
    return options_named(schema) | options_of_one(schema)


def known_names(schema: ScenarioSchema) -> list[str]:
    """Return the names that factors and constants of a study may have."""
    return [*schema.parts, *schema.settings, *all_options(schema)]


def names_in_profiles(schema: ScenarioSchema) -> list[str]:
    """Return the names of the settings and options that a profile may change."""
    offered = {name: [setting] for name, setting in schema.settings.items()} | all_options(schema)
    return [name for name, settings in offered.items() if any(setting.in_profiles for setting in settings)]


def part_level(config: Mapping[str, Level], kind: str) -> str:
    """Return the level of a kind of part in a treatment, with all its options, such as `docker:storage=vfs`.

    `config` is the configuration of the treatment. An option is set in the level itself, or by a separate constant or
    factor `platform.OPTION`. If it is set in neither place, a constant for this part only, `platform.docker.OPTION`,
    applies. In a chain, the platform options of the treatment also apply to a hop that names the same platform."""
    if kind != FUNCTION:
        return _with_options(config, kind, str(config[kind]))
    parts = []
    for hop in hops(str(config[kind])):
        part, platform = split_platform(hop)
        if platform:
            platform = _with_options(_for_platform(config, platform), PLATFORM, platform)
        parts.append(join_platform(_with_options(config, kind, part), platform))
    return join_hops(parts)


def _for_platform(config: Mapping[str, Level], level: str) -> Mapping[str, Level]:
    """Return a configuration without the options of the treatment's platform that do not apply to a hop's platform.

    `level` is the level of the hop's platform. If it names the platform of the treatment, all options apply except
    those that `level` sets itself; otherwise none applies."""
    name, written = split_options(level)
    is_same = name == split_options(str(config.get(PLATFORM, NONE)))[0]
    options = {key: key.removeprefix(f"{PLATFORM}.") for key in config if key.startswith(f"{PLATFORM}.")}
    left_out = {key for key, option in options.items() if "." not in option and not (is_same and option not in written)}
    return {key: value for key, value in config.items() if key not in left_out}


def _with_options(config: Mapping[str, Level], kind: str, level: str) -> str:
    """Return the level of a part, extended by the options that constants and factors of `config` set for the part."""
    name, written = split_options(level)
    chosen = []
    for key in sorted(key for key in config if key.startswith(f"{kind}.")):
        *part, option = key.removeprefix(f"{kind}.").split(".")
        if not part or (part == [name] and option not in written and f"{kind}.{option}" not in config):
            chosen.append(f"{option}={config[key]}")
    return join_options(level, chosen)


def part_name(config: Mapping[str, Level], kind: str) -> str:
    """Return the name of the part of this kind in a treatment, without its options."""
    return split_options(str(config[kind]))[0]


def hops(level: str) -> list[str]:
    """Split the level of a chain, such as 'firewall>nat', into its hops; other levels have one hop."""
    return [hop.strip() for hop in level.split(_THEN)]


def join_hops(levels: Sequence[str]) -> str:
    """Return the level of the chain of these hops: 'firewall>nat'."""
    return _THEN.join(levels)


def split_platform(hop: str) -> tuple[str, str]:
    """Split a hop such as 'nat@docker:storage=vfs' into its function and the level of its platform, '' without one."""
    part, _, platform = hop.partition(ON)
    return part.strip(), platform.strip()


def join_platform(part: str, platform: str) -> str:
    """Return the text of a hop, 'nat@docker'; if `platform` is empty, the hop runs on the treatment's platform."""
    return f"{part}{ON}{platform}" if platform else part


def functions_in(level: str) -> list[str]:
    """Return the functions of a level in the order of its hops, with their options and without their platforms."""
    return [split_platform(hop)[0] for hop in hops(level)]


def platforms_of_hops(config: Mapping[str, Level]) -> list[str]:
    """Return for each hop of a treatment the level of its platform: the hop's own, or else the treatment's."""
    named = [split_platform(hop)[1] for hop in hops(part_level(config, FUNCTION))]
    return [platform or part_level(config, PLATFORM) for platform in named]


def written_parts(levels: Mapping[str, Level], kind: str) -> list[tuple[str, dict[str, str]]]:
    """Return (name, {option: value} as its level sets them) for each part of a kind in a treatment.

    For the kind "platform", the platforms that hops name are included."""
    level = str(levels.get(kind, NONE))
    parts = functions_in(level) if kind == FUNCTION else [level]
    if kind == PLATFORM:
        named = [split_platform(hop)[1] for hop in hops(str(levels.get(FUNCTION, NONE)))]
        parts += [platform for platform in named if platform]
    return [split_options(part) for part in parts]


def split_options(level: str) -> tuple[str, dict[str, str]]:
    """Split 'docker:storage=vfs,runtime=crun' into ('docker', {'storage': 'vfs', 'runtime': 'crun'})."""
    name, _, rest = level.partition(":")
    pairs = (word.partition("=") for word in rest.split(",") if word)
    return name, {option: value for option, _, value in pairs}


def join_options(level: str, chosen: Sequence[str]) -> str:
    """Return a level with further options, each as 'NAME=VALUE'."""
    return f"{level}{',' if ':' in level else ':'}{','.join(chosen)}" if chosen else level


def option_value(option: Setting[Any], text: str) -> Level:
    """Parse the value of an option from text, and check it. Raises: InputError if it is not allowed."""
    try:
        return _setting(option, _typed(option, text))
    except FieldError as wrong:
        raise InputError(f"option {option.name}: {wrong}") from None


def _typed(option: Setting[Any], text: str) -> Level:
    """Return the text converted to the type of a setting. Raises: FieldError if it is not a number of this type."""
    wanted: type[Level] = type(option.default)
    if wanted is bool:
        return text == "true" if text in ("true", "false") else text
    try:
        value = wanted(text)
        if not isinstance(value, float) or math.isfinite(value):
            return value
        raise ValueError(text)
    except ValueError:
        raise FieldError(f"{shown(text)} is not {kind_of(option.default)}") from None


def _option_of_any(offered: Sequence[Setting[Any]], value: Callable[[Setting[Any]], Level]) -> Level:
    """Return the checked value of an option, which must be valid for at least one part that offers the option.

    `value` returns the raw value for the option of one part. Where a part does not allow the value, treatments with
    that part are unavailable. Raises: FieldError, the error for the first part, if no part allows the value."""
    problem: FieldError | None = None
    for option in offered:
        try:
            return _setting(option, value(option))
        except FieldError as wrong:
            problem = problem or wrong
    assert problem is not None
    raise problem


def unknown_name(schema: ScenarioSchema, name: str) -> FieldError:
    """Return the error for a name of a factor or setting that the scenario does not know."""
    hint = partial(did_you_mean, name, known_names(schema))
    return FieldError(f"scenario {schema.name} has no factor or setting of this name", hint)


def identity(schema: ScenarioSchema, name: str, level: Level) -> Level:
    """Return a canonical form of a level: 'a+b' for 'b+a', which is the same combination."""
    return "+".join(sorted(level.split("+"))) if name in schema.combinable and isinstance(level, str) else level


def listed_level(schema: ScenarioSchema, levels: Mapping[Level, Level], name: str, raw: Level) -> Level:
    """Return a level as the factor spells it; `levels` is {identity of a level: its spelling}.

    Raises: FieldError if the factor does not have the level."""
    try:
        return levels[identity(schema, name, check_level(schema, name, raw))]
    except (FieldError, KeyError):
        hint = partial(did_you_mean, str(raw), [str(level) for level in levels.values()])
        raise FieldError(f"{shown(raw)} is not a level of factor {name}", hint) from None


def _part(schema: ScenarioSchema, kind: str, raw: Level) -> str:
    """Return the checked level of a part factor, in a uniform spelling. Raises: FieldError if it is not allowed."""
    if not isinstance(raw, str):
        raise FieldError(f"the name of a part of kind {kind} must be a string, but is {shown(raw)}")
    known = schema.parts[kind]
    if raw in known:
        return raw
    chain = hops(raw)
    if len(chain) > 1:
        if kind not in schema.chainable:
            raise FieldError(f"{shown(raw)} is a chain, and scenario {schema.name} has one {kind} in a trial")
        if len(chain) > MOST_HOPS:
            raise FieldError(f"{shown(raw)} has {len(chain)} hops, but a chain has at most {MOST_HOPS}")
        if "" in chain:
            raise FieldError(f"{shown(raw)} has '{_THEN}' without a {kind} on one side")
        return join_hops([_part(schema, kind, hop) for hop in chain])
    if ON in raw and kind in schema.chainable and PLATFORM in schema.parts:
        part, platform = split_platform(raw)
        if not part or not platform:
            message = f"{shown(raw)} has '{ON}' without a {kind} before it and a platform behind it"
            raise FieldError(message, f"such as '{NONE}{ON}runc'")
        return join_platform(_part(schema, kind, part), _part(schema, PLATFORM, platform))
    if ":" in raw:
        return _part_with_options(schema, kind, raw)
    words = raw.split("+")
    if len(words) > 1 and kind not in schema.combinable:
        raise FieldError(f"levels of factor {kind} cannot be combined with '+'")
    for word in words:
        if word not in known:
            raise FieldError(f"no {kind} is named {shown(word)}", partial(did_you_mean, word, known))
        if word == NONE:
            raise FieldError(f"{shown(raw)} combines '{NONE}' with another part")
        if words.count(word) > 1:
            raise FieldError(f"{shown(raw)} names '{word}' more than once")
    return raw


def _part_with_options(schema: ScenarioSchema, kind: str, raw: str) -> str:
    """Return the checked level of a part with options, sorted by name so that two spellings are one level.

    Raises: FieldError if it is not allowed."""
    name, texts = split_options(raw)
    if name not in schema.parts[kind]:
        raise FieldError(f"no {kind} is named {shown(name)}", partial(did_you_mean, name, schema.parts[kind]))
    known = schema.options.get(kind, {}).get(name, {})
    if not texts or "" in texts.values():
        offered = f"options of {name}: {', '.join(known) or 'none'}"
        raise FieldError(f"{shown(raw)} needs OPTION=VALUE after the colon", offered)
    for option, text in texts.items():
        if option not in known:
            raise FieldError(f"{kind} {name} has no option {shown(option)}", partial(did_you_mean, option, known))
        _setting(known[option], _typed(known[option], text))
    return join_options(name, [f"{option}={texts[option]}" for option in sorted(texts)])


def _setting(setting: Setting[Any], raw: Level) -> Level:
    """Return the checked value of a setting. Raises: FieldError for another type, or a value that is not allowed."""
    wanted = type(setting.default)
    value = float(raw) if wanted is float and type(raw) is int else raw  # tcp_s = 15 means 15.0
    if type(value) is not wanted:
        raise FieldError(f"must be {kind_of(setting.default)}, such as {shown(setting.default)}, but is {shown(raw)}")
    if isinstance(value, str):
        if setting.choices and value not in setting.choices:
            hint = partial(did_you_mean, value, setting.choices)
            raise FieldError(f"{shown(raw)} is not a valid {setting.name}", hint)
        if setting.check:
            try:
                setting.check(value)
            except InputError as error:
                raise FieldError(error.message, error.hint or "") from None
        return value
    if setting.minimum is not None and value < setting.minimum:
        raise FieldError(f"must be at least {setting.minimum:g}, but is {shown(raw)}")
    if setting.maximum is not None and value > setting.maximum:
        raise FieldError(f"must be at most {setting.maximum:g}, but is {shown(raw)}")
    return value


_UNITS = {"per_s": "1/s", "fps": "1/s", "s": "s", "ms": "ms", "percent": "%", "bytes": "B", "kb": "kB", "mb": "MB"}


def is_quantity(name: str, level: str) -> bool:
    """Return whether a level of the factor `name` is a number, such as 200000, '100M' or '5ms'."""
    return quantity(level, _unit_of(name)) is not None


def is_same_quantity(name: str, level: str, text: str) -> bool:
    """Return whether `text` is the level of the factor `name` in another unit, as '200 kpps' is 200000."""
    ours, theirs = quantity(level, _unit_of(name)), quantity(text, _unit_of(name))
    if ours is None or theirs is None or (ours[1] and theirs[1] and ours[1] != theirs[1]):
        return False
    return math.isclose(ours[0], theirs[0])


def _unit_of(name: str) -> str:
    """Return the unit at the end of the name of a setting: 'ms' for delay_ms; empty if it has none."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(f"_{ending}")), "")


def find_levels(words: Sequence[str], find: Callable[[str], T]) -> Iterator[T]:
    """Yield the result of `find` for each level in a list; `words` are the texts between the commas of the list.

    A level with several options, such as 'kvm:nic=virtio,cpu=max', contains commas itself. So the longest sequence of
    words for which `find` succeeds is one level. `find` raises InputError for a text that is not a level.

    Raises: InputError if a word does not begin any level."""
    start = 0
    while start < len(words):
        for end in range(len(words), start, -1):
            try:
                level = find(",".join(words[start:end]).strip())
            except InputError:
                if end == start + 1:
                    raise
            else:
                yield level
                start = end
                break

"""The JSON Schema of study files, with every name that scenarios know, for completion and checks in editors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lastro.study.levels import MOST_HOPS, NONE, ON, PLATFORM, names_in_profiles, options_named, options_of_one
from lastro.study.model import ScenarioSchema, Setting
from lastro.study.own_function import NAME
from lastro.study.schema import StudyFile

_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def json_schema(schemas: Mapping[str, ScenarioSchema]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a study of any of these scenarios.

    It does not check relations between keys, such as whether a baseline names a level of its factor; `parse` does."""
    studies = {name: _study_of(schema, name) for name, schema in schemas.items()}
    chainable = {f"{name}-with-functions": schema for name, schema in schemas.items() if schema.chainable}
    studies |= {name: _study_of(schema, name, own=NAME) for name, schema in chainable.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lastro study",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in studies],
        "$defs": studies,
    }


def _study_of(schema: ScenarioSchema, name: str, own: str = "") -> dict[str, Any]:
    """Return the schema of the studies of one scenario: the schema of `StudyFile`, with the scenario's names.

    `name` is the key of the schema in $defs. `own` is the pattern for the names of functions that the study defines; if
    it is empty, the study must not define functions."""
    study = StudyFile.model_json_schema(ref_template=f"#/$defs/{name}/$defs/{{model}}")
    if own:
        study["required"].append("functions")
    else:
        del study["properties"]["functions"]
    tables = {name: table["properties"] for name, table in study["$defs"].items()}
    values = {kind: _part(schema, kind, own) for kind in schema.parts}
    values |= {name: _setting(setting) for name, setting in schema.settings.items()}
    values |= {name: _option(options) for name, options in options_named(schema).items()}
    values |= {name: _setting(option) for name, (option,) in options_of_one(schema).items()}
    lists = {
        name: {"type": "array", "items": value, "minItems": 1, "uniqueItems": True} for name, value in values.items()
    }
    tables["StudyTable"]["scenario"] = {"const": schema.name, "description": schema.summary}
    metric: dict[str, Any] = {"enum": list(schema.metrics)}
    if schema.metrics_by({}):  # settings of the scenario add metrics
        metric = {"anyOf": [metric, {"type": "string"}]}
    metrics = {"items": metric, "uniqueItems": True}
    tables["StudyTable"]["metrics"] |= metrics
    _close(study["properties"]["factors"], lists)
    _close(study["properties"]["settings"], values)
    tables["DesignTable"]["precise_metrics"] |= metrics
    _close(tables["DesignTable"]["baseline"], values)
    _close(tables["ExcludeTable"]["when"], {name: {"anyOf": [values[name], lists[name]]} for name in values})
    profile = study["$defs"]["ProfileTable"]
    _close(profile, {**profile["properties"], **{name: values[name] for name in names_in_profiles(schema)}})
    return study


def _close(table: dict[str, Any], properties: dict[str, Any]) -> None:
    """Restrict the schema of a table, in place, to these properties."""
    table |= {"properties": properties, "additionalProperties": False}


def _part(schema: ScenarioSchema, kind: str, own: str) -> dict[str, Any]:
    """Return the schema of a level of a part factor: a name, or a text with options, a chain or a combination."""
    names = sorted(schema.parts[kind])
    if kind in schema.combinable:
        name = "|".join(re.escape(name) for name in names if name != NONE)
        pattern = rf"({name})(\+({name}))+"
    elif kind in schema.chainable:
        hop = _pattern_of_part(schema, kind, own)
        if PLATFORM in schema.parts:
            hop += rf"( *{ON} *{_pattern_of_part(schema, PLATFORM)})?"
        pattern = rf"{hop}( *> *{hop}){{0,{MOST_HOPS - 1}}}"
    elif schema.options.get(kind):
        pattern = _pattern_of_part(schema, kind, own)
    else:
        return {"enum": names}
    return {"anyOf": [{"enum": names}, {"type": "string", "pattern": f"^{pattern}$"}]}


def _pattern_of_part(schema: ScenarioSchema, kind: str, own: str = "") -> str:
    """Return the pattern of one part of a kind, with or without options."""
    patterns = [*map(re.escape, sorted(schema.parts[kind])), *([own] if own else [])]
    if with_options := "|".join(re.escape(name) for name in schema.options.get(kind, {})):
        value = f"[^,>{ON}]+" if kind in schema.chainable else "[^,>]+"  # '@' ends the options of a function
        patterns.append(rf"({with_options}):[a-z_]+={value}(,[a-z_]+={value})*")
    return f"({'|'.join(patterns)})"


def _setting(setting: Setting[Any]) -> dict[str, Any]:
    """Return the schema of a setting's value: its type, default, bounds and choices."""
    if setting.listed:
        entry = {"type": "string", "minLength": 1}
        entries = {"type": "array", "items": entry, "minItems": 1, "uniqueItems": True}
        return {"anyOf": [entry, entries], "default": setting.default, "description": setting.summary}
    bounds = {"minimum": setting.minimum, "maximum": setting.maximum, "enum": list(setting.choices) or None}
    return {
        "type": _TYPES[type(setting.default)],
        "default": setting.default,
        "description": setting.summary,
        **{word: bound for word, bound in bounds.items() if bound is not None},
    }


def _option(options: Sequence[Setting[Any]]) -> dict[str, Any]:
    """Return the schema of an option that several parts may have; `options` has the option's setting in each part."""
    distinct: list[dict[str, Any]] = []
    for schema in map(_setting, options):
        if schema not in distinct:
            distinct.append(schema)
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}

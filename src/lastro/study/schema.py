"""The shape of a study file as pydantic models: its tables and keys, their types and bounds.

Checks that depend on the scenario (names of factors, levels, settings, metrics) are in `resolve`. This module imports
pydantic, so only `load` and the command that prints the JSON Schema import it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from lastro.errors import did_you_mean
from lastro.study.document import MAX_INTEGER
from lastro.study.model import NAME_PATTERN, Level
from lastro.study.problems import FieldError, Problems, shown

MAX_LEVEL_CHARS = 100


def _one_line(value: Any) -> Any:
    if isinstance(value, str) and not value.isprintable():
        raise PydanticCustomError("text", "contains a line break or a control character")
    return value


def _prose(value: Any) -> Any:
    if isinstance(value, str) and not value.replace("\n", "").replace("\t", "").isprintable():
        raise PydanticCustomError("text", "contains a control character")
    return value


def _level(value: Any) -> Level:
    if not isinstance(value, str | int | float):
        found = {"found": shown(value)}
        raise PydanticCustomError("level", "must be a string, a number, true or false, but is {found}", found)
    if isinstance(value, str):
        if not value or len(value) > MAX_LEVEL_CHARS:
            length = {"most": MAX_LEVEL_CHARS, "found": len(value)}
            raise PydanticCustomError("level", "must have 1 to {most} characters, but has {found}", length)
        _one_line(value)
    return value


_LEVEL_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean"], "minLength": 1, "maxLength": MAX_LEVEL_CHARS}
_LEVELS_SCHEMA = {"anyOf": [_LEVEL_SCHEMA, {"type": "array", "items": _LEVEL_SCHEMA, "minItems": 1}]}


def _requirement(value: Any) -> Any:
    if not isinstance(value, bool | str):
        hint = f'write a number as in ">= {value}"' if isinstance(value, int | float) else ""
        found = {"found": shown(value), "hint": hint}
        raise PydanticCustomError("requirement", "must be true, false or a string, but is {found}", found)
    return value if isinstance(value, bool) else _level(value)


def _setting(value: Any) -> Any:
    """Return a checked value, or a list of them for a setting that accepts lists (`levels.check_level`)."""
    return list(map(_level, value)) if isinstance(value, list) and value else _level(value)


LevelValue = Annotated[Any, PlainValidator(_level), WithJsonSchema(_LEVEL_SCHEMA)]
Levels = Annotated[list[LevelValue], Field(min_length=1)]
OneOrMoreLevels = Annotated[
    Levels, BeforeValidator(lambda value: value if isinstance(value, list) else [value]), WithJsonSchema(_LEVELS_SCHEMA)
]
SettingValue = Annotated[Any, PlainValidator(_setting), WithJsonSchema(_LEVELS_SCHEMA)]
OneLine = Annotated[str, BeforeValidator(_one_line), Field(max_length=200)]
RequirementValue = Annotated[
    Any, PlainValidator(_requirement), WithJsonSchema({"type": ["boolean", "string"], "maxLength": MAX_LEVEL_CHARS})
]
Prose = Annotated[str, BeforeValidator(_prose), Field(max_length=10_000)]
Replicates = Annotated[int, Field(ge=1, le=10_000, description="Number of blocks; each holds every treatment once.")]

MaxReplicates = Annotated[
    int, Field(ge=10, le=10_000, description="Maximum number of blocks; sequential stopping only.")
]


class StrictTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


T = TypeVar("T", bound=StrictTable)


class StudyTable(StrictTable):
    """The name, title and scenario of the study."""

    name: str = Field(pattern=f"^{NAME_PATTERN}$", max_length=64, description="Names the campaign's directory.")
    title: OneLine = Field(default="", description="One line, shown above the results.")
    description: Prose = Field(default="", description="The question that the study answers.")
    scenario: OneLine = Field(description="The procedure of a trial.")
    metrics: list[OneLine] = Field(
        default_factory=list, min_length=1, description="Metrics to report. Default: all metrics of the scenario."
    )


class DesignTable(StrictTable):
    """The replicates, the order and the baseline of the treatments."""

    replicates: Replicates = 5
    seed: int = Field(
        default=1, ge=0, le=MAX_INTEGER, description="Seeds the order of the treatments within each block."
    )
    order: Literal["randomised-blocks"] = "randomised-blocks"
    confidence: float = Field(
        default=0.95, ge=0.5, le=0.9999, description="Confidence level of every interval in the results."
    )
    baseline: dict[str, LevelValue] = Field(default_factory=dict, description="Levels against which ratios are taken.")
    stopping: Literal["fixed", "sequential", "decided"] = Field(
        default="fixed",
        description="`sequential`: after 10 or `replicates` blocks, add more until `precision` or `max_replicates`."
        " `decided`: end when the service levels are decided, after `replicates` blocks at most.",
    )
    allocation: Literal["equal", "adaptive"] = Field(
        default="equal",
        description="`adaptive`: as `decided`, and later blocks have only the candidates that are still in question.",
    )
    fraction: Literal["1", "1/2", "1/4", "1/8"] = Field(
        default="1",
        description="How many of the combinations of factors with two levels are treatments; others are left out.",
    )
    precision: float = Field(
        default=0.05,
        ge=0.001,
        le=1,
        description="Sequential stopping only: desired half width of intervals, relative to the ratio; 0.05 is 5 %.",
    )
    max_replicates: MaxReplicates = 40
    precise_metrics: list[OneLine] = Field(
        default_factory=list,
        min_length=1,
        description="Sequential stopping only: the metrics that must be precise. Default: those of the study.",
    )


class FunctionTable(StrictTable):
    """A network function of your own: a root filesystem, and the command that runs on it in an instance."""

    directory: OneLine = Field(default="", description="The root filesystem, relative to the study file.")
    image: OneLine = Field(
        default="", description="An OCI image instead, as Podman reads it: docker-archive:FILE, oci:DIRECTORY …"
    )
    command: list[Prose] = Field(
        default_factory=list, min_length=1, description="Runs as long as a trial. Default: that of the image."
    )
    ready: list[Prose] = Field(
        default_factory=list, min_length=1, description="Repeated until it succeeds; then the function is ready."
    )
    ready_s: float = Field(default=10.0, gt=0, le=600, description="Time limit until `ready` succeeds.")
    environment: dict[str, Prose] = Field(
        default_factory=dict, description="Variables of the command, besides those of the image and of Lastro."
    )
    forwarding: Literal["kernel", "function"] = Field(
        default="kernel",
        description="What moves packets between the ports: the instance's kernel, or the function itself.",
    )

    repository: OneLine = Field(
        default="", description="A Git repository, relative to the study file, in a checkout of which the files are."
    )
    revision: OneLine = Field(default="HEAD", description="The revision of the repository that is built.")
    build: list[Prose] = Field(
        default_factory=list, min_length=1, description="A command that makes the files at the top of the checkout."
    )


class ExcludeTable(StrictTable):
    """Treatments that match every entry of `when` are not part of the study."""

    when: dict[str, OneOrMoreLevels] = Field(min_length=1, description="Factor = level, or a list of levels.")
    reason: OneLine = Field(min_length=1, description="Shown where the treatment is missing.")


class ProfileTable(StrictTable):
    """A profile: other replicates and durations for the same study, levels to keep, and treatments to leave out."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, SettingValue] = Field(init=False)

    replicates: Replicates | None = None
    max_replicates: MaxReplicates | None = None
    only: dict[str, OneOrMoreLevels] = Field(default_factory=dict, description="Factor = the levels to keep.")
    exclude: list[ExcludeTable] = Field(default_factory=list, max_length=1000)


class ProfilesTable(StrictTable):
    """Profiles of the study: from a first look to the published effort, and one for a guest that is emulated."""

    quick: ProfileTable = Field(default_factory=ProfileTable)
    standard: ProfileTable = Field(default_factory=ProfileTable)
    paper: ProfileTable = Field(default_factory=ProfileTable)
    published: ProfileTable = Field(default_factory=ProfileTable)
    emulated: ProfileTable = Field(default_factory=ProfileTable)


class VariantTable(StrictTable):
    """What a level of the factor `variant` changes."""

    programs: dict[str, OneLine] = Field(
        default_factory=dict, description="The programs of platforms: platform, or platform.program = absolute path."
    )
    sysctl: dict[str, LevelValue] = Field(
        default_factory=dict, description="Settings of the kernel's network in the instances: 'net.ipv4.…' = value."
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings, parts and options of parts, as in [settings]: name = value."
    )
    release: OneLine = Field(default="", description="The Debian release of the root filesystem, such as trixie.")
    packages: list[OneLine] = Field(
        default_factory=list, min_length=1, description="More Debian packages in the root filesystem."
    )
    rootfs: OneLine = Field(
        default="", description="Another root filesystem: a directory, relative to the study file, or an OCI image."
    )
    git: OneLine = Field(default="", description="The revision of functions with a `repository`.")
    parts: OneLine = Field(default="", description="The revision of the parts in the folders of LASTRO_PARTS.")


class StudyFile(StrictTable):
    """A study: one scenario, its factors and levels, its metrics, its design."""

    study: StudyTable
    factors: dict[str, Levels] = Field(min_length=1, description="What varies: name = [levels].")
    settings: dict[str, SettingValue] = Field(default_factory=dict, description="What is held constant: name = value.")
    variants: dict[str, VariantTable] = Field(
        default_factory=dict, description="What the levels of the factor `variant` change: [variants.NAME]."
    )
    design: DesignTable = DesignTable()
    exclude: list[ExcludeTable] = Field(default_factory=list, max_length=1000)
    sla: dict[str, OneLine] = Field(
        default_factory=dict, description="Service levels, all of which must hold: metric = '>= 2 Gbit/s'."
    )
    cost: dict[str, float] = Field(
        default_factory=dict,
        description="What a candidate costs, if several hold: a sum of metric = weight; also cpu_hour = price.",
    )
    require: dict[str, RequirementValue] = Field(
        default_factory=dict, description="What a candidate must have: property = true, false or '>= 8'."
    )
    wish: dict[str, RequirementValue] = Field(
        default_factory=dict, description="What decides between candidates of like cost: as in [require]."
    )
    margins: dict[str, OneLine] = Field(
        default_factory=dict, description="The change of a metric that matters; a smaller one is none: metric = '5%'."
    )
    functions: dict[str, FunctionTable] = Field(
        default_factory=dict, description="Network functions of your own, by the names that levels have."
    )
    profiles: ProfilesTable = Field(default_factory=ProfilesTable)


_WANTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
_MESSAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: "unknown key",
    "greater_than": lambda ctx: f"must be above {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "literal_error": lambda ctx: f"must be {ctx['expected']}",
    "string_pattern_mismatch": lambda _: "must consist of a-z, 0-9, '.', '_' and '-', and begin with a letter or digit",
    "string_too_short": lambda _: "is empty",
    "string_too_long": lambda ctx: f"must have at most {ctx['max_length']} characters",
    "too_short": lambda ctx: (
        "is empty" if ctx["min_length"] == 1 else f"must have at least {ctx['min_length']} entries"
    ),
    "too_long": lambda ctx: f"must have at most {ctx['max_length']} entries",
}


def read_shape(document: dict[str, Any], problems: Problems, model: type[T]) -> T:
    """Return the document as an instance of the model of its kind of file.

    Raises: StudyError if tables, keys, types or bounds do not match the model."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False)
    # A misspelt key often makes another one missing: name the cause before its consequence.
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        problems.add(detail["loc"], FieldError(_message(detail), _hint(detail, model)))
    problems.raise_if_any()
    raise AssertionError("pydantic rejected the document but reported no error")


def without_unknown_keys(document: dict[str, Any], problems: Problems, model: type[StrictTable]) -> dict[str, Any]:
    """Return the document without its unknown keys, and record a problem for each unknown key.

    This way, an unknown key does not hide later problems, such as names that the scenario does not know. If the
    document has any other error, it is returned unchanged, and nothing is recorded."""
    try:
        model.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False)
        if any(detail["type"] != "extra_forbidden" for detail in details):
            return document
        document = copy.deepcopy(document)
        for detail in details:
            *path, key = detail["loc"]
            table: Any = document
            for step in path:
                table = table[step]
            del table[key]
            problems.add(detail["loc"], FieldError(_message(detail), _hint(detail, model)))
    return document


def _message(detail: ErrorDetails) -> str:
    """Return the message that users see for an error of pydantic."""
    if detail["type"] in _WANTED:
        return f"must be {_WANTED[detail['type']]}, but is {shown(detail['input'])}"
    kind = detail["type"]
    if kind == "too_long" and isinstance(detail["input"], str):  # what pydantic reports behind our own validator
        kind = "string_too_long"
    if kind not in _MESSAGES:
        return detail["msg"]
    message = _MESSAGES[kind](detail.get("ctx", {}))
    return f"{message}, but is {shown(detail['input'])}" if message.startswith("must") else message


def _hint(detail: ErrorDetails, model: type[StrictTable]) -> str | Callable[[], str]:
    """Return the hint for an error of pydantic, such as the nearest known key; empty if there is none."""
    loc = detail["loc"][2:] if detail["loc"][0] == "variants" else detail["loc"]
    is_entry = len(loc) == 2 and loc[0] in ("settings", "factors", "sysctl", "programs")
    if is_entry and isinstance(detail["input"], dict):
        line = _quoted(str(loc[1]), detail["input"])
        return f"TOML reads a name with dots as tables; put it in quotes: {line}"
    if detail["type"] != "extra_forbidden":
        return str(detail.get("ctx", {}).get("hint", ""))  # from a check in this module
    *path, key = detail["loc"]
    for step in path:
        if step in model.model_fields:  # not an index, nor a name in a table of tables
            model = _table_in(model.model_fields[str(step)].annotation) or model
    return partial(did_you_mean, str(key), model.model_fields)


def _quoted(name: str, table: dict[str, Any]) -> str:
    """Return the line that the user probably meant, with the dotted name in quotes: '"platform.nic" = "e1000"'."""
    inner, value = next(iter(table.items()), ("OPTION", "VALUE"))
    name = f"{name}.{inner}"
    if isinstance(value, dict):
        return _quoted(name, value)
    return f'"{name}" = {json.dumps(value, default=str, ensure_ascii=False)[:40]}'


def _table_in(annotation: Any) -> type[StrictTable] | None:
    """Return the table model inside the type of a field (Table, Table | None, list[Table]); None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, StrictTable):
        return annotation
    return next((table for inner in get_args(annotation) if (table := _table_in(inner))), None)

"""The base of all parts, and the check of what a part declares: requirements, options, metrics."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from lastro.requirements import NOTHING, Requirements
from lastro.results.samples import Metric
from lastro.shapes import MisshapenData, from_plain
from lastro.study.model import Level, Setting


def check_declared(cls: type, tuples: Mapping[str, Any], single: Mapping[str, Any]) -> None:
    """Raise TypeError if an attribute that a class declares has a wrong type.

    `tuples` is {attribute that is a tuple: type of its entries}, and `single` is {other attribute: its type}. Inherited
    attributes and properties are not checked."""
    declared = vars(cls)
    for name in tuples.keys() & declared.keys():
        values = declared[name]
        if isinstance(values, property):
            continue
        if not isinstance(values, tuple) or not all(isinstance(entry, tuples[name]) for entry in values):
            raise TypeError(f"{cls.__name__}.{name} must be a tuple of {_type_name(tuples[name])}, and is {values!r}")
        for entry in values:
            if isinstance(entry, Metric | Setting) and (problem := _wrong_field_type(entry)):
                raise TypeError(f"{cls.__name__}.{name}: {entry.name!r}: {problem}")
    for name in single.keys() & declared.keys():
        if not isinstance(declared[name], single[name]):
            raise TypeError(f"{cls.__name__}.{name} must be {_type_name(single[name])}, and is {declared[name]!r}")


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _wrong_field_type(declared: Metric | Setting[Any]) -> str:
    """Return which field of a metric or setting has a wrong type; empty if none has."""
    try:
        if isinstance(declared, Metric):
            from_plain(Metric, asdict(declared))
            return ""
        from_plain(tuple[str, ...], [declared.name, declared.summary, *declared.choices])
        from_plain(bool | int | float | str, declared.default)
        return "" if declared.check is None or callable(declared.check) else "its check cannot be called"
    except (MisshapenData, TypeError) as error:
        return str(error)


class Part(ABC):
    """The base of parts. The base class of each kind of part sets `kind`; each part sets `name` and `summary`.

    A study may set `options` by a level such as `docker:storage=vfs`, or by a factor such as `platform.storage`.
    `chosen` is {option: value}, with the default of each option that the study does not set."""

    kind: str
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    options: ClassVar[tuple[Setting[Any], ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_declared(cls, {"options": Setting, "metrics": Metric}, {"requirements": Requirements})

    def __init__(self, **chosen: Level) -> None:
        self.chosen: dict[str, Level] = {option.name: option.default for option in self.options} | chosen

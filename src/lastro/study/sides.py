"""The pydantic types of claims files for choices of levels, and for stand-ins of levels."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from lastro.study.schema import LevelValue, OneLine, StrictTable


def _list_to_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


AsTuple = BeforeValidator(_list_to_tuple)  # strict models accept no list for a tuple
NonEmptyLine = Annotated[OneLine, Field(min_length=1)]
OneOrMore = Annotated[
    tuple[LevelValue, ...],
    Field(min_length=1),
    BeforeValidator(lambda given: tuple(given) if isinstance(given, list | tuple) else (given,)),
]
Choice = dict[str, OneOrMore]  # {factor: levels}, may be empty; several levels of a factor mean the mean over them
Side = Annotated[Choice, Field(min_length=1)]


class FrozenTable(StrictTable):
    model_config = ConfigDict(frozen=True)


class StandIn(FrozenTable):
    """The levels that replace published levels of which a campaign has no valid trial.

    `levels` is {factor: {published level: levels in its place}}. `metric` is the metric to use instead of the published
    metric; empty to use the published metric."""

    levels: Annotated[dict[str, dict[str, OneOrMore]], Field(min_length=1)]
    metric: OneLine = ""


StandIns = Annotated[
    tuple[StandIn, ...],
    BeforeValidator(lambda tables: (tables,) if isinstance(tables, dict) else _list_to_tuple(tables)),
]

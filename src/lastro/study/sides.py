"""Choices of levels, to which claims and tables refer, and stand-ins for levels that a host lacks."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from lastro.study.schema import ALevel, OneLine, StrictTable


def _several(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _one_or_more(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Listed = BeforeValidator(_several)
Some = Annotated[OneLine, Field(min_length=1)]
OneOrMore = Annotated[tuple[ALevel, ...], Field(min_length=1), BeforeValidator(_one_or_more)]
Choice = dict[str, OneOrMore]  # maybe empty; more than one level of a factor means the mean over them
Side = Annotated[Choice, Field(min_length=1)]


class FrozenTable(StrictTable):
    model_config = ConfigDict(frozen=True)


class StandIn(FrozenTable):
    """What is measured in place of published levels of which a campaign has no valid trial.

    `levels` maps each published level of a factor to those in its place, by `metric` if that is another one."""

    levels: Annotated[dict[str, dict[str, OneOrMore]], Field(min_length=1)]
    metric: OneLine = ""


StandIns = Annotated[
    tuple[StandIn, ...], BeforeValidator(lambda tables: (tables,) if isinstance(tables, dict) else _several(tables))
]

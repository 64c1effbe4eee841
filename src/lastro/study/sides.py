"""Choices of levels, to which claims and tables refer, and stand-ins for levels that a host lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lastro.study.model import Level

Levels = Mapping[str, tuple[Level, ...]]  # {factor: levels}; more than one level means the mean over them


@dataclass(frozen=True, slots=True)
class StandIn:
    """What is measured in place of published levels of which a campaign has no valid trial.

    `levels` maps each published level of a factor to those in its place, by `metric` if that is another one."""

    levels: Mapping[str, Mapping[Level, tuple[Level, ...]]]
    metric: str = ""

    @classmethod
    def of(cls, levels: Mapping[str, Mapping[str, Sequence[Level]]], metric: str) -> StandIn:
        own: dict[str, dict[Level, tuple[Level, ...]]] = {
            name: {level: tuple(others) for level, others in each.items()} for name, each in levels.items()
        }
        return cls(own, metric)

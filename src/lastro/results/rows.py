"""What a campaign's database says of treatments, trials and their attempts, a row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lastro.results.columns import State
from lastro.results.noted import Noted
from lastro.study.design import Treatment


@dataclass(frozen=True, slots=True)
class TrialRow:
    number: int
    block: int
    treatment: int
    state: State
    attempts: int


@dataclass(frozen=True, slots=True)
class TreatmentRow:
    treatment: Treatment
    unavailable: str | None
    remedy: str | None


@dataclass(frozen=True, slots=True)
class Runner:
    """The process that runs a campaign now, and since when (UTC)."""

    pid: int
    since_utc: str


@dataclass(frozen=True)
class Attempt:
    """One execution of a trial. `measurements` maps metric names to values; invalid attempts have them too."""

    trial: int
    block: int
    treatment: int
    attempt: int
    started_utc: str
    duration_s: float
    valid: bool
    reasons: tuple[str, ...]
    notes: dict[str, Any]
    measurements: dict[str, float]

    @cached_property
    def noted(self) -> Noted:
        """The notes that programs read."""
        return Noted.of(self.notes)

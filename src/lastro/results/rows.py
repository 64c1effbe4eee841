"""The rows of a campaign's database as objects: treatments, trials, attempts, testbeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from lastro.results.provenance import Provenance
from lastro.results.trial_notes import TrialNotes
from lastro.study.design import Treatment

State = Literal["pending", "running", "valid", "invalid", "unavailable"]
STATES: tuple[State, ...] = get_args(State)


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
class TestbedRow:
    """A testbed of a fleet. `unavailable` has {treatment: (reason, remedy)} for treatments that cannot run there."""

    __test__: ClassVar[bool] = False  # its name looks like a test's to pytest

    name: str
    provenance: Provenance
    unavailable: dict[int, tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """The testbed on which a block ran, from a certain attempt on.

    It applies to the attempts at trials of the block whose id in the database is above `after`, until the next
    BlockPlace of this block, if any."""

    block: int
    after: int
    testbed: str


@dataclass(frozen=True, slots=True)
class Runner:
    """The process that runs a campaign now, and since when (UTC)."""

    pid: int
    since_utc: str


@dataclass(frozen=True)
class Attempt:
    """One execution of a trial."""

    trial: int  # from 1; `block` and `attempt` alike
    block: int
    treatment: int  # from 0
    attempt: int
    started_utc: str
    duration_s: float
    valid: bool
    reasons: tuple[str, ...]
    notes: dict[str, Any]
    measurements: dict[str, float]  # {metric: value}; invalid attempts may have them, too
    testbed: str = ""  # empty unless the campaign has a fleet

    @cached_property
    def typed_notes(self) -> TrialNotes:
        """The notes on which programs rely, with checked types."""
        return TrialNotes.of(self.notes)

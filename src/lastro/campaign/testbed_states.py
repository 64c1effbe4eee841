"""The testbeds of a fleet in one run: the state of each, and the machines that it uses."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

from lastro.campaign.runner import Steps, TrialRunner
from lastro.errors import HostBusy, HostError, HostUnfit, LastroError
from lastro.host import facts
from lastro.results.rows import TestbedRow

Phase = Literal["lost", "opening", "idle", "working", "out"]


@dataclass
class TestbedState:
    """The state of a testbed in this run: its phase, its block, and the remaining steps of its current work."""

    name: str
    phase: Phase = "lost"
    runner: TrialRunner | None = None
    block: int | None = None
    steps: Steps[None] | None = None
    error: LastroError = field(default_factory=lambda: LastroError(""))
    opened_s: float = 0.0  # when it was last opened
    lost_s: float = field(default_factory=time.monotonic)
    again_s: float = 0.0
    was_open: bool = False  # in this run
    losses: int = 0  # since it finished a trial
    loss_reported: bool = False  # and its return was not

    @property
    def reason(self) -> str:
        return self.error.message


def no_testbed_error(states: Collection[TestbedState]) -> LastroError:
    """Return the error for a campaign without a usable testbed: HostBusy if all are in use, else HostError."""
    kind = HostBusy if all(isinstance(state.error, HostBusy) for state in states) else HostError
    hint = "; ".join(dict.fromkeys(state.error.hint for state in states if state.error.hint))
    text = "; ".join(f"{state.name}: {state.reason}" for state in sorted(states, key=lambda state: state.name))
    return kind(f"no testbed of the fleet can be used: {text}", hint or "`lastro resume` continues the campaign")


class Machines:
    """The testbed that uses each machine, to detect two testbeds with the same machine under different names.

    A testbed of an old campaign, whose provenance has no chapter `machines`, has no machines here."""

    def __init__(self, rows: Iterable[TestbedRow] = ()) -> None:
        self._testbeds: dict[str, str] = {}
        for row in rows:
            self.take(row.name, row.provenance.machines)

    def take(self, testbed: str, machines: Iterable[str]) -> None:
        self._testbeds.update(dict.fromkeys(machines, testbed))

    def refusal(self, testbed: str, machines: Iterable[str]) -> HostUnfit | None:
        """Return the error if one of the `machines` of `testbed` is used by another testbed; None if none is."""
        users = (self._testbeds.get(machine, testbed) for machine in machines)
        other = next((user for user in users if user != testbed), None)
        return None if other is None else facts.same_host(other)

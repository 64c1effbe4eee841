"""Run a campaign on several testbeds; all trials of a block are measured on one testbed.

A testbed takes a block, runs its trials one after the other, and then takes the next block. Each trial begins only
after the result of the trial before is in the database, which only this process writes.

A testbed is lost when its session cannot continue, because its host or the link to it is down. Its running trial
becomes pending again, its finished trials stay valid, and this process tries repeatedly to open the testbed again. Its
block is reserved for it while idle testbeds find other blocks to take, and at least for `GRACE_S`. Then an idle testbed
that can be reached runs the block again, from its first trial.

When a campaign starts, a testbed that its user must repair is left out. Later, the same error may be temporary: a host
that reboots refuses a key for a while."""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lastro.campaign.executor import Call, ReachCall, utc_now
from lastro.campaign.runner import Observer, RunningCampaign, Steps, TrialRunner, require_any
from lastro.campaign.testbed_states import Machines, TestbedState, no_testbed_error
from lastro.campaign.testbed_worker import OpenedTestbed, WorkerEvent, WorkerFailure
from lastro.campaign.worker_pool import WorkerPool
from lastro.errors import HostBusy, HostError, HostUnfit, LastroError, Unavailable
from lastro.results.provenance import Provenance
from lastro.results.rows import TestbedRow
from lastro.results.segments import change_texts
from lastro.results.store import Store
from lastro.scenarios.base import Scenario

GRACE_S = 120.0  # for a lost testbed to come back to its block, although another one is idle
PATIENCE_S = 600.0  # with no testbed at all, or none that finishes a trial
WORKERS_S = 60.0  # for a scheduler to have a worker
BUSY_S = 60.0  # for the workers of a killed campaign to leave their testbeds
BOOT_S = 120.0  # for testbeds that lost power with the campaign to come back
_AGAIN_S = (2.0, 30.0)  # between two attempts to open a lost testbed: at first, and at most
_MOST_DOUBLINGS = 8
_LASTING = HostUnfit, Unavailable  # errors that last until the user repairs the testbed
_TICK_S = 1.0

Changes = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Sequence[str]]]


class FleetObserver(Observer, Protocol):
    """A receiver of the progress of a campaign on several testbeds."""

    def said(self, testbed: str, line: str) -> None: ...


class Fleet:
    """Runs the remaining trials of a campaign on a pool of testbeds.

    `changes` returns the differences between the earlier and the present provenance of a testbed. A testbed with any
    difference is left out unless `changed_host`. At the start, opening a testbed that is in use is retried for `busy_s`
    seconds, and if no testbed can be reached, all are retried for `boot_s` seconds. When a testbed is opened for the
    first time, a trial of a killed process may still be ending on it, which takes at most `trial_s` seconds."""

    def __init__(
        self,
        pool: WorkerPool,
        *,
        changes: Changes,
        changed_host: bool = False,
        busy_s: float = 0.0,
        boot_s: float = 0.0,
        trial_s: float = 0.0,
    ) -> None:
        self.pool, self._changes, self._changed_host = pool, changes, changed_host
        self._busy_s, self._boot_s, self._trial_s = busy_s, boot_s, trial_s
        self._states: dict[str, TestbedState] = {}
        self._opened: dict[str, OpenedTestbed] = {}
        self._began_s = self._alive_s = time.monotonic()
        self._counted = False  # the trials that can run

    def wait_for_first(self, said: Callable[[str, str], None]) -> Mapping[str, OpenedTestbed]:
        """Start to open every testbed, wait until one is open, and return {name: open testbed}.

        `said` receives (name, message) for messages of testbeds. Raises: HostError when none can be opened; HostBusy
        when all are in use; any other error, which is not about a host."""
        failed, is_reported = set[str](), False
        while not self._opened:
            self._open_due()
            if not self._states and time.monotonic() - self._began_s > WORKERS_S:
                hint = "start them on the hosts to measure on"
                raise HostError("the scheduler of the fleet has no workers that answer", hint)
            if (received := self._answer()) is None:
                continue
            testbed, answer = received
            match answer:
                case WorkerEvent("said", (line,)):
                    said(testbed, line)
                case OpenedTestbed():
                    self._opened[testbed] = answer
                case WorkerFailure():
                    failed.add(testbed)
                    self._note_failure(self._states[testbed], answer.error())
            if self._states.keys() <= failed and not any(map(self._may_end, self._states.values())):
                lost = [state for state in self._states.values() if state.phase != "out"]
                booting = [state for state in lost if time.monotonic() - state.lost_s < self._boot_s]
                if not booting:
                    raise no_testbed_error(self._states.values())
                if not is_reported:
                    for state in booting:
                        said(state.name, f"cannot be used: {state.reason}; it is tried again for {self._boot_s:g} s")
                is_reported = True
        return self._opened

    def run(self, store: Store, kind: type[Scenario], observer: FleetObserver) -> None:
        """Run the trials that have not run yet. Call `wait_for_first` before.

        Raises: HostError when no testbed is left; StoreError when a result cannot be written."""
        self.store, self.observer = store, observer
        self.campaign = RunningCampaign(store, kind, observer)
        self._testbed_of_block = {place.block: place.testbed for place in store.places()}
        measured = set(self._testbed_of_block.values())
        self._machines = Machines(row for row in store.testbeds() if row.name in measured)
        self._find_blocks()
        for testbed, opened in self._opened.items():
            self._enter(self._states[testbed], opened)
        for state in self._states.values():
            if state.losses and state.name not in self._opened:
                self._leave_out_or_report(state, "cannot be used")
        while True:
            self._open_due()
            self._assign()
            if not (self._begun or self._unplaced or any(state.phase == "working" for state in self._states.values())):
                self.campaign.runners = sum(state.phase == "idle" for state in self._states.values())
                if not self.campaign.add_next_blocks():
                    return
                self._find_blocks()
                continue
            self._require_some()
            self._take_answer()

    # Blocks

    def _find_blocks(self) -> None:
        """Read the unfinished blocks from the database, and sort them by whether they are assigned to a testbed."""
        blocks = self.store.open_blocks()
        self._begun = {block for block in blocks if block in self._testbed_of_block}
        self._unplaced = deque(block for block in blocks if block not in self._testbed_of_block)

    def _take_over(self, state: TestbedState) -> Steps[None]:
        """Run a block of a lost testbed again on the testbed of `state`.

        This happens only if the hosts of the new testbed can be reached, and the old one is still lost after this
        check."""
        yield ReachCall()
        if (block := self._abandoned(state)) is not None:
            self._place(block, state)
            state.block = block
            yield from self._trials(state, block)

    def _place(self, block: int, state: TestbedState) -> None:
        before = self._testbed_of_block.get(block)
        aside = self.store.place(block, state.name)
        self._testbed_of_block[block] = state.name
        self._begun.add(block)
        if before is not None:
            again = "; its earlier trials are set aside" if aside else ""
            self.store.log(utc_now(), "moved", f"block {block} from {before} to {state.name}{again}")
            self.observer.said(state.name, f"takes block {block} from {before}{again}")
            self.observer.probed(self.campaign.runnable_trials())

    def _waiting(self) -> list[int]:
        """Return the numbers of the blocks that are begun but unfinished, and on which no testbed works now, sorted."""
        return sorted(self._begun - {state.block for state in self._states.values() if state.phase == "working"})

    def _abandoned(self, taker: TestbedState) -> int | None:
        """Return a block that the testbed `taker` may take from another testbed; None if there is none."""
        now_s = time.monotonic()
        return next((block for block in self._waiting() if now_s >= self._reserved_until_s(block, taker)), None)

    def _reserved_until_s(self, block: int, taker: TestbedState) -> float:
        """Return the monotonic time until which a block is reserved for its testbed; then `taker` may take it.

        The time is infinite while the testbed is open, and 0 if the testbed is left out, or is missing in a pool that
        does not grow. A lost testbed has `GRACE_S` after its loss. If `taker` was opened later, the testbed has
        `GRACE_S` from then on, since several testbeds may come back one after the other from the same outage. `trial_s`
        is added if another process may still use the testbed."""
        owner = self._states.get(self._testbed_of_block[block])
        if owner is None:
            return taker.opened_s + GRACE_S if self.pool.grows else 0.0
        if owner.phase == "out":
            return 0.0
        if owner.phase not in ("lost", "opening"):
            return math.inf
        other_process_s = self._trial_s if owner.phase == "opening" and not owner.was_open else 0.0
        return max(owner.lost_s, taker.opened_s) + GRACE_S + other_process_s

    def _assign(self) -> None:
        for state in self._states.values():
            if state.phase != "idle":
                continue
            # A block that the testbed has begun, or else one that is assigned to no testbed.
            block = next((block for block in self._waiting() if self._testbed_of_block[block] == state.name), None)
            if block is None and self._unplaced:
                block = self._unplaced.popleft()
                self._place(block, state)
            if block is not None:
                steps = self._trials(state, block)
            elif self._abandoned(state) is not None:
                steps = self._take_over(state)
            else:
                continue
            state.phase, state.block, state.steps = "working", block, steps
            self._advance(state, None)
        self.campaign.runners = sum(state.phase == "working" for state in self._states.values())

    def _trials(self, state: TestbedState, block: int) -> Steps[None]:
        assert state.runner is not None
        while (trial := self.store.next_trial(block)) is not None:
            yield from state.runner.run_trial(trial)
            state.losses = 0
        self._begun.discard(block)

    # Testbeds

    def _open_due(self) -> None:
        """Open testbeds that are new, and lost testbeds that are due to be tried again."""
        for name in self.pool.names():
            if (state := self._states.get(name)) is None:
                state = self._states[name] = TestbedState(name)
            if state.phase == "lost" and time.monotonic() >= state.again_s:
                state.phase = "opening"
                self.pool.open(name)

    def _enter(self, state: TestbedState, opened: OpenedTestbed) -> None:
        """Begin to use a testbed that was opened.

        Leave it out if its host has changed, or if another testbed of this campaign uses one of its machines."""
        state.was_open, state.opened_s = True, time.monotonic()
        machines = opened.provenance.get("machines", ())
        if (refusal := self._machines.refusal(state.name, machines)) is not None:
            self._leave_out(state, refusal)
            return
        before = next((row for row in self.store.testbeds() if row.name == state.name), None)
        changes = self._changes(before.provenance.chapters, opened.provenance) if before else {}
        if changes and not self._changed_host:
            hint = "`lastro resume --accept-change` uses it anyway, and begins a new segment"
            self._leave_out(state, HostError(f"it has changed: {'; '.join(change_texts(changes))}", hint))
            return
        if changes:
            self.store.begin_segment(utc_now(), changes, state.name)
        self._machines.take(state.name, machines)
        state.runner = TrialRunner(self.campaign, state.name)
        state.phase = "working"
        state.steps = self._probe(state, opened)
        self._advance(state, None)

    def _probe(self, state: TestbedState, opened: OpenedTestbed) -> Steps[None]:
        assert state.runner is not None
        availability = yield from state.runner.probe()
        gaps = {index: (str(outcome.reason), outcome.remedy) for index, outcome in availability.items() if not outcome}
        before = next((row for row in self.store.testbeds() if row.name == state.name), None)
        self.store.save_testbed(TestbedRow(state.name, Provenance.of(opened.provenance), gaps))
        self._report(state, "is back" if state.loss_reported else "is ready")
        state.loss_reported = False
        if gaps or (before and before.unavailable) or not self._counted:  # this reads all trials: 1 s for a million
            self._find_blocks()
            self.observer.probed(self.campaign.runnable_trials())
            self._counted = True
        require_any(availability)

    def _leave_out(self, state: TestbedState, error: LastroError) -> None:
        state.phase, state.error = "out", error
        self.pool.release(state.name)
        self._report_failure(state, "")

    def _leave_out_or_report(self, state: TestbedState, what: str) -> None:
        """Leave out a testbed if another testbed of this campaign uses its host; otherwise, report its failure.

        `what` is what to report about a testbed that is lost, such as "is lost"."""
        held = [state.error.machine] if isinstance(state.error, HostBusy) else []
        if (refusal := self._machines.refusal(state.name, held)) is None:
            self._report_failure(state, what)
        elif state.phase == "lost":  # if it is being opened again, its answer decides
            self._leave_out(state, refusal)

    def _note_failure(self, state: TestbedState, error: LastroError) -> None:
        """Record that a testbed is lost or left out, and when to try it again.

        Raises: `error` itself, unless it is a HostError or HostBusy."""
        if not isinstance(error, HostError | HostBusy):
            raise error
        if not state.losses:
            state.lost_s = time.monotonic()
        state.losses += 1
        is_lasting = isinstance(error, _LASTING) and not state.was_open
        state.phase = "out" if is_lasting else "lost"
        state.runner = state.steps = None
        state.error = error
        least_s, most_s = _AGAIN_S
        state.again_s = time.monotonic() + min(most_s, least_s * 2 ** min(state.losses - 1, _MOST_DOUBLINGS))

    def _report_failure(self, state: TestbedState, what: str) -> None:
        """Report that a testbed is left out, or that it is lost: `what`, such as "is lost".

        A loss is reported only once until the testbed is back. The report contains the remedy if the error lasts until
        a user repairs the testbed."""
        is_lasting = state.phase == "out" or isinstance(state.error, _LASTING)
        reason = state.reason + (f" (remedy: {state.error.hint})" if is_lasting and state.error.hint else "")
        if state.phase == "out":
            self._report(state, f"is left out: {reason}")
        elif not state.loss_reported and not self._may_end(state):
            state.loss_reported = True
            self._report(state, f"{what}: {reason}")

    def _report(self, state: TestbedState, text: str) -> None:
        self.store.log(utc_now(), "testbed", f"{state.name} {text}")
        self.observer.said(state.name, text)

    def _require_some(self) -> None:
        """Raise HostError or HostBusy if no testbed is left that may still work.

        That is so if all are left out, or if none is open and the last one that worked did so more than `PATIENCE_S`
        ago."""
        now_s, states = time.monotonic(), self._states.values()
        open_ones = [state for state in states if state.phase in ("idle", "working")]
        if any(not state.losses for state in open_ones):
            self._alive_s = now_s
        # A trial may take longer than our patience, and an idle testbed may wait for a block that is kept for another.
        if all(state.phase == "out" for state in states) or (not open_ones and now_s - self._alive_s > PATIENCE_S):
            raise no_testbed_error(states)

    # Answers

    def _answer(self) -> tuple[str, object] | None:
        try:
            return self.pool.answers.get(timeout=_TICK_S)
        except queue.Empty:
            return None

    def _take_answer(self) -> None:
        """Wait for an answer or an event of a testbed, for `_TICK_S` at most, and handle it."""
        if (received := self._answer()) is None:
            return
        testbed, answer = received
        state = self._states[testbed]
        match answer:
            case WorkerEvent("said", (line,)):
                self.observer.said(testbed, line)
            case WorkerEvent(method, values):
                if state.runner is not None:  # a late one of a lost testbed is of no interest
                    getattr(state.runner, method)(*values)
            case OpenedTestbed():
                self._enter(state, answer)
            case WorkerFailure():
                if state.block is not None:
                    self.store.withdraw_running(state.block)
                    state.block = None
                self._note_failure(state, answer.error())
                self._leave_out_or_report(state, "is lost")
            case _:
                self._advance(state, answer)

    def _advance(self, state: TestbedState, answer: object) -> None:
        """Store what follows from the answer of a testbed durably, and then send the testbed its next call, if any.

        `answer` is None at the first call."""
        assert state.steps is not None
        call: Call | None = None
        with self.store.transaction():
            try:
                call = next(state.steps) if answer is None else state.steps.send(answer)
            except StopIteration:
                state.phase, state.block, state.steps = "idle", None, None
            except HostError as error:  # nothing can run there
                state.steps = None
                self._leave_out(state, error)
        if call is not None:
            self.pool.ask(state.name, call)

    def _may_end(self, state: TestbedState) -> bool:
        """Return whether a testbed that is in use may soon be free, since the worker that uses it may be ending.

        That is so for `busy_s` after the first answer that it is in use. The time does not count from the request,
        since a Dask worker ends its running trial before it answers."""
        return isinstance(state.error, HostBusy) and time.monotonic() - state.lost_s < self._busy_s

"""Run a campaign on several testbeds. Blocks are whole: each is measured on one testbed.

A testbed takes a block, runs its trials one after the other, and then takes the next. Its next trial begins only after
the last one is in the database, which this process alone writes.

A testbed is lost when its session cannot go on: its host is down, or the link to it. Its running trial is withdrawn,
finished trials are safe, and it is opened again and again. Its block waits for it while there are other blocks to take,
and for `GRACE_S` more; then an idle testbed that can be reached begins it again, from its first trial.

When a campaign starts, a testbed that needs a repair by its user is left out. Later, the same error may pass: a host
that reboots refuses a key for a while."""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lastro.campaign.crew import Crew
from lastro.campaign.executor import Call, ReachCall, utc_now
from lastro.campaign.posts import Machines, Post, none_left
from lastro.campaign.runner import Campaign, Lane, Observer, Steps, require_any
from lastro.campaign.seat import Failed, Opened, Seen
from lastro.errors import HostBusy, HostError, HostUnfit, LastroError, Unavailable
from lastro.results.rows import TestbedRow
from lastro.results.segments import told
from lastro.results.store import Store
from lastro.scenarios.base import Scenario

GRACE_S = 120.0  # for a lost testbed to come back to its block, although another one is idle
PATIENCE_S = 600.0  # with no testbed at all, or none that finishes a trial
WORKERS_S = 60.0  # for a scheduler to have a worker
BUSY_S = 60.0  # for the seats of a killed campaign to leave their testbeds
BOOT_S = 120.0  # for testbeds that lost power with the campaign to come back
_AGAIN_S = (2.0, 30.0)  # between two attempts to open a lost testbed: at first, and at most
_MOST_DOUBLINGS = 8
_LASTING = HostUnfit, Unavailable  # errors that last until the user repairs the testbed
_TICK_S = 1.0

Changes = Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Sequence[str]]]


class FleetObserver(Observer, Protocol):
    """A receiver of the progress of a campaign on several testbeds."""

    def at(self, testbed: str) -> Observer:
        """Return the observer for the trials of one testbed."""
        ...

    def said(self, testbed: str, line: str) -> None: ...


class Fleet:
    """Runs what remains of a campaign on a crew. `changes` compares the provenance of a testbed with what it was.

    A testbed that has changed is left out unless `changed_host`. At the start, a testbed that is in use is tried again
    for `busy_s`, and when none can be reached, all are tried again for `boot_s`. One that is opened for the first time
    may first end a trial of a killed process, within `trial_s`."""

    def __init__(
        self,
        crew: Crew,
        *,
        changes: Changes,
        changed_host: bool = False,
        busy_s: float = 0.0,
        boot_s: float = 0.0,
        trial_s: float = 0.0,
    ) -> None:
        self.crew, self._changes, self._changed_host = crew, changes, changed_host
        self._busy_s, self._boot_s, self._trial_s = busy_s, boot_s, trial_s
        self._posts: dict[str, Post] = {}
        self._opened: dict[str, Opened] = {}
        self._began_s = self._alive_s = time.monotonic()
        self._counted = False  # the trials that can run

    def wait_for_first(self, said: Callable[[str, str], None]) -> Mapping[str, Opened]:
        """Open every testbed, and wait for the first one.

        Raises: HostError when none can be opened; HostBusy when all are in use; an error that is not of a testbed."""
        failed, told = set[str](), False
        while not self._opened:
            self._open_due()
            if not self._posts and time.monotonic() - self._began_s > WORKERS_S:
                message = "the scheduler of the fleet has no workers that answer"
                raise HostError(message, "start them on the hosts to measure on")
            if (found := self._answer()) is None:
                continue
            testbed, answer = found
            match answer:
                case Seen("said", (line,)):
                    said(testbed, line)
                case Opened():
                    self._opened[testbed] = answer
                case Failed():
                    failed.add(testbed)
                    self._note_failure(self._posts[testbed], answer.error())
            if self._posts.keys() <= failed and not any(map(self._may_end, self._posts.values())):
                away = [post for post in self._posts.values() if self._may_boot(post)]
                if not away:
                    raise none_left(self._posts.values())
                for post in () if told else away:
                    said(post.name, f"cannot be used: {post.reason}; it is tried again for {self._boot_s:g} s")
                told = True
        return self._opened

    def run(self, store: Store, kind: type[Scenario], observer: FleetObserver) -> None:
        """Run what remains. Raises: HostError when no testbed is left; StoreError when a result cannot be written."""
        self.store, self.observer = store, observer
        self.campaign = Campaign(store, kind, observer)
        self._where = {place.block: place.testbed for place in store.places()}
        measured = set(self._where.values())
        self._machines = Machines(row for row in store.testbeds() if row.name in measured)
        self._find_blocks()
        for testbed, opened in self._opened.items():
            self._enter(self._posts[testbed], opened)
        for post in self._posts.values():
            if post.losses and post.name not in self._opened:
                self._leave_out_or_report(post, "cannot be used")
        while True:
            self._open_due()
            self._assign()
            if not (self._begun or self._unplaced or any(post.state == "working" for post in self._posts.values())):
                self.campaign.lanes = sum(post.state == "idle" for post in self._posts.values())
                if not self.campaign.goes_on():
                    return
                self._find_blocks()
                continue
            self._require_some()
            self._take_answer()

    # Blocks

    def _find_blocks(self) -> None:
        """Read from the database which blocks have trials to run: begun on a testbed, or on none yet."""
        found = self.store.open_blocks()
        self._begun = {block for block in found if block in self._where}
        self._unplaced = deque(block for block in found if block not in self._where)

    def _take(self, post: Post) -> int | None:
        """Return the next block of a testbed: its own, or one that is on no testbed."""
        if own := [block for block in self._waiting() if self._where[block] == post.name]:
            return own[0]
        if not self._unplaced:
            return None
        block = self._unplaced.popleft()
        self._place(block, post)
        return block

    def _take_over(self, post: Post) -> Steps[None]:
        """Begin a block of a lost testbed again, if this one can be reached, and the other is still lost then."""
        yield ReachCall()
        if (block := self._abandoned(post)) is not None:
            self._place(block, post)
            post.block = block
            yield from self._trials(post, block)

    def _place(self, block: int, post: Post) -> None:
        before = self._where.get(block)
        aside = self.store.place(block, post.name)
        self._where[block] = post.name
        self._begun.add(block)
        if before is not None:
            again = "; its earlier trials are set aside" if aside else ""
            self.store.log(utc_now(), "moved", f"block {block} from {before} to {post.name}{again}")
            self.observer.said(post.name, f"takes block {block} from {before}{again}")
            self.observer.probed(self.campaign.runnable_trials())

    def _waiting(self) -> list[int]:
        """List the blocks that have begun on a testbed, and on which no testbed works."""
        return sorted(self._begun - {post.block for post in self._posts.values() if post.state == "working"})

    def _abandoned(self, taker: Post) -> int | None:
        """Return a block that a testbed may take from another one."""
        now_s = time.monotonic()
        return next((block for block in self._waiting() if now_s >= self._kept_until_s(block, taker)), None)

    def _kept_until_s(self, block: int, taker: Post) -> float:
        """Return until when a block is kept for its testbed: for ever while it is open, not at all if it is gone.

        Otherwise, for the grace. It begins when the testbed was lost, or later when the other one was opened: of those
        that come back from an outage together, one is the first. A testbed that has not been open in this run, since
        another process uses it, is away as well."""
        owner = self._posts.get(self._where[block])
        if owner is None:
            return taker.opened_s + GRACE_S if self.crew.grows else 0.0
        if owner.state == "out":
            return 0.0
        if owner.state not in ("lost", "opening"):
            return math.inf
        ending_s = self._trial_s if owner.state == "opening" and not owner.was_open else 0.0
        return max(owner.lost_s, taker.opened_s) + GRACE_S + ending_s

    def _assign(self) -> None:
        for post in self._posts.values():
            if post.state != "idle":
                continue
            if (block := self._take(post)) is not None:
                steps = self._trials(post, block)
            elif self._abandoned(post) is not None:
                steps = self._take_over(post)
            else:
                continue
            post.state, post.block, post.steps = "working", block, steps
            self._advance(post, None)
        self.campaign.lanes = sum(post.state == "working" for post in self._posts.values())

    def _trials(self, post: Post, block: int) -> Steps[None]:
        assert post.lane is not None
        while (trial := self.store.next_trial(block)) is not None:
            yield from post.lane.run_trial(trial)
            post.losses = 0
        self._begun.discard(block)

    # Testbeds

    def _open_due(self) -> None:
        """Open testbeds that are new, or lost for some time."""
        for name in self.crew.names():
            if (post := self._posts.get(name)) is None:
                post = self._posts[name] = Post(name)
            if post.state == "lost" and time.monotonic() >= post.again_s:
                post.state = "opening"
                self.crew.open(name)

    def _enter(self, post: Post, opened: Opened) -> None:
        """Take a testbed that is ready, unless it is not the one that it was, or is another one by a second name."""
        post.was_open, post.opened_s = True, time.monotonic()
        machines = opened.provenance.get("machines", ())
        if (refusal := self._machines.refusal(post.name, machines)) is not None:
            self._leave_out(post, refusal)
            return
        before = next((row for row in self.store.testbeds() if row.name == post.name), None)
        changes = self._changes(before.provenance, opened.provenance) if before else {}
        if changes and not self._changed_host:
            hint = "`lastro resume --accept-change` takes it all the same, and begins a new segment"
            self._leave_out(post, HostError(f"it has changed: {'; '.join(told(changes))}", hint))
            return
        if changes:
            self.store.begin_segment(utc_now(), changes, post.name)
        self._machines.take(post.name, machines)
        post.lane = Lane(self.campaign, self.observer.at(post.name), post.name)
        post.state = "working"
        post.steps = self._probe(post, opened)
        self._advance(post, None)

    def _probe(self, post: Post, opened: Opened) -> Steps[None]:
        assert post.lane is not None
        found = yield from post.lane.probe()
        gaps = {index: (str(each.reason), each.remedy) for index, each in found.items() if not each}
        before = next((row for row in self.store.testbeds() if row.name == post.name), None)
        self.store.save_testbed(TestbedRow(post.name, opened.provenance, gaps))
        self._report(post, "is back" if post.missed else "is ready")
        post.missed = False
        if gaps or (before and before.unavailable) or not self._counted:  # all trials are read: 1 s of a million
            self._find_blocks()
            self.observer.probed(self.campaign.runnable_trials())
            self._counted = True
        require_any(found)

    def _leave_out(self, post: Post, error: LastroError) -> None:
        post.state, post.error = "out", error
        self.crew.release(post.name)
        self._report_failure(post, "")

    def _leave_out_or_report(self, post: Post, what: str) -> None:
        """Leave out a testbed whose host another one of this campaign holds, and report any other failure."""
        held = [post.error.machine] if isinstance(post.error, HostBusy) else []
        if (refusal := self._machines.refusal(post.name, held)) is None:
            self._report_failure(post, what)
        elif post.state == "lost":  # or it is just being opened again, and the answer brings it here
            self._leave_out(post, refusal)

    def _note_failure(self, post: Post, error: LastroError) -> None:
        """Note that a testbed is lost, or left out. Raises: the error itself, if it is not of the testbed."""
        if not isinstance(error, HostError | HostBusy):
            raise error
        if not post.losses:
            post.lost_s = time.monotonic()
        post.losses += 1
        lasts = isinstance(error, _LASTING) and not post.was_open
        post.state, post.lane, post.steps, post.error = "out" if lasts else "lost", None, None, error
        least_s, most_s = _AGAIN_S
        post.again_s = time.monotonic() + min(most_s, least_s * 2 ** min(post.losses - 1, _MOST_DOUBLINGS))

    def _report_failure(self, post: Post, what: str) -> None:
        """Report once, until it is back, that a testbed is lost; or that it is left out. Add the remedy of its user."""
        lasts = post.state == "out" or isinstance(post.error, _LASTING)
        reason = post.reason + (f" (remedy: {post.error.hint})" if lasts and post.error.hint else "")
        if post.state == "out":
            self._report(post, f"is left out: {reason}")
        elif not post.missed and not self._may_end(post):
            post.missed = True
            self._report(post, f"{what}: {reason}")

    def _report(self, post: Post, text: str) -> None:
        self.store.log(utc_now(), "testbed", f"{post.name} {text}")
        self.observer.said(post.name, text)

    def _require_some(self) -> None:
        """Raise HostError when no testbed is left, or none has been for too long."""
        now_s, posts = time.monotonic(), self._posts.values()
        if any(post.state in ("idle", "working") and not post.losses for post in posts):
            self._alive_s = now_s
        # A trial may take longer than our patience, and an idle testbed may wait for a block that is kept for another.
        at_work = any(post.state in ("idle", "working") for post in posts)
        if all(post.state == "out" for post in posts) or (now_s - self._alive_s > PATIENCE_S and not at_work):
            raise none_left(self._posts.values())

    # Answers

    def _answer(self) -> tuple[str, object] | None:
        try:
            return self.crew.answers.get(timeout=_TICK_S)
        except queue.Empty:
            return None

    def _take_answer(self) -> None:
        """Wait for an answer, and let its testbed go on."""
        if (found := self._answer()) is None:
            return
        testbed, answer = found
        post = self._posts[testbed]
        match answer:
            case Seen("said", (line,)):
                self.observer.said(testbed, line)
            case Seen(method, values):
                if post.lane is not None:  # a late one of a lost testbed is of no interest
                    getattr(post.lane, method)(*values)
            case Opened():
                self._enter(post, answer)
            case Failed():
                self._fail(post, answer.error())
            case _:
                self._advance(post, answer)

    def _advance(self, post: Post, answer: object) -> None:
        """Store the answer of a testbed, and ask it for the next thing when that is on disk."""
        with self.store.as_one():
            call = self._next_call(post, answer)
        if call is not None:
            self.crew.ask(post.name, call)

    def _next_call(self, post: Post, answer: object) -> Call | None:
        assert post.steps is not None
        try:
            return next(post.steps) if answer is None else post.steps.send(answer)
        except StopIteration:
            post.state, post.block, post.steps = "idle", None, None
        except HostError as error:  # nothing can run there
            post.steps = None
            self._leave_out(post, error)
        return None

    def _fail(self, post: Post, error: LastroError) -> None:
        if post.block is not None:
            self.store.withdraw_running(post.block)
            post.block = None
        self._note_failure(post, error)
        self._leave_out_or_report(post, "is lost")

    def _may_end(self, post: Post) -> bool:
        """Return whether a testbed may be in use by a seat that is about to end.

        The time begins with its first answer: a worker of Dask ends the running trial before it answers."""
        return isinstance(post.error, HostBusy) and time.monotonic() - post.lost_s < self._busy_s

    def _may_boot(self, post: Post) -> bool:
        """Return whether a testbed that cannot be reached may come back soon."""
        return post.state != "out" and time.monotonic() - post.lost_s < self._boot_s

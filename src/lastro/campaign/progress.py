"""Show the progress of a campaign: a bar with the remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lastro.plain import unfiltered
from lastro.results.rows import State, TrialRow
from lastro.results.samples import Outcome
from lastro.study.design import Treatment
from lastro.units import human_duration, significant

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lastro.campaign.runner import Observer

_HEADLINES = 4  # measurements shown with each finished trial


@dataclass(frozen=True, slots=True)
class SuitePosition:
    """The position of a campaign in a suite, so that counts and times can be shown for the whole suite.

    `study` is the name of the campaign's study in the suite. `other_trials` is the number of trials of all other
    studies of the suite, and `other_done` how many of these are done. `later_s` is how many seconds the studies that
    have not begun are expected to take."""

    study: str = ""
    other_trials: int = 0
    other_done: int = 0
    later_s: float = 0.0


Place = Callable[[], SuitePosition]


def without_suite() -> SuitePosition:
    """Return the position of a campaign that is not part of a suite."""
    return SuitePosition()


class PlainProgress:
    """Prints one line for each trial, for a log, a pipe or a CI job.

    `total` and `done` are numbers of trials. `headline` has the (name, unit) of the metrics to show. `place` returns
    the position of the campaign in a suite. It is called again after probing, since the probes also affect the plans
    of other studies of the suite."""

    def __init__(
        self, total: int, done: int, headline: tuple[tuple[str, str], ...], place: Place = without_suite
    ) -> None:
        self.total, self.done, self._headline = total, done, headline[:_HEADLINES]
        self._place, self._position = place, place()
        self._trials: dict[str, str] = {}  # what each testbed of a fleet measures; else one, without a name
        self._waiting: set[str] = set()
        self._remaining = ""
        self._probed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def at(self, testbed: str) -> Observer:
        """Return the observer for the trials of one testbed of a fleet."""
        return _TestbedProgress(self, testbed)

    def said(self, testbed: str, line: str) -> None:
        """Print a line about a testbed."""
        self._say(f"{testbed}: {line}")

    def probing(self, treatment: Treatment, at: str = "") -> None:
        if not self._probed:
            self._say("probing what the testbeds can run …" if at else "probing what this host can run …")
            self._probed = True

    def probed(self, runnable_trials: int) -> None:
        if runnable_trials < self.total:
            self._say(
                f"{self.total - runnable_trials} of {self.total} trials are unavailable here; `lastro results` says why"
            )
        self.total = runnable_trials
        self._position = self._place()

    def extended(self, runnable_trials: int, why: str) -> None:
        """Report that a campaign that grows continues with another block, and why."""
        self._say(f"{why}: {runnable_trials - self.total} more trials")
        self.total = runnable_trials

    def calibrating(self, key: str, at: str = "") -> None:
        self._say(f"{_prefix(at)}calibrating {_plain_key(key)} …")

    def waiting(self, reasons: Sequence[str], left_s: float, at: str = "") -> None:
        """Report that the campaign waits for a quiet host. Further calls during the same wait print nothing."""
        if at not in self._waiting:
            self._say(f"{_prefix(at)}waiting until the host is quiet, {human_duration(left_s)} at most: {reasons[0]}")
        self._waiting.add(at)

    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float, at: str = "") -> None:
        self._waiting.discard(at)
        again = f" (attempt {trial.attempts + 1})" if trial.attempts else ""
        self._trials[at] = f"{self._study}{_prefix(at)}block {trial.block}  {treatment.label}{again}"
        self._remaining = self._left(remaining_s)

    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float, at: str = "") -> None:
        if state != "pending":
            self.done += 1
        done, total = self.overall
        number = "" if trial.number == done else f"trial {trial.number}  "  # as `lastro show` takes it
        what = f"{self._study}{number}{self._trials[at].removeprefix(self._study)}"
        self._say(f"[{done}/{total}] {what}  {self._result(outcome, state)}  {self._left(remaining_s)}")

    @property
    def _study(self) -> str:
        """The name of the study in its suite, as the prefix of a line; empty without a suite."""
        return f"{self._position.study}  " if self._position.study else ""

    @property
    def overall(self) -> tuple[int, int]:
        """(trials done, trials in total) of the campaign, or of the whole suite if it is part of one."""
        return self.done + self._position.other_done, self.total + self._position.other_trials

    def _left(self, remaining_s: float) -> str:
        seconds = remaining_s + self._position.later_s
        return f"{human_duration(seconds)} left" if seconds else "done"

    def _result(self, outcome: Outcome, state: State) -> str:
        if not outcome.valid:
            again = "to be repeated" if state == "pending" else "given up"
            return f"invalid, {again}: {outcome.invalid_because[0]}"
        values = ((name, unit, outcome.measurements.get(name)) for name, unit in self._headline)
        return "  ".join(f"{name} {significant(value)} {unit}" for name, unit, value in values if value is not None)

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class _TestbedProgress:
    """The observer for one testbed of a fleet, which passes each call on with the name of the testbed."""

    def __init__(self, whole: PlainProgress, testbed: str) -> None:
        self._whole, self._at = whole, testbed

    def probing(self, treatment: Treatment) -> None:
        self._whole.probing(treatment, self._at)

    def probed(self, runnable_trials: int) -> None:
        self._whole.probed(runnable_trials)

    def extended(self, runnable_trials: int, why: str) -> None:
        self._whole.extended(runnable_trials, why)

    def calibrating(self, key: str) -> None:
        self._whole.calibrating(key, self._at)

    def waiting(self, reasons: Sequence[str], left_s: float) -> None:
        self._whole.waiting(reasons, left_s, self._at)

    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float) -> None:
        self._whole.started(trial, treatment, remaining_s, self._at)

    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float) -> None:
        self._whole.finished(trial, outcome, state, remaining_s, self._at)


def _prefix(testbed: str) -> str:
    return f"{testbed}: " if testbed else ""


class ProgressBar(PlainProgress):
    """Shows progress on a terminal: a live line, and above it a line for each finished trial, wrapped between words."""

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        from lastro.console import PlainConsole

        console = PlainConsole(file=unfiltered(sys.stderr))
        self._bar_width = max(8, min(24, console.width // 5))
        self._progress: Progress = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=self._bar_width),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=console,
            refresh_per_second=1,  # watching must not disturb what is watched
        )
        done, total = self.overall
        self._task: TaskID = self._progress.add_task("starting", total=total, completed=done, left="")
        self._activities: dict[str, str] = {}
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def said(self, testbed: str, line: str) -> None:
        super().said(testbed, line)
        self._now(line, testbed)

    def calibrating(self, key: str, at: str = "") -> None:
        self._now(f"calibrating {_plain_key(key)}", at)

    def waiting(self, reasons: Sequence[str], left_s: float, at: str = "") -> None:
        self._now(f"waiting for a quiet host (up to {human_duration(left_s)}): {reasons[0]}", at)

    def probing(self, treatment: Treatment, at: str = "") -> None:
        self._now(f"probing {treatment.label}", at)

    def probed(self, runnable_trials: int) -> None:
        super().probed(runnable_trials)
        self._progress.update(self._task, total=self.overall[1])

    def extended(self, runnable_trials: int, why: str) -> None:
        super().extended(runnable_trials, why)
        self._progress.update(self._task, total=self.overall[1])

    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float, at: str = "") -> None:
        super().started(trial, treatment, remaining_s, at)
        self._progress.update(self._task, left=self._remaining)
        self._now(self._trials[at].removeprefix(_prefix(at)), at)

    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float, at: str = "") -> None:
        super().finished(trial, outcome, state, remaining_s, at)
        self._progress.update(self._task, completed=self.overall[0])

    def _now(self, what: str, at: str = "") -> None:
        """Show the activity `what` in the remaining space of the live line.

        `at` is the testbed, if any. The line then shows the activities of all testbeds, the latest first, as far as
        there is space."""
        if at:
            self._activities.pop(at, None)
            self._activities[at] = what
            what = "   ".join(f"{name}: {activity}" for name, activity in reversed(self._activities.items()))
        done, total = self.overall
        used = 2 * len(str(max(done, total))) + 1 + 1 + self._bar_width + 1 + len(self._remaining) + 1
        self._progress.update(self._task, description=_fitted(what, self._progress.console.width - used))

    def _say(self, line: str) -> None:
        lines = textwrap.wrap(line, self._progress.console.width, subsequent_indent="    ", break_long_words=False)
        self._progress.console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _fitted(text: str, room: int) -> str:
    """Shorten a text to the whole words that fit into `room` characters."""
    return text if len(text) <= room else textwrap.shorten(text, max(room, 1), placeholder=" …")


def _plain_key(key: str) -> str:
    """Return a calibration's key without the digest at its end."""
    return re.sub(r"/[0-9a-f]{6}$", "", key)

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

_HEADLINES = 4  # measurements shown with each finished trial


@dataclass(frozen=True, slots=True)
class SuitePosition:
    """The position of a campaign in a suite, so that counts and times can be shown for the whole suite.

    `study` is the name of the campaign's study in the suite. `other_trials` is the number of trials of all other
    studies of the suite, and `other_done` how many of these are done. `later_s` is how many seconds the studies that
    have not begun are expected to take."""

    study: str = ""  # without a suite, as all defaults
    other_trials: int = 0
    other_done: int = 0
    later_s: float = 0.0


Place = Callable[[], SuitePosition]


class PlainProgress:
    """Prints one line for each trial, for a log, a pipe or a CI job.

    `total` and `done` are numbers of trials. `headline` has the (name, unit) of the metrics to show. `place` returns
    the position of the campaign in a suite. It is called again after probing, since the probes also affect the plans
    of other studies of the suite."""

    def __init__(
        self, total: int, done: int, headline: tuple[tuple[str, str], ...], place: Place = SuitePosition
    ) -> None:
        self.total, self.done, self._headline = total, done, headline[:_HEADLINES]
        self._place, self._position = place, place()
        self._trials: dict[str, str] = {}  # what each testbed of a fleet measures; else one, without a name
        self._waiting: set[str] = set()
        self._remaining = ""
        self._probed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def said(self, testbed: str, line: str) -> None:
        """Print a line about a testbed."""
        self._say(f"{testbed}: {line}")

    def probing(self, treatment: Treatment, at: str = "") -> None:
        if not self._probed:
            self._say("probing what the testbeds can run …" if at else "probing what this host can run …")
            self._probed = True

    def probed(self, runnable_trials: int) -> None:
        if n := max(0, self.total - runnable_trials):
            self._say(f"{n} of {self.total} trials are unavailable here; `lastro results` says why")
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
        if outcome.valid:
            values = [(name, unit, outcome.measurements.get(name)) for name, unit in self._headline]
            shown = [f"{name} {significant(value)} {unit}" for name, unit, value in values if value is not None]
            result = "  ".join(shown)
        else:
            again = "to be repeated" if state == "pending" else "given up"
            result = f"invalid, {again}: {outcome.invalid_because[0]}"
        self._say(f"[{done}/{total}] {what}  {result}  {self._left(remaining_s)}")

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

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


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
        used = 2 * len(str(max(self.overall))) + 1 + 1 + self._bar_width + 1 + len(self._remaining) + 1
        room = self._progress.console.width - used
        fitted = what if len(what) <= room else textwrap.shorten(what, max(room, 1), placeholder=" …")
        self._progress.update(self._task, description=fitted)

    def _say(self, line: str) -> None:
        lines = textwrap.wrap(line, self._progress.console.width, subsequent_indent="    ", break_long_words=False)
        self._progress.console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _plain_key(key: str) -> str:
    """Return a calibration's key without the digest at its end."""
    return re.sub(r"/[0-9a-f]{6}$", "", key)

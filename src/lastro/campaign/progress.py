"""How a campaign is going, for a person: a bar with the time to the end on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lastro.results.samples import Outcome
from lastro.results.store import State, TrialRow
from lastro.study.design import Treatment
from lastro.units import human_duration, significant

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_HEADLINES = 2  # measurements shown with each finished trial


class Plain:
    """One line for each trial: for a log, a pipe, a CI job."""

    def __init__(self, total: int, done: int, headline: tuple[tuple[str, str], ...]) -> None:
        self.total, self.done, self._headline = total, done, headline[:_HEADLINES]
        self._trial = ""
        self._probed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def probing(self, treatment: Treatment) -> None:
        if not self._probed:
            self._say("probing what this host can run …")
            self._probed = True

    def probed(self, runnable_trials: int) -> None:
        if runnable_trials < self.total:
            self._say(
                f"{self.total - runnable_trials} of {self.total} trials are unavailable here; `lastro results` says why"
            )
        self.total = runnable_trials

    def extended(self, runnable_trials: int) -> None:
        """A sequential campaign goes on for another block."""
        self._say(f"not precise enough yet: {runnable_trials - self.total} trials more")
        self.total = runnable_trials

    def calibrating(self, key: str) -> None:
        self._say(f"calibrating {_plain_key(key)} …")

    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float) -> None:
        again = f" (attempt {trial.attempts + 1})" if trial.attempts else ""
        self._trial = f"block {trial.block}  {treatment.label}{again}"
        self._remaining = f"{human_duration(remaining_s)} left"

    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float) -> None:
        if state != "pending":
            self.done += 1
        left = f"{human_duration(remaining_s)} left" if remaining_s else "done"
        self._say(f"[{self.done}/{self.total}] {self._trial}  {self._result(outcome, state)}  {left}")

    def _result(self, outcome: Outcome, state: State) -> str:
        if not outcome.valid:
            again = "repeated" if state == "pending" else "given up"
            return f"invalid, {again}: {outcome.invalid_because[0]}"
        values = ((name, unit, outcome.measurements.get(name)) for name, unit in self._headline)
        return "  ".join(f"{name} {significant(value)} {unit}" for name, unit, value in values if value is not None)

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bar(Plain):
    """The same on a terminal: finished trials scroll by above one live line."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            refresh_per_second=1,  # watching must not disturb what is watched
        )
        self._task: TaskID = self._progress.add_task("starting", total=self.total, completed=self.done, left="")
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def calibrating(self, key: str) -> None:
        self._progress.update(self._task, description=f"calibrating {_plain_key(key)}")

    def probing(self, treatment: Treatment) -> None:
        self._progress.update(self._task, description=f"probing {treatment.label}")

    def probed(self, runnable_trials: int) -> None:
        super().probed(runnable_trials)
        self._progress.update(self._task, total=runnable_trials)

    def extended(self, runnable_trials: int) -> None:
        super().extended(runnable_trials)
        self._progress.update(self._task, total=runnable_trials)

    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float) -> None:
        super().started(trial, treatment, remaining_s)
        self._progress.update(self._task, description=self._trial, left=self._remaining)

    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float) -> None:
        super().finished(trial, outcome, state, remaining_s)
        self._progress.update(self._task, completed=self.done)

    def _say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _plain_key(key: str) -> str:
    """A calibration's key without the digest at its end, which only tells it from others."""
    return re.sub(r"/[0-9a-f]{6}$", "", key)

"""The cost of a fleet for its coordinator: a simulation that measures nothing. 64 testbeds answer immediately.

    python benches/fleet.py                 64 x 10,000 trials: about an hour
    python benches/fleet.py 40000           fewer

Each testbed is a process of its own that talks over the pipes of a real worker (`campaign.testbed_worker`), and
answers every call with the same attempt: 10 metrics, a transcript of 30 commands. All else is real: the schedule, the
loop, the database with its syncs to disk. The CPU time is that of the coordinator alone, from the schedule
to the last trial.

Each sixteenth of the trials is a row. Targets: under 1 ms of CPU time a trial; linear, so the last quarter costs at
most a fifth more than the second (the first includes the opening of all testbeds); memory under 500 MB. The last line
is the verdict, and the exit code is 1 if a target is missed."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIALS = 640_000
TESTBEDS = 64
TREATMENTS = 20
ROWS = 16
MOST_CPU_MS, MOST_GROWTH, MOST_MB = 1.0, 1.2, 500.0


def worker() -> None:
    """Answer the calls of a coordinator, without a testbed."""
    from lastro.campaign.executor import AttemptCall, AttemptResult, ProbeCall, ReachCall
    from lastro.campaign.testbed_worker import OpenedTestbed, receive, send
    from lastro.platforms.base import AVAILABLE
    from lastro.results.samples import Outcome

    command = {"kind": "run", "argv": ["ip", "netns", "exec", "lastro-x", "true"], "stdin": None, "stdout": "x" * 80}
    steps = [{**command, "stderr": "", "returncode": 0, "started_s": 1.0 * n, "duration_s": 0.1} for n in range(30)]
    outcome = Outcome({f"metric_{n}": 1.0 + n for n in range(10)}, notes={"usage": {"dut": {"cpu_s": 1.0}}})
    answer = AttemptResult(outcome, "2026-01-01T00:00:00.000+00:00", 1.0, steps)
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        receive(calls)
        send(answers, OpenedTestbed({"host": {"hostname": "simulated", "kernel": "6.1"}}))
        while True:
            match receive(calls):
                case ProbeCall(configs):
                    send(answers, dict.fromkeys(configs, AVAILABLE))
                case ReachCall():
                    send(answers, True)
                case AttemptCall():
                    send(answers, answer)
    except (EOFError, BrokenPipeError):
        return


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the coordinator is, and what it has used since it began."""

    trials: int
    cpu_s: float
    elapsed_s: float
    peak_mb: float


class _Progress:
    """An observer that takes a mark at each sixteenth of the trials, and prints its row."""

    def __init__(self, trials: int) -> None:
        self._every, self._finished = trials // ROWS, 0
        self._cpu_s, self._began_s = time.process_time(), time.monotonic()
        self.marks = [Mark(0, 0.0, 0.0, 0.0)]

    def finished(self, *args: Any) -> None:
        self._finished += 1
        if self._finished % self._every == 0:
            self.mark()

    def mark(self) -> None:
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        cpu_s, elapsed_s = time.process_time() - self._cpu_s, time.monotonic() - self._began_s
        last, now = self.marks[-1], Mark(self._finished, cpu_s, elapsed_s, peak_mb)
        self.marks.append(now)
        elapsed_ms = 1000 * (now.elapsed_s - last.elapsed_s) / (now.trials - last.trials)
        print(f"| {now.trials:,} | {_cpu_ms(last, now):.2f} ms | {elapsed_ms:.2f} ms | {peak_mb:.0f} MB |", flush=True)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


def _cpu_ms(begin: Mark, end: Mark) -> float:
    return 1000 * (end.cpu_s - begin.cpu_s) / (end.trials - begin.trials)


def measure(n_trials: int) -> list[Mark]:
    """Run the campaign, print its rows, and return the marks."""
    from lastro.campaign import testbed_worker as workers
    from lastro.campaign.fleet import Fleet
    from lastro.campaign.worker_pool import LocalWorkerPool
    from lastro.results.store import Store
    from lastro.scenarios.base import Scenario
    from lastro.study import design
    from lastro.study.model import Design, Factor, Study

    class Simulated(Scenario):
        name = "simulated"
        summary = "for this bench"

        @classmethod
        def duration_s(cls, config: Any) -> float:
            return 1.0

    workers.PROGRAM = (__file__, "worker")  # type: ignore[assignment]
    factors = (Factor("a", tuple(range(TREATMENTS))),)
    blocks = max(1, n_trials // (TREATMENTS * ROWS)) * ROWS
    study = Study("bench", "", "", "simulated", factors, {}, (), Design(replicates=blocks, baseline={"a": 0}))
    treatments = design.treatments(study)
    orders = {f"testbed-{n}": workers.TestbedOrder(study, "bench") for n in range(TESTBEDS)}
    progress = _Progress(blocks * TREATMENTS)
    with tempfile.TemporaryDirectory() as directory:
        trials = design.trials(study, len(treatments))
        pool = LocalWorkerPool(orders)
        fleet = Fleet(pool, changes=lambda was, now: [])
        with Store.create(Path(directory) / "c", study, treatments, trials, {}, fleet=True) as store:
            fleet.wait_for_first(print)
            fleet.run(store, Simulated, progress)  # type: ignore[arg-type]
            assert store.counts()["valid"] == blocks * TREATMENTS
        pool.close()
    return progress.marks


def verdict(marks: list[Mark]) -> tuple[bool, str]:
    """Judge the targets: whether all are met, and a line that says each number."""
    quarter = [_cpu_ms(marks[n], marks[n + ROWS // 4]) for n in range(0, ROWS, ROWS // 4)]
    growth, cpu_ms, peak_mb = quarter[-1] / quarter[1], _cpu_ms(marks[0], marks[-1]), marks[-1].peak_mb
    met = cpu_ms < MOST_CPU_MS and growth <= MOST_GROWTH and peak_mb < MOST_MB
    return met, (
        f"{'met' if met else 'MISSED'}: {marks[-1].trials:,} trials at {cpu_ms:.2f} ms of CPU time each (target: under"
        f" {MOST_CPU_MS:g}); the last quarter {growth:.2f} times the second (at most {MOST_GROWTH:g}); {peak_mb:.0f} MB"
        f" (under {MOST_MB:g})"
    )


def main(n_trials: int) -> int:
    print("| trials | CPU time a trial | elapsed a trial | peak memory |\n| ---: | ---: | ---: | ---: |", flush=True)
    met, line = verdict(measure(n_trials))
    print(f"\n{line}")
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS))

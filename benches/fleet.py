"""The cost of a fleet for its coordinator: a simulation that measures nothing. 64 testbeds answer immediately.

Each testbed is a process of its own that talks over the pipes of a real seat (`campaign.seat`), and answers every call
with the same attempt: 10 metrics, a transcript of 30 commands. All else is real: the loop, the database with its syncs
to disk, the observer. Targets: under 1 ms of CPU time a trial in the coordinator, linear, memory under 500 MB.

    python benches/fleet.py 640000    one size"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (10_000, 40_000, 160_000)
TESTBEDS = 64
TREATMENTS = 20


def seat() -> None:
    """Answer the calls of a coordinator, without a testbed."""
    from lastro.campaign.executor import AttemptCall, Attempted, ProbeCall
    from lastro.campaign.seat import Opened, receive, send
    from lastro.platforms.base import AVAILABLE
    from lastro.results.samples import Outcome

    command = {"kind": "run", "argv": ["ip", "netns", "exec", "lastro-x", "true"], "stdin": None, "stdout": "x" * 80}
    steps = [{**command, "stderr": "", "returncode": 0, "started_s": 1.0 * n, "duration_s": 0.1} for n in range(30)]
    outcome = Outcome({f"metric_{n}": 1.0 + n for n in range(10)}, notes={"usage": {"dut": {"cpu_s": 1.0}}})
    answer = Attempted(outcome, "2026-01-01T00:00:00.000+00:00", 1.0, steps)
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        receive(calls)
        send(answers, Opened({"host": {"hostname": "simulated", "kernel": "6.1"}}))
        while True:
            match receive(calls):
                case ProbeCall(configs):
                    send(answers, dict.fromkeys(configs, AVAILABLE))
                case AttemptCall():
                    send(answers, answer)
    except (EOFError, BrokenPipeError):
        return


class _Silent:
    def at(self, testbed: str) -> _Silent:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


def measure(n_trials: int) -> dict[str, float]:
    """In a process of its own, so that its peak memory is its own."""
    done = subprocess.run([sys.executable, __file__, str(n_trials)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def measure_here(n_trials: int) -> dict[str, float]:
    from lastro.campaign import seat as seats
    from lastro.campaign.crew import SeatCrew
    from lastro.campaign.fleet import Fleet
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

    seats.PROGRAM = (__file__, "seat")  # type: ignore[assignment]
    factors = (Factor("a", tuple(range(TREATMENTS))),)
    blocks = n_trials // TREATMENTS
    study = Study("bench", "", "", "simulated", factors, {}, (), Design(replicates=blocks, baseline={"a": 0}))
    treatments = design.treatments(study)
    orders = {f"testbed-{n}": seats.SeatOrder(study, "bench") for n in range(TESTBEDS)}
    with tempfile.TemporaryDirectory() as directory:
        trials = design.trials(study, len(treatments))
        crew = SeatCrew(orders)
        fleet = Fleet(crew, changes=lambda was, now: [])
        with Store.create(Path(directory) / "c", study, treatments, trials, {}, fleet=True) as store:
            fleet.wait_for_first(print)
            cpu_s, began_s = time.process_time(), time.monotonic()
            fleet.run(store, Simulated, _Silent())  # type: ignore[arg-type]
            took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
            assert store.counts()["valid"] == n_trials
        crew.close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_ms": 1000 * cpu_s / n_trials, "wall_ms": 1000 * took_s / n_trials, "peak_mb": peak_mb}


def table() -> list[str]:
    lines = ["| trials | CPU time a trial | elapsed a trial | peak memory |", "| ---: | ---: | ---: | ---: |"]
    for size in SIZES:
        m = measure(size)
        lines.append(f"| {size:,} | {m['cpu_ms']:.2f} ms | {m['wall_ms']:.2f} ms | {m['peak_mb']:.0f} MB |")
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["seat"]:
        seat()
    elif len(sys.argv) > 1:
        print(json.dumps(measure_here(int(sys.argv[1]))))
    else:
        print("\n".join(table()))

"""Planning and journalling large designs. Targets: linear; planning 100,000 trials under 3 s; memory under 300 MB."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (12_500, 25_000, 50_000, 100_000)


def measure(n_trials: int) -> dict[str, float]:
    """In a process of its own, so that its peak memory is its own."""
    done = subprocess.run([sys.executable, __file__, str(n_trials)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def measure_here(n_trials: int) -> dict[str, float]:
    from lastro.results.samples import Outcome
    from lastro.results.store import Store
    from lastro.study import design
    from lastro.study.model import Design, Factor, Study

    levels = tuple(range(n_trials // 1000))
    factors = (Factor("a", levels), Factor("b", tuple(range(100))))
    study = Study("bench", "", "", "chain", factors, {}, (), Design(replicates=10, baseline={"b": 0}))
    with tempfile.TemporaryDirectory() as directory:
        started_s = time.monotonic()
        treatments = design.treatments(study)
        design.baseline_indices(study, treatments)
        store = Store.create(Path(directory) / "c", study, treatments, design.trials(study, len(treatments)), {})
        planned_s = time.monotonic() - started_s
        outcome = Outcome({f"metric_{i}": float(i) for i in range(10)})
        started_s = time.monotonic()
        with store:
            while (trial := store.next_trial()) is not None:
                store.begin(trial.number)
                store.finish(trial.number, outcome, started_utc="", duration_s=1.0, transcript=[])
        journalled_s = time.monotonic() - started_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"planned_s": planned_s, "journalled_s": journalled_s, "peak_mb": peak_mb}


def table() -> list[str]:
    lines = ["| trials | planned in | journalled in | a trial | peak memory |", "| ---: | ---: | ---: | ---: | ---: |"]
    for size in SIZES:
        m = measure(size)
        each_ms = 1000 * m["journalled_s"] / size
        times = f"{m['planned_s']:.2f} s | {m['journalled_s']:.1f} s | {each_ms:.2f} ms"
        lines.append(f"| {size:,} | {times} | {m['peak_mb']:.0f} MB |")
    return lines


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure_here(int(sys.argv[1]))))
    else:
        print("\n".join(table()))

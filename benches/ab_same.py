"""How often `lastro ab` raises an alarm on this host where nothing differs: both variants are the same (root).

    python benches/ab_same.py DIRECTORY            100 runs: about an hour
    python benches/ab_same.py DIRECTORY 20 --only platform=docker
    python benches/ab_same.py DIRECTORY 20 --drift     while a second process takes more and more of a CPU

Each run is the demo's study without neighbour and limits, with five blocks. Its outcome is kept below DIRECTORY, so
that a loop that was stopped goes on. Every alarm and every interval without zero is listed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing import Process
from pathlib import Path

from _harness import kept

PAIR = ["--a", "tcp_s=1", "--b", "tcp_s=1", "--only", "anomaly=none", "--only", "isolation=none"]
BLOCKS = 5
EXITS = (0, 4, 8)  # no worse, worse, undecided
WITHIN_S = 600
DRIFT_S, DRIFT_CPUS, SLICE_S = 40.0, 0.25, 0.05  # the load rises from 0 to less than what makes a trial invalid


def rising_load() -> None:
    """Take a share of a CPU that rises from 0 to `DRIFT_CPUS` within `DRIFT_S`, and stays there until `WITHIN_S`."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < WITHIN_S:
        busy = SLICE_S * DRIFT_CPUS * min(passed / DRIFT_S, 1.0)
        while time.monotonic() - began < passed + busy:
            pass
        time.sleep(SLICE_S - busy)


@contextmanager
def drifting() -> Iterator[None]:
    """Run `rising_load` in a second process beside the block."""
    load = Process(target=rising_load, daemon=True)
    load.start()
    try:
        yield
    finally:
        load.kill()
        load.join()


def outcome(campaign: Path, only: str, *, drift: bool) -> dict[str, object]:
    """Run both variants once more, and return what `lastro ab --json` prints."""
    options = [*PAIR, "--only", only, "--blocks", str(BLOCKS), "--wait", "--json", "--output", str(campaign)]
    command = [sys.executable, "-m", "lastro", "ab", "demo", *options]
    with drifting() if drift else nullcontext():
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    if done.returncode not in EXITS:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def table(outcomes: list[dict[str, object]]) -> list[str]:
    counts = Counter(str(each["outcome"]) for each in outcomes)
    lines = [f"{len(outcomes)} runs: " + ", ".join(f"{count} {name}" for name, count in counts.most_common())]
    for number, each in enumerate(outcomes, start=1):
        (pair,) = each["pairs"]  # type: ignore[misc]
        without_zero = pair["low"] is not None and not pair["low"] <= 0 <= pair["high"]
        if each["alarm_after_block"] is not None or without_zero:
            alarm = "" if each["alarm_after_block"] is None else f"; alarm after block {each['alarm_after_block']}"
            lines.append(f"run {number}: {each['answer']}{alarm}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("runs", type=int, nargs="?", default=100)
    parser.add_argument("--only", default="platform=native")
    parser.add_argument("--drift", action="store_true", help="a second process takes ever more of a CPU in each run")
    given = parser.parse_args()
    directory = given.directory / f"{given.only}{',drift' if given.drift else ''}"
    outcomes = []
    for number in range(1, given.runs + 1):
        file = directory / f"{number}.json"
        outcomes.append(kept(file, lambda campaign: outcome(campaign, given.only, drift=given.drift)))
        print(f"{number}: {outcomes[-1]['answer']}", file=sys.stderr, flush=True)
    print("\n".join(table(outcomes)))


if __name__ == "__main__":
    main()

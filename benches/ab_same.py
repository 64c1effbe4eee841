"""How often `lastro ab` raises an alarm on this host where nothing differs: both variants are the same (root).

    python benches/ab_same.py DIRECTORY            100 runs: about an hour
    python benches/ab_same.py DIRECTORY 20 --only platform=docker

Each run is the demo's study without neighbour and limits, with five blocks. Its outcome is kept below DIRECTORY, so
that a loop that was stopped goes on. Every alarm and every interval without zero is listed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from _harness import kept

PAIR = ["--a", "tcp_s=1", "--b", "tcp_s=1", "--only", "anomaly=none", "--only", "isolation=none"]
BLOCKS = 5
EXITS = (0, 4, 8)  # no worse, worse, undecided
WITHIN_S = 600


def outcome(campaign: Path, only: str) -> dict[str, object]:
    """Run both variants once more, and return what `lastro ab --json` prints."""
    options = [*PAIR, "--only", only, "--blocks", str(BLOCKS), "--wait", "--json", "--output", str(campaign)]
    command = [sys.executable, "-m", "lastro", "ab", "demo", *options]
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
    given = parser.parse_args()
    outcomes = []
    for number in range(1, given.runs + 1):
        file = given.directory / given.only / f"{number}.json"
        outcomes.append(kept(file, lambda campaign: outcome(campaign, given.only)))
        print(f"{number}: {outcomes[-1]['answer']}", file=sys.stderr, flush=True)
    print("\n".join(table(outcomes)))


if __name__ == "__main__":
    main()

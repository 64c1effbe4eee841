"""Real output of the workloads' tools, captured in Lastro's root filesystem, with the options that made it.

A new workload adds its own: two versions or modes of the tool at least."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lastro.study.model import Level

DATA = Path(__file__).parents[1] / "data"

# By instrument: file in tests/data, and the options under which it was printed.
SAMPLES: dict[str, list[tuple[str, Mapping[str, Level]]]] = {
    "sysbench-cpu": [  # 1.0.20
        ("sysbench-cpu-time.txt", {"primes": 2000, "threads": 2, "time_s": 1}),
        ("sysbench-cpu-events.txt", {"primes": 5000, "events": 2000}),
    ],
    "sysbench-memory": [
        ("sysbench-memory-write.txt", {"block": "1K", "total": "1G"}),
        (
            "sysbench-memory-read.txt",
            {"block": "1M", "operation": "read", "access": "rnd", "scope": "local", "threads": 2, "time_s": 1},
        ),
    ],
}


def text_of(name: str) -> str:
    return (DATA / name).read_text(errors="replace")

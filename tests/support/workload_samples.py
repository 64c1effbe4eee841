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
    "sysbench-oltp": [  # on MariaDB 10.11
        ("sysbench-oltp-read-only.txt", {"rows": 20_000, "threads": 2, "time_s": 1}),
        ("sysbench-oltp-read-write.txt", {"mode": "read-write", "rows": 20_000, "events": 500}),
    ],
    "sysbench-memory": [
        ("sysbench-memory-write.txt", {"block": "1K", "total": "1G"}),
        (
            "sysbench-memory-read.txt",
            {"block": "1M", "operation": "read", "access": "rnd", "scope": "local", "threads": 2, "time_s": 1},
        ),
    ],
    "bonnie": [  # 2.00a of Debian 12 and, with an empty column of chunks, of Debian 13: both write format 1.98
        ("bonnie-debian13.csv", {"files": 1, "size": "256M", "seeks": 200}),
        (
            "bonnie-direct.csv",
            {"files": 0, "size": "256M", "seeks": 60_000, "processes": 2, "direct": "yes"},
        ),
        ("bonnie-files.csv", {"files": 25, "size": "0"}),
    ],
    "dbench": [  # 4.00
        ("dbench-debian13.txt", {"clients": 2, "time_s": 2}),
        ("dbench.txt", {"clients": 2, "time_s": 3}),
        ("dbench-synced.txt", {"clients": 6, "time_s": 2, "synced": "yes"}),
    ],
    "fio": [  # 3.33 and 3.39
        ("fio-3.39.json", {"size": "16M", "time_s": 1}),
        ("fio-buffered.json", {"size": "48M", "time_s": 1}),
        ("fio-direct.json", {"size": "32M", "time_s": 1, "threads": 1, "direct": "yes"}),
    ],
    "stream": [
        ("stream-1.txt", {"array": "1M", "repeats": 3}),
        ("stream-500.txt", {"array": "4M", "repeats": 4, "threads": 500}),
    ],
    "pi": [("pi-1.txt", {"digits": 100_000}), ("pi-2.txt", {"digits": 123_456, "threads": 2})],
    "john": [  # 1.9.0
        ("john-bcrypt.txt", {"threads": 2, "time_s": 1}),
        ("john-md5crypt.txt", {"format": "md5crypt", "time_s": 1}),
    ],
    "y-cruncher": [  # not captured here: written after what users published of 0.7 and 0.8
        ("y-cruncher-plain.txt", {"digits": 500_000_000, "threads": 16}),
        ("y-cruncher-colours.txt", {"threads": 16}),
    ],
    "pts": [("pts-one.txt", {}), ("pts-three.txt", {"test": "pts/himeno", "runs": 3})],  # as published, 10.8 and 7.0
    "mbw": [  # 1.2.2
        ("mbw-memcpy.txt", {"array": 8, "runs": 3}),
        ("mbw-mcblock.txt", {"array": 8, "runs": 4, "method": "mcblock", "block": 65_536}),
    ],
}


def text_of(name: str) -> str:
    return (DATA / name).read_text(errors="replace")

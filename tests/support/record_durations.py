"""What campaigns took, as entries of tests/data/durations.json, from the campaigns' own stores.

    python -m tests.support.record_durations DIRECTORY[:LEFT,OUT] ... >> FILE

Each is a campaign that has ended, run on this host. LEFT,OUT are indices of treatments to leave out with what they
took, such as some whose workload was killed. Attempts that had to be repeated are left out, too: a forecast knows of
no disturbance. What came before the first trial is kept apart: a probe that fails may take long, unforeseen."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from lastro.host.processors import local_cache_bytes
from lastro.results.store import Store


def recorded(directory: Path, left_out: Collection[int] = ()) -> dict[str, Any]:
    """The entry of one campaign."""
    with Store.open(directory, readonly=True) as store:
        study, attempts = store.study, store.attempts()
        known = {row.treatment.index for row in store.treatments() if not row.unavailable} - set(left_out)
        times = {kind: datetime.fromisoformat(at) for at, kind, _ in store.events()}
    attempts.sort(key=lambda each: each.started_utc)
    last = {each.trial: each for each in attempts if each.treatment in known}
    kept = sorted(last.values(), key=lambda each: (each.block, each.started_utc))
    others_s = sum(each.duration_s for each in attempts) - sum(each.duration_s for each in kept)
    before = datetime.fromisoformat(attempts[0].started_utc) - times["started"]
    return {
        "name": study.name,
        "study": "".join(f"{line}\n" for line in study.source.splitlines() if line and not line.startswith("#")),
        "profile": study.profile,
        "treatments": sorted(known),
        "cache_bytes": local_cache_bytes(",".join(map(str, sorted(os.sched_getaffinity(0))))),
        "before_first_trial_s": round(before.total_seconds(), 1),
        "started_to_finished_s": round((times["finished"] - times["started"]).total_seconds() - others_s, 1),
        "attempts": [[each.treatment, round(each.duration_s, 2)] for each in kept],
    }


def main() -> None:
    for word in sys.argv[1:]:
        directory, _, left_out = word.partition(":")
        print(json.dumps(recorded(Path(directory), [int(index) for index in left_out.split(",") if index])))


if __name__ == "__main__":
    main()

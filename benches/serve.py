"""CPU time of `lastro serve` with one watcher, while a campaign stores a trial every two seconds.

python benches/serve.py"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from analysis import CHAIN, campaign
from lastro.host.files import stat_fields
from lastro.results.samples import Outcome
from lastro.results.store import Store

_WARM_UP_S, _MEASURED_S, _TRIAL_S = 10.0, 60.0, 2.0
_AGAIN = 50  # trials that are left to run


def rows() -> list[str]:
    """Two campaigns of 180 and of 2,160 trials, and one that nobody runs."""
    found = []
    for replicates, running in ((1, True), (12, True), (12, False)):
        with tempfile.TemporaryDirectory() as folder:
            place = campaign(Path(folder) / "c", CHAIN, replicates)
            percent = _percent(Path(folder), place, running)
        what = f"of {180 * replicates:,} trials, {'one more every 2 s' if running else 'finished'}"
        found.append(f"| `lastro serve` with one watcher of a campaign {what} | {percent:.2f} % of one CPU | < 0.5 % |")
    return found


def _percent(folder: Path, place: Path, running: bool) -> float:
    argv = [sys.executable, "-m", "lastro", "serve", str(folder)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address, _, token = server.stdout.readline().strip().removeprefix("http://").partition("/?token=")
    threading.Thread(target=_watch, args=(address, token), daemon=True).start()
    ends_s = time.monotonic() + _WARM_UP_S + _MEASURED_S
    try:
        if running:
            threading.Thread(target=_run, args=(place, ends_s), daemon=True).start()
        time.sleep(_WARM_UP_S)
        began_s, before_s = time.monotonic(), _cpu_s(server.pid)
        time.sleep(ends_s - began_s)
        return 100 * (_cpu_s(server.pid) - before_s) / (time.monotonic() - began_s)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def _watch(address: str, token: str) -> None:
    """Do what the page's script does: fetch the page after each message."""
    headers = {"Cookie": f"lastro-{address.rpartition(':')[2]}={token}"}
    events = http.client.HTTPConnection(address)
    events.request("GET", "/c/c/events", headers=headers)
    answer = events.getresponse()
    while answer.readline():
        page = http.client.HTTPConnection(address)
        page.request("GET", "/c/c/", headers=headers)
        page.getresponse().read()
        page.close()
        answer.readline()


def _run(place: Path, ends_s: float) -> None:
    with Store.open(place) as store:
        store._db.execute(
            "UPDATE trial SET state = 'pending' WHERE number > (SELECT max(number) FROM trial) - ?", (_AGAIN,)
        )
        while time.monotonic() < ends_s and (trial := store.next_trial()):
            store.begin(trial.number)
            time.sleep(_TRIAL_S)
            outcome = Outcome({metric.name: 1.0 for metric in store.study.metrics})
            store.finish(trial.number, outcome, started_utc="2026-11-28T12:00:00Z", duration_s=_TRIAL_S, transcript=[])


def _cpu_s(pid: int) -> float:
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print("\n".join(rows()))

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from analysis import CHAIN, campaign
from lastro.host.files import stat_fields
from lastro.results.samples import Outcome
from lastro.results.store import Store

_WARM_UP_S, _MEASURED_S, _TRIAL_S = 10.0, 60.0, 2.0
_RETRY_S = 0.5
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
    with served(folder, place.name) as pid:
        ends_s = time.monotonic() + _WARM_UP_S + _MEASURED_S
        if running:
            threading.Thread(target=_run, args=(place, ends_s), daemon=True).start()
        time.sleep(_WARM_UP_S)
        began_s, before_s = time.monotonic(), cpu_s(pid)
        time.sleep(ends_s - began_s)
        return 100 * (cpu_s(pid) - before_s) / (time.monotonic() - began_s)


@contextmanager
def served(folder: Path, name: str) -> Iterator[int]:
    """Run `lastro serve` with a watcher of the campaign `name` in `folder`; yield the server's PID.

    The campaign may begin later. The server has loaded its modules when the block begins."""
    argv = [sys.executable, "-m", "lastro", "serve", str(folder)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address, _, token = server.stdout.readline().strip().removeprefix("http://").partition("/?token=")
        watcher = _Watcher(address, token)
        watcher.read("/")
        threading.Thread(target=watcher.watch, args=(f"/c/{name}/",), daemon=True).start()
        yield server.pid
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


@dataclass(frozen=True, slots=True)
class _Watcher:
    """Does what the page's script does. `address` is HOST:PORT of the server."""

    address: str
    token: str

    def watch(self, page: str) -> None:
        """Fetch a page after each message of its event stream, from when the page exists until the server ends."""
        while (events := self._get(f"{page}events")).status != HTTPStatus.OK:
            time.sleep(_RETRY_S)
        while events.readline():
            self.read(page)
            events.readline()

    def read(self, page: str) -> None:
        self._get(page).read()

    def _get(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.address)
        headers = {"Cookie": f"lastro-{self.address.rpartition(':')[2]}={self.token}", "Connection": "close"}
        connection.request("GET", path, headers=headers)
        return connection.getresponse()


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


def cpu_s(pid: int) -> float:
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print("\n".join(rows()))

"""dbench: clients that repeat the file operations of a file server's client, as listed in the package's loadfile.

Clients warm up for a fifth of the time before the measurement. dbench waits for all of them, but does not notice if one
was killed: the number of clients that cleaned up shows it. The files of a client take about 22 MB. Mendes (2019) used
6, 12, 128 and 256 clients. Source: the code of version 4.00."""

from __future__ import annotations

import re

from lastro.errors import CommandFailed, InstrumentError
from lastro.instruments.base import UNWATCHED, Watch, bounded, positive
from lastro.instruments.disk_workload import NO, YES, DiskWorkload
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

_CLIENT_BYTES = 22_000_000
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?(?:e[+-]?\d{1,2})?)"
_RESULT = re.compile(
    rf"^Throughput {_NUMBER} MB/sec(?: \(sync open\))?(?: \(sync dirs\))?  (\d{{1,6}}) clients  (\d{{1,6}}) procs  "
    rf"max_latency={_NUMBER} ms$",
    re.MULTILINE | re.ASCII,
)
_TICK = re.compile(r"^ *\d{1,6} +\d{1,12} +[\d.]{1,15} MB/sec  execute +(\d{1,6}) sec ", re.MULTILINE | re.ASCII)
_ENDING = re.compile(r"^ *(\d{1,6})  cleanup +\d{1,6} sec$", re.MULTILINE | re.ASCII)
_TROUBLE = re.compile(r"^\[\d{1,12}\] .*$", re.MULTILINE | re.ASCII)
_CLIENTS = Setting("clients", 6, "concurrent clients; published: 6, 12, 128, 256", 1, 4096)
_TIME_S = Setting(
    "time_s", 60, "length of the measurement in whole seconds, after a warm-up of a fifth of it", 2, 86_400
)
_SYNCED = Setting("synced", NO, "every write reaches the disk before the next operation (O_SYNC)", choices=(NO, YES))


class Dbench(DiskWorkload):
    name = "dbench"
    summary = "dbench: the file operations of many concurrent clients of a file server"
    packages = ("dbench",)
    version_argv = ("sh", "-c", "dbench --help | head -n 1")
    options = (_CLIENTS, _TIME_S, _SYNCED)
    short = {"clients": 1, "time_s": 2}
    metrics = (
        Metric("dbench_throughput", "MB/s", "higher", "bytes read and written per second, all clients (dbench)"),
        Metric("dbench_latency_max", "ms", "lower", "longest time of one operation of a client (dbench)"),
    )

    @property
    def file_bytes(self) -> int:
        return _CLIENTS.of(self.chosen) * _CLIENT_BYTES

    @property
    def direct(self) -> bool:
        return False

    def argv(self) -> list[str]:
        time_s, clients = str(_TIME_S.of(self.chosen)), str(_CLIENTS.of(self.chosen))
        synced = ["-s"] if _SYNCED.of(self.chosen) == YES else []
        return ["dbench", "-D", self.place, "-t", time_s, *synced, clients]

    def run(self, instance: Instance, limit_s: float, watch: Watch = UNWATCHED) -> Reading:
        try:
            return super().run(instance, limit_s, watch)
        except CommandFailed as error:
            if "expected to write" in error.stderr:  # write(2) is cut short when the disk is full
                why = "dbench filled the instance's disk"
                raise InstrumentError(why, "give it a larger disk, or fewer clients") from error
            raise

    def read(self, text: str) -> Reading:
        results = _RESULT.findall(text)
        if len(results) != 1:
            raise InstrumentError(f"dbench printed {len(results)} results: …{text[-80:]!r}")
        throughput, clients, processes, latency_ms = results[0]
        asked, time_s = _CLIENTS.of(self.chosen), _TIME_S.of(self.chosen)
        reasons: tuple[str, ...] = ()
        if {int(clients), int(processes)} != {asked}:
            reasons += (f"dbench ran {clients} clients in {processes} processes instead of {asked}",)
        endings = _ENDING.findall(text)
        unfinished = int(endings[-1]) if endings else asked
        if unfinished:
            reasons += (f"{unfinished} of dbench's clients did not finish",)
        last_s = max(map(int, _TICK.findall(text)), default=0)
        if last_s < 0.9 * time_s - 2:
            reasons += (f"dbench measured for {last_s} s instead of {time_s} s",)
        if trouble := _TROUBLE.findall(text):
            reasons += (f"a client of dbench had {len(trouble)} failures: {trouble[0][:120]}",)
        values = {
            "dbench_throughput": positive("dbench's throughput", float(throughput)),
            "dbench_latency_max": positive("dbench's longest time", float(latency_ms)),
        }
        return bounded(self.metrics, Reading(values, invalid_because=reasons))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        starting_s = _CLIENTS.of(self.chosen) * 0.01 * slowdown / cpus
        return 1.2 * _TIME_S.of(self.chosen) + 1 + starting_s

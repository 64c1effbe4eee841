"""A closed load by Apache JMeter, whose clients send the next request when the last one was answered.

Eiras (2018) used version 3.1. JMeter reports times in whole milliseconds. Its own delay between two requests is part of
`request_cycle`, but not of `request_time`. `request_cycle` is the paper's time per request: the total time of a client,
divided by its number of requests. JMeter runs without a GUI, with the heap size of its start script, outside the root
filesystem of the client."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from lastro.errors import CommandFailed, InstrumentError
from lastro.grouping import by_key
from lastro.host.base import Host
from lastro.instruments import _jmeter_plan, http_load
from lastro.instruments.http_load import ClosedLoad, Endpoint, HttpLoad, LoadOrigin, Request
from lastro.requirements import Requirements
from lastro.results.samples import Metric, Reading

VERSION = "5.6.3"
HOME = f"/usr/local/lib/lastro/jmeter-{VERSION}"
_JAR = f"{HOME}/bin/ApacheJMeter.jar"
_HEAP = ("-Xms1g", "-Xmx1g")
_UNUSED_COLUMNS = ("url", "data_type", "thread_counts", "idle_time")  # of the results file
_START_S = 60.0
_MOST_DIGITS = 16
_TIMES = ("timeStamp", "elapsed", "Latency", "Connect")
_COLUMNS = (*_TIMES, "label", "responseCode", "responseMessage", "threadName", "success", "failureMessage")
_LABELS = (_jmeter_plan.WARM_UP, _jmeter_plan.REQUEST, _jmeter_plan.HASHED)
_CLIENT = re.compile(r"(?P<group>.+) \d+-(?P<client>\d+)", re.ASCII)


class Jmeter(HttpLoad):
    name = "jmeter"
    summary = "a closed HTTP load by Apache JMeter: each client sends its next request after the last response"
    start_s = 4.0
    requirements = Requirements(
        packages=("curl", "default-jre-headless"), program=_JAR, recipe="jmeter", remedy="run `lastro setup jmeter`"
    )
    metrics = (
        *http_load.metrics("", "closed loop"),
        Metric("request_cycle", "ms", "lower", "time of a client divided by its requests, mean over the clients"),
    )

    @classmethod
    def require(cls, host: Host) -> str:
        if host.which("java") is None:
            raise host.lacks("Java, which JMeter needs", cls.requirements.install)
        try:
            host.run(["test", "-r", _JAR])
        except CommandFailed as error:
            raise host.lacks(f"JMeter in {HOME}", str(cls.requirements.remedy)) from error
        return f"Apache JMeter {VERSION}"

    def measure(self, origin: LoadOrigin, load: ClosedLoad) -> Reading:
        version = self.require(origin.host)
        if load.requests < 1 or load.clients < max(1, len(load.proxies)):
            asked = f"{load.clients} clients with {load.requests} requests each over {len(load.proxies)} proxies"
            raise InstrumentError(f"{asked}: some would get no requests", "set `clients` to at least `proxies`")
        if reasons := http_load.check(origin, load.page, load.proxies, load.timeout_s):
            return http_load.failed_check_reading(reasons, max(1, len(load.proxies)))
        reading = self.read(self._run(origin, load), load)
        reasons = http_load.check(origin, load.page, load.proxies, load.timeout_s)
        # Two more for each proxy (or the server): the checks before and after.
        per_client = load.warm_up + load.requests
        requests_per_proxy = [clients * per_client + 2 for clients in http_load.clients_per_proxy(load)]
        notes: dict[str, object] = {"version": version, "heap": _HEAP[0][4:]}
        notes |= {"warm_up": load.warm_up, "keep_alive": load.keep_alive}
        notes |= http_load.request_notes(requests_per_proxy)
        notes |= {"command": shlex.join(self.argv(origin.directory))} | reading.notes
        return replace(reading, invalid_because=(*reading.invalid_because, *reasons), notes={"http": notes})

    def argv(self, directory: str) -> list[str]:
        """Return JMeter's command, to run in the client's namespace; `directory` contains the plan `load.jmx`."""
        return [
            "java", *_HEAP, f"-Djava.util.prefs.userRoot={directory}", f"-Djmeter.home={HOME}", "-jar", _JAR,
            "--nongui", "--testfile", f"{directory}/load.jmx", "--logfile", f"{directory}/load.jtl",
            "--jmeterlogfile", f"{directory}/jmeter.log", "-Jjmeterengine.nongui.port=0", "-Jsummariser.name=",
            *(f"-Jjmeter.save.saveservice.{name}=false" for name in _UNUSED_COLUMNS),
        ]  # fmt: skip

    def _run(self, origin: LoadOrigin, load: ClosedLoad) -> str:
        """Run JMeter once, and return its results file."""
        jtl = origin.file("load.jtl")
        origin.host.run(["rm", "-rf", origin.directory])
        origin.host.write_text(origin.file("load.jmx"), _jmeter_plan.test_plan(load))
        argv = self.argv(origin.directory)
        done = origin.measure(argv, timeout_s=_START_S + load.limit_s, check=False)
        done.require_success(argv)
        text = http_load.read_in_pieces(origin.host, jtl)
        if not text:
            raise InstrumentError(f"JMeter wrote no results: {done.text.strip()[-300:]}")
        return text

    def read(self, text: str, load: ClosedLoad) -> Reading:
        """Parse the results file, CSV with a header line. A pure function. Raises: InstrumentError."""
        rows = [_row(row) for row in _table(text)]
        warm_up, measured = [row for row in rows if row.warm_up], [row for row in rows if not row.warm_up]
        clients = _jmeter_plan.clients_by_proxy(load)
        _require_all_requests(warm_up, clients, load.warm_up)
        _require_all_requests(measured, clients, load.requests)
        reading = http_load.read("", [row.sample for row in measured], load.page)
        faults = Counter(row.sample.fault for row in warm_up if row.sample.fault)
        if faults:
            (commonest, _), *_ = faults.most_common(1)
            reason = f"{faults.total()} warm-up requests got no correct response: {commonest[:200]}"
            return replace(reading, measurements={}, series=(), invalid_because=(*reading.invalid_because, reason))
        if reading.invalid_because:
            return reading
        by_client = by_key((row.sample.client, row.sample) for row in measured)
        cycles_ms = []
        for samples in by_client.values():
            ended_ms = max(sample.began_ms + sample.time_ms for sample in samples)
            cycles_ms.append((ended_ms - min(sample.began_ms for sample in samples)) / len(samples))
        by_proxy = by_key((row.group.split()[-1], row.sample.time_ms) for row in measured)
        notes = {
            "connect_mean_ms": fmean(row.connect_ms for row in measured),
            "first_byte_mean_ms": fmean(row.latency_ms for row in measured),
            "by_proxy_ms": {proxy: round(fmean(times_ms), 3) for proxy, times_ms in sorted(by_proxy.items())},
        }
        return replace(reading, measurements={**reading.measurements, "request_cycle": fmean(cycles_ms)}, notes=notes)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the results file. `group` names the thread group, `latency_ms` is the time to the first byte."""

    sample: Request
    group: str
    warm_up: bool
    latency_ms: float
    connect_ms: float


def _table(text: str) -> Iterator[dict[str, str]]:
    if not text.endswith("\n"):
        raise InstrumentError(f"JMeter's results end in the middle of a line: {text[-80:]!r}")
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True, restkey="more", restval=""))
    except csv.Error as error:
        raise InstrumentError(f"JMeter's results are not a table: {error}") from None
    for row in rows:
        if missing := [name for name in _COLUMNS if not isinstance(row.get(name), str)] or "more" in row:
            raise InstrumentError(f"a line of JMeter's results lacks {missing}: {str(row)[:200]}")
        yield row


def _row(row: dict[str, str]) -> _Row:
    thread = _CLIENT.fullmatch(row["threadName"])
    if thread is None or row["label"] not in _LABELS or row["success"] not in ("true", "false"):
        raise InstrumentError(f"a line of JMeter's results is not from the test plan: {str(row)[:200]}")
    fault = ""
    if row["responseCode"] != "200":  # its failure message describes the assertion, over several lines
        if row["success"] == "true":
            raise InstrumentError(f"JMeter calls status {row['responseCode'][:40]!r} a success")
        fault = f"{row['responseCode']} {row['responseMessage']}".replace("Non HTTP response ", "")
    elif row["success"] == "false":
        fault = row["failureMessage"] or "JMeter gives no reason"
    began_ms, time_ms, latency_ms, connect_ms = (_whole_number(name, row[name]) for name in _TIMES)
    if max(latency_ms, connect_ms) > time_ms:
        raise InstrumentError(f"JMeter reports a part that took longer than the whole: {str(row)[:200]}")
    sample = Request(began_ms, time_ms, row["threadName"], fault)
    return _Row(sample, thread["group"], row["label"] == _jmeter_plan.WARM_UP, latency_ms, connect_ms)


def _whole_number(name: str, word: str) -> float:
    if not (word.isascii() and word.isdigit() and len(word) < _MOST_DIGITS):
        raise InstrumentError(f"JMeter's results have an invalid {name}: {word[:40]!r}")
    return float(word)


def _require_all_requests(rows: Sequence[_Row], clients: Sequence[tuple[Endpoint | None, int]], requests: int) -> None:
    """Raise InstrumentError unless `rows` has exactly `requests` requests of each client.

    `clients` has (proxy, number of its clients). The rows are either all of the warm-up, or all measured."""
    counts = Counter((row.group, row.sample.client) for row in rows)
    clients_by_group = Counter(group for group, _ in counts)
    warm_up = bool(rows) and rows[0].warm_up
    expected = {_jmeter_plan.group_name(proxy, warm_up): n for proxy, n in clients} if requests else {}
    if clients_by_group != expected or any(n != requests for n in counts.values()):
        reported = f"JMeter's results have {len(rows)} requests from {len(counts)} clients"
        raise InstrumentError(f"{reported} instead of {requests} from each of {sum(expected.values())}")

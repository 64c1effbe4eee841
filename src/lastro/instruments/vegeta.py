"""An open load by vegeta: requests at a stated rate, sent regardless of responses.

vegeta measures the time from when a request was sent, which hides the delay before sending. Here each time begins when
the request *should* have been sent, by an evenly spaced schedule in which the least late request was on time. So a
pause of the server shows in every request that was due during the pause (coordinated omission: Tene 2013). With several
proxies, one vegeta per proxy sends at an equal fraction of the rate."""

from __future__ import annotations

import base64
import csv
import io
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from lastro.errors import InstrumentError
from lastro.host.base import Host
from lastro.instruments import http_load
from lastro.instruments.http_load import TIMEOUT_S, Endpoint, HttpLoad, LoadOrigin, OpenLoad, Request, RequestedPage
from lastro.requirements import Requirements
from lastro.results.samples import GENERATOR_DELAY, OVERLOADED, Metric, Reading, Remark
from lastro.stats.quantiles import quantile
from lastro.study.model import DAY_S, Level, Setting

RATE_PER_S = Setting("rate_per_s", 100.0, "requests per second of an open loop, which ignores `clients`", 0.1, 1e6)
OPEN_S = Setting("open_s", 10.0, "time for which an open loop sends", 0.1, DAY_S)
PREFIX = "open_"
_RATE = Setting("rate", 0.0, "requests per second; 0: the study's `rate_per_s`", 0, 1e6)
_COLUMNS = 12  # of `vegeta encode --to csv`
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_LENGTH = re.compile(rb"^Content-Length: (\d{1,15})\r$", re.MULTILINE | re.IGNORECASE)
_LEAST_SENT = 0.99
_MOST_LATE = 0.5
_MOST_OWN = 0.1  # of a percentile: largest fraction that may be the generator's delay
_LEAST_ANSWERED, _ALL_BUT_THE_LAST = 0.95, 0.95  # fractions of the rate, and of the requests
_CHECK_EVERY_S = 1
_MARGIN_S = 30.0
_REMEDY = "run `lastro setup vegeta`, which needs a Go toolchain"


class Vegeta(HttpLoad):
    name = "vegeta"
    summary = "an open HTTP load by vegeta: a fixed rate; times count from when each request was due"
    start_s = 0.5
    requirements = Requirements(packages=("curl",), program="vegeta", recipe="vegeta", remedy=_REMEDY)
    options = (_RATE,)
    metrics = (
        *http_load.metrics(PREFIX, "open loop"),
        Metric("open_rate", "1/s", "neither", "requests sent per second, by the times when they were sent"),
        Metric(
            "open_lag", "ms", "lower", "mean delay of a request in the generator itself; part of the request's time"
        ),
    )

    @classmethod
    def require(cls, host: Host) -> str:
        if host.which("vegeta") is None:
            raise host.lacks("vegeta", _REMEDY)
        version = re.search(r"^Version: (\S+)$", host.run(["vegeta", "-version"]).text, re.MULTILINE)
        return f"vegeta {version[1] if version else 'of unknown version'}"

    def load(self, page: RequestedPage, proxies: Sequence[Endpoint], settings: Mapping[str, Level]) -> OpenLoad:
        rate_per_s = _RATE.of(self.chosen) or RATE_PER_S.of(settings)
        return OpenLoad(page, tuple(proxies), rate_per_s, OPEN_S.of(settings), timeout_s=TIMEOUT_S.of(settings))

    @classmethod
    def expected_s(cls, settings: Mapping[str, Level], slowdown: float = 1.0) -> float:
        return cls.start_s + OPEN_S.of(settings)

    def measure(self, origin: LoadOrigin, load: OpenLoad) -> Reading:
        version = self.require(origin.host)
        if not load.rate_per_s * load.duration_s >= max(1, len(load.proxies)):
            raise InstrumentError(f"too few requests: {load.rate_per_s:g} requests/s for {load.duration_s:g} s")
        if reasons := http_load.check(origin, load.page, load.proxies, load.timeout_s):
            return http_load.failed_check_reading(reasons, len(_routes(load)))
        script = self.script(origin.directory, load)
        origin.host.run(["rm", "-rf", origin.directory])
        origin.host.write_text(origin.file("targets"), f"GET {load.page.url}\n")
        limit_s = load.duration_s + 2 * load.timeout_s + _MARGIN_S
        done = origin.measure(["sh"], stdin=script, timeout_s=limit_s, check=False)
        done.require_success(["vegeta", "attack"])
        files = [origin.file(f"{position}.csv") for position in range(len(_routes(load)))]
        reading = self.read([http_load.read_in_pieces(origin.host, file) for file in files], load)
        reasons = http_load.check_reasons(done.text, load.page, _n_checks(load))
        reasons += http_load.check(origin, load.page, load.proxies, load.timeout_s)
        notes = {"version": version, "keep_alive": load.keep_alive, "command": script, **reading.notes}
        return replace(reading, invalid_because=(*reading.invalid_because, *reasons), notes={"http": notes})

    def script(self, directory: str, load: OpenLoad) -> str:
        """Return a shell script that runs vegeta for all proxies at the same time, and checks a body every second.

        At the end, it writes a table of the requests for each proxy: 0.csv, 1.csv and so on in `directory`."""
        routes = _routes(load)
        interval_ns = _interval_ns(load)
        attack = (
            f"vegeta attack -rate=1/{interval_ns}ns -duration={load.duration_s:g}s -timeout={load.timeout_s:g}s "
            f"-keepalive={str(load.keep_alive).lower()} -redirects=-1 -max-body=0 -http2=false "
            "-header='Accept-Encoding: identity' -targets=targets"
        )
        lines = [http_load.CHECK, f"cd {shlex.quote(directory)} || exit", "pids="]
        for position, proxy in enumerate(routes):
            variable = f"http_proxy=http://{proxy} " if proxy else ""
            lines.append(f'{variable}{attack} -output={position}.gob & pids="$pids $!"')
            if position + 1 < len(routes):  # so that they do not send at the same moments
                lines.append(f"sleep {interval_ns / len(routes) / 1e9:.6f}")
        for n in range(_n_checks(load)):
            lines.append(f"sleep {_CHECK_EVERY_S}")
            lines.append(http_load.check_line(load.page, routes[n % len(routes)], load.timeout_s))
        lines.append("for pid in $pids; do wait $pid || exit; done")
        lines += [f"vegeta encode --to csv --output {n}.csv {n}.gob || exit" for n in range(len(routes))]
        return "\n".join([*lines, ""])

    def read(self, tables: Sequence[str], load: OpenLoad) -> Reading:
        """Parse the tables of requests, one for each proxy. A pure function. Raises: InstrumentError."""
        rows_by_proxy = [_rows(table) for table in tables]
        # Times relative to the first request have fewer digits, so a float holds them exactly.
        first_ns = min(_number("time", row[0]) for rows in rows_by_proxy for row in rows)
        by_proxy = [_requests(rows, first_ns, load) for rows in rows_by_proxy]
        sent = [request for requests in by_proxy for request, _ in requests]
        lags_ms = [lag_ms for requests in by_proxy for _, lag_ms in requests]
        reading = http_load.read(PREFIX, sent, load.page)
        checks = _checks_per_proxy(load)
        notes = http_load.request_notes([len(requests) + n for requests, n in zip(by_proxy, checks, strict=True)])
        if reading.invalid_because:
            return replace(reading, notes=notes)
        rate_per_s = len(sent) / load.duration_s
        lag_ms = fmean(lags_ms)
        mean_ms = reading.measurements[f"{PREFIX}request_time"]
        reasons = []
        if len(sent) < _LEAST_SENT * load.rate_per_s * load.duration_s - len(tables):
            asked = f"{load.rate_per_s:g} requests/s"
            reasons.append(f"the generator was the bottleneck: it sent {rate_per_s:.1f} of {asked}")
        if lag_ms > _MOST_LATE * mean_ms:
            delay = f"a request waited in it for {lag_ms:.3f} ms of its {mean_ms:.3f} ms"
            reasons.append(f"the generator was the bottleneck: on average {delay}")
        measured = {**reading.measurements, "open_rate": rate_per_s, "open_lag": lag_ms}
        remarks = list(_generator_remarks(lags_ms, measured))
        for remark in remarks:
            for name in remark.metrics:
                del measured[name]
        times = tuple(name for name in measured if name.startswith(f"{PREFIX}request_time"))
        remarks += _overload_remarks(sent, times)
        reading = replace(reading, remarks=tuple(remarks), invalid_because=tuple(reasons))
        return replace(reading, measurements=measured, notes=notes)


def _routes(load: OpenLoad) -> Sequence[Endpoint | None]:
    """Return the proxies, or a single None, which stands for the direct route to the server."""
    return load.proxies or (None,)


def _interval_ns(load: OpenLoad) -> int:
    """Return the time between two requests through the same proxy, or directly to the server."""
    return round(1e9 * len(_routes(load)) / load.rate_per_s)


def _n_checks(load: OpenLoad) -> int:
    return max(0, int(load.duration_s / _CHECK_EVERY_S) - 1)


def _checks_per_proxy(load: OpenLoad) -> list[int]:
    """Return how often the page is checked through each proxy: once before the load, once after it, and during it.

    The checks during the load use the proxies in turn. Without proxies, the list has one number."""
    n_routes = len(_routes(load))
    return [2 + len(range(position, _n_checks(load), n_routes)) for position in range(n_routes)]


def _generator_remarks(lags_ms: Sequence[float], measured: Mapping[str, float]) -> Iterator[Remark]:
    """Yield a remark on each percentile that contains too much delay of the generator."""
    for name, q in http_load.QUANTILES:
        metric = f"{PREFIX}request_time_{name}"
        if metric in measured and (own_ms := quantile(lags_ms, q)) > _MOST_OWN * measured[metric]:
            text = f"{measured[metric]:.3f} ms; the same percentile of the generator's own delay is {own_ms:.3f} ms"
            yield Remark(GENERATOR_DELAY, text, (metric,))


def _overload_remarks(sent: Sequence[Request], metrics: tuple[str, ...]) -> Iterator[Remark]:
    """Yield a remark on `metrics` if responses came at a lower rate than requests.

    The last few requests do not count, since a single late response would change their rate."""
    due_ms = sorted(request.began_ms for request in sent)
    done_ms = sorted(request.began_ms + request.time_ms for request in sent)
    last = int(_ALL_BUT_THE_LAST * (len(sent) - 1))
    sent_ms, answered_ms = due_ms[last] - due_ms[0], done_ms[last] - done_ms[0]
    if 0 < sent_ms < _LEAST_ANSWERED * answered_ms:
        text = f"responses came at {1000 * last / answered_ms:.1f} per second, requests at {1000 * last / sent_ms:.1f}"
        yield Remark(OVERLOADED, text, metrics)


def _rows(table: str) -> list[list[str]]:
    if not table.endswith("\n"):
        raise InstrumentError(f"vegeta's results end in the middle of a line: {table[-80:]!r}")
    try:
        rows = list(csv.reader(io.StringIO(table, newline=""), strict=True))
    except csv.Error as error:
        raise InstrumentError(f"vegeta's results are not a table: {error}") from None
    if (short := next((row for row in rows if len(row) != _COLUMNS), None)) is not None:
        raise InstrumentError(f"a line of vegeta's results has {len(short)} columns: {str(short)[:200]}")
    return rows


def _requests(rows: Sequence[Sequence[str]], first_ns: int, load: OpenLoad) -> list[tuple[Request, float]]:
    """Return (request from when it was due, ms from then until it was sent) of each row, in the order of sending.

    Requests are due by the schedule in which the least late one was sent on time. Times are relative to `first_ns`.
    Raises: InstrumentError if a request is missing or invalid."""
    interval_ms = _interval_ns(load) / 1e6
    hits = []  # as vegeta calls requests
    for when, status, took, _, _, error, _, _, number, _, url, head in rows:
        if url != load.page.url:
            raise InstrumentError(f"vegeta reports a request for {url[:80]!r}")
        sent_ms, took_ms = (_number("time", when) - first_ns) / 1e6, _number("latency", took) / 1e6
        if took_ms <= 0 or not 0 <= sent_ms < 1000 * (load.duration_s + _MARGIN_S):
            text = f"vegeta reports a request that was sent after {sent_ms:g} ms and took {took_ms:g} ms"
            raise InstrumentError(text)
        hits.append((_number("number", number), sent_ms, took_ms, _fault(status, error, head, load.page.length_bytes)))
    hits.sort()
    if [position for position, *_ in hits] != list(range(len(hits))):
        raise InstrumentError("vegeta's results do not have each request exactly once")
    begin_ms = min(sent_ms - position * interval_ms for position, sent_ms, *_ in hits)
    requests = []
    for position, sent_ms, took_ms, fault in hits:
        lag_ms = sent_ms - position * interval_ms - begin_ms
        requests.append((Request(sent_ms - lag_ms, lag_ms + took_ms, "", fault), lag_ms))
    return requests


def _fault(status: str, error: str, head: str, length_bytes: int) -> str:
    """Return the fault of a response; empty for a correct one. `head` is its header in Base64.

    The length in the header suffices: vegeta reports a shorter body as an error."""
    if error or _number("status", status) != 200:
        return error or f"status {status}"
    try:
        length = _LENGTH.search(base64.b64decode(head, validate=True))
    except ValueError:
        raise InstrumentError(f"vegeta's results have an invalid response header: {head[:80]!r}") from None
    if length is None:
        return "the response has no Content-Length"
    return "" if int(length[1]) == length_bytes else f"{int(length[1])} bytes instead of {length_bytes}"


def _number(name: str, word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise InstrumentError(f"vegeta's results have an invalid {name}: {word[:40]!r}")
    return int(word)

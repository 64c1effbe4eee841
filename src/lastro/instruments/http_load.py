"""The common part of the instruments that load an HTTP server, directly or through proxies.

A scenario writes `tool.measure(LoadOrigin.beside(client), tool.load(page, proxies, settings))`. Without a study's
settings:

    origin = LoadOrigin.beside(client)   # `client` is a `native` instance: the load runs in its network namespace, on
                                         # its CPUs and in its control group, with the host's files and programs
    reading = Jmeter().measure(origin, ClosedLoad(page, proxies, clients=10, requests=1000))
    reading = Vegeta().measure(origin, OpenLoad(page, proxies, rate_per_s=200, duration_s=10))

Here `page` is `RequestedPage.of("http://198.19.2.10/object", body)`, and `proxies` is a tuple of `Endpoint(ip, port)`.
Clients, or the rate, are split evenly over the proxies. Without proxies, requests go directly to the server, which
shows the capacity of the generator.

A reading has the metrics of `Jmeter.metrics` or, with names that begin with `open_`, of `Vegeta.metrics`, and the times
of all measured requests as a series. Its notes have a dictionary `http`. The value `sent` in it is the number of all
requests that reached a proxy or the server, including checks and warm-up; the logs of the servers must have the same
number. One wrong response makes the trial invalid, without any times and rates: a fast error must not look like
speed."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from lastro.errors import InstrumentError
from lastro.host.apparatus import ApparatusWitness
from lastro.host.base import Completed, Host
from lastro.host.ledger import NETNS_DIR
from lastro.instruments.base import bounded
from lastro.platforms.base import Instance
from lastro.results.samples import CLOSED_LOOP, Metric, Reading, Remark, Series
from lastro.stats.quantiles import least_n_for, quantile_if_estimable
from lastro.study.model import DAY_S, Level, Setting
from lastro.study.parts import Part

CLIENTS = Setting("clients", 10, "concurrent clients, evenly spread over the proxies", 1, 4096)
REQUESTS = Setting("requests", 1000, "requests of each client, one after the other", 1, 100_000, by_profile=True)
WARM_UP = Setting("warm_up", 5, "requests of each client before the measured ones", 0, 100_000, by_profile=True)
TIMEOUT_S = Setting("timeout_s", 60.0, "time after which a request has failed", 0.1, DAY_S)
LIMIT_S = Setting("limit_s", 600.0, "time after which the requests are given up", 1, DAY_S)
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999))
CHECK_MARGIN_S = 20.0
_REQUEST_S = 0.002
_PIECE_BYTES = 190_000  # a transcript keeps 200,000 bytes of one command


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address and port of a proxy, as the client sees them."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class RequestedPage:
    """The page to request, and the expected response: the length of the body, and its hashes in hexadecimal."""

    url: str
    length_bytes: int
    sha256: str
    md5: str

    @classmethod
    def of(cls, url: str, body: bytes) -> RequestedPage:
        digests = (hashlib.new(name, body, usedforsecurity=False).hexdigest() for name in ("sha256", "md5"))
        return cls(url, len(body), *digests)


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """A load by `clients` that run at the same time.

    Each client sends its next request when the last one was answered."""

    page: RequestedPage
    proxies: tuple[Endpoint, ...] = ()
    clients: int = 10
    requests: int = 1000  # number of requests that each client sends after its warm-up
    warm_up: int = 20  # requests that each client sends first; not measured, since a Java program is slow at first
    keep_alive: bool = True  # whether a client uses the same connection for all of its requests
    timeout_s: float = 10.0  # to connect, and again for any pause in a response
    limit_s: float = 600.0


def clients_per_proxy(load: ClosedLoad) -> list[int]:
    """Return the number of clients of each proxy, in the order of `load.proxies`, split as evenly as possible.

    Without proxies, the list has only the number of all clients."""
    n_routes = max(1, len(load.proxies))
    least, remainder = divmod(load.clients, n_routes)
    return [least + (position < remainder) for position in range(n_routes)]


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """Requests at `rate_per_s`, evenly spaced, for `duration_s`, regardless of responses."""

    page: RequestedPage
    proxies: tuple[Endpoint, ...] = ()
    rate_per_s: float = 100.0
    duration_s: float = 10.0
    keep_alive: bool = True
    timeout_s: float = 10.0  # from sending a request to the end of its response


@dataclass(frozen=True, slots=True)
class LoadOrigin:
    """Where the programs of a load run: on `host`, in the client's network namespace and cgroup.

    `enter` is the prefix of a command that runs there.
    `directory` is for files of the load.
    `watching` returns a context manager for the command of the load, which counts the activity of Lastro meanwhile."""

    host: Host
    enter: tuple[str, ...]
    directory: str
    watching: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def beside(cls, client: Instance) -> LoadOrigin:
        """Return the origin in the network namespace and cgroup of a client that shares the host's kernel.

        Its programs and files are the host's, not those of the client's root filesystem."""
        testbed = client.testbed
        enter = (*testbed.cgroups.entering(client.cgroup), "nsenter", f"--net={NETNS_DIR / client.netns}")
        witness = ApparatusWitness(testbed.apparatus, testbed.session, testbed.cgroups)
        return cls(testbed.host, enter, str(testbed.scratch_dir / client.spec.name / "load"), witness.watching)

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float, check: bool = True) -> Completed:
        """Run a command in the client's network namespace and cgroup, like `Host.run`."""
        return self.host.run([*self.enter, *argv], stdin=stdin, timeout_s=timeout_s, check=check)

    def measure(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float, check: bool = True
    ) -> Completed:
        """Run the measured command of the load within `watching`, otherwise like `run`."""
        with self.watching():
            return self.run(argv, stdin=stdin, timeout_s=timeout_s, check=check)

    def file(self, name: str) -> str:
        return posixpath.join(self.directory, name)


class HttpLoad(Part):
    """An instrument that requests one page many times, with programs of the client's host.

    The notes of a reading have the counts of all requests that were sent, even those not measured, under "http". "sent"
    is their total number. "shares" is the list of the numbers through each proxy; without proxies, it has the total
    only."""

    kind = "instrument"
    metrics: ClassVar[tuple[Metric, ...]]
    start_s: ClassVar[float] = 0.0  # approximate time until the program sends

    @classmethod
    @abstractmethod
    def require(cls, host: Host) -> str:
        """Return the version of the tool on this host. Raises: Unavailable, with the remedy, if it is missing."""

    def load(self, page: RequestedPage, proxies: Sequence[Endpoint], settings: Mapping[str, Level]) -> Any:
        """Return the load that a study's settings describe: a closed load, unless a subclass overrides this."""
        return ClosedLoad(
            page,
            tuple(proxies),
            clients=CLIENTS.of(settings),
            requests=REQUESTS.of(settings),
            warm_up=WARM_UP.of(settings),
            timeout_s=TIMEOUT_S.of(settings),
            limit_s=LIMIT_S.of(settings),
        )

    @classmethod
    def expected_s(cls, settings: Mapping[str, Level], slowdown: float = 1.0) -> float:
        """Estimate the seconds of a measurement, for plans only.

        `slowdown` is the factor by which a request takes longer than through one proxy on a bare and idle host."""
        per_client = WARM_UP.of(settings) + REQUESTS.of(settings)
        return cls.start_s + slowdown * _REQUEST_S * CLIENTS.of(settings) * per_client

    @abstractmethod
    def measure(self, origin: LoadOrigin, load: Any) -> Reading:
        """Run the load once, and return its metrics.

        Raises: Unavailable; InstrumentError for output that cannot be a measurement; CommandFailed; CommandTimeout."""


def metrics(prefix: str, loop: str) -> tuple[Metric, ...]:
    """Return the metrics of every HTTP load, with names that begin with `prefix`.

    `loop`, "open loop" or "closed loop", is part of their summaries."""
    percentiles = []
    for name, q in QUANTILES:
        summary = f"{100 * q:g}th percentile of request times; at least {least_n_for(q)} requests ({loop})"
        percentiles.append(Metric(f"{prefix}request_time_{name}", "ms", "lower", summary))
    return (
        Metric(f"{prefix}request_time", "ms", "lower", f"mean time from a request to its complete response ({loop})"),
        *percentiles,
        Metric(f"{prefix}requests_per_s", "1/s", "higher", f"complete responses per second, all clients ({loop})"),
        Metric(f"{prefix}request_errors", "%", "lower", f"requests without a correct response in time ({loop})"),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """One measured request. `began_ms` and `time_ms` are in ms by the client's clock.

    `client` identifies the client that sent it. `fault` describes what is wrong with the response; empty if nothing."""

    began_ms: float
    time_ms: float
    client: str
    fault: str = ""


def read(prefix: str, samples: Sequence[Request], page: RequestedPage) -> Reading:
    """Return the metrics of one load, and the times of its requests as a series, in the order in which they began.

    If a response was wrong, the reading is invalid, and has only the percentage of errors.

    Raises: InstrumentError when there are no samples, or when all of them together took no time."""
    if not samples:
        raise InstrumentError("the load generator reported no requests")
    faults = Counter(sample.fault for sample in samples if sample.fault)
    errors = {f"{prefix}request_errors": 100 * faults.total() / len(samples)}
    if faults:
        (commonest, n), *_ = faults.most_common(1)
        reason = f"{faults.total()} of {len(samples)} requests got no correct response; {n} of them: {commonest[:200]}"
        return Reading(errors, invalid_because=(reason,))
    ordered = sorted(samples, key=lambda sample: sample.began_ms)
    times_ms = tuple(sample.time_ms for sample in ordered)
    lasted_ms = max(sample.began_ms + sample.time_ms for sample in ordered) - ordered[0].began_ms
    if lasted_ms <= 0:
        raise InstrumentError("the load generator reported requests that took no time")
    rate_per_s = 1000 * len(samples) / lasted_ms
    values = {f"{prefix}request_time": fmean(times_ms), f"{prefix}requests_per_s": rate_per_s, **errors}
    for name, q in QUANTILES:
        if (value := quantile_if_estimable(times_ms, q)) is not None:
            values[f"{prefix}request_time_{name}"] = value
    series = Series(f"{prefix}request_time", "ms", times_ms)
    tails = tuple(name for name in values if name.startswith("request_time_p"))  # those of an open loop have its prefix
    remarks = (Remark(CLOSED_LOOP, "", tails),) if tails else ()
    reading = Reading(values, (series,), payload_bytes=len(samples) * page.length_bytes, remarks=remarks)
    return bounded(metrics(prefix, ""), reading)


def read_in_pieces(host: Host, path: str) -> str:
    """Return the text of a file, read by several commands, so that the transcript stores all of it.

    A transcript shortens the output of a single command."""
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == _PIECE_BYTES:
        operands = [f"bs={_PIECE_BYTES}", f"skip={len(pieces)}", "count=1", "iflag=fullblock", "status=none"]
        pieces.append(host.run(["dd", f"if={path}", *operands]).stdout)
    return b"".join(pieces).decode(errors="replace")


# curl checks whole bodies by their hash. These requests are not part of the load, since hashing takes time.

CHECK = """\
check() {  # WAY, then curl's options: a line "WAY STATUS BYTES SHA256"
    way=$1; shift
    got=$({ curl --silent --write-out '%{stderr}%{http_code} %{size_download}\\n' "$@" | sha256sum; } 2>&1) || true
    echo check "$way" $got
}
"""


def check_line(page: RequestedPage, proxy: Endpoint | None, timeout_s: float) -> str:
    """Return a line of shell that calls the function of CHECK for the page, through a proxy or directly."""
    way = f"--proxy http://{proxy}" if proxy else "--noproxy '*'"
    return f"check {proxy or 'straight'} {way} --max-time {timeout_s:g} {shlex.quote(page.url)}"


def failed_check_reading(reasons: Sequence[str], n: int) -> Reading:
    """Return the invalid reading of a load that was not run, because some of `n` checks of the page failed."""
    return Reading({}, invalid_because=tuple(reasons), notes={"http": request_notes([1] * n)})


def request_notes(requests_per_proxy: Sequence[int]) -> dict[str, object]:
    """Return the notes "sent" and "shares", which `HttpLoad` describes, from the number of requests for each proxy."""
    return {"sent": sum(requests_per_proxy), "shares": list(requests_per_proxy)}


def check(origin: LoadOrigin, page: RequestedPage, proxies: Sequence[Endpoint], timeout_s: float) -> list[str]:
    """Request the page once through every proxy, or directly, and return the faults of the responses; empty if none.

    Raises: CommandFailed; CommandTimeout."""
    routes: Sequence[Endpoint | None] = proxies or (None,)
    script = CHECK + "".join(check_line(page, proxy, timeout_s) + "\n" for proxy in routes)
    done = origin.run(["sh"], stdin=script, timeout_s=len(routes) * timeout_s + CHECK_MARGIN_S)
    return check_reasons(done.text, page, len(routes))


def check_reasons(text: str, page: RequestedPage, n: int) -> list[str]:
    """Return the faults in `text`, the output of `n` calls of the function of CHECK; empty if none. A pure function."""
    rows = [line.split() for line in text.splitlines() if line.startswith("check ")]
    reasons = [] if len(rows) == n else [f"{len(rows)} of {n} bodies were checked"]
    expected = ("200", str(page.length_bytes), page.sha256)
    for row in rows:
        route, status, length, digest = (*row[1:], "?", "?", "?", "?")[:4]  # curl prints less if it fails
        if (status, length, digest) != expected:
            response = f"status {status}, {length} bytes, SHA-256 {digest[:12]}…"
            reasons.append(f"the response ({route}) is not the page of {page.length_bytes} bytes: {response}")
    return reasons

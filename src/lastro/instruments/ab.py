"""TCP connections with one request and one response each, one after the other, by ab against nginx.

Each transaction opens a connection, sends a request, and reads the response until the server closes, as in netperf's
TCP_CRR. So it includes the work of a function for a new flow. The server is one process, which answers from memory and
logs nothing. Percentiles come from a file that ab writes, which has microseconds; the report of ab has whole
milliseconds. Written for ab 2.3 of Debian 12; source: ab(1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from lastro.errors import InstrumentError
from lastro.instruments._transactions import time_metrics, times_reading
from lastro.instruments.base import UNWATCHED, Instrument, Watch, bounded
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import DAY_S, Level, Setting

CRR_S = Setting(
    "tcp_crr_s", 0, "length of the measurement of TCP connections with a request each, in whole seconds; 0: none",
    0, DAY_S,
)  # fmt: skip
_PORT = 8080
_BODY_BYTES = 64
_MOST_PER_S = 50_000  # transactions: ab has room for no more
_SENT_BYTES = 200  # of packets of the client, for each transaction, at the least: SYN, ACK, request, FIN
_PATIENCE_S = 40.0  # ab itself waits 30 s for one response
_LEAST_LASTED = 0.95  # of the time for which it was asked
_TIMES = "tcp_connect_transaction"
_CONFIG, _TABLE = "/tmp/lastro-nginx.conf", "/tmp/lastro-ab.csv"
_SERVE = f"""daemon off;
master_process off;
pid /tmp/lastro-nginx.pid;
error_log stderr notice;
events {{ }}
http {{
    access_log off;
    client_body_temp_path /tmp/lastro-nginx;
    proxy_temp_path /tmp/lastro-nginx;
    fastcgi_temp_path /tmp/lastro-nginx;
    uwsgi_temp_path /tmp/lastro-nginx;
    scgi_temp_path /tmp/lastro-nginx;
    server {{
        listen %s;
        return 200 "{"." * _BODY_BYTES}";
    }}
}}
"""
_LISTENING = 'using the "epoll" event method'  # logged when its socket listens
_AB = 'ab "$@" && if [ -e "$0" ]; then cat "$0"; rm "$0"; fi'  # without a transaction, there is no table
_REPORT = {
    "length": re.compile(r"^Document Length: {1,20}(\d{1,9}) bytes$", re.MULTILINE),
    "lasted": re.compile(r"^Time taken for tests: {1,20}(\d{1,9}\.\d{1,6}) seconds$", re.MULTILINE),
    "complete": re.compile(r"^Complete requests: {1,20}(\d{1,15})$", re.MULTILINE),
    "failed": re.compile(r"^Failed requests: {1,20}(\d{1,15})$", re.MULTILINE),
}
_ROW = re.compile(r"^(\d{1,2}),(\d{1,9}\.\d{3})$", re.MULTILINE)


class Ab(Instrument):
    name = "ab"
    summary = "TCP connections with a request and a response each, by ab: how many a second, and their times"
    packages = ("apache2-utils", "nginx-light")
    version_argv = ("ab", "-V")
    metrics = (
        Metric("tcp_connect_transactions", "1/s", "higher", "TCP connections with a request each, one after the other"),
        *time_metrics(_TIMES, "times from a TCP connection's start to the end of the response"),
    )

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        duration_s = CRR_S.of(settings)
        address = f"[{target}]:{_PORT}" if ":" in target else f"{target}:{_PORT}"
        limits = ["-t", str(duration_s), "-n", str(_MOST_PER_S * duration_s), "-c", "1"]
        argv = ["ab", "-q", *limits, "-e", _TABLE, f"http://{address}/"]
        server.run(["sh", "-c", f"cat > {_CONFIG}"], stdin=_SERVE % address)
        with server.during(["nginx", "-e", "stderr", "-c", _CONFIG], _LISTENING):
            command = ["sh", "-c", _AB, _TABLE, *argv[1:]]
            done = client.measure(command, timeout_s=duration_s + _PATIENCE_S, check=False, watch=watch).done
        done.require_success(argv)
        return self.read(done.text, duration_s)

    def read(self, text: str, duration_s: float) -> Reading:
        """Parse ab's report, and the table of percentiles after it. A pure function. Raises: InstrumentError."""
        matches = {name: pattern.findall(text) for name, pattern in _REPORT.items()}
        rows = [(int(percent), float(ms)) for percent, ms in _ROW.findall(text)]
        if any(len(values) != 1 for values in matches.values()):
            raise InstrumentError(f"ab printed no report: {text.strip()[-80:]!r}")
        report = {name: values[0] for name, values in matches.items()}
        lasted_s, complete, failed = float(report["lasted"]), int(report["complete"]), int(report["failed"])
        if complete and [percent for percent, _ in rows] != [*range(100)]:
            raise InstrumentError(f"ab printed no percentiles: {text.strip()[-80:]!r}")
        # Where there are few transactions, ab reads the last rows from beyond its samples, and prints zeros.
        times_ms = [ms for percent, ms in rows if (100 - percent) * complete > 50]
        if not lasted_s > 0 or failed > complete or any(later < ms for ms, later in pairwise(times_ms)):
            raise InstrumentError(f"ab's numbers contradict each other: {text.strip()[-80:]!r}")
        reasons = []
        if lasted_s < _LEAST_LASTED * duration_s:  # it ends later where it waits for a packet that was lost
            reasons.append(f"ab ended after {lasted_s:g} of {duration_s:g} s")
        if not complete:
            reasons.append("no TCP connection was answered")
        elif failed or "Non-2xx responses" in text or int(report["length"]) != _BODY_BYTES:
            reasons.append(f"{failed} of {complete} requests failed, or got another response than that of the server")
        more = {"payload_bytes": _SENT_BYTES * complete, "lasted_s": lasted_s, "invalid_because": tuple(reasons)}
        reading = times_reading(_TIMES, dict(rows), complete, {self.metrics[0].name: complete / lasted_s}, **more)
        return bounded(self.metrics, reading, duration_s)

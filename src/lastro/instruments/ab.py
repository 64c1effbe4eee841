"""TCP connections with one request and one response each, one after the other, by ab against nginx.

Each transaction opens a connection, sends a request, and reads the response until the server closes: what a function
does for each new flow is in it, as in netperf's TCP_CRR. The server is one process, which answers from memory and logs
nothing. A file of ab has the percentiles to the microsecond; its report has whole milliseconds. Written for ab 2.3 of
Debian 12; source: ab(1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from lastro.errors import CommandFailed, InstrumentError
from lastro.instruments._transactions import time_metrics, times
from lastro.instruments.base import UNWATCHED, Instrument, Watch
from lastro.instruments.bounds import bounded
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
_CLOCK, _TIMER_S = 0.02, 0.1
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
_AB = 'ab "$@" && cat "$0" && rm "$0"'
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
        if done.returncode != 0:
            raise CommandFailed(argv, done.returncode, done.error_text or done.text)
        return self.read(done.text, duration_s)

    def read(self, text: str, duration_s: float) -> Reading:
        """Parse the report, and the table behind it. A pure function. Raises: InstrumentError."""
        found = {name: pattern.findall(text) for name, pattern in _REPORT.items()}
        rows = [(int(percent), float(ms)) for percent, ms in _ROW.findall(text)]
        if any(len(values) != 1 for values in found.values()) or [percent for percent, _ in rows] != [*range(100)]:
            raise InstrumentError(f"ab printed no report with its percentiles: {text.strip()[-80:]!r}")
        lasted_s, complete, failed = float(found["lasted"][0]), int(found["complete"][0]), int(found["failed"][0])
        if not lasted_s > 0 or failed > complete or any(later < ms for (_, ms), (_, later) in pairwise(rows)):
            raise InstrumentError(f"ab's numbers contradict each other: {text.strip()[-80:]!r}")
        reasons = []
        if abs(lasted_s - duration_s) > _CLOCK * duration_s + _TIMER_S:
            reasons.append(f"ab ran for {duration_s:g} s, and measured {lasted_s:g} s")
        if not complete:
            reasons.append("no TCP connection was answered")
        if failed or "Non-2xx responses" in text or int(found["length"][0]) != _BODY_BYTES:
            reasons.append(f"{failed} of {complete} requests failed, or got another response than that of the server")
        timed = times(_TIMES, dict(rows), complete)
        reading = replace(
            timed,
            measurements={self.metrics[0].name: complete / lasted_s, **timed.measurements},
            payload_bytes=_SENT_BYTES * complete,
            lasted_s=lasted_s,
            invalid_because=tuple(reasons),
        )
        return bounded(self.metrics, reading, duration_s)

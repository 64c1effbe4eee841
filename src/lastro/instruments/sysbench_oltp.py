"""Transactions on a table of MariaDB or MySQL by sysbench, client and server in one instance unless a client is given.

The study "application" of Trindade (2018, chapter 6) has one table of 1,000,000 rows. Each measurement has a new server
with a new data directory, and the same rows, from one seed. The rows are made before the measured time, and counted
before and after it. Source: sysbench 1.0.20 (Debian), oltp_common.lua and sb_histogram.c."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from lastro.errors import InstrumentError
from lastro.host.base import Host
from lastro.host.local import build_host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments import _databases, _sysbench, base
from lastro.instruments._sysbench import EVENTS, THREADS, TIME_S
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.stats.quantiles import least_n_for
from lastro.study.model import Setting

_READ_ONLY, _READ_WRITE = "read-only", "read-write"
_MARIADB, _MYSQL = "mariadb", "mysql"
_DATABASE = "sbtest"
_ROWS_PER_S, _SERVER_S, _TRANSACTION_S = 150_000, 3.5, 0.003  # of an ordinary host
_HEAVIER = 1.3  # power of the slowdown for work other than computation: system calls, page faults, many processes
_BUCKET = re.compile(r"^ +(\d{1,9}\.\d{3}) \|[* ]{40} +(\d{1,15})$", re.MULTILINE | re.ASCII)
_QUANTILES = (("db_latency_p50", 0.5), ("db_latency_p95", 0.95), ("db_latency_p99", 0.99))
_MODE = Setting("mode", _READ_ONLY, "what a transaction does", choices=(_READ_ONLY, _READ_WRITE))
_SERVER = Setting("server", _MARIADB, "database server; mysql: provided by the user", choices=(_MARIADB, _MYSQL))
_ROWS = Setting("rows", 1_000_000, "rows of the table", 1000, 10**9, by_profile=True)


class SysbenchOltp(base.Workload):
    name = "sysbench-oltp"
    summary = "transactions on a table of a database by sysbench: read-only or read-write, for a given time or number"
    packages = (*_databases.PACKAGES, "sysbench")
    version_argv = ("sh", "-c", "echo $(sysbench --version), $(mariadbd --version)")
    options = (_MODE, _SERVER, _ROWS, THREADS, EVENTS, TIME_S)
    metrics = (
        base.TIME_TOOL,
        Metric("db_transactions", "1/s", "higher", "transactions per second, all threads together (sysbench)"),
        Metric("db_queries", "1/s", "higher", "statements per second, all threads together (sysbench)"),
        Metric("db_latency_mean", "ms", "lower", "mean time of a transaction (sysbench)"),
        Metric("db_latency_p50", "ms", "lower", "median time of a transaction, in sysbench's buckets of 1.8 %"),
        Metric("db_latency_p95", "ms", "lower", "95th percentile in the same buckets; at least 59 transactions"),
        Metric("db_latency_p99", "ms", "lower", "99th percentile in the same buckets; at least 299 transactions"),
    )

    def __init__(self, **chosen: Any) -> None:
        super().__init__(**chosen)
        self._client: Instance | None = None
        self._address: str | None = None
        self._server: _databases.Server | None = None
        self._filled_s = 0.0
        self._variables: dict[str, str] = {}

    @classmethod
    def needs(cls, host: Host) -> ImageAdditions:
        return ImageAdditions(cls.packages, _databases.files(host))

    def set_client(self, client: Instance, address: str) -> None:
        """Run sysbench in `client`, against the server at `address`, from the next measurement on.

        `client` must use the host's clock, since all metrics are then measured by it."""
        self._client, self._address = client, address
        self.by_host_clock = frozenset(metric.name for metric in (*self.metrics, base.TIME_HOST))

    def _command(self, step: str) -> list[str]:
        """Return sysbench's command for a step: `prepare` fills the table, `run` measures."""
        connection = [f"--mysql-host={self._address}", f"--mysql-port={_databases.PORT}"]
        if self._address is None:
            connection = [f"--mysql-socket={_databases.SOCKET}"]
        script = f"oltp_{_MODE.of(self.chosen).replace('-', '_')}"
        table = ["--tables=1", f"--table-size={_ROWS.of(self.chosen)}", "--rand-seed=1"]
        user = ["--db-driver=mysql", *connection, f"--mysql-user={_DATABASE}", f"--mysql-db={_DATABASE}"]
        return ["sysbench", script, *user, *table, *_sysbench.limit_options(self.chosen), "--histogram", step]

    def argv(self) -> list[str]:
        return self._command("run")

    @contextmanager
    def prepared(self, instance: Instance, limit_s: float = base.PREPARATION_LIMIT_S) -> Iterator[None]:
        """Run a server inside the block, with a table whose rows are all on the disk.

        Raises: InstrumentError if this takes longer than `limit_s` seconds, and as `run`."""
        kind = _databases.MARIADB
        if _SERVER.of(self.chosen) == _MYSQL:
            kind = _databases.MYSQL
            _databases.sources(build_host(instance.testbed.host))  # raises Unavailable if the user has not provided it
        deadline = _databases.Deadline.within(limit_s)
        with _databases.running(instance, deadline, self._address, kind) as server:
            for host in ("localhost", "%"):
                server.sql(f"CREATE USER {_DATABASE}@'{host}'; GRANT ALL ON {_DATABASE}.* TO {_DATABASE}@'{host}'")
            server.sql(f"CREATE DATABASE {_DATABASE}")
            self._fill(self._client or instance, deadline)
            server.settle(deadline)
            self._server = server
            if reasons := self._row_reasons(deadline.left_s()):
                raise InstrumentError(reasons[0])
            self._variables = server.variables()
            yield

    def _fill(self, client: Instance, deadline: _databases.Deadline) -> None:
        argv = self._command("prepare")
        done = client.run(argv, timeout_s=deadline.left_s(), check=False)
        if done.returncode != 0:
            raise base.failure(client, argv, done, self.name)
        self._filled_s = done.duration_s

    def _row_reasons(self, limit_s: float) -> tuple[str, ...]:
        """Return a reason for invalidity if the table does not have the number of rows that its option sets."""
        assert self._server is not None, "it is prepared"
        rows = self._server.sql(f"SELECT COUNT(*) FROM {_DATABASE}.sbtest1", limit_s)
        asked = str(_ROWS.of(self.chosen))
        return () if rows == asked else (f"the table has {rows} rows, not {asked}",)

    def run(self, instance: Instance, limit_s: float, watch: base.Watch = base.UNWATCHED) -> Reading:
        """Run the transactions, and count the rows again: each read-write transaction deletes a row and adds one."""
        assert self._server is not None, "it is prepared"
        timed = base.run_timed(self._client or instance, self.argv(), limit_s, watch=watch)
        reading = base.with_host_time(self.read(timed.done.text), timed)
        database = {
            "server": self._server.sql("SELECT VERSION()"),
            "variables": self._variables,
            "data directory made_s": round(self._server.made_s, 3),
            "server started_s": round(self._server.started_s, 3),
            "table filled_s": round(self._filled_s, 3),
            "rows": _ROWS.of(self.chosen),
            "directory": _databases.PLACE,
        }
        reasons = (*reading.invalid_because, *self._row_reasons(limit_s))
        return replace(reading, notes={**reading.notes, "database": database}, invalid_because=reasons)

    def read(self, text: str) -> Reading:
        done = _sysbench.report(text)
        counts = {what: int(_sysbench.field(text, what, rf"^ {{4}}{what}: +(\d{{1,15}}) +\(")) for what in _COUNTED}
        reasons = _sysbench.limits_reasons(done, self.chosen)
        if counts["transactions"] != done.events:
            reasons += (f"sysbench counts {counts['transactions']} transactions in {done.events} events",)
        reasons += tuple(f"sysbench reports {counts[what]} {what}" for what in _TROUBLE if counts[what])
        buckets = [(float(value), int(count)) for value, count in _BUCKET.findall(text)]
        values = {
            "time_tool": done.total_s,
            "db_transactions": counts["transactions"] / done.total_s,
            "db_queries": counts["queries"] / done.total_s,
            "db_latency_mean": done.latency_mean_ms,
        }
        n = sum(count for _, count in buckets)
        if n != done.events:
            reasons += (f"sysbench's histogram has {n} of {done.events} events",)
        else:
            values |= {name: _quantile(buckets, q * n) for name, q in _QUANTILES if q == 0.5 or n >= least_n_for(q)}
        return base.bounded(self.metrics, Reading(values, invalid_because=reasons), values[base.TIME_TOOL.name])

    def expected_s(self, cpus: float, slowdown: float) -> float:
        slow: float = slowdown**_HEAVIER
        preparation_s = (_SERVER_S + _ROWS.of(self.chosen) / _ROWS_PER_S) * slowdown
        events = EVENTS.of(self.chosen)
        if not events:
            return preparation_s + TIME_S.of(self.chosen)
        concurrent: float = min(cpus, THREADS.of(self.chosen))
        return preparation_s + events * _TRANSACTION_S * slow / concurrent

    def brief(self) -> Self:
        """Return a short version with the same kind of limit: a number of transactions, or a time."""
        events = min(EVENTS.of(self.chosen), 20 * THREADS.of(self.chosen))
        return type(self)(**{**self.chosen, "rows": 1000, "events": events, "time_s": 1})


_TROUBLE = ("ignored errors", "reconnects")
_COUNTED = ("transactions", "queries", *_TROUBLE)


def _quantile(buckets: Sequence[tuple[float, int]], rank: float) -> float:
    """Return the value of the bucket that contains the transaction at `rank`, when all are ordered by their time.

    `buckets` are (value, number of transactions), by ascending values."""
    n_so_far = 0
    for value, count in buckets:
        n_so_far += count
        if n_so_far >= rank:
            return value
    return buckets[-1][0]

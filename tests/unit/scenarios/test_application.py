"""Transactions on a database without one: what sysbench's OLTP reports say, and what a study may choose."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import InstrumentError, StudyError, Unavailable
from lastro.host.local import LocalHost
from lastro.image.rootfs import PACKAGES
from lastro.instruments import _databases, answer
from lastro.instruments.sysbench_oltp import SysbenchOltp
from lastro.scenarios.application import ApplicationScenario
from lastro.scenarios.base import schemas
from lastro.study.load import parse

from ...support.recording import RecordingHost
from ...support.workload_samples import text_of

STUDY = """
[study]
name = "a"
scenario = "application"
[factors]
platform = ["native", "docker"]
mode = ["read-only", "read-write"]
[settings]
rows = 1_000_000
{settings}
[profiles.quick]
rows = 20_000
time_s = 2
"""


def read_only(text: str | None = None) -> Any:
    tool = SysbenchOltp(rows=20_000, threads=2, time_s=1)
    return tool.read(text_of("sysbench-oltp-read-only.txt") if text is None else text)


def test_transactions_and_statements_are_counts_over_time() -> None:
    found = read_only().measurements
    assert found["db_transactions"] == pytest.approx(2660 / 1.0016)
    assert found["db_queries"] == pytest.approx(42560 / 1.0016)
    assert found["time_tool"] == 1.0016 and found["db_latency_mean"] == 0.75


@pytest.mark.parametrize(
    ("file", "options", "p95_ms"),
    [
        ("sysbench-oltp-read-only.txt", {"threads": 2, "time_s": 1}, 0.94),
        ("sysbench-oltp-read-write.txt", {"mode": "read-write", "events": 500}, 12.30),
    ],
)
def test_percentiles_are_those_of_the_histogram_as_sysbench_itself_has_them(
    file: str, options: Any, p95_ms: float
) -> None:
    found = SysbenchOltp(**options).read(text_of(file)).measurements
    assert found["db_latency_p95"] == pytest.approx(p95_ms, abs=0.005)
    assert found["db_latency_p50"] < found["db_latency_p95"] < found["db_latency_p99"]


def test_a_percentile_that_the_number_of_transactions_does_not_allow_is_left_out() -> None:
    lines = text_of("sysbench-oltp-read-write.txt").splitlines(keepends=True)
    buckets = [line for line in lines if " |" in line]
    kept = "".join(line for line in lines if line not in buckets[3:])  # 79 transactions of 500
    few = kept.replace("500    (404.23", "79     (63.91").replace("of events:              500", "of events:  79")
    found = SysbenchOltp(mode="read-write", events=79).read(few)
    assert found.invalid_because == ()
    assert "db_latency_p95" in found.measurements and "db_latency_p99" not in found.measurements


@pytest.mark.parametrize("what", ["ignored errors", "reconnects"])
def test_errors_and_reconnects_are_doubted(what: str) -> None:
    text = text_of("sysbench-oltp-read-only.txt")
    (line,) = (line for line in text.splitlines() if what in line)
    assert read_only(text.replace(line, line.replace(" 0 ", " 3 ", 1))).invalid_because == (
        f"sysbench reports 3 {what}",
    )


def test_a_histogram_of_other_transactions_is_not_read_from() -> None:
    text = text_of("sysbench-oltp-read-only.txt").replace(" 246\n", " 245\n")
    found = read_only(text)
    assert found.invalid_because == ("sysbench's histogram has 2659 of 2660 events",)
    assert not any(name.startswith("db_latency_p") for name in found.measurements)


def test_commands_say_what_was_chosen_and_whence_they_come() -> None:
    tool = SysbenchOltp(mode="read-write", rows=5000, threads=4, events=100)
    argv = tool.argv()
    assert argv[:2] == ["sysbench", "oltp_read_write"] and argv[-1] == "run"
    assert {"--table-size=5000", "--threads=4", "--events=100", "--time=0", "--rand-seed=1"} <= set(argv)
    assert any(word.startswith("--mysql-socket=/var/tmp/") for word in argv)
    tool.set_client(object(), "198.18.1.10")  # type: ignore[arg-type]
    assert "--mysql-host=198.18.1.10" in tool.argv() and not any("socket" in word for word in tool.argv())
    assert "db_transactions" in tool.by_host_clock, "the client's clock is the host's, whatever the server's does"
    assert "db_transactions" not in SysbenchOltp().by_host_clock


def test_a_study_crosses_platforms_with_modes_and_quick_has_fewer_rows() -> None:
    study = parse(STUDY.format(settings=""), "a.toml", schemas())
    assert study.settings["rows"] == 1_000_000 and study.settings["client"] == "inside"
    assert study.with_profile("quick").settings["rows"] == 20_000
    assert "db_transactions" in {metric.name for metric in study.metrics}


def test_the_link_of_a_client_on_the_host_is_an_attachment() -> None:
    assert parse(STUDY.format(settings='client = "peer"\nlink = "nat"'), "a.toml", schemas()).settings["link"] == "nat"
    with pytest.raises(StudyError, match="no attachment is named 'nta'"):
        parse(STUDY.format(settings='link = "nta"'), "a.toml", schemas())


def test_the_image_has_the_database_and_no_data_directory() -> None:
    needs = ApplicationScenario.image_needs(LocalHost(), [])
    assert set(needs.packages) == {"mariadb-client-core", "mariadb-server-core", "sysbench"}
    assert "mariadb-server" not in {*needs.packages, *PACKAGES}


def test_a_plan_counts_the_rows() -> None:
    defaults = {setting.name: setting.default for setting in ApplicationScenario.settings}
    whole = {**defaults, "platform": "native", "isolation": "none"}
    assert ApplicationScenario.duration_s(whole) - ApplicationScenario.duration_s({**whole, "rows": 1000}) > 5


def test_mysql_is_the_users_own_and_goes_into_the_image_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "mysql-8.0.40-linux"
    for part in ("bin", "lib", "share", "docs"):
        (home / part).mkdir(parents=True)
    program = home / "bin" / "mysqld"
    program.write_text("")
    host = RecordingHost()
    with pytest.raises(Unavailable, match="no program 'mysqld'") as caught:
        _databases.sources(host)
    assert caught.value.hint and "generic Linux archive" in caught.value.hint and _databases.files(host) == ()
    monkeypatch.setattr(host, "which", lambda name: str(program))
    assert _databases.sources(host) == {part: home / part for part in ("bin", "lib", "share")}
    monkeypatch.setattr(host, "which", lambda name: "/usr/sbin/mysqld")
    with pytest.raises(Unavailable, match="not in a directory of its own"):
        _databases.sources(host)


def test_servers_differ_in_what_makes_and_runs_them_alone() -> None:
    for kind in (_databases.MARIADB, _databases.MYSQL):
        assert f"--datadir={_databases.DATA}" in kind.make and "--user=root" in kind.serve
        assert kind.serve[0].endswith(kind.process) and "--no-defaults" in kind.serve[:2]
    assert "--initialize-insecure" in _databases.MYSQL.make
    assert SysbenchOltp(server="mysql").argv() == SysbenchOltp().argv()


def test_a_server_that_the_host_lacks_is_said_before_anything_runs() -> None:
    instance = SimpleNamespace(testbed=SimpleNamespace(host=RecordingHost()))
    with pytest.raises(Unavailable, match="mysqld"), SysbenchOltp(server="mysql").prepared(instance):  # type: ignore[arg-type]
        pass


def test_one_deadline_is_for_all_of_a_databases_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command takes 4 s: with 10, the data directory is made, the server answers, and no row is written."""
    now_s, limits = [0.0], []

    def run(argv: Any, *, timeout_s: float = 60.0, check: bool = True) -> Any:
        limits.append((argv[0], timeout_s))
        now_s[0] += 4.0
        return SimpleNamespace(returncode=0, duration_s=4.0, text="", error_text="")

    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda seconds: None)
    for module in (_databases, answer):
        monkeypatch.setattr(module, "time", clock)
    server = SimpleNamespace(alive=lambda: False, stop=lambda: None)
    instance: Any = SimpleNamespace(run=run, spawn=lambda argv: server)
    with pytest.raises(InstrumentError, match="not ready within 10 s"), SysbenchOltp().prepared(instance, 10.0):
        pytest.fail("it was not ready")
    assert limits[0] == ("sh", 10.0)
    assert not any(name == "sysbench" for name, _ in limits)


def test_filling_a_table_has_what_the_server_left_of_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def run(argv: Any, *, timeout_s: float, check: bool) -> Any:
        limits.append(timeout_s)
        return SimpleNamespace(returncode=0, duration_s=1.0)

    monkeypatch.setattr(_databases, "time", SimpleNamespace(monotonic=lambda: 100.0))
    instance: Any = SimpleNamespace(run=run)
    SysbenchOltp()._fill(instance, _databases.Deadline(limit_s=60.0, at_s=107.0))
    assert limits == [7.0]

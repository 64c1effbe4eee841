"""A database in real instances: fresh and whole in each trial, under transactions, and gone at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lastro.errors import CommandTimeout, TrialError
from lastro.host.cgroups import Resources
from lastro.instruments import _databases
from lastro.instruments.sysbench_oltp import SysbenchOltp
from lastro.platforms.base import InstanceSpec
from lastro.results.samples import Outcome
from lastro.scenarios.application import ApplicationScenario
from lastro.scenarios.shared.point_to_point import INSTANCE_ADDRESS
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.products import combinations, one_of
from ..support.scenarios import attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

PLATFORMS = ("native", "runc", "docker")
BRIEF = {"rows": 2000, "time_s": 1, "threads": 1}  # more threads would collide on so few rows


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ApplicationScenario]:
    with closing(ApplicationScenario(testbed)) as made:
        yield made


def config(platform: str, **more: Any) -> dict[str, Any]:
    parts = {"platform": platform, "isolation": "none"}
    return configured(ApplicationScenario, **{"limit_s": 60.0, "memory": "512M", **BRIEF, **parts, **more})


def run(scenario: ApplicationScenario, wanted: dict[str, Any]) -> Outcome:
    return attempted(scenario, wanted)


# The contract of the scenario runs it on runc.
@pytest.mark.parametrize(("platform", "mode"), combinations(["native", "docker"], ["read-only", "read-write"]))
def test_transactions_run_on_a_whole_table(
    scenario: ApplicationScenario, testbed: Testbed, platform: str, mode: str
) -> None:
    wanted = config(platform, mode=mode)
    found = scenario.availability(wanted)
    assert found, found
    mark = testbed.session.mark()
    outcome = run(scenario, wanted)
    assert testbed.session.mark() == mark, "nothing is left but what the platform was prepared with"
    assert outcome.valid, outcome.invalid_because
    values, notes = outcome.measurements, outcome.notes
    assert {"time_host", "db_queries", "db_latency_mean", "db_latency_p50", "instance_cpus"} <= set(values)
    assert values["db_transactions"] > 1
    assert 0.9 < values["time_host"] < notes["elapsed_s"]  # type: ignore[operator]
    database = notes["database"]
    assert isinstance(database, dict) and database["rows"] == 2000 and "MariaDB" in database["server"]
    assert database["table filled_s"] > 0 < database["data directory made_s"]
    decisive = (
        "innodb_buffer_pool_size",
        "innodb_flush_method",
        "innodb_flush_log_at_trx_commit",
        "innodb_doublewrite",
    )
    assert all(database["variables"][name] for name in decisive)
    storage = notes["storage"]
    assert isinstance(storage, dict) and database["directory"].startswith(storage["directory"])
    assert (storage["file system"] == "overlay") is (platform != "native"), "the host's data lie on its own file system"


def test_nothing_of_the_table_is_left_to_be_written_when_the_time_begins(testbed: Testbed, pool: PlatformPool) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=512 << 20)
    with pool.get("native").start(testbed, InstanceSpec("settled", "instance", resources=limits)) as instance:
        tool, fill, dirty = SysbenchOltp(rows=20_000), SysbenchOltp._fill, []
        seen = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'"

        def filled(self: SysbenchOltp, client: Any, ready: _databases.Deadline) -> None:
            fill(self, client, ready)
            dirty.append(int(client.run([*_databases._CLIENT, f"--execute={seen}"]).text.split()[1]))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SysbenchOltp, "_fill", filled)
            with tool.prepared(instance):
                assert tool._server is not None
                dirty.append(int(tool._server.sql(seen).split()[1]))
                assert float(tool._server.sql("SELECT @@innodb_max_dirty_pages_pct")) > 50, "as it is by itself"
    assert dirty[0] > 50 and dirty[1] < 10


def test_a_number_of_transactions_is_done_whole(scenario: ApplicationScenario) -> None:
    outcome = run(scenario, config("runc", mode="read-write", events=30))
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["db_transactions"] * outcome.measurements["time_tool"] == pytest.approx(30)
    assert "db_latency_p95" not in outcome.measurements  # of 30


@pytest.mark.parametrize(
    ("platform", "link"),
    [
        pytest.param("native", "veth-bridge", marks=pytest.mark.slow),
        pytest.param("runc", "veth-bridge", marks=pytest.mark.slow),
        ("runc", "nat"),
        pytest.param("docker", "veth-bridge", marks=pytest.mark.slow),
    ],
)
def test_transactions_come_from_the_host_over_a_link(
    scenario: ApplicationScenario, monkeypatch: pytest.MonkeyPatch, platform: str, link: str
) -> None:
    """In the trial, and already in the attempt that tells whether it can be done."""
    ways: list[str | None] = []
    real = SysbenchOltp.argv
    monkeypatch.setattr(SysbenchOltp, "argv", lambda self: ways.append(self._address) or real(self))
    wanted = config(platform, client="peer", link=link)
    found = scenario.availability(wanted)
    assert found, found
    assert ways == [INSTANCE_ADDRESS], "a probe of a client inside says nothing of one on the host"
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert f"--mysql-host={INSTANCE_ADDRESS}" in outcome.notes["workload"]["command"]  # type: ignore[index]
    assert outcome.notes["usage"]["peer"]["cpu_s"] > 0.01, "the client’s work is its own"  # type: ignore[index]


@pytest.mark.parametrize("platform", one_of(PLATFORMS))
def test_a_server_is_gone_with_its_data_whatever_the_transactions_did(
    testbed: Testbed, pool: PlatformPool, platform: str
) -> None:
    tool = SysbenchOltp(rows=1000, time_s=30)
    limits = Resources(cpus=1, cpuset="0", memory_bytes=512 << 20)
    mark = testbed.session.mark()
    with pool.get(platform).start(testbed, InstanceSpec("database", "instance", resources=limits)) as instance:
        with tool.prepared(instance):
            pid = instance.run(["cat", _databases.PID_FILE]).text.strip()
            assert instance.run(["cat", f"/proc/{pid}/comm"]).text == "mariadbd\n"
        assert instance.run(["test", "-e", f"/proc/{pid}"], check=False).returncode == 1
        assert instance.run(["test", "-e", _databases.PLACE], check=False).returncode == 1
        with pytest.raises(CommandTimeout), tool.prepared(instance):
            tool.run(instance, 1)
    assert testbed.session.mark() == mark


def test_a_database_that_is_not_ready_in_time_is_given_up_and_gone(
    scenario: ApplicationScenario, testbed: Testbed
) -> None:
    """A million rows take seconds, and the limit is for server and rows together."""
    mark = testbed.session.mark()
    began_s = time.monotonic()
    with pytest.raises(TrialError):
        run(scenario, config("native", rows=10_000_000, limit_s=8.0))
    assert time.monotonic() - began_s < 25
    assert testbed.session.mark() == mark


def test_a_table_that_lost_rows_and_a_server_that_died_are_seen(testbed: Testbed, pool: PlatformPool) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=512 << 20)
    with pool.get("runc").start(testbed, InstanceSpec("damaged", "instance", resources=limits)) as instance:
        tool = SysbenchOltp(rows=1000, events=5)
        with tool.prepared(instance):
            assert tool._server is not None
            tool._server.sql("DELETE FROM sbtest.sbtest1 WHERE id <= 3")
            assert "the table has 997 rows, not 1000" in tool.run(instance, 60).invalid_because
        with pytest.raises(TrialError), tool.prepared(instance):
            instance.run(["sh", "-c", f"kill -9 $(cat {_databases.PID_FILE})"])
            tool.run(instance, 60)


def test_versions_of_client_and_server_are_told(scenario: ApplicationScenario) -> None:
    found = scenario.facts([config("native")])["image_tools"]["sysbench-oltp"]
    assert found.startswith("sysbench 1.") and "MariaDB" in found

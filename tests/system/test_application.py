"""A database in real instances: fresh and whole in each trial, under transactions, and gone at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lastro.errors import CommandTimeout, TrialError
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.image.rootfs import Needs
from lastro.instruments import _mariadb
from lastro.instruments.sysbench_oltp import SysbenchOltp
from lastro.platforms.base import InstanceSpec
from lastro.results.samples import Outcome
from lastro.scenarios.application import ApplicationScenario
from lastro.scenarios.base import PlatformPool
from lastro.testbed import Testbed

pytestmark = pytest.mark.root

PLATFORMS = ("native", "runc", "docker")
BRIEF = {"rows": 2000, "time_s": 1, "threads": 1}  # more threads would collide on so few rows


def image_needs(host: Host) -> Needs:
    return ApplicationScenario.image_needs(host, [])


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ApplicationScenario]:
    made = ApplicationScenario(testbed)
    yield made
    made.close()


def config(platform: str, **more: Any) -> dict[str, Any]:
    """Small, and tolerant of whatever else the machine does."""
    defaults = {setting.name: setting.default for setting in ApplicationScenario.settings}
    tolerant = {"max_foreign_cpus": 4096.0, "max_steal_percent": 100.0, "limit_s": 60.0, "memory": "512M"}
    return {**defaults, **tolerant, **BRIEF, "platform": platform, "isolation": "none", **more}


def run(scenario: ApplicationScenario, wanted: dict[str, Any]) -> Outcome:
    with scenario.attempt():
        return scenario.run(wanted, {})


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("mode", ["read-only", "read-write"])
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
    assert notes["storage"]["file system"]  # type: ignore[index]


def test_a_number_of_transactions_is_done_whole(scenario: ApplicationScenario) -> None:
    outcome = run(scenario, config("runc", mode="read-write", events=30))
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["db_transactions"] * outcome.measurements["time_tool"] == pytest.approx(30)
    assert "db_latency_p95" not in outcome.measurements  # of 30


@pytest.mark.parametrize("link", ["veth-bridge", "nat"])
def test_transactions_come_from_the_host_over_a_link(scenario: ApplicationScenario, link: str) -> None:
    wanted = config("runc", client="peer", link=link)
    found = scenario.availability(wanted)
    assert found, found
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert set(outcome.notes["usage"]) == {"instance", "host"}  # type: ignore[call-overload]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_server_is_gone_with_its_data_whatever_the_transactions_did(
    testbed: Testbed, pool: PlatformPool, platform: str
) -> None:
    tool = SysbenchOltp(rows=1000, time_s=30)
    limits = Resources(cpus=1, cpuset="0", memory_bytes=512 << 20)
    mark = testbed.session.mark()
    with pool.get(platform).start(testbed, InstanceSpec("database", "instance", resources=limits)) as instance:
        with tool.prepared(instance):
            pid = instance.run(["cat", f"{_mariadb.PLACE}/mariadbd.pid"]).text.strip()
            assert instance.run(["cat", f"/proc/{pid}/comm"]).text == "mariadbd\n"
        assert instance.run(["test", "-e", f"/proc/{pid}"], check=False).returncode == 1
        assert instance.run(["test", "-e", _mariadb.PLACE], check=False).returncode == 1
        with pytest.raises(CommandTimeout), tool.prepared(instance):
            tool.run(instance, 1)
    assert testbed.session.mark() == mark


def test_a_table_that_lost_rows_and_a_server_that_died_are_seen(testbed: Testbed, pool: PlatformPool) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=512 << 20)
    with pool.get("runc").start(testbed, InstanceSpec("damaged", "instance", resources=limits)) as instance:
        tool = SysbenchOltp(rows=1000, events=5)
        with tool.prepared(instance):
            assert tool._server is not None
            tool._server.sql("DELETE FROM sbtest.sbtest1 WHERE id <= 3")
            assert "the table has 997 rows of 1000" in tool.run(instance, 60).invalid_because
        with pytest.raises(TrialError), tool.prepared(instance):
            instance.run(["sh", "-c", f"kill -9 $(cat {_mariadb.PLACE}/mariadbd.pid)"])
            tool.run(instance, 60)


def test_versions_of_client_and_server_are_told(scenario: ApplicationScenario) -> None:
    found = scenario.facts([config("native")])["image_tools"]["sysbench-oltp"]
    assert found.startswith("sysbench 1.") and "MariaDB" in found

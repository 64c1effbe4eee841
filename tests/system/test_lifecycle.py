"""Lives of real instances: they start, answer, are reached, idle and stop; what goes wrong makes a trial invalid."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lastro import registry
from lastro.errors import PlatformError
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.native import Native
from lastro.platforms.runc import Runc
from lastro.results.samples import AT_LEAST, Outcome
from lastro.scenarios.lifecycle import LifecycleScenario, peer_links
from lastro.scenarios.shared.timing import TimedPlatform
from lastro.testbed import Testbed

from ..support.scenarios import Refusing, configured

pytestmark = pytest.mark.root


@pytest.fixture
def scenario(testbed: Testbed) -> Iterator[LifecycleScenario]:
    with closing(LifecycleScenario(testbed)) as made:
        yield made


def config(platform: str, instances: int = 2, **settings: Any) -> dict[str, Any]:
    brief = {"settle_s": 0.2, "attachment": "veth-direct"}
    return configured(LifecycleScenario, **{**brief, "platform": platform, "instances": instances, **settings})


def series(outcome: Outcome, name: str) -> tuple[float, ...]:
    return next(each.values for each in outcome.series if each.name == name)


@pytest.mark.parametrize(("platform", "processes"), [("native", 0), ("runc", 1), ("docker", 2)])
def test_a_life(scenario: LifecycleScenario, testbed: Testbed, platform: str, processes: int) -> None:
    assert scenario.availability(config(platform))
    mark = testbed.session.mark()
    outcome = scenario.run(config(platform), {})
    assert outcome.valid, outcome.invalid_because
    values = outcome.measurements
    assert set(values) == {metric.name for metric in LifecycleScenario.metrics} - {"capacity"}
    assert 1 < values["start"] < min(values["first_command"], values["first_packet"]) < 60_000
    assert 1 < values["stop"] < 60_000
    assert values["start_all"] == pytest.approx(2 * values["start"])
    assert values["processes"] == processes
    # A native instance has no memory of its own, and what the session gives back meanwhile counts against it.
    assert -1 < values["memory"] < 100 and 0 < values["disk"] < 100
    for name in ("start", "first_command", "first_packet", "stop"):
        assert len(series(outcome, name)) == 2
        assert math.fsum(series(outcome, name)) / 2 == pytest.approx(values[name])
    assert testbed.session.mark() == mark, "nothing is left but what the platform was prepared with"


def test_a_daemons_memory_is_shared_among_its_instances(scenario: LifecycleScenario) -> None:
    """Docker's monitor of each container lies in the daemon's group, and is the price of that container."""
    outcome = scenario.run(config("docker"), {})
    assert outcome.measurements["memory"] > 2 * math.fsum(series(outcome, "memory")) / 2


@pytest.mark.parametrize("platform", ["native", "runc"])
def test_merge(scenario: LifecycleScenario, platform: str) -> None:
    outcome = scenario.run(config(platform, 4, parallel=True), {})
    assert outcome.valid, outcome.invalid_because
    starts = series(outcome, "start")
    assert len(starts) == 4
    assert max(starts) <= outcome.measurements["start_all"] < math.fsum(starts)


# In `make test` one in three, together and not by turns: each attachment joins several instances in its contract.
@pytest.mark.parametrize(
    ("attachment", "parallel"),
    [
        pytest.param(name, parallel, marks=() if at % 3 == 0 and parallel is (at % 2 == 0) else pytest.mark.slow)
        for at, name in enumerate(sorted(registry.names("attachment")))
        for parallel in (False, True)
    ],
)
def test_over_every_attachment(scenario: LifecycleScenario, attachment: str, parallel: bool) -> None:
    wanted = config("native", attachment=attachment, parallel=parallel)
    if available := scenario.availability(wanted):
        outcome = scenario.run(wanted, {})
        assert outcome.valid, outcome.invalid_because
    else:
        assert available.reason


def test_what_nobody_has_is_unavailable_and_why(scenario: LifecycleScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario.testbed.host, "_env", {"PATH": "/nowhere"})
    found = scenario.availability(config("runc"))
    assert not found and "no program" in str(found.reason) and found.remedy


# When the host says no


def test_the_capacity_is_what_ran_when_a_start_failed(scenario: LifecycleScenario) -> None:
    scenario.pool._ready["runc"] = Refusing()
    outcome = scenario.run(config("runc", max_instances=50), {})
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["capacity"] == 5
    note: Any = outcome.notes["capacity"]
    assert note["stopped_by"] == "the runtime has no room for another one" and "remarks" not in outcome.notes
    assert [step["instances"] for step in note["steps"]] == [4, 5]


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"max_instances": 6}, "max_instances = 6"), ({"max_instances": 4000, "capacity_s": 1.0}, "capacity_s = 1")],
)
def test_the_study_bounds_the_doubling(scenario: LifecycleScenario, settings: dict[str, Any], words: str) -> None:
    outcome = scenario.run(config("native", **settings), {})
    assert words in outcome.notes["capacity"]["stopped_by"]  # type: ignore[index]
    assert 2 < outcome.measurements["capacity"] <= settings["max_instances"]
    assert outcome.notes["capacity"]["instances"] == outcome.measurements["capacity"]  # type: ignore[index]
    assert outcome.notes["remarks"][0]["kind"] == AT_LEAST  # type: ignore[index]


# What makes a trial invalid


class Mute(Runc):
    """Nothing can be run in it."""

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        with super().start(testbed, spec) as instance:
            instance.run(["rm", "/bin/true", "/usr/bin/true"], check=False)
            yield instance


class Deaf(Native):
    """Answers nobody who asks for its address: ip-sysctl.rst, arp_ignore."""

    def start(self, testbed: Testbed, spec: InstanceSpec) -> Any:
        return super().start(testbed, replace(spec, sysctls={"net.ipv4.conf.all.arp_ignore": "8"}))


@pytest.mark.parametrize(
    ("platform", "words"), [(Mute(), "did not answer: .*true"), (Deaf(), "no packet of instance .* within 1 s")]
)
def test_who_is_not_there(testbed: Testbed, monkeypatch: pytest.MonkeyPatch, platform: Any, words: str) -> None:
    if isinstance(platform, Deaf):  # the other can be reached, which takes its time beside other tests
        monkeypatch.setattr(peer_links, "_REACH_S", 1)
    with ExitStack() as stack, pytest.raises(PlatformError, match=words):
        place = stack.enter_context(peer_links.linked_peer(testbed, Native(), "veth-direct", 1, together=False))
        place.start_instances(stack, TimedPlatform(platform))


def test_a_host_with_other_work_makes_it_invalid(scenario: LifecycleScenario) -> None:
    spinning = subprocess.Popen(["timeout", "30", "sh", "-c", "while :; do :; done"])
    try:
        outcome = scenario.run(config("native", max_foreign_cpus=0.3, settle_s=1.0), {})
    finally:
        spinning.terminate()
        spinning.wait()
    assert any("other processes used" in reason for reason in outcome.invalid_because)

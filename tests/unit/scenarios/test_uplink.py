"""The scenario uplink without a host: what a study may choose, what is known before, what limits, whose clock holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro import registry
from lastro.errors import InputError, Unavailable
from lastro.host.cgroups import Usage
from lastro.host.local import LocalHost
from lastro.host.moments import FileReadings, OwnCpu
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.iperf2_udp import Iperf2Udp
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.platforms.base import MeasuredCommand
from lastro.results.samples import Outcome, Reading, Series
from lastro.scenarios import uplink
from lastro.scenarios.base import schemas
from lastro.scenarios.shared.clock_policy import judge_clock
from lastro.scenarios.uplink import UplinkScenario
from lastro.scenarios.uplink.ends import require_host_address
from lastro.scenarios.uplink.offered_load import capacity_fraction, check_offered, judge_generator, with_rate
from lastro.study.load import parse
from lastro.validity import ClockDrift

from ...support.recording import FakeInstance

STUDY = """
[study]
name = "u"
scenario = "uplink"
[factors]
platform = ["native", "docker:storage=vfs", "runc"]
offered = ["300M", "1G", "10G"]
[settings]
attachment = "nat"
instrument = "iperf2-udp"
[profiles.quick]
load_s = 1
"""


def config(**changes: Any) -> dict[str, Any]:
    defaults = {setting.name: setting.default for setting in UplinkScenario.settings}
    parts = {"platform": "runc", "attachment": "nat", "isolation": "none", "instrument": "iperf2-udp"}
    return {**defaults, **parts, **changes}


def test_a_study_crosses_platforms_with_rates() -> None:
    study = parse(STUDY, "u.toml", schemas())
    assert [factor.name for factor in study.factors] == ["platform", "offered"]
    assert study.settings["datagram_bytes"] == 1470 and study.settings["load_s"] == 10
    assert study.with_profile("quick").settings["load_s"] == 1


def test_links_are_probed_on_bare_processes_where_an_instance_sends_by_sockets_of_its_host() -> None:
    """Two machines behind a NAT of their own never reach each other, but each reaches its host."""
    behind = SimpleNamespace(availability=lambda level: True, get=lambda level: SimpleNamespace(sends_by_host=True))
    scenario = cast(UplinkScenario, SimpleNamespace(pool=behind))
    level = "virtualbox:network=nat"
    assert UplinkScenario.linked_level(scenario, config(platform=level, towards="host")) == "native"
    assert UplinkScenario.linked_level(scenario, config(platform=level, towards="peer")) == level


def test_instruments_are_those_of_a_flow() -> None:
    assert UplinkScenario.part_names("instrument") == {"iperf2-udp", "iperf3-udp-load", "iperf3-tcp"}


def test_an_image_has_iperf_2_only_where_a_study_needs_it() -> None:
    host = LocalHost()
    assert UplinkScenario.image_needs(host, [config(), config()]) == ImageAdditions(("iperf",))
    assert UplinkScenario.image_needs(host, [config(instrument="iperf3-tcp")]) == ImageAdditions()


def test_all_platforms_share_the_ceiling_of_the_bare_host_at_their_rate() -> None:
    (runc,) = UplinkScenario.calibrations(config()).items()
    (docker,) = UplinkScenario.calibrations(config(platform="docker", **{"platform.storage": "vfs"})).items()
    assert runc == docker
    assert runc[0].startswith("ceiling/nat/iperf2-udp/") and runc[1]["platform"] == "native"
    assert set(UplinkScenario.calibrations(config(offered="2G"))) != {runc[0]}
    assert set(UplinkScenario.calibrations(config(isolation="seccomp", max_foreign_cpus=9))) == {runc[0]}
    assert UplinkScenario.calibrations(config(platform="native")) == {}


def test_towards_the_host_the_bare_host_is_its_own_stack() -> None:
    """A namespace behind a bridge is not what a machine without virtualization carries."""
    own = config(platform="native:network=host", towards="host")
    for platform in ("runc", "native"):
        (bare,) = UplinkScenario.calibrations(config(platform=platform, towards="host")).values()
        assert bare == own
    assert UplinkScenario.calibrations(own) == {}, "it is its own ceiling"
    ((_, bare),) = UplinkScenario.calibrations({**own, "offered": "120%"}).items()
    assert bare["platform"] == own["platform"]


@pytest.mark.parametrize(
    ("sent", "bare_sent", "limited"),
    [
        (1000, 1000, False),  # the rate was offered
        (500, 1000, False),  # the platform limits: the bare host offers it
        (500, 600, False),  # neither offers it, and the platform is the slower
        (590, 600, True),
        (990, 990, False),  # near enough
    ],
)
def test_the_generator_limits_where_the_bare_host_cannot_offer_the_rate_either(
    sent: float, bare_sent: float, limited: bool
) -> None:
    outcome = Outcome({"udp_offered": sent, "udp_throughput": sent})
    judge_generator(config(), {"udp_offered": bare_sent}, outcome)
    assert outcome.notes == {"generator_limited": limited, "ceiling": {"udp_offered": bare_sent}}
    assert outcome.valid


def test_tcp_as_fast_as_on_the_bare_host_is_the_generators_limit() -> None:
    for own, limited in ((950.0, True), (700.0, False)):
        outcome = Outcome({"throughput": own})
        judge_generator(config(instrument="iperf3-tcp"), {"throughput": 1000.0}, outcome)
        assert outcome.notes["generator_limited"] is limited


def test_tcp_has_a_ceiling_whatever_the_share_of_udps_rate() -> None:
    """A study may cross both with shares: of TCP they stay as they were written."""
    shared = config(instrument="iperf3-tcp", offered="50%")
    outcome = Outcome({"throughput": 950.0})
    judge_generator(with_rate(shared, {"throughput": 1000.0}, outcome), {"throughput": 1000.0}, outcome)
    assert outcome.notes == {"generator_limited": True, "ceiling": {"throughput": 1000.0}}


def test_without_a_ceiling_nothing_is_said_of_the_generator() -> None:
    outcome = Outcome({"udp_offered": 1.0})
    judge_generator(config(), None, outcome)
    assert outcome.notes == {}


def judged(tool: Any, drift: ClockDrift | None, values: dict[str, float]) -> Outcome:
    outcome, reading = Outcome(), Reading(dict(values), SERIES)
    judge_clock(reading, uplink._timed_by_host(tool, reading), drift, 0.001, outcome, own_series=True)
    return outcome


SERIES = (Series("throughput", "Mbit/s", (1.0,)),)
UDP = {"udp_offered": 1.0, "udp_throughput": 1.0, "udp_loss": 0.0, "jitter": 0.1}


def test_only_what_the_host_timed_outlives_a_wrong_clock() -> None:
    assert set(judged(Iperf2Udp(), None, UDP).measurements) == set(UDP)
    assert set(judged(Iperf2Udp(), ClockDrift(1.0005, 0.0001), UDP).measurements) == set(UDP)
    wrong = judged(Iperf2Udp(), ClockDrift(0.9, 0.001), UDP)
    assert wrong.valid and set(wrong.measurements) == {"udp_throughput", "udp_loss"}
    assert wrong.notes["remarks"][0]["metrics"] == ["jitter", "udp_offered"]  # type: ignore[index]
    tcp = judged(Iperf3Tcp(), ClockDrift(0.9, 0.001), {"throughput": 1.0})
    assert tcp.measurements == {"throughput": 1.0} and tcp.series == [], "the rate is the receiver's, each second's not"
    assert "remarks" not in tcp.notes, "nothing that is left was timed by that clock"
    assert judged(Iperf3Tcp(), None, {"throughput": 1.0}).series == list(SERIES)


class World:
    """A host whose clock and CPU times go on with what is done alone: in an instance, and elsewhere."""

    def __init__(self) -> None:
        self.now_s = self.instance_s = self.others_s = 0.0
        self.guest_controller = None  # it is no guest
        self.ticks = os.sysconf("SC_CLK_TCK")
        self.cgroups = SimpleNamespace(fresh_peak=lambda name: nullcontext(self.fresh))
        self.fresh = True
        self.session = SimpleNamespace(cgroup="/s")
        self.host = SimpleNamespace(name="here", view=SimpleNamespace(read=self.read), remote=True, glance=self.glance)

    def works(self, seconds: float, *, instance: float = 0.0, others: float = 0.0) -> None:
        self.now_s += seconds
        self.instance_s += instance
        self.others_s += others

    def glance(self, paths: Sequence[str]) -> FileReadings:
        return FileReadings(self.now_s, self.read(paths), OwnCpu())

    def read(self, paths: Sequence[str]) -> dict[str, str]:
        assert "/proc/stat" in paths
        busy = round((self.instance_s + self.others_s) * self.ticks)
        return {"/proc/stat": f"cpu  0 0 {busy} {round(self.now_s * 2 * self.ticks) - busy} 0 0 0 0\n"}


class Sender(FakeInstance):
    """An instance into which exec takes a quarter of a second. Its flow takes 8 s, and a second until it has ended."""

    sends_by_host = False

    def __init__(self, world: World) -> None:
        super().__init__(self._flow, clock=lambda: None, usage=lambda: Usage(cpu_s=world.instance_s))
        self.world = world

    def _flow(self, argv: Sequence[str]) -> None:
        self.world.works(8.0, instance=4.0, others=2.0)
        self.world.works(1.0, instance=0.5)

    def measure(self, argv: Sequence[str], **how: Any) -> MeasuredCommand:
        self.world.works(0.25, instance=0.1, others=0.2)
        found = super().measure(argv, **how)
        self.world.works(0.25, instance=0.1, others=0.2)  # the report comes out
        return found


@pytest.mark.parametrize("fresh", [True, False])
def test_cpus_are_of_the_command_that_is_the_flow_without_exec(monkeypatch: pytest.MonkeyPatch, fresh: bool) -> None:
    """CPU time and the time under it are of one window: what a server takes to start and to end is in neither."""
    world = World()
    world.fresh = fresh
    instance, tool = Sender(world), Iperf3Tcp()

    def measure(client: Any, server: Any, target: str, settings: Any, watch: Any) -> Reading:
        world.works(2.0, instance=1.0, others=3.0)  # the server starts
        client.measure(["iperf3"], watch=watch)
        world.works(2.0, instance=1.0, others=3.0)  # and ends
        return Reading({"throughput": 1.0}, lasted_s=8.0)

    monkeypatch.setattr(tool, "measure", measure)
    monkeypatch.setattr(uplink, "chosen_part", lambda kind, config: tool)
    witness = SimpleNamespace(start=lambda: None, stop=lambda: None, moved={})
    monkeypatch.setattr(uplink, "InterfaceMeter", lambda *around: witness)
    pair = cast(Any, SimpleNamespace(instance=instance, everyone={"instance": instance}))
    other = SimpleNamespace(usage=lambda: Usage())
    end = cast(Any, SimpleNamespace(role="peer", instance=other, device="in0", address="198.18.0.1"))
    outcome, scenario = Outcome(), object.__new__(UplinkScenario)
    scenario._testbed = cast(Any, world)
    scenario._measure(config(instrument="iperf3-tcp"), pair, end, (), outcome)
    assert outcome.measurements["instance_cpus"] == pytest.approx(4.5 / 9.0)
    assert outcome.measurements["host_cpus"] == pytest.approx(6.5 / 9.0, rel=0.01)
    assert (outcome.notes["work_s"], outcome.notes["flow_s"]) == (9.0, 8.0)
    remarks = cast(list[dict[str, Any]], outcome.notes.get("remarks", []))
    found = [(each["kind"], each["metrics"]) for each in remarks]
    assert found == ([] if fresh else [("peak of a whole life", ["instance_memory"])]), "where the kernel keeps it"


def test_a_plan_counts_two_starts_and_the_flow() -> None:
    assert 10 < UplinkScenario.duration_s(config()) < 15
    assert UplinkScenario.duration_s(config(load_s=60)) - UplinkScenario.duration_s(config()) == 50


# A share of what the bare host carries


@pytest.mark.parametrize(("text", "share"), [("50%", 0.5), ("120 %", 1.2), ("1G", None), ("0.5%", 0.005)])
def test_a_rate_is_absolute_or_a_share(text: str, share: float | None) -> None:
    check_offered(text)
    assert capacity_fraction(text) == share


@pytest.mark.parametrize("text", ["%", "0%", "-5%", "9999%", "1G%", "fast"])
def test_a_share_that_nobody_can_mean_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        check_offered(text)


def test_a_share_is_of_what_the_bare_host_was_found_to_carry() -> None:
    """One run finds it for all platforms and shares, the bare host's own trials among them."""
    shares = [UplinkScenario.calibrations(config(offered=text)) for text in ("50%", "120%")]
    shares.append(UplinkScenario.calibrations(config(offered="100%", platform="native")))
    ((key, bare),) = shares[0].items()
    assert shares == [shares[0]] * 3
    assert key.startswith("capacity/nat/iperf2-udp/") and (bare["platform"], bare["offered"]) == ("native", "100G")
    other_end = UplinkScenario.calibrations(config(offered="50%", towards="host"))
    assert set(other_end) != {key}, "another way has another capacity"
    scenario = object.__new__(UplinkScenario)
    assert not scenario.can_do_without(key) and scenario.can_do_without("ceiling/nat/x")


def test_a_share_becomes_a_rate_and_is_told() -> None:
    outcome = Outcome()
    found = with_rate(config(offered="120%"), {"udp_throughput": 2000.0, "udp_offered": 2500.0}, outcome)
    assert found["offered"] == "2400000000"
    assert outcome.notes["offered"] == {"share": 1.2, "capacity_mbit_s": 2000.0, "rate_mbit_s": 2400.0}
    assert with_rate(config(), None, Outcome()) == config()


def test_tcp_has_no_rate_to_share() -> None:
    (key,) = UplinkScenario.calibrations(config(instrument="iperf3-tcp", offered="50%"))
    assert key.startswith("ceiling/")


def test_the_host_itself_is_an_end_only_where_it_routes() -> None:
    require_host_address(registry.get("attachment", "nat"))
    require_host_address(registry.get("attachment", "routed"))
    with pytest.raises(Unavailable, match="over veth-direct the host has no address"):
        require_host_address(registry.get("attachment", "veth-direct"))

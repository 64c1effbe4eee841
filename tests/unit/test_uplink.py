"""The scenario uplink without a host: what a study may choose, what is known before, what limits, whose clock holds."""

from __future__ import annotations

from typing import Any

import pytest

from lastro.host.local import LocalHost
from lastro.image.rootfs import Needs
from lastro.instruments.iperf2_udp import Iperf2Udp
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.results.samples import Outcome, Reading
from lastro.scenarios import uplink
from lastro.scenarios.base import schemas
from lastro.scenarios.uplink import UplinkScenario
from lastro.study.load import parse
from lastro.validity import Drift

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


def test_instruments_are_those_of_a_flow() -> None:
    assert UplinkScenario.part_names("instrument") == {"iperf2-udp", "iperf3-udp-load", "iperf3-tcp"}


def test_an_image_has_iperf_2_only_where_a_study_needs_it() -> None:
    host = LocalHost()
    assert UplinkScenario.image_needs(host, [config(), config()]) == Needs(("iperf",))
    assert UplinkScenario.image_needs(host, [config(instrument="iperf3-tcp")]) == Needs()


def test_all_platforms_share_the_ceiling_of_the_bare_host_at_their_rate() -> None:
    (runc,) = UplinkScenario.calibrations(config()).items()
    (docker,) = UplinkScenario.calibrations(config(platform="docker", **{"platform.storage": "vfs"})).items()
    assert runc == docker
    assert runc[0].startswith("ceiling/nat/iperf2-udp/") and runc[1]["platform"] == "native"
    assert set(UplinkScenario.calibrations(config(offered="2G"))) != {runc[0]}
    assert set(UplinkScenario.calibrations(config(isolation="seccomp", max_foreign_cpus=9))) == {runc[0]}
    assert UplinkScenario.calibrations(config(platform="native")) == {}


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
    uplink._judge_generator(config(), {"udp_offered": bare_sent}, outcome)
    assert outcome.notes == {"generator_limited": limited, "ceiling": {"udp_offered": bare_sent}}
    assert outcome.valid


def test_tcp_as_fast_as_on_the_bare_host_is_the_generators_limit() -> None:
    for own, limited in ((950.0, True), (700.0, False)):
        outcome = Outcome({"throughput": own})
        uplink._judge_generator(config(instrument="iperf3-tcp"), {"throughput": 1000.0}, outcome)
        assert outcome.notes["generator_limited"] is limited


def test_without_a_ceiling_nothing_is_said_of_the_generator() -> None:
    outcome = Outcome({"udp_offered": 1.0})
    uplink._judge_generator(config(), None, outcome)
    assert outcome.notes == {}


def judged(tool: Any, drift: Drift | None, values: dict[str, float]) -> Outcome:
    outcome = Outcome()
    uplink._judge_clock(tool, Reading(dict(values)), drift, config(), outcome)
    return outcome


UDP = {"udp_offered": 1.0, "udp_throughput": 1.0, "udp_loss": 0.0, "jitter": 0.1}


def test_only_what_the_host_timed_outlives_a_wrong_clock() -> None:
    assert set(judged(Iperf2Udp(), None, UDP).measurements) == set(UDP)
    assert set(judged(Iperf2Udp(), Drift(1.0005, 0.0001), UDP).measurements) == set(UDP)
    wrong = judged(Iperf2Udp(), Drift(0.9, 0.001), UDP)
    assert wrong.valid and set(wrong.measurements) == {"udp_throughput", "udp_loss"}
    assert wrong.notes["not timed by a good clock"]["dropped"] == ["jitter", "udp_offered"]  # type: ignore[index]
    assert judged(Iperf3Tcp(), Drift(0.9, 0.001), {"throughput": 1.0}).measurements == {"throughput": 1.0}


def test_a_plan_counts_two_starts_and_the_flow() -> None:
    assert 10 < UplinkScenario.duration_s(config()) < 15
    assert UplinkScenario.duration_s(config(load_s=60)) - UplinkScenario.duration_s(config()) == 50

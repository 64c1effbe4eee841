"""What tests of scenarios on real instances share: an image, a tolerant configuration, a runtime with little room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lastro.errors import PlatformError
from lastro.host.base import Host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.ab import Ab
from lastro.instruments.irtt import Irtt
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.runc import Runc
from lastro.results.samples import Outcome
from lastro.scenarios.application import ApplicationScenario
from lastro.scenarios.base import Config, Scenario
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.compute import ComputeScenario
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.proxy import ProxyScenario
from lastro.scenarios.routing import RoutingScenario
from lastro.scenarios.uplink import UplinkScenario
from lastro.testbed import Testbed

COMPUTING = ("bonnie", "dbench", "fio", "gzip", "john", "mbw", "pi", "stream", "sysbench-cpu", "sysbench-memory")
FLOWS = ("iperf2-udp", "iperf3-tcp", "iperf3-udp-load")


def image_needs(host: Host) -> ImageAdditions:
    """One image for all tests of scenarios, since each takes half a minute to build."""
    tools = ComputeScenario.image_needs(host, [{"instrument": name} for name in COMPUTING])
    flows = UplinkScenario.image_needs(host, [{"instrument": name} for name in FLOWS])
    origins = ProxyScenario.image_needs(host, [{"origin": "apache"}, {"origin": "nginx"}])
    daemons = ApplicationScenario.image_needs(host, []).combined_with(RoutingScenario.image_needs(host, []))
    probes = ImageAdditions(packages=(*Irtt.packages, *Ab.packages))
    return (
        tools.combined_with(flows)
        .combined_with(probes)
        .combined_with(frames_needs(host))
        .combined_with(origins)
        .combined_with(daemons)
    )


def frames_needs(host: Host) -> ImageAdditions:
    return LoadScenario.image_needs(host, [configured(LoadScenario, platform="runc", one_way="yes")])


def xdp_needs(host: Host) -> ImageAdditions:
    """One image for chain and load."""
    return LoadScenario.image_needs(host, [configured(LoadScenario, platform="runc", implementation="xdp")])


def dpdk_needs(host: Host) -> ImageAdditions:
    return ChainScenario.image_needs(host, [configured(ChainScenario, platform="runc", implementation="dpdk")])


TOLERANT: Mapping[str, Any] = {"max_foreign_cpus": 4096.0, "max_steal_percent": 100.0, "max_wait_s": 0.0}


# Trials of each scenario that are as short as can be, and yet go through all of its phases.
SHORT: dict[str, dict[str, Any]] = {
    "application": {"isolation": "none", "rows": 1000, "time_s": 1, "memory": "512M"},
    "chain": {
        "attachment": "veth-bridge", "function": "none", "settle_s": 0, "tcp_s": 1, "udp_s": 1, "ping_s": 0.5,
        "gap_s": 0, "ping_interval_ms": 20, "anomaly_workers": 1,
    },
    "compute": {"isolation": "none", "instrument": "sysbench-cpu:time_s=1,primes=1000", "memory": "512M"},
    "exposure": {"isolation": "none"},
    "lifecycle": {"attachment": "veth-bridge", "instances": 2, "settle_s": 0},
    "load": {
        "attachment": "veth-direct", "function": "none", "instrument": "trafgen", "settle_s": 0, "most_fps": 20_000,
        "warm_up_s": 0.2, "first_probe_s": 0.2, "probe_s": 0.2, "deciding_s": 0.6, "cost_s": 0.5,
        "width_percent": 20, "at": "50%, 2kpps", "latency_s": 1, "own_delay_s": 1, "one_way": "yes",
    },
    "proxy": {
        "attachment": "nat", "instrument": "curl", "proxies": 2, "clients": 2, "requests": 20, "object_bytes": 100_000,
        "settle_s": 0, "memory": "512M",
    },
    "routing": {
        "attachment": "veth-bridge", "implementation": "frr", "topology": "2x2", "hello_s": 1, "timers": "fast",
        "network_type": "point-to-point", "failure": "carrier", "quiet_s": 2.5, "settle_s": 0, "regular_s": 1,
    },
    "uplink": {
        "attachment": "nat", "isolation": "none", "instrument": "iperf3-tcp", "load_s": 1, "settle_s": 0,
        "memory": "512M",
    },
}  # fmt: skip


def configured(scenario: type[Scenario], **chosen: Any) -> dict[str, Any]:
    """The defaults of its settings under what is chosen, tolerant of whatever else the machine does."""
    return {**{setting.name: setting.default for setting in scenario.settings}, **TOLERANT, **chosen}


def on_chain(place: tuple[str, str], function: str, **chosen: Any) -> dict[str, Any]:
    """A short trial of a chain on a platform over an attachment, without a neighbour."""
    parts = {"platform": place[0], "attachment": place[1], "function": function}
    return configured(ChainScenario, **{"isolation": "none", "anomaly": "none", **SHORT["chain"], **parts, **chosen})


# What other work on the same machine does to a trial, and TOLERANT cannot switch off: exec took longer before the work
# than in it; a tool, or a machine in software, did not get its CPU in time; nor did a load.
BUSY = ("after exec into the instance", " s instead of ", "the generator was the bottleneck", "missed its dose")
_ATTEMPTS = 3


def attempted(scenario: Scenario, wanted: Config, calibrations: Mapping[str, Any] | None = None) -> Outcome:
    """The outcome of a trial that is tried again, as in a campaign, if it is invalid for BUSY reasons alone."""
    for _ in range(_ATTEMPTS):
        with scenario.attempt():
            outcome = scenario.run(wanted, calibrations or {})
        if outcome.valid or not all(any(busy in reason for busy in BUSY) for reason in outcome.invalid_because):
            break
    return outcome


class Refusing(Runc):
    """Has room for a few at once."""

    room = 5

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        if self.room == 0:
            raise PlatformError("the runtime has no room for another one")
        self.room -= 1
        try:
            with super().start(testbed, spec) as instance:
                yield instance
        finally:
            self.room += 1

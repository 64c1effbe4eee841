"""A service function chain: a flow from a source through a function to a sink, while a neighbour may misbehave.

The phases are those of Kagami and Gaspary (2017): the anomaly starts, the system settles, then TCP, UDP and ping are
measured one after the other with a pause between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, TypedDict

from lastro import registry
from lastro.errors import LastroError
from lastro.functions.base import ON_CLICK, PATHS, Service
from lastro.host import facts
from lastro.host.base import Host
from lastro.host.cgroups import Usage, block_device_of
from lastro.image.rootfs import Needs
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.isolation.base import NEIGHBOUR, MeasuredUse, Profile, isolate, not_in_force, parts_of
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.platforms.base import Availability, InstanceSpec, Platform
from lastro.results.samples import Outcome
from lastro.scenarios.base import CalibrationKind, Config, isolations_of, platform_level, platform_of, start_s
from lastro.scenarios.chain.deploy import SOURCE_PORT, Chain, deployed
from lastro.scenarios.chain.frames import FRAME_SIZE, KERNEL, OFF
from lastro.scenarios.chain.measuring import measure
from lastro.scenarios.chain.probes import ChainProbes
from lastro.scenarios.shared.bases import OnLinks, first_unavailable
from lastro.scenarios.shared.calibration import calibrated, calibration_key, judge_ceiling
from lastro.scenarios.shared.disturbance import Disturbance, bounded, demanded
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.host_limits import HOST_LIMITS, clock_kept
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.topology import Built
from lastro.scenarios.shared.verify_limits import limits_of
from lastro.shapes import made
from lastro.study.levels import NONE
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_rate_bps, parse_size_bytes

_DAY_S = 86_400
_AROUND_S = 0.9  # what a trial takes besides measurements, waits and two starts, roughly
_NEIGHBOURS_S = 1.0  # with IPv6, until routers find their neighbours
_CEILING, _PROFILE = "ceiling", "profile"  # plain forwarding; the needs of the undisturbed chain
_THROUGHPUT = "throughput"
_NO_DIFFERENCE = ("anomaly", "max_", "settle")  # to a calibration run


class _Undisturbed(TypedDict):
    """The notes of a trial from which a profile is made."""

    elapsed_s: float
    usage: dict[str, Usage]  # by role
    phases: dict[str, dict[str, float]]  # by instrument


class ChainScenario(OnLinks):
    name = "chain"
    summary = "a flow from a source through a network function to a sink, beside a neighbour that may misbehave"
    parts = ("platform", "attachment", "isolation", "function", "anomaly")
    combinable = frozenset({"isolation"})
    calibration_kinds = {
        _CEILING: CalibrationKind(float, optional=True),  # it only flags limited trials
        _PROFILE: CalibrationKind(Profile),  # without it, isolation has no meaning
    }
    settings = (
        Setting("settle_s", 2.0, "time between the start of the anomaly and the first measurement", 0, _DAY_S),
        Setting("tcp_s", 5, "length of the TCP measurement, in whole seconds as iperf3 takes them", 1, _DAY_S),
        Setting("udp_s", 5, "length of the UDP measurement, in whole seconds as iperf3 takes them", 1, _DAY_S),
        Setting("ping_s", 5.0, "length of the ping measurement", 0.5, _DAY_S),
        Setting("gap_s", 1.0, "pause between two measurements", 0, _DAY_S),
        Setting("ping_interval_ms", 100, "time between two echo requests", 2, 10_000),
        Setting("udp_rate", "1M", "rate of the UDP flow in bit/s", check=parse_rate_bps),
        Setting("tcp_streams", 1, "parallel TCP connections", 1, 128),
        Setting(
            "implementation", "kernel", "implementation of the function", choices=("kernel", "click"), by_profile=True
        ),
        Setting(
            "offloads",
            KERNEL,
            "segmentation and checksum offloads of the links: the kernel's, or off, so that no frame exceeds the MTU",
            choices=(KERNEL, OFF),
        ),
        Setting("ip", "4", "version of IP of the flow", choices=tuple(PATHS)),
        Setting("anomaly_workers", 0, "processes of the neighbour's load; 0: one per CPU", 0, 4096),
        Setting(
            "anomaly_memory", "256M", "memory that each worker of the memory anomaly holds", check=parse_size_bytes
        ),
        Setting(
            "anomaly_tool", "stress-ng", "tool that makes the anomaly", choices=("stress-ng", "stress"), by_profile=True
        ),
        *HOST_LIMITS,
        Setting("max_drift_percent", 0.1, "drift of a guest's clock above which a trial is invalid", 0, 100),
    )
    metrics = (
        *Iperf3Tcp.metrics,
        FRAME_SIZE,
        *Iperf3Udp.metrics,
        *Ping.metrics,
        *UsageMeter.metrics,
        *HostMeter.metrics,
    )

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        """Return the parts of a kind; of functions, only those that forward packets."""
        infos = registry.parts(kind).values()
        return frozenset(info.name for info in infos if info.cls is None or not issubclass(info.cls, Service))

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self._probes: ChainProbes = ChainProbes(self.testbed, self.pool, self.attachments)

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> Needs:
        """Return the tool by which a virtual machine switches off the offloads of its own cards."""
        inside = any(config["offloads"] == OFF and platform_of(config).guests for config in configs)
        return Needs(packages=("ethtool",)) if inside else Needs()

    @classmethod
    def duration_s(cls, config: Config) -> float:
        measured_s = sum(float(config[key]) for key in ("tcp_s", "udp_s", "ping_s"))
        waits_s = 2 * float(config["gap_s"]) + float(config["settle_s"])
        around_s = _AROUND_S + (_NEIGHBOURS_S if config["ip"] == "6" else 0.0)
        return measured_s + waits_s + around_s + 2 * start_s(config)

    def availability(self, config: Config) -> Availability:
        level, probes = platform_level(config), self._probes
        if not (found := probes.platform(level)):
            return found
        links = str(config["attachment"])
        return first_unavailable(
            probes.attachment(links, level),
            probes.transit(links),
            *([probes.offloads_off(links, level)] if config["offloads"] == OFF else ()),
            *([probes.ipv6(links, level)] if config["ip"] == "6" else ()),
            *(probes.isolation(part, level) for part in parts_of(str(config["isolation"]))),
            probes.function(str(config["function"]), level, str(config["implementation"]), str(config["ip"])),
            probes.anomaly(str(config["anomaly"]), level, str(config["anomaly_tool"])),
        )

    # Calibrations

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """Return runs for the ceiling (plain forwarding throughput) and the profile (the undisturbed chain's needs)."""
        named = ("platform", "attachment", "function")
        undisturbed = {**config, "isolation": NONE, "anomaly": NONE}
        wanted: dict[str, Config] = {}
        if config["function"] != NONE:
            ceiling = {**undisturbed, "function": NONE, "implementation": "kernel"}
            wanted[calibration_key(_CEILING, ceiling, named, _NO_DIFFERENCE)] = ceiling
        if any(isolation.needs_profile for isolation in isolations_of(config)):
            wanted[calibration_key(_PROFILE, undisturbed, named, _NO_DIFFERENCE)] = undisturbed
        return wanted

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        if key.startswith(_CEILING):
            return outcome.measurements[_THROUGHPUT]
        noted: _Undisturbed = made(_Undisturbed, outcome.notes)
        return {
            "needs": {role: asdict(MeasuredUse.of(used, noted["elapsed_s"])) for role, used in noted["usage"].items()},
            "chain_cpus": noted["phases"][Iperf3Tcp.name]["host_cpus"],
            "block_device": block_device_of(self.testbed.scratch_dir, self.testbed.host),
        }

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        platform, links = self.pool.get(platform_level(config)), self.attachments.get(str(config["attachment"]))
        isolations, profile = isolations_of(config), calibrated(calibrations, _PROFILE)
        profile = None if profile is None else made(Profile, profile)

        def isolated(spec: InstanceSpec) -> InstanceSpec:
            return isolate(spec, isolations, profile)

        with clock_kept(outcome), ExitStack() as stack:
            chain = stack.enter_context(
                deployed(
                    self.testbed,
                    platform,
                    links,
                    registry.get("function", str(config["function"]))(),
                    implementation=str(config["implementation"]),
                    offloads=config["offloads"] != OFF,
                    ip=str(config["ip"]),
                    isolate=isolated,
                )
            )
            neighbour = stack.enter_context(self._disturbance(config, platform, isolated))
            everyone = dict(chain.instances)
            if neighbour:
                everyone[NEIGHBOUR] = neighbour.neighbour.instance
            outcome.invalidate(not_in_force(isolations, everyone))
            outcome.notes["limits"] = {role: limits_of(instance.spec) for role, instance in everyone.items()}
            outcome.add_condition(ON_CLICK if config["implementation"] == "click" else {})
            self._note_topology(config, chain, neighbour, outcome)
            rest(float(config["settle_s"]))
            own_cgroups = (*platform.own_cgroups, *links.own_cgroups)
            measure(self.testbed, config, chain, everyone, neighbour, outcome, own_cgroups=own_cgroups)
        ceiling = calibrated(calibrations, _CEILING)
        judge_ceiling(outcome, None if ceiling is None else {_THROUGHPUT: ceiling}, rates=(_THROUGHPUT,))
        return outcome

    def _note_topology(self, config: Config, chain: Chain, neighbour: Disturbance | None, outcome: Outcome) -> None:
        built, same = Built(self.testbed), {"isolation": str(config["isolation"])}
        work = {"function": f"{config['function']} ({config['implementation']})"}
        for role, instance in chain.instances.items():
            built.add(role, instance, platform_level(config), does=work.get(role, ""), **same)
        if neighbour:
            built.add(NEIGHBOUR, neighbour.neighbour.instance, platform_level(config), **neighbour.fields, **same)
        built.join(chain.attachment.name, chain.segments)
        built.note(outcome)

    @contextmanager
    def _disturbance(self, config: Config, platform: Platform, isolated: Any) -> Iterator[Disturbance | None]:
        """Run the anomaly in a neighbour, on the same platform and under the same isolation; yield None without one."""
        if not (asked := demanded(config, self.testbed, 2 * self.duration_s(config) + 60)):
            yield None
            return
        anomaly, demand = asked
        spec = bounded(isolated(instance_spec(self.testbed, NEIGHBOUR)), self.testbed, demand)
        with platform.start(self.testbed, spec) as instance, anomaly.at_work(instance, demand) as neighbour:
            yield Disturbance(neighbour, anomaly, demand)

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Return versions of the image's tools, and the offloads of the study's links on the platform native."""
        found: dict[str, Any] = {"image_tools": {}, "offloads": {}}
        click = any(config["implementation"] == "click" for config in configs)
        try:
            for name, offloads in sorted({(str(config["attachment"]), str(config["offloads"])) for config in configs}):
                if self._probes.attachment(name, self.pool.native.name):
                    links = name if offloads == KERNEL else f"{name}, offloads {offloads}"
                    with_offloads = offloads != OFF
                    found["offloads"][links], found["image_tools"] = self._facts_over(name, with_offloads, click)
        except LastroError as error:
            found["not_told"] = error.message
        return found

    def _facts_over(self, attachment: str, with_offloads: bool, click: bool) -> tuple[dict[str, str], dict[str, str]]:
        links, forwarding = self.attachments.get(attachment), registry.get("function", NONE)()
        with deployed(self.testbed, self.pool.native, links, forwarding, offloads=with_offloads) as chain:
            offloads = facts.offloads(self.testbed.host, chain.source.netns, SOURCE_PORT)
            commands = [Iperf3Tcp.version_argv, Ping.version_argv, ("stress-ng", "--version"), ("stress", "--version")]
            commands += [("click", "--version")] if click else []
            lines = {argv[0]: chain.source.run(argv, check=False).text.splitlines() for argv in commands}
        return offloads, {tool: words[0] for tool, words in lines.items() if words}

"""One flow from an instance to its host: what a platform's network costs, below, at and above what it can carry.

After Trindade (2018, chapter 6): 1470-byte datagrams at a nominal rate for 10 s, from the instance to the host. The
nominal rate is a factor here, since at one rate alone, a platform that carries it looks like any other that does."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from lastro import registry, validity
from lastro.errors import CommandFailed, LastroError
from lastro.host.base import Host
from lastro.image.rootfs import Needs
from lastro.instruments._udp import ACHIEVED, OFFERED, UdpLoad
from lastro.instruments.base import Instrument
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.isolation.base import isolate, not_in_force, parts_of
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, unavailable
from lastro.results.samples import Outcome, Reading
from lastro.scenarios import _workload
from lastro.scenarios._joined import HOST, HOST_ADDRESS, INSTANCE, PORT, Joined, joined
from lastro.scenarios._measure import judge_links, rest
from lastro.scenarios._probes import Probes
from lastro.scenarios._workload import GuestAccount
from lastro.scenarios.base import (
    AttachmentPool,
    Config,
    PlatformPool,
    Scenario,
    first_unavailable,
    platform_level,
    setup_s,
)
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_rate_bps

_DAY_S = 86_400
_HOPS = ((f"{INSTANCE}.{PORT}", "tx_bytes"), (f"{HOST}.{PORT}", "rx_bytes"))
_AROUND_S = 1.0  # the two ends of a flow, clocks and meters, about
_KEPT = 0.95  # of the nominal rate: less is not that rate
_NOT_RUN = (126, 127)  # exit codes of what starts a program, when there is none
_CEILING_SHARE = 0.9  # of the bare host's rate: from there on, it is not the platform that limits


class UplinkScenario(Scenario):
    name = "uplink"
    summary = "one UDP or TCP flow from an instance to its host, at rates below, at and above what can be carried"
    parts = ("platform", "attachment", "isolation", "instrument")
    combinable = frozenset({"isolation"})
    settings = (
        *_workload.RESOURCES,
        Setting("offered", "1G", "nominal rate of a UDP flow in bit/s", check=parse_rate_bps),
        Setting("datagram_bytes", 1470, "payload of a datagram", 64, 1472),
        Setting("load_s", 10, "length of the flow, in whole seconds as iperf3 takes them", 1, _DAY_S),
        Setting("tcp_streams", 1, "parallel TCP connections", 1, 128),
        Setting("settle_s", 0.5, "time between the links' being up and the flow", 0, _DAY_S),
        Setting("max_steal_percent", 5.0, "CPU time stolen from this host above which a trial is invalid", 0, 100),
        Setting("max_drift_percent", 0.1, "drift of a guest's clock above which what it timed is dropped", 0, 100),
        Setting("max_foreign_cpus", 0.3, "CPUs used by other processes above which a trial is invalid", 0, 4096),
    )
    metrics = (*UdpLoad.metrics, *Iperf3Tcp.metrics, *_workload.METRICS, *HostMeter.metrics)

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self.pool = PlatformPool(self.testbed, self._stack)
        self.attachments = AttachmentPool(self.testbed, self._stack)
        self._probes = Probes(self.testbed, self.pool, self.attachments)
        self._versions: dict[str, str] = {}

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        if kind != "instrument":
            return super().part_names(kind)
        infos = registry.parts(kind).values()
        fitting = (UdpLoad, Iperf3Tcp)
        return frozenset(info.name for info in infos if info.cls is not None and issubclass(info.cls, fitting))

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> Needs:
        kinds = [registry.get("instrument", name) for name in sorted({str(config["instrument"]) for config in configs})]
        return Needs(tuple(package for kind in kinds for package in getattr(kind, "packages", ())))

    @classmethod
    def duration_s(cls, config: Config) -> float:
        two = setup_s(config) * 2 / 3  # that of a chain is for its three instances
        return two + float(config["settle_s"]) + float(config["load_s"]) + _AROUND_S

    def availability(self, config: Config) -> Availability:
        level = platform_level(config)
        found = first_unavailable(
            self._probes.platform(level),
            self._probes.attachment(str(config["attachment"]), level),
            *(self._probes.isolation(part, level) for part in parts_of(str(config["isolation"]))),
        )
        if not found:
            return found
        try:
            self._spec(config)
            self._version(str(config["instrument"]))
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE

    def _spec(self, config: Config) -> InstanceSpec:
        """Raises: Unavailable when the host has not the resources, or the isolation would change them."""
        limits = _workload.resources(config)
        spec = InstanceSpec(self.testbed.session.unique(INSTANCE), INSTANCE, resources=limits)
        isolations = [registry.get("isolation", part)() for part in parts_of(str(config["isolation"]))]
        return isolate(spec, _workload.without_limits(isolations), None)

    def _version(self, instrument: str) -> str:
        """What its tool in the image says of itself; asked once. Raises: LastroError when it does not run."""
        if instrument not in self._versions:
            argv = registry.get("instrument", instrument).version_argv
            with self.pool.get("native").start(self.testbed, InstanceSpec("version", "probe")) as instance:
                done = instance.run(argv, check=False)  # iperf 2 tells its version and exits with 1
            if done.returncode in _NOT_RUN:
                raise CommandFailed(argv, done.returncode, done.error_text)
            self._versions[instrument] = next(iter((done.text + done.error_text).splitlines()), "")
        return self._versions[instrument]

    # What must be known before: the same flow from the bare host, over the same links

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        if platform_level(config) == "native" and config["isolation"] == "none":
            return {}
        own = {key: value for key, value in config.items() if not key.startswith("platform.")}
        bare = {**own, "platform": "native", "isolation": "none"}
        apart = {key: value for key, value in bare.items() if not key.startswith(("max_", "settle"))}
        digest = hashlib.sha256(json.dumps(apart, sort_keys=True).encode()).hexdigest()[:6]
        return {f"ceiling/{bare['attachment']}/{bare['instrument']}/{digest}": bare}

    def can_do_without(self, key: str) -> bool:
        """A missing ceiling takes a mark from the report, and nothing from the trial."""
        return True

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return _rates(outcome)

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        platform, links = self.pool.get(platform_level(config)), self.attachments.get(str(config["attachment"]))
        isolations = [registry.get("isolation", part)() for part in parts_of(str(config["isolation"]))]
        own_cgroups = (*platform.own_cgroups, *links.own_cgroups)
        clock = validity.ClockReading.now()
        with joined(self.testbed, self.pool.get("native"), platform, links, self._spec(config)) as pair:
            outcome.doubt(not_in_force(isolations, {INSTANCE: pair.instance}))
            reasons, seen = _workload.unequal(self.testbed, pair.instance)
            outcome.doubt(reasons)
            limits = {name: value for name, value in asdict(pair.instance.spec.resources).items() if value is not None}
            outcome.notes |= {"limits": {INSTANCE: limits}, "seen inside": seen}
            rest(float(config["settle_s"]))
            counted = links.counters(self.testbed)
            self._measure(config, pair, own_cgroups, outcome)
            judge_links(links.name, counted, links.counters(self.testbed), outcome)
        outcome.doubt(validity.clock_reasons(clock, validity.ClockReading.now()))
        bare = next(iter(calibrations.values()), None) if self.calibrations(config) else _rates(outcome)
        _judge_generator(config, bare, outcome)
        return outcome

    def _measure(self, config: Config, pair: Joined, own_cgroups: Sequence[str], outcome: Outcome) -> None:
        """The flow, with meters, witnesses and clocks around it."""
        tool: Instrument = registry.get("instrument", str(config["instrument"]))()
        host, witness = HostMeter(self.testbed, pair.everyone, own_cgroups), InterfaceMeter(self.testbed, pair.everyone)
        guest, clock = GuestAccount.of(pair.instance), pair.instance.clock()
        witness.start()
        before = {role: instance.usage() for role, instance in pair.everyone.items()}
        started_s = time.monotonic()
        host.start()
        reading = tool.measure(pair.instance, pair.host, HOST_ADDRESS, {**config, "tcp_s": config["load_s"]})
        host.stop()
        elapsed_s = time.monotonic() - started_s
        used = {role: instance.usage().since(before[role]) for role, instance in pair.everyone.items()}
        witness.stop()
        _judge_clock(tool, reading, validity.drift_between(clock, pair.instance.clock()), config, outcome)
        outcome.doubt(validity.path_reasons(tool.name, witness.moved, reading.payload_bytes, _HOPS))
        outcome.measurements |= {
            **_workload.account(used[INSTANCE], elapsed_s, guest, GuestAccount.of(pair.instance)),
            **host.read(),
        }
        foreign_cpus = host.foreign_cpus(sum(each.user_s for each in used.values()))
        outcome.notes |= {
            "usage": {role: asdict(each) for role, each in used.items()},
            "elapsed_s": elapsed_s,
            "witness": {tool.name: witness.moved},
            "host": {"foreign_cpus": round(foreign_cpus, 3), **host.notes(), **host.pressure()},
        }
        thresholds = {key: float(config[key]) for key in ("max_steal_percent", "max_foreign_cpus")}
        outcome.doubt(validity.host_reasons(host.steal_percent, foreign_cpus, thresholds))

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Versions of the tools, as they are in the image."""
        found: dict[str, Any] = {"image_tools": {}}
        try:
            for name in sorted({str(config["instrument"]) for config in configs}):
                found["image_tools"][name] = self._version(name)
        except LastroError as error:
            found["not_told"] = error.message
        return found

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [
            *self.testbed.preparation,
            *self.pool.preparations.get(platform_level(config), ()),
            *self.attachments.preparations.get(str(config["attachment"]), ()),
        ]

    def residuals(self, config: Config) -> dict[str, Any]:
        return {**self.pool.residuals(platform_level(config)), **self.attachments.residuals(str(config["attachment"]))}


def _judge_clock(
    tool: Instrument, reading: Reading, drift: validity.Drift | None, config: Config, outcome: Outcome
) -> None:
    """What the instance timed by a clock that ran wrong is dropped, and told; what its host timed remains."""
    measured = dict(reading.measurements)
    if drift:
        outcome.notes["clocks"] = {INSTANCE: {"drift": drift.ratio - 1, "uncertainty": drift.uncertainty}}
    wrong = validity.drift_reasons({INSTANCE: drift}, float(config["max_drift_percent"]) / 100) if drift else []
    if wrong and isinstance(tool, UdpLoad):
        dropped = sorted(set(measured) - tool.by_receiver)
        measured = {name: value for name, value in measured.items() if name in tool.by_receiver}
        outcome.notes["not timed by a good clock"] = {"because": wrong, "dropped": dropped}
    outcome.add(replace(reading, measurements=measured))


def _rates(outcome: Outcome) -> dict[str, float]:
    names = (OFFERED.name, ACHIEVED.name, "throughput")
    return {name: outcome.measurements[name] for name in names if name in outcome.measurements}


def _judge_generator(config: Config, ceiling: Mapping[str, float] | None, outcome: Outcome) -> None:
    """A mark, not a verdict: did the generator limit, since the bare host is no faster over the same links?

    The bare host is its own ceiling: it tells of a UDP rate that cannot be offered here, and of all of its TCP."""
    if ceiling is None:  # it could not be found
        return
    own, wanted = _rates(outcome), _KEPT * parse_rate_bps(str(config["offered"])) / 1e6
    outcome.notes["ceiling"] = dict(ceiling)
    if OFFERED.name in own and OFFERED.name in ceiling:
        sent, bare_sent = own[OFFERED.name], ceiling[OFFERED.name]
        outcome.notes["generator_limited"] = max(sent, bare_sent) < wanted and sent >= _CEILING_SHARE * bare_sent
    elif "throughput" in own and "throughput" in ceiling:
        outcome.notes["generator_limited"] = own["throughput"] >= _CEILING_SHARE * ceiling["throughput"]

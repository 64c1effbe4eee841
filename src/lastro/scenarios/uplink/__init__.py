"""One flow from an instance to its host or a peer: what a platform's network costs, below, at and above its capacity.

After Trindade (2018, chapter 6): 1470-byte datagrams at a nominal rate for 10 s, from the instance to the host. The
nominal rate is a factor here, since at one rate alone, all platforms that carry it look the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from lastro import registry, validity
from lastro.errors import CommandFailed, LastroError
from lastro.host.base import Host
from lastro.image.rootfs import Needs
from lastro.instruments._udp import UdpLoad
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.isolation.base import not_in_force, parts_of
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, unavailable
from lastro.results.samples import Outcome, Reading
from lastro.scenarios.base import (
    HOST_LIMITS,
    AttachmentPool,
    Config,
    OnLinks,
    PlatformPool,
    first_unavailable,
    platform_level,
    start_s,
)
from lastro.scenarios.shared.accounts import BY_HOST, tell_peak, with_account
from lastro.scenarios.shared.availability_probes import Probes
from lastro.scenarios.shared.clock_policy import by_good_clocks, tell_unverified
from lastro.scenarios.shared.measure import judge_links, rest
from lastro.scenarios.shared.point_to_point import (
    HOST,
    INSTANCE,
    PEER,
    PORT,
    FarEnd,
    Joined,
    far_end,
    joined,
    note_topology,
    require_host_address,
)
from lastro.scenarios.shared.resources import RESOURCES, limited_spec
from lastro.scenarios.shared.topology import note_load, note_meter
from lastro.scenarios.shared.verify_limits import unequal
from lastro.scenarios.shared.workload import METRICS
from lastro.scenarios.shared.workload_meters import watching
from lastro.scenarios.uplink.offered_load import MOST, check_offered, judge_generator, rates, share_of, with_rate
from lastro.study.model import Setting
from lastro.testbed import Testbed

_DAY_S = 86_400
_CEILING = "ceiling"
_AROUND_S = 0.5  # the two ends of a flow, clocks and meters, roughly
_NOT_RUN = (126, 127)  # exit codes of a launcher that cannot run its program


class UplinkScenario(OnLinks):
    name = "uplink"
    summary = "one UDP or TCP flow from an instance to its host or a peer, below, at and above the capacity"
    parts = ("platform", "attachment", "isolation", "instrument")
    combinable = frozenset({"isolation"})
    calibration_shapes = {_CEILING: dict[str, float], "capacity": dict[str, float]}
    settings = (
        *RESOURCES,
        Setting(
            "towards", PEER, "the flow's end: a peer behind the links, or the instance's host", choices=(PEER, HOST)
        ),
        Setting(
            "offered", "1G", "rate of a UDP flow in bit/s, or in % of what the bare host carries", check=check_offered
        ),
        Setting("datagram_bytes", 1470, "payload of a datagram", 64, 1472),
        Setting("load_s", 10, "length of the flow, in whole seconds as iperf3 takes them", 1, _DAY_S),
        Setting("tcp_streams", 1, "parallel TCP connections", 1, 128),
        Setting("settle_s", 0.5, "time from when the links are up to the flow", 0, _DAY_S),
        *HOST_LIMITS,
        Setting("max_drift_percent", 0.1, "drift of a guest's clock above which what it timed is dropped", 0, 100),
    )
    metrics = (*UdpLoad.metrics, *Iperf3Tcp.metrics, *METRICS, *HostMeter.metrics)

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
        return start_s(config) + float(config["settle_s"]) + float(config["load_s"]) + _AROUND_S

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
            if config["towards"] == HOST:
                require_host_address(registry.get("attachment", str(config["attachment"])))
            limited_spec(config, self.testbed, INSTANCE)
            self._version(str(config["instrument"]))
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE

    def _version(self, instrument: str) -> str:
        """Return the version line of its tool in the image; read once. Raises: LastroError when it does not run."""
        if instrument not in self._versions:
            argv = registry.get("instrument", instrument).version_argv
            with self.pool.get("native").start(self.testbed, InstanceSpec("version", "probe")) as instance:
                done = instance.run(argv, check=False)  # iperf 2 prints its version and exits with 1
            if done.returncode in _NOT_RUN:
                raise CommandFailed(argv, done.returncode, done.error_text)
            self._versions[instrument] = next(iter((done.text + done.error_text).splitlines()), "")
        return self._versions[instrument]

    # Calibration: the same flow from the bare host, over the same links

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        share = None if config["instrument"] == Iperf3Tcp.name else share_of(str(config["offered"]))
        if share is None and platform_level(config) == "native" and config["isolation"] == "none":
            return {}
        own = {key: value for key, value in config.items() if not key.startswith("platform.")}
        bare = {**own, "platform": "native", "isolation": "none"}
        if share is not None:
            bare["offered"] = MOST
        apart = {key: value for key, value in bare.items() if not key.startswith(("max_", "settle"))}
        digest = hashlib.sha256(json.dumps(apart, sort_keys=True).encode()).hexdigest()[:6]
        kind = _CEILING if share is None else "capacity"
        return {f"{kind}/{bare['attachment']}/{bare['instrument']}/{digest}": bare}

    def can_do_without(self, key: str) -> bool:
        """Return True for a ceiling, which only flags limited trials. A capacity is needed for the rate."""
        return key.startswith(_CEILING)

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return rates(outcome)

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        known = next(iter(calibrations.values()), None) if self.calibrations(config) else None
        config = with_rate(config, known, outcome)
        platform, links = self.pool.get(platform_level(config)), self.attachments.get(str(config["attachment"]))
        isolations = [registry.get("isolation", part)() for part in parts_of(str(config["isolation"]))]
        own_cgroups = (*platform.own_cgroups, *links.own_cgroups)
        clock = validity.ClockReading.now()
        native, towards = self.pool.get("native"), str(config["towards"])
        with (
            joined(self.testbed, native, platform, links, limited_spec(config, self.testbed, INSTANCE)) as pair,
            far_end(self.testbed, native, links, pair, towards) as end,
        ):
            outcome.invalidate(not_in_force(isolations, {INSTANCE: pair.instance}))
            reasons, seen = unequal(self.testbed, pair.instance)
            outcome.invalidate(reasons)
            limits = {name: value for name, value in asdict(pair.instance.spec.resources).items() if value is not None}
            outcome.notes |= {"limits": {INSTANCE: limits}, **seen}
            built = pair.built(self.testbed, links.name, platform_level(config), isolation=str(config["isolation"]))
            note_topology(built, pair, end, links.name, outcome)
            rest(float(config["settle_s"]))
            counted = links.counters(self.testbed)
            self._measure(config, pair, end, own_cgroups, outcome)
            if towards == PEER:  # packets to the host itself are not routed
                judge_links(links.name, counted, links.counters(self.testbed), outcome)
        outcome.invalidate(validity.clock_reasons(clock, validity.ClockReading.now()))
        alone = platform_level(config) == "native" and config["isolation"] == "none"
        judge_generator(config, known or (rates(outcome) if alone else None), outcome)
        return outcome

    def _measure(self, config: Config, pair: Joined, end: FarEnd, own_cgroups: Sequence[str], outcome: Outcome) -> None:
        """Run the flow with a witness around it, and with meters and clocks around the sender's command alone.

        CPU time, and the time that it is divided by, are those of that command, each less the overhead of exec."""
        everyone = {**pair.everyone, end.role: end.instance}
        hops = ((f"{INSTANCE}.{PORT}", "tx_bytes"), (f"{end.role}.{end.device}", "rx_bytes"))
        tool: UdpLoad | Iperf3Tcp = registry.get("instrument", str(config["instrument"]))()
        settings, witness = {**config, "tcp_s": config["load_s"]}, InterfaceMeter(self.testbed, everyone)
        with watching(self.testbed, everyone, INSTANCE, own_cgroups) as watch:
            witness.start()
            reading = tool.measure(pair.instance, end.instance, end.address, settings, watch)
            witness.stop()
        watch.require_used(tool.name)
        note_load(outcome, tool.name, INSTANCE, end.role)
        note_meter(outcome, witness)
        watch.note_witnesses(outcome)
        drift, limit = watch.drift, float(config["max_drift_percent"]) / 100
        by_host = _timed_by_host(tool, reading) | BY_HOST
        work_s, (inside_s, everywhere_s) = watch.work_s, watch.entered_cpu_s
        used, lasted_s = watch.used[INSTANCE], reading.lasted_s
        reading = with_account(reading, used, work_s, watch.guest, watch.guest_after, apart_s=inside_s)
        _judge_clock(reading, by_host, drift, limit, outcome)
        tell_unverified(pair.instance, by_host, drift, limit, outcome)
        tell_peak(watch.fresh_peak, outcome)
        outcome.invalidate(validity.path_reasons(tool.name, witness.moved, reading.payload_bytes, hops))
        host = watch.host.read(work_s, everywhere_s)
        outcome.measurements |= {name: value for name, value in host.items() if work_s or name != "host_cpus"}
        outcome.notes |= {**watch.notes(), "work_s": work_s, "flow_s": lasted_s, "witness": {tool.name: witness.moved}}
        outcome.invalidate(validity.host_reasons(watch.host.steal_percent, watch.foreign_cpus, config))

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Return the versions of the tools in the image."""
        found: dict[str, Any] = {"image_tools": {}}
        try:
            for name in sorted({str(config["instrument"]) for config in configs}):
                found["image_tools"][name] = self._version(name)
        except LastroError as error:
            found["not_told"] = error.message
        return found


def _judge_clock(
    reading: Reading, by_host: Collection[str], drift: validity.Drift | None, limit: float, outcome: Outcome
) -> None:
    """Add the reading without what a wrong clock timed: with TCP only the series, since the receiver timed the rate."""
    kept = by_good_clocks(reading, by_host, drift, limit, outcome)
    outcome.add(kept if kept is reading else replace(kept, series=()))


def _timed_by_host(tool: UdpLoad | Iperf3Tcp, reading: Reading) -> frozenset[str]:
    return tool.by_receiver if isinstance(tool, UdpLoad) else frozenset(reading.measurements)

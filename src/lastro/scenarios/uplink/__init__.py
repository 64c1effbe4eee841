"""One flow from an instance to its host or a peer: the cost of a platform's network below, at and above its capacity.

After Trindade (2018, chapter 6): 1470-byte datagrams at a nominal rate for 10 s, from the instance to the host. Here
the nominal rate is a factor, since at a single rate, all platforms that can carry it look the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lastro import registry, validity
from lastro.attachments.base import Attachment
from lastro.errors import CommandFailed, LastroError
from lastro.host.base import Host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.base import Instrument
from lastro.instruments.iperf3_tcp import TCP_S, TCP_STREAMS, Iperf3Tcp
from lastro.instruments.udp_load import DATAGRAM_BYTES, LOAD_S, UdpLoad
from lastro.isolation.base import not_in_force
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, unavailable
from lastro.platforms.native import OWN_STACK, Native
from lastro.results.samples import Outcome, Reading
from lastro.scenarios.base import (
    CalibrationKind,
    Config,
    chosen_class,
    chosen_part,
    isolation_level,
    isolations_of,
    links_level,
    platform_level,
    start_s,
)
from lastro.scenarios.shared.accounts import METRICS
from lastro.scenarios.shared.bases import NOT_RUN, OnLinks
from lastro.scenarios.shared.calibration import calibration_key, on_bare_host
from lastro.scenarios.shared.clock_policy import MAX_TOOL_DRIFT
from lastro.scenarios.shared.flow import judge_links, rest
from lastro.scenarios.shared.host_limits import HOST_LIMITS, clock_kept
from lastro.scenarios.shared.point_to_point import INSTANCE, PEER, PORT, JoinedPair, joined
from lastro.scenarios.shared.resources import RESOURCES, check_resources, limited_spec, limits_of
from lastro.scenarios.shared.topology import note_load, note_meter
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.scenarios.uplink.ends import HOST, FlowEnd, flow_end, note_topology, require_host_address
from lastro.scenarios.uplink.offered_load import (
    MOST,
    OFFERED_RATE,
    capacity_fraction,
    judge_generator,
    rates,
    with_rate,
)
from lastro.study.levels import NONE, part_name
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed

TOWARDS = Setting(
    "towards", PEER, "the flow's end: a peer behind the links, or the instance's host", choices=(PEER, HOST)
)
SETTLE_S = Setting("settle_s", 0.5, "time between the set-up of the links and the flow", 0, DAY_S)
_CEILING, _CAPACITY = "ceiling", "capacity"
_AROUND_S = 0.5  # the two ends of a flow, clocks and meters, roughly


class UplinkScenario(OnLinks):
    name = "uplink"
    summary = "one UDP or TCP flow from an instance to its host or a peer, below, at and above the capacity"
    parts = ("platform", "attachment", "isolation", "instrument")
    usable = {"instrument": (UdpLoad, Iperf3Tcp)}
    combinable = frozenset({"isolation"})
    calibration_kinds = {
        _CEILING: CalibrationKind(dict[str, float], optional=True),  # it only flags limited trials
        _CAPACITY: CalibrationKind(dict[str, float]),  # the rate is a percentage of it
    }
    settings = (
        *RESOURCES, TOWARDS, OFFERED_RATE, DATAGRAM_BYTES, LOAD_S, TCP_STREAMS, SETTLE_S, *HOST_LIMITS,
        MAX_TOOL_DRIFT,
    )  # fmt: skip
    metrics = (*UdpLoad.metrics, *Iperf3Tcp.metrics, *METRICS, *HostMeter.metrics)

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self._versions: dict[str, str] = {}

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        kinds = [registry.get(Instrument, name) for name in _tools(configs)]
        return ImageAdditions(tuple(package for kind in kinds for package in getattr(kind, "packages", ())))

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return start_s(config) + SETTLE_S.of(config) + LOAD_S.of(config) + _AROUND_S

    def availability(self, config: Config) -> Availability:
        if not (availability := self.parts_available(config)):
            return availability
        try:
            if TOWARDS.of(config) == HOST:
                require_host_address(chosen_class(Attachment, config))
            limited_spec(config, self.testbed, INSTANCE)
            self._version(part_name(config, "instrument"))
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE

    def linked_level(self, config: Config) -> str:
        """Return the level of the platform on which the treatment's attachment is probed.

        It is the bare host if the instance sends to its host by that host's own sockets, since it then uses no link."""
        level = platform_level(config)
        by_sockets = TOWARDS.of(config) == HOST and self.pool.availability(level) and self.pool.get(level).sends_by_host
        return Native.name if by_sockets else level

    def _version(self, instrument: str) -> str:
        """Return the first line that an instrument's tool prints as its version; it is run once in a session.

        Raises: LastroError when the tool does not run."""
        if instrument not in self._versions:
            argv = registry.get(Instrument, instrument).version_argv
            with self.pool.native.start(self.testbed, InstanceSpec("version", "probe")) as instance:
                done = instance.run(argv, check=False)  # iperf 2 prints its version and exits with 1
            if done.returncode in NOT_RUN:
                raise CommandFailed(argv, done.returncode, done.error_text)
            self._versions[instrument] = next(iter((done.text + done.error_text).splitlines()), "")
        return self._versions[instrument]

    # Calibration: the same flow from the bare host, over the same links or, towards the host itself, by its own stack

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        is_udp = issubclass(chosen_class(Instrument, config), UdpLoad)
        fraction = capacity_fraction(OFFERED_RATE.of(config)) if is_udp else None  # TCP has no offered rate
        if fraction is None and _is_bare(config):
            return {}
        kind, bare = _CEILING, _bare(config)
        if fraction is not None:
            kind, bare = _CAPACITY, {**bare, OFFERED_RATE.name: MOST}
        return {calibration_key(kind, bare, ("attachment", "instrument"), ("max_", "settle")): bare}

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return rates(outcome)

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        known = next(iter(calibrations.values()), None) if self.calibrations(config) else None
        config = with_rate(config, known, outcome)
        platform = self.pool.get(platform_level(config))
        links = self.attachments.get(links_level(config))
        isolations = isolations_of(config)
        own_cgroups = (*platform.own_cgroups, *links.own_cgroups)
        native, towards = self.pool.native, TOWARDS.of(config)
        with (
            clock_kept(self.testbed, config, outcome),
            joined(self.testbed, native, platform, links, limited_spec(config, self.testbed, INSTANCE)) as pair,
            flow_end(self.testbed, native, links, pair, towards) as end,
        ):
            outcome.invalidate(not_in_force(isolations, {INSTANCE: pair.instance}))
            reasons, seen = check_resources(self.testbed, pair.instance)
            outcome.invalidate(reasons)
            outcome.notes |= {"limits": {INSTANCE: limits_of(pair.instance.spec)}, **seen}
            built = pair.built(self.testbed, links.level, platform_level(config), isolation=isolation_level(config))
            note_topology(built, pair, end, links.level, outcome)
            rest(SETTLE_S.of(config))
            counted = links.counters(self.testbed)
            self._measure(config, pair, end, own_cgroups, outcome)
            if towards == PEER:  # packets to the host itself are not routed
                judge_links(links.name, counted, links.counters(self.testbed), outcome)
        judge_generator(config, known or (rates(outcome) if _is_bare(config) else None), outcome)
        return outcome

    def _measure(
        self, config: Config, pair: JoinedPair, end: FlowEnd, own_cgroups: Sequence[str], outcome: Outcome
    ) -> None:
        """Run the flow, and add the results to `outcome`.

        Meters and clocks are read around the sender's command only, so the CPU time, and the elapsed time that divides
        it, are those of that command. The witness counts the bytes of the whole flow."""
        everyone = {**pair.everyone, end.role: end.instance}
        # An instance that sends by its host's sockets uses the loopback device. A virtual machine behind a NAT of its
        # monitor still has a network card of its own.
        sender = "lo" if pair.instance.sends_by_host and pair.instance.shares_kernel else PORT
        hops = ((f"{INSTANCE}.{sender}", "tx_bytes"), (f"{end.role}.{end.device}", "rx_bytes"))
        tool = chosen_part(Instrument, config)
        settings = {**config, TCP_S.name: LOAD_S.of(config)}
        witness = InterfaceMeter(self.testbed, everyone)
        window = MeasuredWindow(self.testbed, everyone, config, own_cgroups, workload=INSTANCE)
        witness.start()
        reading = tool.measure(pair.instance, end.instance, end.address, settings, window)
        witness.stop()
        window.require_used(tool.name)
        note_load(outcome, tool.name, INSTANCE, end.role)
        note_meter(outcome, witness)
        outcome.invalidate(validity.path_reasons(tool.name, witness.moved, reading.payload_bytes, hops))
        by_host = _timed_by_host(tool, reading)
        work_s = window.host.elapsed_s
        window.record_workload(reading, by_host, work_s, outcome, own_series=True)
        outcome.notes |= {"work_s": work_s, "flow_s": reading.lasted_s, "witness": {tool.name: witness.moved}}

    def facts_by_chapter(self, configs: Sequence[Config]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "image_tools", {name: self._version(name) for name in _tools(configs)}


def _tools(configs: Sequence[Config]) -> list[str]:
    return sorted({part_name(config, "instrument") for config in configs})


def _bare(config: Config) -> dict[str, Any]:
    """Return the configuration of the same flow from the bare host.

    If the flow is towards the host itself, the bare host sends by its own network stack, without a link."""
    bare = {**on_bare_host(config), "isolation": NONE}
    return {**bare, "platform": OWN_STACK} if TOWARDS.of(config) == HOST else bare


def _is_bare(config: Config) -> bool:
    """Return whether a trial is on the bare host, so that it is its own ceiling."""
    return {**config, **_bare(config)} == dict(config)


def _timed_by_host(tool: Instrument, reading: Reading) -> frozenset[str]:
    """Return the metrics in the reading that the receiver times, not the sender. For TCP, these are all metrics."""
    return tool.by_receiver if isinstance(tool, UdpLoad) else frozenset(reading.measurements)

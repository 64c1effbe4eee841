"""A service function chain: a flow from a source through a function to a sink, while a neighbour may misbehave.

The phases follow Kagami and Gaspary (2017): the anomaly starts, the system settles, then TCP, UDP and ping are measured
one after the other with a pause between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lastro import registry
from lastro.functions.base import Function
from lastro.host import facts
from lastro.host.base import Host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.iperf3_tcp import TCP_S, TCP_STREAMS, Iperf3Tcp
from lastro.instruments.iperf3_udp import UDP_RATE, UDP_S, Iperf3Udp
from lastro.instruments.irtt import LOADED_S
from lastro.instruments.ping import PING_S, Ping
from lastro.isolation.base import Profile
from lastro.platforms.base import Availability
from lastro.results.samples import Metric, Outcome
from lastro.scenarios.base import CalibrationKind, Config, links_level
from lastro.scenarios.chain.latency import LOADED_METRICS, TRANSACTIONS, image_packages, signable
from lastro.scenarios.chain.latency import SETTINGS as LATENCY_SETTINGS
from lastro.scenarios.chain.measuring import GAP_S, METRICS, SIDE_BY_SIDE, THROUGHPUT, TOTAL, WORST, measure
from lastro.scenarios.shared import on_chain
from lastro.scenarios.shared.calibration import calibrated, calibration_key, judge_ceiling
from lastro.scenarios.shared.chain import SOURCE_PORT, deployed
from lastro.scenarios.shared.disturbance import NEIGHBOUR_SETTINGS
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.frames import FRAME_SIZE, KERNEL, OFF, OFFLOADS
from lastro.scenarios.shared.function_row import CHAINS, LENGTH, PLACEMENT
from lastro.scenarios.shared.host_limits import HOST_LIMITS, MAX_DRIFT_PERCENT, clock_kept
from lastro.scenarios.shared.impaired_link import LINK_SETTINGS
from lastro.scenarios.shared.simultaneous import MIN_OVERLAP, exceeds, extend_marks, has_several_chains
from lastro.study.levels import NONE
from lastro.study.model import DAY_S, Setting

SETTLE_S = Setting("settle_s", 2.0, "time between the start of the anomaly and the first measurement", 0, DAY_S)
_AROUND_S = 0.9  # what a trial takes besides measurements, waits and two starts, roughly
_LOADED_AROUND_S = 2.5  # a TCP stream that begins and ends
_NEIGHBOURS_S = 1.0  # with IPv6, until routers find their neighbours
_CEILING = "ceiling"  # of plain forwarding
_TRANSACTION_LENGTHS = tuple(length for length, _ in TRANSACTIONS)
_OPTIONAL = {
    UDP_S.name: Iperf3Udp.metrics,
    **{length.name: tool.metrics for length, tool in TRANSACTIONS},
    LOADED_S.name: LOADED_METRICS,
}  # measurements by their length, which may be 0


class ChainScenario(on_chain.OnChain):
    name = "chain"
    summary = "a flow from a source through a network function to a sink, beside a neighbour that may misbehave"
    calibration_kinds = {
        _CEILING: CalibrationKind(float, optional=True),  # it only flags limited trials
        on_chain.PROFILE: CalibrationKind(Profile),  # without it, isolation has no meaning
    }
    settings = (
        SETTLE_S, TCP_S, UDP_S, *_TRANSACTION_LENGTHS, GAP_S, UDP_RATE, TCP_STREAMS, *LATENCY_SETTINGS,
        on_chain.IMPLEMENTATION, LENGTH, PLACEMENT, CHAINS, MIN_OVERLAP, OFFLOADS, on_chain.IP, *LINK_SETTINGS,
        *NEIGHBOUR_SETTINGS, *HOST_LIMITS, MAX_DRIFT_PERCENT,
    )  # fmt: skip
    metrics = (*Iperf3Tcp.metrics, FRAME_SIZE, *Iperf3Udp.metrics, *Ping.metrics, *METRICS)

    @classmethod
    def duration_s(cls, config: Config) -> float:
        lengths: tuple[Setting[Any], ...] = (TCP_S, UDP_S, *_TRANSACTION_LENGTHS, PING_S, LOADED_S)
        lengths_s: list[float] = [length.of(config) for length in lengths]
        measured_s = sum(lengths_s)
        gaps = sum(length_s > 0 for length_s in lengths_s) - 1
        waits_s = gaps * GAP_S.of(config) + SETTLE_S.of(config) + (LOADED_S.of(config) > 0) * _LOADED_AROUND_S
        around_s = _AROUND_S + (_NEIGHBOURS_S if on_chain.IP.of(config) == "6" else 0.0)
        return measured_s + waits_s + around_s + on_chain.starts_s(config)

    @classmethod
    def metrics_by(cls, chosen: Mapping[str, object]) -> tuple[Metric, ...]:
        lengths = {setting.name: setting.default for setting in cls.settings} | dict(chosen)
        measured = [length for length in _OPTIONAL if exceeds(lengths[length], 0)]
        several = SIDE_BY_SIDE if has_several_chains(chosen) else ()
        return (*(metric for length in measured for metric in _OPTIONAL[length]), *several)

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        packages = {package for config in configs for package in image_packages(config)}
        return super().image_needs(host, configs).combined_with(ImageAdditions(packages=tuple(sorted(packages))))

    def availability(self, config: Config) -> Availability:
        return super().availability(config) if (refusal := signable(config)) else refusal

    # Calibrations

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """Return the calibrations of a trial: plain forwarding for its ceiling, the undisturbed chain for its profile.

        A treatment that only forwards has no ceiling. Only isolations that limit by the profile require one."""
        wanted = cls.profile_run(config)
        if not on_chain.forwards_only(config):
            ceiling = cls.plain_forwarding(config)
            wanted[calibration_key(_CEILING, ceiling, on_chain.CALIBRATED_FOR, on_chain.NO_DIFFERENCE)] = ceiling
        return wanted

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        if key.startswith(_CEILING):
            return outcome.measurements[THROUGHPUT]
        return self.profile_of(outcome)

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        with clock_kept(self.testbed, config, outcome), self.standing(config, calibrations, outcome) as standing:
            rest(SETTLE_S.of(config))
            measure(self.testbed, config, standing, outcome)
        ceiling = calibrated(calibrations, _CEILING)
        judge_ceiling(outcome, None if ceiling is None else {THROUGHPUT: ceiling}, rates=(THROUGHPUT,))
        extend_marks(outcome, THROUGHPUT, TOTAL, WORST)
        return outcome

    def version_commands(self, configs: Sequence[Config]) -> Mapping[str, Sequence[str]]:
        stressing = (("stress-ng", "--version"), ("stress", "--version"))
        commands: list[Sequence[str]] = [Iperf3Tcp.version_argv, Ping.version_argv, *stressing]
        commands += [
            tool.version_argv for length, tool in TRANSACTIONS if any(length.of(config) > 0 for config in configs)
        ]
        return {argv[0]: argv for argv in commands} | on_chain.implementation_versions(configs)

    def facts_by_chapter(self, configs: Sequence[Config]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the facts of the base class, then ('offloads', {attachment: its links' offloads on the bare host})."""
        yield from super().facts_by_chapter(configs)
        native, forwarding = self.pool.native, registry.get(Function, NONE)()
        for name, offloads in sorted({(links_level(config), OFFLOADS.of(config)) for config in configs}):
            if self._probes.attachment(name, native.name):
                links = self.attachments.get(name)
                with deployed(self.testbed, native, links, forwarding, offloads=offloads != OFF) as chain:
                    offload_facts = facts.offloads(self.testbed.host, chain.source.netns, SOURCE_PORT)
                yield "offloads", {name if offloads == KERNEL else f"{name}, offloads {offloads}": offload_facts}

"""A control plane of virtual routers: it boots, converges, runs, loses all links except a tree, and gets them back.

The phases follow Corrêa and others (2011). The end of convergence is verified here: a trial is invalid unless the
routes of every router agree with a shortest-path computation over the remaining links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from lastro.attachments.separable import SeparableLinks
from lastro.functions.ospf import NETWORK_TYPES, OspfSettings
from lastro.functions.ospf_router import ROUTERS, OspfRouter
from lastro.host.base import Host
from lastro.host.cgroups import total
from lastro.image.rootfs import ImageAdditions
from lastro.platforms.base import AVAILABLE, Availability
from lastro.results.samples import Outcome
from lastro.scenarios.base import CalibrationKind, Config, links_level, platform_level, start_s
from lastro.scenarios.routing.additions import FIGURES, METRICS, TOPOLOGIES, size_of
from lastro.scenarios.routing.boot import booted, note_network
from lastro.scenarios.routing.convergence import (
    DEAD_HELLOS,
    FAILURE_S,
    PHASES,
    REGULAR_S,
    SETTLE_S,
    LifecycleRun,
    wait_for_routes,
)
from lastro.scenarios.routing.host_timeline import observers, recorded_timeline
from lastro.scenarios.routing.network import AT_ONCE, shortened
from lastro.scenarios.routing.ospf_capture import REQUIREMENTS
from lastro.scenarios.routing.phase_recorder import (
    FAILURE,
    HELLO_S,
    IMPLEMENTATION,
    QUIET_S,
    TIMERS,
    PhaseRecorder,
    quiet_suffices,
)
from lastro.scenarios.routing.topology_file import digest, read_topology, require_same
from lastro.scenarios.shared.bases import OnLinks
from lastro.scenarios.shared.host_limits import HOST_LIMITS, MAX_DRIFT_PERCENT, clock_kept
from lastro.scenarios.shared.probes import tried
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.study.model import Setting
from lastro.study.topology import grid
from lastro.testbed import Testbed

TOPOLOGY = Setting("topology", "3x3", "a grid such as 3x3, or a file: .toml, .graphml, edge list", check=read_topology)
NETWORK_TYPE = Setting("network_type", "broadcast", "network type of a link in OSPF", choices=NETWORK_TYPES)
_PROBE = OspfSettings(hello_s=1, dead_s=4, network_type="point-to-point", timers="fast")
_PROBE_S = 30.0
_ROW_S = 2.0  # for the three routers of a probe to find their routes, roughly; for plans only
_TREE = Availability("the topology is a tree: no link can fail without splitting it", 'set failure = "none"')
_NO_CARRIER = Availability(
    "a router with its own kernel does not see that a link loses its carrier: its card is not the end of the link",
    'set failure = "silent", which is the same for every router',
)


class RoutingScenario(OnLinks):
    name = "routing"
    summary = "a network of virtual routers that speak OSPF: it boots, converges, loses links and gets them back"
    parts = ("platform", "attachment")
    usable = {"attachment": (SeparableLinks,)}  # they can give each link its own switch
    requirements = REQUIREMENTS
    calibration_kinds = {"topology": CalibrationKind(str)}
    figures = FIGURES
    sized = TOPOLOGIES
    settings = (
        TOPOLOGY, IMPLEMENTATION, HELLO_S, NETWORK_TYPE, TIMERS, FAILURE, QUIET_S, *PHASES, MAX_DRIFT_PERCENT,
        *HOST_LIMITS,
    )  # fmt: skip
    metrics = METRICS

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self._probed: dict[tuple[str, ...], Availability] = {}
        self._own_kernels: set[str] = set()  # platforms whose routers have kernels of their own

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        return OspfRouter.needs(host, map(IMPLEMENTATION.of, configs))

    @classmethod
    def duration_s(cls, config: Config) -> float:
        if _only_records_digest(config):
            return 0.0
        n, hello_s = len(read_topology(TOPOLOGY.of(config)).names), HELLO_S.of(config)
        exchange_s = DEAD_HELLOS * hello_s + (2 if TIMERS.of(config) == "fast" else 6) + QUIET_S.of(config)
        failures = 0.0 if FAILURE.of(config) == "none" else 1.6  # when links return, no dead interval has to pass
        waits_s = SETTLE_S.of(config) + REGULAR_S.of(config) + 2
        longer_s = max(0.0, FAILURE_S.of(config) - exchange_s) if failures else 0.0
        return _boot_s(config, n) + (1 + failures) * exchange_s + waits_s + longer_s

    @classmethod
    def probing_s(cls, configs: Sequence[Config]) -> float:
        """Estimate the seconds of the probes of any scenario, and of the rows of routers that this one tries.

        A row of three routers is tried for each platform and implementation."""
        rows = {(platform_level(config), IMPLEMENTATION.of(config)): config for config in configs}
        return super().probing_s(configs) + sum(_boot_s(config, 3) + _ROW_S for config in rows.values())

    # What must stay the same in all trials of a campaign

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """Return a run that records the digest of the topology file, so that a change is noticed; {} for a grid."""
        level = TOPOLOGY.of(config)
        return {f"topology/{level}": {TOPOLOGY.name: level}} if digest(level) else {}

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return outcome.notes["sha256"]

    # Availability

    def availability(self, config: Config) -> Availability:
        if not (availability := quiet_suffices(config)):
            return availability
        if FAILURE.of(config) != "none" and not read_topology(TOPOLOGY.of(config)).spare_links():
            return _TREE
        platform, implementation = platform_level(config), IMPLEMENTATION.of(config)
        if not (availability := ROUTERS[implementation].availability(self.testbed.host)):
            return availability
        probe = partial(self._probe, platform, implementation)
        availability = self.parts_available(config) and tried(self._probed, (platform, implementation), probe)
        sees_no_carrier = FAILURE.of(config) == "carrier" and platform in self._own_kernels
        return _NO_CARRIER if availability and sees_no_carrier else availability

    def _probe(self, level: str, implementation: str) -> Availability:
        """Return whether three routers in a row learn each other's subnets on this platform."""
        row = grid(1, 3)
        links = self._links("veth-bridge")
        platform = self.pool.get(level)
        with (
            observers(self.testbed) as watch,
            booted(self.testbed, platform, links, row, ROUTERS[implementation], _PROBE, watch) as network,
        ):
            booted_s = network.marks["booted"]
            differences = wait_for_routes(network, row.routes(), booted_s, quiet_s=0.2, within_s=_PROBE_S)
            dead = network.dead()
            if not all(instance.shares_kernel for instance in network.instances):
                self._own_kernels.add(level)
        if differences:
            return Availability(
                f"three routers in a row do not find their routes by {implementation} within {_PROBE_S:g} s:"
                f" {shortened(dead or differences)}",
                "choose another platform: `lastro doctor` shows which",
            )
        return AVAILABLE

    def _links(self, name: str) -> Any:
        """Return the prepared attachment, set to make a separate switch for each link."""
        links = self.attachments.get(name)
        links.separated = True
        return links

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome, level = Outcome(), TOPOLOGY.of(config)
        file_digest = digest(level)
        digest_note = {"sha256": file_digest} if file_digest else {}
        if _only_records_digest(config):
            return Outcome(notes={**digest_note})
        require_same(level, calibrations.get(f"topology/{level}"))
        topology, router = read_topology(level), ROUTERS[IMPLEMENTATION.of(config)]
        sizes = dict(zip(TOPOLOGIES.measures, size_of(topology), strict=True))
        outcome.notes["network"] = {**sizes, "router": router.name, **digest_note}
        platform = self.pool.get(platform_level(config))
        links = self._links(links_level(config))
        hello_s = HELLO_S.of(config)
        protocol = OspfSettings(hello_s, DEAD_HELLOS * hello_s, NETWORK_TYPE.of(config), TIMERS.of(config))
        machine = self.testbed.host
        machine.be_ready(min(AT_ONCE, len(topology.names)) + 1)  # one more, to read the host meanwhile
        with (
            clock_kept(self.testbed, config, outcome),
            observers(self.testbed, platform) as watch,
            recorded_timeline(watch) as timeline,
            ExitStack() as stack,
        ):
            own_cgroups = (*platform.own_cgroups, *links.own_cgroups, watch.group)
            window = MeasuredWindow(self.testbed, {}, config, own_cgroups, with_commands=True)
            with window:
                recorder = PhaseRecorder(self.testbed, config, outcome, own_cgroups, timeline)
                boot = booted(self.testbed, platform, links, topology, router, protocol, watch, timeline.take)
                network = stack.enter_context(boot)
                recorder.routers = dict(zip(network.names, network.instances, strict=True))
                window.add(recorder.routers)
                LifecycleRun(network, recorder).run_phases()
            note_network(self.testbed, network, platform_level(config), outcome)
            if dead := network.dead():
                text = f"{len(dead)} of {len(network.names)} routers died in the trial: {shortened(dead)}"
                outcome.invalidate([text])
            outcome.invalidate(network.watch.end())
            outcome.notes["usage"] = {"routers": asdict(total(window.usage.used.values()))}
            window.judge(outcome)
            with machine.timed() as teardown:
                stack.close()
            outcome.measurements["teardown"] = teardown.took_s
            recorder.record_drift()
        return outcome

    def version_commands(self, configs: Sequence[Config]) -> Mapping[str, Sequence[str]]:
        return {name: ROUTERS[name].version_argv for name in sorted({*map(IMPLEMENTATION.of, configs)})}


def _boot_s(config: Config, n: int) -> float:
    return n * ((start_s(config) + 0.25) / 2 + 0.15)


def _only_records_digest(config: Config) -> bool:
    """Return whether this is the configuration of the run that records a topology file's digest, not of a trial."""
    return set(config) == {TOPOLOGY.name}

"""HTTP proxies on the DUT, between clients and a server: one or several, on any platform, reached with or without NAT.

After Eiras, Couto and Rubinstein (2018): clients request one object, each through its proxy. An anomaly may keep the
host of the proxies busy, which is the middle one of a three-node testbed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from lastro import registry
from lastro.attachments.hosting import HostingAttachment
from lastro.errors import LastroError
from lastro.functions.http_proxy import HttpProxy, ProxyOptions
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.base import Instrument
from lastro.instruments.http_load import CLIENTS, LIMIT_S, REQUESTS, TIMEOUT_S, WARM_UP, HttpLoad
from lastro.instruments.vegeta import OPEN_S, RATE_PER_S
from lastro.isolation.base import isolate, not_in_force, parts_of
from lastro.platforms.base import AVAILABLE, Availability, Platform, unavailable
from lastro.results.samples import Metric, Outcome, Reading
from lastro.scenarios.base import (
    CalibrationKind,
    Config,
    isolation_level,
    isolations_of,
    links_level,
    platform_level,
    platform_of,
)
from lastro.scenarios.proxy import logs, measure
from lastro.scenarios.proxy.capacity import CAPACITY, fill_up
from lastro.scenarios.proxy.expected import CAPACITY_S, INSTANCES, MAX_PROXIES, PROXIES, SETTLE_S, expected_s, load_of
from lastro.scenarios.proxy.measure import CACHE, MemoryInUse, RunningProxies
from lastro.scenarios.proxy.origin import APACHE, NGINX, PACKAGES, VERSION_ARGV, serving
from lastro.scenarios.proxy.proxies import Proxy, ProxyStarter, StartsWindow, ask, ask_all
from lastro.scenarios.proxy.three_node import CLIENT, ROLES, SERVER, three_node_testbed
from lastro.scenarios.proxy.topology import note_topology
from lastro.scenarios.shared import resources
from lastro.scenarios.shared.bases import OnLinks, first_unavailable
from lastro.scenarios.shared.calibration import calibrated, calibration_key, on_bare_host
from lastro.scenarios.shared.disturbance import ANOMALY_TOOL, ANOMALY_WORKERS, NEIGHBOUR_SETTINGS, require_own_link
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.host_limits import HOST_LIMITS, HostClocks
from lastro.scenarios.shared.probes import tried
from lastro.scenarios.shared.resources import check_resources, limits_of, require_no_limits
from lastro.study.levels import NONE, part_name
from lastro.study.model import Setting
from lastro.testbed import with_new_dut

BARE_PROXIES = Setting(
    "bare_proxies", "processes", "several proxies on the bare host: a process for each, or one with many ports",
    choices=("processes", "ports"),
)  # fmt: skip
CACHE_MB = Setting("cache_mb", 260, "memory of a proxy's cache, in Squid's MB", 1, 100_000)
CACHE_OBJECT_KB = Setting(
    "cache_object_kb", 1024, "largest object in a cache, in Squid's KB, its header included", 1, 100_000
)
ORIGIN = Setting("origin", APACHE, "the HTTP server", choices=(APACHE, NGINX))
# 1024 kB of 1000 bytes. With kB of 1024 bytes, Squid would not cache it: the header counts towards its limit.
OBJECT_BYTES = Setting("object_bytes", 1_024_000, "size of the object", 1, 1_000_000_000)
CPUS = replace(
    resources.CPUS,
    default=0,
    summary="CPUs of a proxy's instance: of a machine, or the limit of a container; 0: all",
    by_profile=False,
)
MEMORY = replace(resources.MEMORY, default="4G", summary="memory of a proxy's instance, in whole MiB")
_DIRECT = "straight"  # the calibration with requests directly to the server, without a proxy
# An anomaly on the DUT takes CPUs from the proxies. If one machine has all roles, the anomaly must not take CPUs from
# clients and server, which would otherwise be machines of their own: so these get this weight. Without an anomaly they
# do not, because a proxy on the same CPUs would wait, and requests take half as long again (benches/http_load.py).
_PREFERRED = Resources(cpu_weight=10_000)
_MOST_DRIFT = 0.001  # of the clock of a remote host, which times the requests; the default of other scenarios
# Settings of the neighbour whose defaults are the tool and the load of the study of 2018.
_AS_PUBLISHED: dict[str, Setting[Any]] = {
    ANOMALY_WORKERS.name: replace(ANOMALY_WORKERS, default=12),
    ANOMALY_TOOL.name: replace(ANOMALY_TOOL, default="stress"),
}


class ProxyScenario(OnLinks):
    name = "proxy"
    summary = "clients request one object from a server through one or more HTTP proxies on the DUT"
    parts = ("platform", "attachment", "isolation", "anomaly", "instrument")
    usable = {"attachment": (HostingAttachment,), "instrument": (HttpLoad,)}
    combinable = frozenset({"isolation"})
    roles = ROLES
    # Without it, trials are valid, but the report cannot flag generator-limited ones.
    calibration_kinds = {_DIRECT: CalibrationKind(dict[str, float], optional=True)}
    settings = (
        PROXIES, BARE_PROXIES, INSTANCES, CACHE, CACHE_MB, CACHE_OBJECT_KB, ORIGIN, OBJECT_BYTES, CLIENTS, REQUESTS,
        WARM_UP, CPUS, MEMORY, *(_AS_PUBLISHED.get(setting.name, setting) for setting in NEIGHBOUR_SETTINGS),
        SETTLE_S, RATE_PER_S, OPEN_S, TIMEOUT_S, LIMIT_S, MAX_PROXIES, CAPACITY_S, *HOST_LIMITS,
    )  # fmt: skip
    metrics = (*measure.METRICS, CAPACITY, *measure.HOST_METRICS)

    def __init__(self, testbed: Any) -> None:
        super().__init__(testbed)
        self._probed: dict[tuple[str, ...], Availability] = {}

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        """Return all metrics. Those of the load generators' requests come first, as the most important ones."""
        kinds = [registry.get(Instrument, name) for name in sorted(cls.part_names("instrument"))]
        of_requests = {metric.name: metric for kind in kinds for metric in kind.metrics}
        return tuple((of_requests | {metric.name: metric for metric in cls.metrics}).values())

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        origins = sorted({PACKAGES[ORIGIN.of(config)] for config in configs})
        return ImageAdditions((*HttpProxy.packages, *origins, "curl"))

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return expected_s(config, len(os.sched_getaffinity(0)))  # as if the DUT were this machine: it is not known yet

    # Availability

    def availability(self, config: Config) -> Availability:
        level, links, isolation = platform_level(config), links_level(config), isolation_level(config)
        parts = (self._probes.isolation(part, level) for part in parts_of(isolation))
        if not (availability := first_unavailable(chain([self.pool.availability(level)], parts))):
            return availability
        try:
            require_no_limits(isolations_of(config))
            load_of(config).require(self.testbed.at(CLIENT).host)
            require_own_link(config, "there is no chain here whose link the neighbour could flood")
            self._resources(config)
        except LastroError as error:
            return unavailable(error)
        return tried(self._probed, (level, links, isolation), partial(self._probe, config))

    def _probe(self, config: Config) -> Availability:
        """Return whether one proxy of this treatment starts and answers."""
        with ExitStack() as stack:
            self._deploy(stack, {**config, PROXIES.name: 1, INSTANCES.name: 0, "anomaly": NONE})
        return AVAILABLE

    def _resources(self, config: Config) -> Resources:
        """Return the limits of a proxy's instance, equal on every platform. On the bare host, there are none.

        Raises: Unavailable when this host does not have enough CPUs."""
        limits = resources.cpus_and_memory(config, self.testbed)
        return Resources() if platform_of(config).bare else limits

    # Calibration: the same clients, directly to the server

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        if not PROXIES.of(config):
            return {}
        without_proxies = dict.fromkeys((PROXIES.name, INSTANCES.name, MAX_PROXIES.name), 0)
        direct = {**on_bare_host(config), **without_proxies, CACHE.name: "off", "isolation": NONE}
        without = ("max_", "cache_", "capacity", "settle", "cpus", "memory")
        return {calibration_key(_DIRECT, direct, ("attachment", "instrument"), without): direct}

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return measure.rates(outcome)

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome, usual_s = Outcome(), expected_s(config, len(self.testbed.usable_cpus))
        clocks = HostClocks([session.host for session in self.testbed.sessions])
        with ExitStack() as stack:
            standing = self._deploy(stack, config)
            outcome.add(standing.started)
            anomaly_s = LIMIT_S.of(config) + 2 * usual_s + 60
            disturbance = stack.enter_context(measure.disturbed(standing, config, anomaly_s))
            for proxy in standing.proxies[:1]:  # the others are built alike
                reasons, seen = check_resources(self.testbed, proxy.instance)
                outcome.invalidate(reasons)
                outcome.notes |= {"limits": {"proxy": limits_of(proxy.instance.spec)}, "seen inside": seen}
                outcome.invalidate(not_in_force(isolations_of(config), {"proxy": proxy.instance}))
            bare = {CLIENT: standing.client, SERVER: standing.server}
            levels = (platform_level(config), links_level(config), isolation_level(config))
            hosted = [proxy.hosted for proxy in standing.proxies]
            note_topology(outcome, standing.nodes, bare, hosted, levels, disturbance)
            rest(SETTLE_S.of(config))
            measure.measure(standing, config, disturbance, outcome)
            ask_all(standing.client, standing.origin.page, standing.proxies)
            logs.judge_logs(standing, config, outcome)
            if MAX_PROXIES.of(config):
                fill_up(standing, config, outcome)
            clocks.judge(outcome, _MOST_DRIFT)
        measure.judge_generator(calibrated(calibrations, _DIRECT), outcome)
        return outcome

    def _deploy(self, stack: ExitStack, config: Config) -> RunningProxies:
        """Start client, server and proxies, which end with the stack; request a first answer through each proxy.

        Without proxies, request it from the server."""
        platform: Platform = self.pool.get(platform_level(config))
        links, native = self.attachments.get(links_level(config)), self.pool.native
        assert isinstance(links, HostingAttachment)
        bed = stack.enter_context(with_new_dut(self.testbed, "trial-dut")) if links.own_dut else self.testbed
        nodes = stack.enter_context(three_node_testbed(bed))
        weight = None if part_name(config, "anomaly") == NONE else _PREFERRED
        client = stack.enter_context(native.start(nodes.client.testbed, nodes.client.spec("client", weight)))
        server = stack.enter_context(native.start(nodes.server.testbed, nodes.server.spec("server", weight)))
        kind, n_bytes = ORIGIN.of(config), OBJECT_BYTES.of(config)
        origin = stack.enter_context(serving(server, kind, nodes.server.address, n_bytes))
        if PROXIES.of(config):  # without proxies, such a network might block the requests to the server
            stack.enter_context(links.base_network(nodes.dut.testbed, platform))
        memory_mb, largest_kb = CACHE_MB.of(config), CACHE_OBJECT_KB.of(config)
        options = ProxyOptions(cache=CACHE.of(config) == "on", memory_mb=memory_mb, largest_kb=largest_kb)
        shared = platform.bare and links.inside_dut and BARE_PROXIES.of(config) == "ports"
        confined = partial(isolate, isolations=isolations_of(config), profile=None)
        limits = self._resources(config)
        starter = ProxyStarter(
            nodes, platform, links, client, origin.page, options, limits, shared=shared, confined=confined
        )
        before = MemoryInUse.on(nodes.dut.testbed.host)
        if idle := max(0, INSTANCES.of(config) - PROXIES.of(config)):
            starter.start_idle(stack, idle)
        proxies, started = _start_proxies(stack, starter, StartsWindow(nodes, server, platform.own_cgroups), config)
        if not proxies:
            ask(client, origin.page, None)
        return RunningProxies(nodes, platform, links, native, client, server, origin, proxies, starter, started, before)

    def version_commands(self, configs: Sequence[Config]) -> Mapping[str, Sequence[str]]:
        origins = sorted({ORIGIN.of(config) for config in configs})
        return {"squid": HttpProxy.version_argv, **{name: VERSION_ARGV[name] for name in origins}}

    def facts_by_chapter(self, configs: Sequence[Config]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the facts of the base class, then ('image_tools', {load generator: version}).

        Load generators run on the client's host."""
        yield from super().facts_by_chapter(configs)
        tools = {tool.name: tool for tool in map(load_of, configs)}
        host = self.testbed.at(CLIENT).host
        yield "image_tools", {name: tool.require(host) for name, tool in sorted(tools.items())}


def _start_proxies(
    stack: ExitStack, starter: ProxyStarter, window: StartsWindow, config: Config
) -> tuple[list[Proxy], Reading]:
    """Start the proxies; return them, and a reading with reasons if other processes disturbed their timed starts."""
    if not PROXIES.of(config):
        return [], Reading({})
    with window:
        proxies = starter.add(stack, PROXIES.of(config))
        window.add({proxy.instance.spec.name: proxy.instance for proxy in proxies})
    return proxies, window.judged(config)

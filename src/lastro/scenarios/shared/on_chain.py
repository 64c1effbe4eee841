"""The base of scenarios that send through a chain: source, function and sink, and a neighbour that may misbehave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypedDict

from lastro import registry
from lastro.anomalies.base import Anomaly
from lastro.attachments.base import Attachment
from lastro.errors import LastroError, Unavailable
from lastro.functions.base import IMPLEMENTATIONS, PATHS, Function, Implementation, Service
from lastro.grouping import by_key
from lastro.host.base import Host
from lastro.host.cgroups import Usage, block_device_of, parse_cpus
from lastro.image.rootfs import ImageAdditions
from lastro.isolation.base import NEIGHBOUR, MeasuredUse, Profile, isolate, not_in_force, parts_of
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, Port, unavailable
from lastro.results.additions import HOPS
from lastro.results.samples import Outcome
from lastro.scenarios.base import (
    Config,
    chosen_class,
    chosen_part,
    isolation_level,
    isolations_of,
    links_level,
    make_parts,
    platform_class,
    platform_level,
    platform_levels,
    sysctls_of,
)
from lastro.scenarios.shared.bases import OnLinks, first_unavailable
from lastro.scenarios.shared.calibration import calibrated, calibration_key
from lastro.scenarios.shared.chain import TAKES_ALL_LINKS, Chain, deployed, joined
from lastro.scenarios.shared.disturbance import ANOMALY_TOOL, Disturbance, bounded, demanded
from lastro.scenarios.shared.frames import OFF, OFFLOADS
from lastro.scenarios.shared.function_row import CHAINS, EACH, LENGTH, PLACEMENT, TOGETHER
from lastro.scenarios.shared.impaired_link import LOSS, Impairment, impaired
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.probes import DIRECT, ChainProbes
from lastro.scenarios.shared.resources import limits_of
from lastro.scenarios.shared.topology import BuiltTopology
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.shapes import from_plain
from lastro.study.design import contradiction
from lastro.study.levels import (
    NONE,
    functions_in,
    hops,
    join_hops,
    join_platform,
    part_level,
    part_name,
    platforms_of_hops,
    split_platform,
)
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed

PROFILE = "profile"  # the calibration that measures the needs of the undisturbed chain
NO_DIFFERENCE = ("anomaly", "max_", "settle")  # settings that do not affect a calibration run
CALIBRATED_FOR = ("platform", "attachment", "function")  # parts that are named in the key of a calibration
IMPLEMENTATION = Setting(
    "implementation", "kernel", "implementation of the function", choices=tuple(IMPLEMENTATIONS), by_profile=True
)
_FURTHER = 0.5  # fraction of its start that each instance adds, beyond three that start at the same time
IP = Setting("ip", "4", "version of IP of the flows", choices=tuple(PATHS))


@dataclass(frozen=True, slots=True)
class StandingChain:
    """The objects deployed for a trial. `everyone` maps roles to all instances, including the neighbour's.

    `chain` is the first chain; `disturbance` is the neighbour's load, or None. `own_cgroups` are the cgroups of the
    daemons of platforms and links."""

    chain: Chain
    everyone: Mapping[str, Instance]
    disturbance: Disturbance | None
    own_cgroups: Sequence[str]

    @property
    def chains(self) -> tuple[Chain, ...]:
        return self.chain.all

    def on_links(self, chain: Chain) -> Mapping[str, Instance]:
        """Return {role: instance} of the instances on a chain's links: its own, and a neighbour that floods a link."""
        if self.disturbance and self.also_sent(chain):
            return {NEIGHBOUR: self.disturbance.neighbour.instance, **chain.instances}
        return chain.instances

    def also_sent(self, chain: Chain) -> Mapping[str, str]:
        """Return {port that a flood reaches: the neighbour's port that sends it}; {} without a flood on this chain.

        A neighbour floods only the first of several chains."""
        if chain is not self.chain or not self.disturbance or not self.disturbance.port:
            return {}
        return {f"function.{chain.path.inside}": f"{NEIGHBOUR}.{self.disturbance.port.name}"}

    def window(self, testbed: Testbed, config: Config) -> MeasuredWindow:
        """Return a new window for a measurement on the chains, with all their witnesses."""
        links, disturbance = self.chain.attachment, self.disturbance
        return MeasuredWindow(testbed, self.everyone, config, self.own_cgroups, links=links, disturbance=disturbance)


class _ProfileNotes(TypedDict):
    """The notes of a calibration run from which a profile is made."""

    elapsed_s: float  # of the load
    usage: dict[str, Usage]  # by role
    carrying_cpus: float  # CPUs of the chain while it carried TCP, or of the chain and its generators at the PDR


class OnChain(OnLinks):
    """A scenario on a chain. Subclasses may override `offloads_of` and `ip_of`, which read the treatment's settings."""

    parts: ClassVar[tuple[str, ...]] = ("platform", "attachment", "isolation", "function", "anomaly")
    combinable = frozenset({"isolation"})
    chainable = frozenset({"function"})
    takes_sysctls = True
    sized = HOPS

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self._probes: ChainProbes = ChainProbes(self.testbed, self.pool, self.attachments)

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        """Return the names of the parts of a kind that a study may choose; functions must forward packets."""
        services = {name for name, info in registry.parts(kind).items() if info.cls and issubclass(info.cls, Service)}
        return super().part_names(kind) - services

    @classmethod
    def offloads_of(cls, config: Config) -> bool:
        """Return whether the links of a treatment keep their offloads on."""
        return OFFLOADS.of(config) != OFF

    @classmethod
    def ip_of(cls, config: Config) -> str:
        """Return the version of IP of a treatment's flow: '4' or '6'."""
        return IP.of(config)

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        """Return what the implementations add, and ethtool if it must switch off offloads in a machine.

        A program that cannot be compiled on this host is left out; the probe of the function then reports it."""
        without_offloads = [config for config in configs if not cls.offloads_of(config)]
        levels = [level for config in without_offloads for level in platform_levels(config)]
        needs = ImageAdditions(("ethtool",) if any(platform_class(level).guests for level in levels) else ())
        for implementation in implementations_of(configs):
            needs = needs.combined_with(ImageAdditions(implementation.packages))
            with suppress(Unavailable):
                needs = needs.combined_with(ImageAdditions(files=implementation.programs(host)))
        return needs

    def placed(self, spec: InstanceSpec, config: Config) -> InstanceSpec:
        """Return the specification, restricted to the CPUs for its role. By default, it is returned as it is."""
        return spec

    def availability(self, config: Config) -> Availability:
        try:
            require_no_xdp_on_cards(config)
        except LastroError as error:
            return unavailable(error)
        if why := contradiction(config):
            return Availability(why, f'name one platform for all of them, or use {PLACEMENT.name} = "{EACH}"')
        return first_unavailable(self._probe_treatment(config))

    def _probe_treatment(self, config: Config) -> Iterator[Availability]:
        """Yield the results of the probes of all that a treatment needs; the caller stops at the first failure."""
        probes, levels = self._probes, platform_levels(config)
        yield from map(probes.platform, levels)
        level, links, ip = levels[0], links_level(config), self.ip_of(config)
        floods = part_name(config, "anomaly") != NONE and chosen_part(Anomaly, config).on_chain
        if floods:
            yield _can_be_flooded(config, level)
        for each_level in levels:
            yield from self._probe_on(each_level, config, links, ip)
        implementation = IMPLEMENTATION.of(config)
        function_links = links if len(levels) > 1 or implementation in ("xdp", "dpdk") else DIRECT
        yield probes.function(functions_level(config), level, implementation, ip, PLACEMENT.of(config), function_links)
        if part_name(config, "anomaly") != NONE:
            yield probes.anomaly(part_level(config, "anomaly"), level, ANOMALY_TOOL.of(config))
        if floods:
            yield probes.member(links, level, ip)

    def _probe_on(self, level: str, config: Config, links: str, ip: str) -> Iterator[Availability]:
        """Yield the results of the probes of a treatment's links, sysctls and isolations on one of its platforms."""
        probes = self._probes
        yield probes.transit(links)
        yield probes.attachment(links, level)
        if not self.offloads_of(config):
            yield probes.offloads_off(links, level)
        if ip == "6":
            yield probes.ipv6(links, level)
        if values := sysctls_of(config):
            yield probes.sysctls(values, level)
        if Impairment.of(config):
            if LOSS.of(config) and self.offloads_of(config):
                why = f"with the kernel's offloads, {LOSS.name} loses segments of up to 64 kB, not packets"
                yield Availability(why, f'set {OFFLOADS.name} = "{OFF}"')
            else:
                yield probes.impaired(links, level, Impairment.of(config))
        yield from (probes.isolation(part, level) for part in parts_of(isolation_level(config)))

    @classmethod
    def profile_run(cls, config: Config) -> dict[str, Config]:
        """Return {calibration key: run that measures the needs of the undisturbed chain}.

        Empty if no isolation of the treatment needs this profile."""
        if not any(isolation.needs_profile for isolation in isolations_of(config)):
            return {}
        undisturbed = {**config, "isolation": NONE, "anomaly": NONE}
        return {calibration_key(PROFILE, undisturbed, CALIBRATED_FOR, NO_DIFFERENCE): undisturbed}

    def profile_of(self, outcome: Outcome) -> dict[str, Any]:
        """Return the profile of the undisturbed chain from the outcome of a `profile_run`, as plain data."""
        notes: _ProfileNotes = from_plain(_ProfileNotes, outcome.notes)
        needs = {role: MeasuredUse.of(used, notes["elapsed_s"]) for role, used in notes["usage"].items()}
        return {
            "needs": {role: asdict(need) for role, need in needs.items()},
            "chain_cpus": notes["carrying_cpus"],
            "block_device": block_device_of(self.testbed.scratch_dir, self.testbed.host),
            "usable_cpus": len(self.testbed.usable_cpus),
        }

    @classmethod
    def plain_forwarding(cls, config: Config) -> dict[str, Level]:
        """Return a treatment's configuration with plain forwarding by the kernel, without isolation and anomaly.

        The number of instances in the row, and their platforms, stay the same."""
        settings = {key: value for key, value in config.items() if not key.startswith("function.")}
        platforms = [split_platform(hop)[1] for hop in hops(functions_level(config))]  # "" for that of the treatment
        if PLACEMENT.of(config) == TOGETHER:
            platforms = platforms[:1]
        function, length = NONE, len(platforms)
        if any(platforms):
            function, length = join_hops([join_platform(NONE, level) for level in platforms]), 1
        row: dict[str, Level] = {"function": function, LENGTH.name: length, PLACEMENT.name: EACH}
        return {**settings, **row, "isolation": NONE, "anomaly": NONE, "implementation": "kernel"}

    @contextmanager
    def standing(self, config: Config, calibrations: Mapping[str, Any], outcome: Outcome) -> Iterator[StandingChain]:
        """Deploy the chains and the neighbour inside the block, with the treatment's isolation.

        Note their topology and limits in `outcome`. Raises: TrialError when something does not start."""
        platform = self.pool.get(platform_level(config))
        links = self.attachments.get(links_level(config))
        hosts = [self.pool.get(level) for level in hosts_levels(config)]
        isolations = isolations_of(config)
        measured = calibrated(calibrations, PROFILE)
        profile = None if measured is None else from_plain(Profile, measured)

        def isolated(spec: InstanceSpec, host: Platform) -> InstanceSpec:
            spec = replace(spec, sysctls={**spec.sysctls, **sysctls_of(config)})
            return self.placed(isolate(spec, isolations, profile and profile.on(host)), config)

        with ExitStack() as stack:
            chain = stack.enter_context(
                deployed(
                    self.testbed,
                    platform,
                    links,
                    *make_parts(Function, functions_level(config)),
                    hosts=hosts,
                    implementation=IMPLEMENTATION.of(config),
                    placement=PLACEMENT.of(config),
                    offloads=self.offloads_of(config),
                    ip=self.ip_of(config),
                    isolate=isolated,
                    n=n_chains(config),
                )
            )
            instances = [instance for copy in chain.all for instance in copy.instances.values()]
            everyone = {instance.spec.role: instance for instance in instances}
            outcome.invalidate(not_in_force(isolations, everyone))
            self.testbed.flush()
            for copy in chain.all:
                stack.enter_context(impaired(copy, Impairment.of(config), outcome))
            disturbance = stack.enter_context(self._disturbance(config, platform, isolated, chain, outcome))
            if disturbance:
                everyone[NEIGHBOUR] = disturbance.neighbour.instance
            outcome.notes["limits"] = {role: limits_of(instance.spec) for role, instance in everyone.items()}
            outcome.add_condition(dict(IMPLEMENTATIONS[IMPLEMENTATION.of(config)].condition))
            self._note_topology(config, chain, disturbance, outcome)
            own_cgroups = dict.fromkeys(group for part in (platform, *hosts) for group in part.own_cgroups)
            yield StandingChain(chain, everyone, disturbance, (*own_cgroups, *links.own_cgroups))

    def _note_topology(self, config: Config, chain: Chain, neighbour: Disturbance | None, outcome: Outcome) -> None:
        built = BuiltTopology(self.testbed)
        links = chain.attachment
        level = platform_level(config)
        isolation = isolation_level(config)
        roles = [hop.role for hop in chain.function.hops]
        functions = by_key(zip(roles, functions_in(functions_level(config)), strict=True))
        level_of = dict(zip(roles, hosts_levels(config), strict=True))
        for copy in chain.all:
            for role, instance in copy.instances.items():
                does = f"{' > '.join(functions[role])} ({IMPLEMENTATION.of(config)})" if role in functions else ""
                name = copy.trial_role(role)
                built.add(name, instance, level_of.get(role, level), does=does, isolation=isolation)
        if neighbour:
            built.add(NEIGHBOUR, neighbour.neighbour.instance, level, **neighbour.fields, isolation=isolation)
        for copy in chain.all:
            built.join(links.level, copy.segments, node=links.node)
        if neighbour and neighbour.port:
            built.join_member(links.level, neighbour.port, chain.segments[0], links.node)
        built.note(outcome)

    @contextmanager
    def _disturbance(
        self, config: Config, platform: Platform, isolated: Any, chain: Chain, outcome: Outcome
    ) -> Iterator[Disturbance | None]:
        """Run the anomaly inside the block, in a neighbour on `platform`; yield None if there is no anomaly.

        `isolated` returns the neighbour's specification under the treatment's isolation."""
        load = demanded(config, self.testbed, 2 * self.duration_s(config) + 60)
        if load is None:
            yield None
            return
        anomaly, demand = load
        tracking_role = chain.function.tracks if IMPLEMENTATION.of(config) != "click" else ""
        crossing = anomaly.through(chain.instances[tracking_role]) if tracking_role else None
        anomaly = crossing or anomaly
        spec = isolated(instance_spec(self.testbed, NEIGHBOUR), platform)
        if spec.resources.cpuset:
            demand = replace(demand, usable_cpus=len(parse_cpus(spec.resources.cpuset)))
        spec = bounded(spec, self.testbed, demand)
        with platform.start(self.testbed, spec) as instance:
            # Check before the anomaly starts: at its memory limit, the kernel may kill the command that checks.
            outcome.invalidate(not_in_force(isolations_of(config), {NEIGHBOUR: instance}))
            link: AbstractContextManager[Port | None] = joined(chain, instance) if anomaly.on_chain else nullcontext()
            with link as port:
                anomaly = anomaly.over(port.name, chain.path.inside_address) if port else anomaly
                with anomaly.at_work(instance, demand) as neighbour:
                    yield Disturbance(neighbour, anomaly, tracking_role if crossing else "", port)


def functions_level(config: Config) -> str:
    """Return the level of the whole row of functions in a treatment's chain, such as 'nat>nat' for a length of two."""
    return join_hops([part_level(config, "function")] * int(config.get(LENGTH.name, LENGTH.default)))


def n_chains(config: Config) -> int:
    """Return how many chains a treatment has at the same time."""
    return int(config.get(CHAINS.name, CHAINS.default))


def hosts_levels(config: Config) -> list[str]:
    """Return the level of the platform of each function in a treatment's chain, in the order of the path."""
    return platforms_of_hops(config) * int(config.get(LENGTH.name, LENGTH.default))


def forwards_only(config: Config) -> bool:
    """Return whether all functions of a treatment are plain forwarding ('none')."""
    return set(functions_in(part_level(config, "function"))) == {NONE}


def implementations_of(configs: Sequence[Config]) -> list[Implementation]:
    """Return the distinct implementations of functions in these treatments, sorted by name."""
    return [IMPLEMENTATIONS[name] for name in sorted({IMPLEMENTATION.of(config) for config in configs})]


def implementation_versions(configs: Sequence[Config]) -> dict[str, Sequence[str]]:
    """Return {program: command that prints its version} of the implementations of functions in these treatments."""
    return {name: argv for part in implementations_of(configs) for name, argv in part.versions.items()}


def require_no_xdp_on_cards(config: Config) -> None:
    """Check that a treatment attaches no XDP program to a network card of the host. Raises: Unavailable if it does."""
    if IMPLEMENTATION.of(config) == "xdp" and chosen_class(Attachment, config).wired:
        why = "a network card would keep its XDP program after the trial"
        raise Unavailable(why, 'use implementation = "kernel", or measure XDP on veth in scenario = "chain"')


def starts_s(config: Config) -> float:
    """Estimate the seconds that all instances of a treatment take to start and stop; several start at the same time."""
    first, *further = [platform_class(level).start_s for level in hosts_levels(config)]
    further_s = sum(further) if PLACEMENT.of(config) == EACH else 0.0  # of functions beyond the first
    copies_s = (n_chains(config) - 1) * (2 * platform_class(platform_level(config)).start_s + first + further_s)
    slowest_s = max(platform_class(level).start_s for level in platform_levels(config))
    return 2 * slowest_s + _FURTHER * (further_s + copies_s)


def _can_be_flooded(config: Config, level: str) -> Availability:
    """Return whether a neighbour can flood the chain's link, as far as this is known without starting an instance.

    The function must drop packets that are addressed to itself, so that the flood ends there."""
    if platform_class(level).guests:
        return Availability(*TAKES_ALL_LINKS)
    if (by := IMPLEMENTATION.of(config)) not in ("click", "dpdk"):
        return AVAILABLE
    why = f'implementation = "{by}" forwards what is sent to its own address: the flood would enter the next link'
    return Availability(why, 'measure this anomaly with implementation = "kernel"')

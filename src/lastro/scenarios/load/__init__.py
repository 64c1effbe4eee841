"""The scenario `load`: how many frames a second a function carries at a goal of loss, while a neighbour may misbehave.

A search is one observation. It begins with a warm-up, which does not count. Its probes offer a rate for a time, and
read from the counters of interfaces what was sent and what arrived. The first goal is PDR, the partial drop rate: at
most 0.5 % of the frames are lost. NDR, the non-drop rate, allows no loss. The loss may exceed either goal in a part of
the time (RFC 9971). After the search, the chain carries its PDR for a while, and the CPU time of each role is read.
Finally, latency is measured at fractions of the PDR and at other loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lastro import registry
from lastro.errors import InstrumentError, LastroError, Unavailable
from lastro.host.base import Host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.load_generator import FLOWS, SIZE, LoadGenerator
from lastro.instruments.packet_capture import PACKAGES
from lastro.isolation.base import Profile
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.platforms.base import Availability, InstanceSpec, unavailable
from lastro.results.additions import ScenarioFigure
from lastro.results.samples import Metric, Outcome
from lastro.scenarios.base import CalibrationKind, Config, chosen_class, links_level, platform_level, shares_kernel
from lastro.scenarios.load import measuring
from lastro.scenarios.load.additions import figures_of
from lastro.scenarios.load.addresses import keep_addresses
from lastro.scenarios.load.latency import AT, DEFAULT_AT, OFF, ONE_WAY, YES, latency_s, metrics_at
from lastro.scenarios.load.latency import SETTINGS as LATENCY_SETTINGS
from lastro.scenarios.load.probing import BOTH, DIRECTION, FORWARD, LoadProbes
from lastro.scenarios.load.steering import GENERATOR_CPU, SHARED_CPU, STEERING, apart, short_buffer, steer
from lastro.scenarios.shared import on_chain
from lastro.scenarios.shared.calibration import calibrated, calibration_key
from lastro.scenarios.shared.disturbance import NEIGHBOUR_SETTINGS, require_own_link
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.function_row import CHAINS, LENGTH, PLACEMENT
from lastro.scenarios.shared.host_limits import HOST_LIMITS, MAX_DRIFT_PERCENT, clock_kept
from lastro.scenarios.shared.impaired_link import LINK_SETTINGS, Impairment
from lastro.scenarios.shared.simultaneous import MIN_OVERLAP, has_several_chains
from lastro.study.levels import part_name
from lastro.study.model import DAY_S, Setting, Study
from lastro.testbed import Testbed

SETTLE_S = Setting("settle_s", 1.0, "time between the start of the anomaly and the search", 0, DAY_S)
_AROUND_S = 1.5  # what a trial takes besides probes, waits and two starts, roughly
_PROBE_S = 0.15  # what a probe takes besides its time and the start of its generator
_CEILING = "ceiling"  # the largest rate that the generator sends through plain forwarding


class LoadScenario(on_chain.OnChain):
    name = "load"
    summary = "the rates at which a network function meets goals of loss (PDR, NDR), beside a neighbour"
    parts = (*on_chain.OnChain.parts, "instrument")
    usable = {"instrument": (LoadGenerator,)}
    calibration_kinds = {
        _CEILING: CalibrationKind(float, optional=True),  # without it, a search takes a few more probes
        on_chain.PROFILE: CalibrationKind(Profile),  # without it, isolation has no meaning
    }
    settings = (
        SIZE, FLOWS, on_chain.IP, DIRECTION, STEERING, GENERATOR_CPU, *measuring.SEARCH_SETTINGS, measuring.COST_S,
        *LATENCY_SETTINGS, SETTLE_S, on_chain.IMPLEMENTATION, LENGTH, PLACEMENT, CHAINS, MIN_OVERLAP, *LINK_SETTINGS,
        *NEIGHBOUR_SETTINGS, *HOST_LIMITS, MAX_DRIFT_PERCENT,
    )  # fmt: skip
    metrics = (*measuring.METRICS, *metrics_at(DEFAULT_AT), *UsageMeter.metrics, *HostMeter.metrics)
    leads = ("pdr", "latency_p99_at_50pct", "ndr", "ndr_exceed")

    @classmethod
    def metrics_by(cls, chosen: Mapping[str, object]) -> tuple[Metric, ...]:
        several = measuring.SIDE_BY_SIDE if has_several_chains(chosen) else ()
        return (*metrics_at(chosen.get(AT.name, DEFAULT_AT)), *several)

    @classmethod
    def figures_for(cls, study: Study) -> tuple[ScenarioFigure, ...]:
        levels = {factor.name: dict.fromkeys(factor.levels) for factor in study.factors}
        return figures_of(study.settings, levels.get(AT.name, study.settings.get(AT.name, DEFAULT_AT)))

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self._probes: LoadProbes = LoadProbes(self.testbed, self.pool, self.attachments)

    @classmethod
    def offloads_of(cls, config: Config) -> bool:
        """Return False: offloads would make frames that a wire could not carry."""
        return False

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        """Return what the chain needs, and the packages of all generators, so that one image serves every study."""
        kinds = [registry.get(LoadGenerator, name) for name in sorted(cls.part_names("instrument"))]
        tools = [package for kind in kinds for package in kind.packages]
        tools += PACKAGES if any(ONE_WAY.of(config) == YES for config in configs) else ()
        return super().image_needs(host, configs).combined_with(ImageAdditions(tuple(tools)))

    @classmethod
    def duration_s(cls, config: Config) -> float:
        bounds = measuring.bounds_of(config)
        n_probes, offered_s = bounds.expected(measuring.SEARCH.of(config), len(measuring.goals_of(config)))
        generator = chosen_class(LoadGenerator, config)
        around_s = generator.starts_s + on_chain.n_chains(config) * _PROBE_S
        # The cost is measured with one more probe, which has hardly any frames.
        others_s = bounds.warm_up_s + measuring.COST_S.of(config) + generator.step_s
        n_probes += 2 + bool(bounds.warm_up_s)
        waits_s = SETTLE_S.of(config) + latency_s(config)
        return offered_s + others_s + n_probes * around_s + waits_s + _AROUND_S + on_chain.starts_s(config)

    def placed(self, spec: InstanceSpec, config: Config) -> InstanceSpec:
        """Return the specification without the generator's CPU, for a function or a neighbour; see `steering.apart`.

        On a wire, the generator would be another machine. The setting `generator_cpu` may ask for a shared CPU."""
        return spec if GENERATOR_CPU.of(config) == SHARED_CPU else apart(spec, self.testbed, config)

    def availability(self, config: Config) -> Availability:
        try:
            _require_supported(config, self.testbed.usable_cpus)
        except LastroError as error:
            return unavailable(error)
        if not (availability := super().availability(config)):
            return availability
        level, links = platform_level(config), links_level(config)
        return self._probes.generator(part_name(config, "instrument"), level, links, self.ip_of(config))

    # Calibrations

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """Return runs that measure the generator's ceiling, by plain forwarding, and the undisturbed chain's profile.

        There is no run for the ceiling if the treatment itself is plain forwarding, and none for a profile if no
        isolation needs it."""
        without_latency = {**config, AT.name: OFF}
        wanted = cls.profile_run(without_latency)
        ceiling = cls.plain_forwarding(without_latency)
        if any(config[name] != ceiling[name] for name in ("isolation", "anomaly", "function", "implementation")):
            named = (*on_chain.CALIBRATED_FOR, "instrument", "frame_size")
            wanted[calibration_key(_CEILING, ceiling, named, on_chain.NO_DIFFERENCE)] = ceiling
        return wanted

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        if key.startswith(_CEILING):
            notes: Mapping[str, Any] = outcome.notes
            return min(
                notes["most_fps"], max(probe["sent"] / max(probe["lasted_s"], 1e-9) for probe in notes["probes"])
            )
        if "usage" not in outcome.notes:
            raise InstrumentError("the undisturbed chain has no PDR at which to measure its needs", "lower `least_fps`")
        return self.profile_of(outcome)

    # The trial

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        with clock_kept(self.testbed, config, outcome), self.standing(config, calibrations, outcome) as standing:
            bounds = measuring.bounds_of(config, calibrated(calibrations, _CEILING))
            longest_s = bounds.sum_s if measuring.SEARCH.of(config) == "binary" else bounds.final_s
            longest_s = max(longest_s, bounds.warm_up_s, measuring.COST_S.of(config))
            for chain in standing.chains:
                outcome.add_condition(steer(chain, STEERING.of(config)) | keep_addresses(chain, longest_s))
            outcome.add_condition(short_buffer(self.testbed.host, part_name(config, "instrument")))
            rest(SETTLE_S.of(config))
            measuring.measure(self.testbed, config, standing, bounds, outcome)
        return outcome

    def version_commands(self, configs: Sequence[Config]) -> Mapping[str, Sequence[str]]:
        names = sorted({part_name(config, "instrument") for config in configs})
        generators = {name: registry.get(LoadGenerator, name).version_argv for name in names}
        return on_chain.implementation_versions(configs) | generators


def _require_supported(config: Config, usable_cpus: Sequence[int]) -> None:
    """Check that the generator can send the treatment's traffic, that frames can be counted, and the settings.

    Raises: Unavailable if not."""
    require_own_link(config, "the rates are counted on the links of the chain, where a flood would be counted, too")
    on_chain.require_no_xdp_on_cards(config)
    kind = chosen_class(LoadGenerator, config)
    if Impairment.of(config) and DIRECTION.of(config) == BOTH:
        why = "an impaired link and a generator that sends back need the same queueing discipline of the sink"
        raise Unavailable(why, 'use direction = "forward"')
    if kind.bound_to not in (None, usable_cpus[0]) and shares_kernel(config):
        why = f"{kind.name} binds itself to CPU {kind.bound_to}, and the first that Lastro may use is {usable_cpus[0]}"
        raise Unavailable(why, f'use instrument = "sockperf", or let Lastro use CPU {kind.bound_to}')
    if kind.in_host_kernel and not shares_kernel(config):
        why = f"{kind.name} is a thread of the host's kernel, and the source has a kernel of its own"
        raise Unavailable(why, 'use instrument = "trafgen"')
    if refusal := kind.refusal(measuring.traffic_of(config)):
        raise Unavailable(refusal, kind.remedy(measuring.traffic_of(config)))
    if kind.spins:
        _require_cpu_for_each(kind, config, usable_cpus)
    measuring.require_order(config)


def _require_cpu_for_each(kind: type[LoadGenerator], config: Config, usable_cpus: Sequence[int]) -> None:
    """Check that generators that keep CPUs busy can send at the same time: one for each direction of each chain.

    On the host's kernel, all are pinned to the first CPU. In virtual machines, each keeps one CPU of the host busy,
    and the function needs one more. Raises: Unavailable if they cannot."""
    chains, directions = on_chain.n_chains(config), 2 if DIRECTION.of(config) == BOTH else 1
    senders, n_cpus = chains * directions, len(usable_cpus)
    if senders == 1 or (not shares_kernel(config) and n_cpus > senders):
        return
    what = "direction" if chains == 1 else "chain" if directions == 1 else "direction of each chain"
    fewer = [*(["chains = 1"] if chains > 1 else ()), *([f'direction = "{FORWARD}"'] if directions > 1 else ())]
    remedy = f'use instrument = "trafgen", or {" and ".join(fewer)}'
    if shares_kernel(config):
        others = "the other" if senders == 2 else f"{senders - 1} others"
        why = f"{kind.name} keeps CPU {usable_cpus[0]} busy for one {what}, and cannot share it with {others}"
        raise Unavailable(why, remedy)
    both = "both" if senders == 2 else f"all {senders}"
    why = f"{kind.name} keeps a CPU busy for each {what}, and Lastro may use only {n_cpus} for {both} and the function"
    raise Unavailable(why, remedy)

"""Probes, which find out by trying which parts this host can run. Each probe runs once in a session."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from lastro import registry
from lastro.anomalies.base import Anomaly
from lastro.attachments.base import Attachment
from lastro.errors import LastroError
from lastro.functions.base import CounterReading, Function
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.isolation.base import NEIGHBOUR, Isolation
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, Platform, unavailable
from lastro.results.samples import Outcome
from lastro.scenarios.base import make_part, make_parts
from lastro.scenarios.shared.chain import Chain, deployed, joined
from lastro.scenarios.shared.flow import difference
from lastro.scenarios.shared.frames import frames_of
from lastro.scenarios.shared.function_row import EACH
from lastro.scenarios.shared.impaired_link import Impairment, impaired
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.study.levels import NONE, hops, split_platform
from lastro.testbed import IN_A_GUEST, Testbed

DIRECT = "veth-direct"  # the shortest links
_SMALL = {"delay_ms": 10.0, "loss_percent": 1.0, "rate_bps": 1e8}  # an impairment of each kind, for a probe


def tried(known: dict[Any, Availability], key: Hashable, probe: Callable[[], Availability]) -> Availability:
    """Return `known[key]`, which is the result of `probe` when it is first asked for; an error means unavailable."""
    if key not in known:
        try:
            known[key] = probe()
        except LastroError as error:
            known[key] = unavailable(error)
    return known[key]


_Probes = TypeVar("_Probes", bound="PartProbes")
_What = TypeVar("_What", bound=Hashable)
_P = ParamSpec("_P")


def once(
    probe: Callable[Concatenate[_Probes, _What, Platform, _P], Availability],
) -> Callable[Concatenate[_Probes, _What, str, _P], Availability]:
    """Make a probe of something on a prepared platform one that takes the platform's level, and tries it only once.

    If the platform is unavailable, or the probe raises a LastroError, that is its result. In a guest, its remedy does
    not advise to measure in a guest."""

    @wraps(probe)
    def probe_once(self: _Probes, what: _What, platform: str, /, *args: _P.args, **kwargs: _P.kwargs) -> Availability:
        def probe_platform() -> Availability:
            return self.platform(platform) and probe(self, what, self._pool.get(platform), *args, **kwargs)

        key = (probe.__name__, what, platform, args, tuple(sorted(kwargs.items())))
        availability = tried(self._probed, key, probe_platform)
        if not self._testbed.guest:
            return availability
        return replace(availability, remedy=(availability.remedy or "").replace(f", {IN_A_GUEST}", "") or None)

    return probe_once


class PartProbes:
    """Probes of each kind of part on a platform."""

    def __init__(self, testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool) -> None:
        self._testbed, self._pool, self._attachments = testbed, pool, attachments
        self._probed: dict[tuple[Hashable, ...], Availability] = {}

    def platform(self, name: str) -> Availability:
        return self._pool.availability(name)

    @once
    def attachment(self, name: str, platform: Platform) -> Availability:
        """Return whether instances of the platform can have this attachment."""
        return self._attachments.get(name).probe(self._testbed, platform)

    @once
    def isolation(self, name: str, platform: Platform) -> Availability:
        return AVAILABLE if name == NONE else registry.get(Isolation, name)().probe(self._testbed, platform)


class ChainProbes(PartProbes):
    def _forwarding(self, attachment: str, platform: Platform, **how: Any) -> AbstractContextManager[Chain]:
        """Deploy a chain with plain forwarding over this attachment inside a block."""
        links, forwarding = self._attachments.get(attachment), registry.get(Function, NONE)()
        return deployed(self._testbed, platform, links, forwarding, **how)

    @once
    def function(
        self,
        name: str,
        platform: Platform,
        implementation: str = "kernel",
        ip: str = "4",
        placement: str = EACH,
        attachment: str = DIRECT,
    ) -> Availability:
        """Return whether a function, or several in a row such as 'firewall>nat@docker', carries a ping.

        The attachment matters in two cases: if the implementation acts on ports, as `xdp` and `dpdk` do, and if a
        function names its own platform, since the links then join instances of several platforms."""
        levels = [split_platform(hop)[1] for hop in hops(name)]  # "" for that of the treatment
        for level in filter(None, levels):
            if not (availability := self.platform(level)):
                return availability
        with deployed(
            self._testbed,
            platform,
            self._attachments.get(attachment),
            *make_parts(Function, name),
            hosts=[self._pool.get(level) if level else platform for level in levels],
            implementation=implementation,
            placement=placement,
            ip=ip,
        ) as chain:
            counted = chain.counted()
            if not all(counted.get(name, CounterReading(1, 0)).packets for name in chain.function.crossings):
                return Availability(f"a ping reached the sink without crossing function '{name}'")
        return AVAILABLE

    def sysctls(self, values: Mapping[str, str], platform: str) -> Availability:
        """Return whether an instance can have these sysctls, by reading them in one that was started with them."""
        return self._sysctls(tuple(values.items()), platform)

    @once
    def _sysctls(self, values: tuple[tuple[str, str], ...], platform: Platform) -> Availability:
        spec = replace(instance_spec(self._testbed, "probe"), sysctls=dict(values))
        with platform.start(self._testbed, spec) as instance:
            for name, value in values:
                text = instance.run(["cat", f"/proc/sys/{name.replace('.', '/')}"], check=False).text
                if text.split() != value.split():
                    why = f"{name} is not {value} in an instance of {platform.name}, but {text.strip() or 'missing'}"
                    return Availability(why, f"choose a value that this kernel has in network namespaces, {IN_A_GUEST}")
        return AVAILABLE

    def anomaly(self, level: str, platform: str, tool: str = "stress-ng") -> Availability:
        """Return whether an anomaly's program is in the image, and its set-up works.

        A set-up on a chain's link is not tried here, but by `member`. Each trial checks that the anomaly reaches its
        dose."""
        if level == NONE:
            return self.platform(platform)
        part = make_part(Anomaly, level)
        return self._tool(part.program or tool, platform, level if part.prepares and not part.on_chain else "")

    @once
    def _tool(self, program: str, platform: Platform, prepared: str) -> Availability:
        with platform.start(self._testbed, InstanceSpec("probe-anomaly", "probe")) as instance:
            instance.run([program, "--version"])
            with make_part(Anomaly, prepared).prepared(instance) if prepared else nullcontext():
                return AVAILABLE

    @once
    def member(self, attachment: str, platform: Platform, ip: str) -> Availability:
        """Return whether one more instance can be a member of a chain's link, by sending a ping from it."""
        with (
            self._forwarding(attachment, platform, ip=ip) as chain,
            platform.start(self._testbed, instance_spec(self._testbed, NEIGHBOUR)) as third,
            joined(chain, third),
        ):
            third.run(["ping", "-n", "-c", "1", "-w", "3", chain.path.inside_address])
        return AVAILABLE

    def transit(self, attachment: str) -> Availability:
        """Return whether an instance can forward packets between two links of this attachment; nothing is started."""
        try:
            return Availability(make_part(Attachment, attachment).no_transit)
        except LastroError as error:
            return unavailable(error)

    @once
    def offloads_off(self, attachment: str, platform: Platform) -> Availability:
        """Return whether frames fit the MTU if the links' offloads are off, by sending some."""
        with self._forwarding(attachment, platform, offloads=False) as chain:
            meter = InterfaceMeter(self._testbed, chain.instances)
            counted = chain.counted()
            meter.start()
            Iperf3Tcp().measure(chain.source, chain.sink, chain.path.sink, {"tcp_s": 1, "tcp_streams": 1})
            meter.stop()
            frames = frames_of(chain, meter, difference(counted, chain.counted()))
        if frames is None or frames.fit:
            return AVAILABLE
        return Availability(
            f"offloads cannot be switched off with {attachment} on {platform.name}: the function still receives frames "
            f"larger than the MTU of {frames.mtu}",
            'measure this combination with offloads = "kernel"',
        )

    @once
    def ipv6(self, attachment: str, platform: Platform) -> Availability:
        """Return whether two links of this attachment, with an instance between them, carry a ping over IPv6."""
        with self._forwarding(attachment, platform, ip="6"):
            return AVAILABLE

    def impaired(self, attachment: str, platform: str, impairment: Impairment) -> Availability:
        """Return whether the last link of a chain can be impaired in each way that `impairment` uses.

        A small impairment is tried, and its settings are read back. A few pings do not show whether packets are
        lost, but each trial counts lost packets."""
        kinds = [name for name, value in asdict(impairment).items() if value]
        return self._impaired(attachment, platform, Impairment(**{kind: _SMALL[kind] for kind in kinds}))

    @once
    def _impaired(self, attachment: str, platform: Platform, small: Impairment) -> Availability:
        outcome = Outcome()
        with self._forwarding(attachment, platform) as chain, impaired(chain, small, outcome):
            chain.source.run(["ping", "-n", "-c", "1", "-w", "5", chain.path.sink])
        return Availability(next(iter(outcome.invalid_because), None))

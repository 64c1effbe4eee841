"""Probes, which find out by trying which parts this host can run. Each probe runs once in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace

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
from lastro.scenarios.shared.chain import deployed, joined
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


class PartProbes:
    """Probes of each kind of part on a platform. If the platform is unavailable, they return that result instead."""

    def __init__(self, testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool) -> None:
        self._testbed, self._pool, self._attachments = testbed, pool, attachments
        self._probed: dict[tuple[str, ...], Availability] = {}

    def platform(self, name: str) -> Availability:
        return self._pool.availability(name)

    def attachment(self, name: str, platform: str) -> Availability:
        """Return whether instances of the platform can have this attachment."""
        return self._once(
            ("attachment", platform, name),
            lambda prepared, level: self._attachments.get(level).probe(self._testbed, prepared),
        )

    def isolation(self, name: str, platform: str) -> Availability:
        if name == NONE:
            return self.platform(platform)
        return self._once(
            ("isolation", platform, name),
            lambda prepared, part: registry.get(Isolation, part)().probe(self._testbed, prepared),
        )

    def _once(self, key: tuple[str, ...], probe: Callable[..., Availability]) -> Availability:
        """Return the result of `probe`, which is called once for each key.

        `key` is (kind of part, platform, further arguments of `probe`); the first argument of `probe` is the
        platform."""
        if key not in self._probed:
            try:
                availability = self.platform(key[1])
                availability = probe(self._pool.get(key[1]), *key[2:]) if availability else availability
            except LastroError as error:
                availability = unavailable(error)
            self._probed[key] = _without_guest_advice(availability) if self._testbed.guest else availability
        return self._probed[key]


def _without_guest_advice(availability: Availability) -> Availability:
    """Return a result that was found in a guest, without the advice in its remedy to measure in a guest."""
    return replace(availability, remedy=(availability.remedy or "").replace(f", {IN_A_GUEST}", "") or None)


class ChainProbes(PartProbes):
    def function(
        self,
        name: str,
        platform: str,
        implementation: str = "kernel",
        ip: str = "4",
        placement: str = EACH,
        attachment: str = DIRECT,
    ) -> Availability:
        """Return whether a function, or several in a row such as 'firewall>nat@docker', carries a ping.

        The attachment matters in two cases: if the implementation acts on ports, as `xdp` and `dpdk` do, and if a
        function names its own platform, since the links then join instances of several platforms."""
        key = ("function", platform, name, implementation, ip, placement, attachment)
        return self._once(key, self._probe_function)

    def sysctls(self, values: Mapping[str, str], platform: str) -> Availability:
        """Return whether an instance can have these sysctls, by reading them in one that was started with them."""
        return self._once(
            ("sysctls", platform, *(f"{name}={value}" for name, value in values.items())), self._probe_sysctls
        )

    def anomaly(self, level: str, platform: str, tool: str = "stress-ng") -> Availability:
        """Return whether an anomaly's program is in the image, and its set-up works.

        A set-up on a chain's link is not tried here, but by `member`. Each trial checks that the anomaly reaches its
        dose."""
        if level == NONE:
            return self.platform(platform)
        part = make_part(Anomaly, level)
        prepared = level if part.prepares and not part.on_chain else ""
        return self._once(("anomaly", platform, part.program or tool, prepared), self._probe_tool)

    def member(self, attachment: str, platform: str, ip: str) -> Availability:
        """Return whether one more instance can be a member of a chain's link, by sending a ping from it."""
        return self._once(("member", platform, attachment, ip), self._probe_member)

    def transit(self, attachment: str) -> Availability:
        """Return whether an instance can forward packets between two links of this attachment; nothing is started."""
        try:
            return Availability(make_part(Attachment, attachment).no_transit)
        except LastroError as error:
            return unavailable(error)

    def offloads_off(self, attachment: str, platform: str) -> Availability:
        """Return whether frames fit the MTU if the links' offloads are off, by sending some."""
        return self._once(("offloads", platform, attachment), self._probe_frames)

    def ipv6(self, attachment: str, platform: str) -> Availability:
        """Return whether two links of this attachment, with an instance between them, carry a ping over IPv6."""
        return self._once(("ipv6", platform, attachment), self._probe_ipv6)

    def impaired(self, attachment: str, platform: str, impairment: Impairment) -> Availability:
        """Return whether the last link of a chain can be impaired in each way that `impairment` uses.

        A small impairment is tried, and its settings are read back. A few pings do not show whether packets are
        lost, but each trial counts lost packets."""
        kinds = [name for name, value in asdict(impairment).items() if value]
        return self._once(("impaired", platform, attachment, *kinds), self._probe_impaired)

    def _probe_impaired(self, platform: Platform, attachment: str, *kinds: str) -> Availability:
        links = self._attachments.get(attachment)
        forwarding = registry.get(Function, NONE)()
        outcome = Outcome()
        small = Impairment(**{kind: _SMALL[kind] for kind in kinds})
        with deployed(self._testbed, platform, links, forwarding) as chain, impaired(chain, small, outcome):
            chain.source.run(["ping", "-n", "-c", "1", "-w", "5", chain.path.sink])
        return Availability(next(iter(outcome.invalid_because), None))

    def _probe_sysctls(self, platform: Platform, *pairs: str) -> Availability:
        asked = dict(pair.split("=", 1) for pair in pairs)
        spec = replace(instance_spec(self._testbed, "probe"), sysctls=asked)
        with platform.start(self._testbed, spec) as instance:
            for name, value in asked.items():
                text = instance.run(["cat", f"/proc/sys/{name.replace('.', '/')}"], check=False).text
                if text.split() != value.split():
                    return Availability(
                        f"{name} is not {value} in an instance of {platform.name}, but {text.strip() or 'missing'}",
                        f"choose a value that this kernel has in network namespaces, {IN_A_GUEST}",
                    )
        return AVAILABLE

    def _probe_member(self, platform: Platform, attachment: str, ip: str) -> Availability:
        links = self._attachments.get(attachment)
        forwarding = registry.get(Function, NONE)()
        with (
            deployed(self._testbed, platform, links, forwarding, ip=ip) as chain,
            platform.start(self._testbed, instance_spec(self._testbed, NEIGHBOUR)) as third,
            joined(chain, third),
        ):
            third.run(["ping", "-n", "-c", "1", "-w", "3", chain.path.inside_address])
        return AVAILABLE

    def _probe_ipv6(self, platform: Platform, attachment: str) -> Availability:
        links = self._attachments.get(attachment)
        forwarding = registry.get(Function, NONE)()
        with deployed(self._testbed, platform, links, forwarding, ip="6"):
            return AVAILABLE

    def _probe_frames(self, platform: Platform, attachment: str) -> Availability:
        links = self._attachments.get(attachment)
        forwarding = registry.get(Function, NONE)()
        with deployed(self._testbed, platform, links, forwarding, offloads=False) as chain:
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

    def _probe_function(
        self, platform: Platform, name: str, implementation: str, ip: str, placement: str, attachment: str
    ) -> Availability:
        levels = [split_platform(hop)[1] for hop in hops(name)]  # "" for that of the treatment
        for level in filter(None, levels):
            if not (availability := self.platform(level)):
                return availability
        links, functions = self._attachments.get(attachment), make_parts(Function, name)
        with deployed(
            self._testbed,
            platform,
            links,
            *functions,
            hosts=[self._pool.get(level) if level else platform for level in levels],
            implementation=implementation,
            placement=placement,
            ip=ip,
        ) as chain:
            counted = chain.counted()
            if not all(counted.get(name, CounterReading(1, 0)).packets for name in chain.function.crossings):
                return Availability(f"a ping reached the sink without crossing function '{name}'")
        return AVAILABLE

    def _probe_tool(self, platform: Platform, program: str, prepared: str) -> Availability:
        with platform.start(self._testbed, InstanceSpec("probe-anomaly", "probe")) as instance:
            instance.run([program, "--version"])
            with make_part(Anomaly, prepared).prepared(instance) if prepared else nullcontext():
                return AVAILABLE

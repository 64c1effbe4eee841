"""The contract of an isolation: it is effective where it is available; elsewhere, it reports why it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from lastro import registry
from lastro.attachments.base import Attachment
from lastro.errors import Unavailable
from lastro.functions.firewall import Firewall
from lastro.isolation.base import NEIGHBOUR, Isolation, Profile, isolate
from lastro.platforms.base import InstanceSpec, Platform
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing.subject import Subject

_USUAL = "runc"


class IsolationContract:
    """The contract of an isolation: it is effective where it is available; elsewhere, no instance starts without it."""

    isolation: ClassVar[str]
    platforms: ClassVar[tuple[str, ...]] = ("native", _USUAL)  # on which it is tried
    supported: ClassVar[bool] = True  # this host's kernel has what the isolation needs
    visible: ClassVar[bool] = True  # `verify` can detect that it is missing: true for every isolation except `none`

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "platform" in metafunc.fixturenames:
            metafunc.parametrize("platform", self.platforms, indirect=True)

    @pytest.fixture
    def platform(self, request: pytest.FixtureRequest, pool: PlatformPool) -> Platform:
        return pool.get(request.param)

    @pytest.fixture
    def part(self) -> Isolation:
        return registry.get(Isolation, self.isolation)()

    def test_it_is_in_force_or_says_why_not(self, testbed: Testbed, platform: Platform, part: Isolation) -> None:
        """Probe the isolation, which starts a neighbour, then start a function: they may be isolated differently."""
        subject = Subject(testbed, platform)
        spec, availability = _isolated_spec(part, testbed), part.probe(testbed, platform)
        before = subject.leftovers()  # with what this isolation needs once, such as another daemon
        assert not [name for name in before if "probe-" in name]
        known = spec.security.mechanisms <= platform.confines
        assert bool(availability) is (self.supported and known), availability.reason
        if not availability:
            assert availability.reason and availability.remedy
        if not known:
            with pytest.raises(Unavailable, match=platform.name), platform.start(testbed, spec):
                pytest.fail("an instance started without its isolation")
        elif availability:
            with platform.start(testbed, spec) as instance:
                assert part.verify(instance) is None
                assert instance.run(["echo", "works"]).text == "works\n"
        assert subject.leftovers() == before

    def test_it_holds_for_one_instance_and_is_missed_in_another(
        self, testbed: Testbed, pool: PlatformPool, part: Isolation
    ) -> None:
        if not (self.supported and self.visible):
            return
        spec = _isolated_spec(part, testbed, NEIGHBOUR)
        subject = Subject(testbed, pool.get(_USUAL))
        with subject.start_all(spec, InstanceSpec("free", NEIGHBOUR)) as (isolated, free):
            before = free.run(["ls", "-A", "/", "/etc", "/tmp", "/run"]).text
            free.spec = replace(free.spec, resources=spec.resources)  # what `verify` looks for
            assert part.verify(isolated) is None
            assert part.verify(free)
            assert free.run(["ls", "-A", "/", "/etc", "/tmp", "/run"]).text == before

    def test_it_changes_the_specification_alone_and_in_any_order(self, testbed: Testbed, part: Isolation) -> None:
        profile = Profile.unmeasured(testbed)
        for role in (NEIGHBOUR, "function"):
            plain = InstanceSpec("isolated", role, ports=("eth0",), sysctls={"net.ipv4.ip_forward": "1"})
            spec = part.apply(plain, profile)
            assert plain == InstanceSpec("isolated", role, ports=("eth0",), sysctls={"net.ipv4.ip_forward": "1"})
            changed = replace(spec, resources=plain.resources, security=plain.security, sysctls=plain.sysctls)
            assert changed == plain
            assert plain.sysctls.items() <= spec.sysctls.items()
            for name in registry.names("isolation") - {self.isolation}:
                other = registry.get(Isolation, name)()
                orders = (isolate(plain, order, profile) for order in ([part, other], [other, part]))
                one, another = (spec.with_security(prefix=tuple(sorted(spec.security.prefix))) for spec in orders)
                assert one == another, name

    def test_a_chain_works_under_it(self, testbed: Testbed, pool: PlatformPool, part: Isolation) -> None:
        """The function must load its rules and forward; load, ping and traffic must run; the isolation must remain."""
        if self.supported and self.visible:
            works_in_a_chain(testbed, pool.get(_USUAL), [part])


def works_in_a_chain(testbed: Testbed, platform: Platform, parts: list[Isolation]) -> None:
    """Assert that a chain works under these isolations, and that each of them is effective in all its instances."""
    links = registry.get(Attachment, "veth-direct")()
    profile = Profile.unmeasured(testbed)
    with deployed(testbed, platform, links, Firewall(), isolate=lambda spec, _: isolate(spec, parts, profile)) as chain:
        assert chain.counted()["crossed"].packets >= 1
        server = chain.sink.spawn(["iperf3", "-s", "-1", "--forceflush"])
        server.wait_line("listening", 10)
        chain.source.run(["iperf3", "-c", chain.path.sink, "-n", "100K"])
        server.stop()
        chain.source.run(["env", "--chdir=/var/tmp", "stress-ng", "--hdd", "1", "--hdd-bytes", "1M", "--hdd-ops", "16"])
        for instance in chain.instances.values():
            assert [part.verify(instance) for part in parts] == [None] * len(parts)


def _isolated_spec(part: Isolation, testbed: Testbed, role: str = "function") -> InstanceSpec:
    return part.apply(InstanceSpec("isolated", role), Profile.unmeasured(testbed))

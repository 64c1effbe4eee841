"""The contract of an attachment: it links the right instances and no others, and its end restores everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from lastro import registry
from lastro.attachments.base import Attachment, Segment
from lastro.attachments.separable import SeparableLinks
from lastro.errors import LastroError, Unavailable
from lastro.functions.base import Function
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.chain import deployed, joined
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing.ending import nothing_is_left_after_a_kill
from lastro.testing.network import LEFT, RIGHT, reaches
from lastro.testing.taps import TapMachine

_NOBODY = "198.18.200.3"
_WORK = """
links = AttachmentPool(bed, stack).get(sys.argv[2])
a, b = (stack.enter_context(pool.get("native").start(bed, InstanceSpec(name, name))) for name in ("aa", "bb"))
ends = Port(a, "eth0", "198.18.200.1/24"), Port(b, "eth0", "198.18.200.2/24")
stack.enter_context(links.connect(bed, [Segment("s", ends)]))
"""


class AttachmentContract:
    """The contract of an attachment: linked ports reach each other and nothing else; counters count each flow.

    Each test is a real run, once between network namespaces ("native") and once between taps ("taps"), which virtual
    machines open."""

    attachment: ClassVar[str]
    platforms: ClassVar[tuple[str, ...]] = ("native", "taps")  # what the attachment can join
    counters: ClassVar[frozenset[str]] = frozenset()  # their names; each must increase with every flow
    hops: ClassVar[int] = 1  # routers in a chain: the function, and the DUT for each of the segments on which it routes
    gateway: ClassVar[str] = ""  # the router through which a port reaches its own network; empty if directly

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "platform" in metafunc.fixturenames:
            metafunc.parametrize("platform", self.platforms, indirect=True, scope="class")

    @pytest.fixture(scope="class")
    @classmethod
    def platform(cls, request: pytest.FixtureRequest, pool: PlatformPool) -> Platform:
        return TapMachine() if request.param == "taps" else pool.get(request.param)

    @pytest.fixture(scope="class")
    @classmethod
    def links(cls, testbed: Testbed) -> Iterator[Attachment]:
        """Yield the attachment, prepared once for all tests of the class."""
        part = make_part(Attachment, cls.attachment)
        with part.prepare(testbed):
            yield part

    @pytest.fixture(scope="class")
    @classmethod
    def trio(cls, testbed: Testbed, platform: Platform) -> Iterator[list[Instance]]:
        """Yield three running instances without links."""
        with ExitStack() as stack:
            specs = [InstanceSpec(name, name) for name in ("aa", "bb", "cc")]
            yield [stack.enter_context(platform.start(testbed, spec)) for spec in specs]

    def test_two_instances_reach_each_other_and_nobody_else(
        self, testbed: Testbed, links: Attachment, trio: list[Instance]
    ) -> None:
        a, b, alone = trio
        before = contents(testbed)
        with links.connect(testbed, [segment(a, b)]):
            assert reaches(a, RIGHT)
            assert reaches(b, LEFT)
            assert not reaches(alone, LEFT, within_s=1)
            assert not reaches(a, _NOBODY, within_s=1)
            for instance, address in ((a, LEFT), (b, RIGHT)):
                (port,) = [link for link in _listed(testbed, instance, "address") if link["ifname"] == "eth0"]
                assert port["operstate"] in ("UP", "UNKNOWN") and port["mtu"] == 1500
                assert [entry["local"] for entry in port["addr_info"] if entry["family"] == "inet"] == [address]
                destinations = {route["dst"] for route in _listed(testbed, instance, "route")}
                assert destinations - {self.gateway} == {"198.18.200.0/24"}, "it has another route"
            assert ports(testbed, alone) == ["lo"]
        assert contents(testbed) == before
        assert [ports(testbed, each) for each in trio] == 3 * [["lo"]]
        assert not reaches(a, RIGHT, within_s=1)

    def test_after_an_error_the_links_are_gone_and_can_be_made_again(
        self, testbed: Testbed, links: Attachment, trio: list[Instance]
    ) -> None:
        a, b, _ = trio
        before = contents(testbed)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), links.connect(testbed, [segment(a, b)]):
                assert reaches(a, RIGHT)
                raise ZeroDivisionError
            assert contents(testbed) == before

    def test_links_that_cannot_be_made_leave_no_others(
        self, testbed: Testbed, links: Attachment, trio: list[Instance]
    ) -> None:
        nowhere = Port(unstarted("no-such-netns"), "eth0", "198.18.201.2/24")
        broken = Segment("x", (Port(trio[2], "eth0", "198.18.201.1/24"), nowhere))
        before = contents(testbed)
        with pytest.raises(LastroError), links.connect(testbed, [segment(trio[0], trio[1]), broken]):
            pytest.fail("it connected to a namespace that is not there")
        assert contents(testbed) == before
        assert [ports(testbed, each) for each in trio] == 3 * [["lo"]]

    def test_each_of_several_links_carries_its_own_traffic(
        self, testbed: Testbed, links: Attachment, trio: list[Instance]
    ) -> None:
        """Join three instances in a ring. If the links can be separated, a cut interrupts only the link that is cut."""
        ring, before = _ring(trio), contents(testbed)
        with links.connect(testbed, ring):
            assert _passable(ring) == [True, True, True]
        assert contents(testbed) == before
        if isinstance(links, SeparableLinks):
            links.separated = True
            try:
                with links.connect(testbed, ring):
                    _cut_and_mend(testbed, links, ring)
            finally:
                links.separated = False
            assert contents(testbed) == before

    def test_it_is_available_and_trying_leaves_nothing(
        self, testbed: Testbed, links: Attachment, platform: Platform
    ) -> None:
        before = contents(testbed)
        availability = links.probe(testbed, platform)
        assert availability, availability.reason
        assert contents(testbed) == before

    def test_a_chain_goes_through_its_function_and_moves_every_counter(
        self, testbed: Testbed, links: Attachment, platform: Platform
    ) -> None:
        """Send pings twice: each time, every counter must have increased, as it must in each measurement."""
        if links.no_transit:
            return
        with deployed(testbed, platform, links, registry.get(Function, "nat")()) as chain:
            counted, moved = chain.counted(), links.counters(testbed)
            assert set(moved) == self.counters
            for _ in range(2):
                done = chain.source.run(["ping", "-n", "-c", "2", "-i", "0.05", "-W", "1", chain.path.sink])
                assert f"ttl={64 - self.hops} " in done.text
                before, moved, counted_before, counted = moved, links.counters(testbed), counted, chain.counted()
                assert all(moved[counter] > before[counter] for counter in before)
                assert counted["crossed"].packets >= counted_before["crossed"].packets + 2
                assert counted["translated"].packets > counted_before["translated"].packets

    def test_functions_in_a_row_count_what_has_passed_those_before(
        self, testbed: Testbed, links: Attachment, platform: Platform
    ) -> None:
        if links.no_transit:
            return
        functions = [registry.get(Function, name)() for name in ("nat", "none", "nat")]
        with deployed(testbed, platform, links, *functions) as chain:
            before = chain.counted()
            chain.source.run(["ping", "-n", "-c", "2", "-i", "0.05", "-W", "1", chain.path.sink])
            after = chain.counted()
            assert len(chain.function.crossings) == len(functions)
            assert all(after[name].packets >= before[name].packets + 2 for name in chain.function.crossings)

    def test_a_third_instance_joins_the_chains_link_or_is_told_why_it_cannot(
        self, testbed: Testbed, links: Attachment, platform: Platform
    ) -> None:
        if links.no_transit:
            return
        spec = instance_spec(testbed, "third")
        with (
            deployed(testbed, platform, links, registry.get(Function, "none")()) as chain,
            platform.start(testbed, spec) as third,
        ):
            before = _lasting(contents(testbed))
            try:
                with joined(chain, third):
                    assert reaches(third, chain.path.inside_address)
                    assert not reaches(third, chain.path.sink, within_s=1), "it has another way than the link"
            except Unavailable as refused:
                assert refused.message and refused.hint
            assert _lasting(contents(testbed)) == before
            assert ports(testbed, third) == ["lo"]
            assert reaches(chain.source, chain.path.sink)

    def test_killed_and_cleaned_up_after_it_leaves_nothing(self, testbed: Testbed, tmp_path: Path) -> None:
        nothing_is_left_after_a_kill(testbed, tmp_path, _WORK, self.attachment)


def unstarted(netns: str, *, takes_taps: bool = False) -> Any:
    """Return a stand-in for an instance that was never started, with only the attributes that a topology reads."""
    return SimpleNamespace(netns=netns, takes_taps=takes_taps)


def segment(a: Instance, b: Instance) -> Segment:
    return Segment("s", (Port(a, "eth0", f"{LEFT}/24"), Port(b, "eth0", f"{RIGHT}/24")))


def ports(testbed: Testbed, instance: Instance) -> list[str]:
    """Return the names of an instance's interfaces, without taps, which exist as long as the machine runs."""
    ports = _listed(testbed, instance, "-d", "link")
    return [link["ifname"] for link in ports if link.get("linkinfo", {}).get("info_kind") != "tun"]


def contents(testbed: Testbed) -> dict[str, list[str]]:
    """Return {kind: sorted lines} of all that an attachment may change in the DUT's network namespace.

    The key `namespaces` has the names of the session's network namespaces."""
    inside = ["nsenter", f"--net=/run/netns/{testbed.dut}"]
    listed = {
        "links": ["ip", "-o", "link"],
        "addresses": ["ip", "-o", "address"],
        "routes": ["ip", "route", "show", "table", "all"],
        "rules": ["ip", "rule"],
        "nft": ["nft", "list", "ruleset"],
        "sysctls": ["sh", "-c", "cd /proc/sys/net/ipv4; grep -r . ip_forward conf neigh 2>/dev/null"],
        "namespaces": ["sh", "-c", f"ls /run/netns | grep {testbed.session.token}"],
    }
    return {what: sorted(testbed.host.run([*inside, *argv]).text.splitlines()) for what, argv in listed.items()}


def _lasting(everything: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the `contents` that do not change while links come up: names of links, rules, and namespaces."""
    links = [line.split()[1] for line in everything["links"]]
    return {"links": links, **{what: everything[what] for what in ("rules", "nft", "namespaces")}}


def _listed(testbed: Testbed, instance: Instance, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = testbed.host.run_json(["ip", "-n", instance.netns, "-j", *words])
    return found


def _ring(instances: Sequence[Instance]) -> list[Segment]:
    """Return a segment from each instance to the next, and from the last to the first, each with its own network."""
    followers = [*instances[1:], instances[0]]
    return [
        Segment(f"{n}", (Port(a, "eth0", f"198.18.20{n}.1/24"), Port(b, "eth1", f"198.18.20{n}.2/24")))
        for n, (a, b) in enumerate(zip(instances, followers, strict=True))
    ]


def _passable(ring: Sequence[Segment], within_s: int = 5) -> list[bool]:
    """Return, for each segment, whether its first port reaches its second within `within_s` seconds."""
    ends = [segment.ports for segment in ring]
    return [reaches(first.instance, second.ip, within_s) for first, second in ends]


def _cut_and_mend(testbed: Testbed, links: SeparableLinks, ring: Sequence[Segment]) -> None:
    for carrier in (False, True):
        links.cut(testbed, ring[:1], carrier=carrier)
        assert _passable(ring[:1], within_s=1) == [False]
        assert _passable(ring[1:]) == [True, True]
        links.mend(testbed, ring[:1], carrier=carrier)
        assert _passable(ring) == [True, True, True]

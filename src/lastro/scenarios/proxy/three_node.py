"""A three-node testbed: the roles client — dut — server in a line, each in its own network namespace.

A scenario writes the following, whether the roles are on one machine or on three:

    with three_node_testbed(self.testbed) as nodes:
        client = stack.enter_context(native.start(nodes.client.testbed, nodes.client.spec("jmeter", resources)))
        server = stack.enter_context(native.start(nodes.server.testbed, nodes.server.spec("httpd", resources)))
        client.run(["ping", "-c", "1", nodes.server.address])

`nodes.client`, `nodes.dut` and `nodes.server` are `RoleNode`s:
    testbed     the role's own `Testbed`: `testbed.host` runs argv there, `testbed.session` owns what is made there, and
                `testbed.dut` names the role's network namespace (the DUT has the same one for the whole session)
    links       names of its interfaces on the line, by the role at the other end
    addresses   its addresses on them, by the role at the other end; `address` is the first
    spec(…)     an instance of bare processes *inside the role's namespace*, on the role's CPUs, for `native` and any
                platform that takes a namespace; an instance with its own namespace is made on `testbed`, as usual

The DUT forwards packets (`net.ipv4.ip_forward`). Client and server send packets for all of 198.18.0.0/15 to it. So both
reach a subnet of an attachment behind the DUT without another route, and the client reaches the server without a proxy.

    198.19.1.10 client ── 198.19.1.1 dut 198.19.2.1 ── server 198.19.2.10

On one machine the links are veth pairs. Between hosts they are the interfaces that the testbed's file names: each is
moved into its role's namespace, gets its address, and is moved back without the address when the block ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from lastro.errors import PlatformError
from lastro.host.cards import card_in_namespace
from lastro.host.cgroups import Resources
from lastro.platforms.base import InstanceSpec, Security
from lastro.testbed import Testbed, set_sysctls, with_new_dut

CLIENT, DUT, SERVER = "client", "dut", "server"
ROLES = (CLIENT, DUT, SERVER)
LINKS = ((CLIENT, DUT), (DUT, SERVER))
NETWORK = "198.18.0.0/15"
_ADDRESSES = {
    (CLIENT, DUT): "198.19.1.10",
    (DUT, CLIENT): "198.19.1.1",
    (DUT, SERVER): "198.19.2.1",
    (SERVER, DUT): "198.19.2.10",
}
_ARRIVAL_S = 5
_FORWARDS = {"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.send_redirects": "0"}


@dataclass(frozen=True, slots=True)
class RoleNode:
    """A role with its testbed. `links` maps each adjacent role to the name of the interface towards it.

    `addresses` maps each adjacent role to the address of that interface, without prefix length."""

    role: str
    testbed: Testbed
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def addresses(self) -> dict[str, str]:
        return {other: _ADDRESSES[self.role, other] for other in self.links}

    @property
    def address(self) -> str:
        return next(iter(self.addresses.values()))

    def spec(self, name: str, resources: Resources | None = None, capabilities: tuple[str, ...] = ()) -> InstanceSpec:
        """Return the specification of an instance in the role's namespace, on the role's CPUs.

        `name` is made unique."""
        bed, security = self.testbed, Security(capabilities=capabilities)
        limits = bed.on_own_cpus(resources or Resources())
        return InstanceSpec(bed.session.unique(name), self.role, limits, security, netns=bed.dut)


@dataclass(frozen=True, slots=True)
class ThreeNodeTestbed:
    client: RoleNode
    dut: RoleNode
    server: RoleNode

    @property
    def all(self) -> tuple[RoleNode, RoleNode, RoleNode]:
        return self.client, self.dut, self.server


@contextmanager
def three_node_testbed(testbed: Testbed) -> Iterator[ThreeNodeTestbed]:
    """Set up the three roles and their links inside the block, and prove them by a ping from end to end.

    Raises: PlatformError when the ends do not reach each other."""
    with ExitStack() as stack:
        beds = {DUT: testbed}
        for role in (CLIENT, SERVER):
            beds[role] = stack.enter_context(with_new_dut(testbed.at(role), role))
        names: dict[str, dict[str, str]] = {role: {} for role in ROLES}
        for a, b in LINKS:
            if beds[a].session is beds[b].session:
                names[a][b], names[b][a] = f"to-{b}", f"to-{a}"
                stack.enter_context(_veth(beds[a], names[a][b], beds[b], names[b][a]))
            else:
                for role, other in ((a, b), (b, a)):
                    card = beds[role].cards[other]  # the testbed's file is refused without it
                    purpose = f"for the {role}'s link to the {other}"
                    stack.enter_context(card_in_namespace(beds[role].session, card, beds[role].dut, purpose))
                    names[role][other] = card
        three_nodes = ThreeNodeTestbed(*(RoleNode(role, beds[role], names[role]) for role in ROLES))
        for node in three_nodes.all:
            _configure(node)
        set_sysctls(testbed.host, testbed.dut, _FORWARDS)
        _require_connected(three_nodes)
        yield three_nodes


@contextmanager
def _veth(a: Testbed, link: str, b: Testbed, other: str) -> Iterator[None]:
    argv = ["ip", "link", "add", "name", link, "netns", a.dut, "type", "veth", "peer", "name", other, "netns", b.dut]
    try:
        a.host.run(argv)
        yield
    finally:
        a.host.run(["ip", "-n", a.dut, "link", "del", "dev", link], check=False)


def _configure(node: RoleNode) -> None:
    lines = []
    for other, link in node.links.items():
        lines += [f"address add {node.addresses[other]}/24 dev {link}", f"link set {link} up"]
        if node.role != DUT:
            lines.append(f"route add {NETWORK} via {_ADDRESSES[other, node.role]} dev {link}")
    bed = node.testbed
    bed.host.run(["ip", "-n", bed.dut, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _require_connected(testbed: ThreeNodeTestbed) -> None:
    argv = ["ping", "-n", "-c", "1", "-w", str(_ARRIVAL_S), testbed.server.address]
    client = testbed.client.testbed
    done = client.host.run(["ip", "netns", "exec", client.dut, *argv], timeout_s=_ARRIVAL_S + 15, check=False)
    if done.returncode != 0:
        words = (done.error_text or done.text).strip()[-200:]
        raise PlatformError(f"the client does not reach the server over the testbed's links: {words}")

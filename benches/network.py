"""A network without routers: 16 namespaces and 24 links with a bridge each, made and removed, against the same by hand.

By hand it is what a person who knows the tools would type: the namespaces, one batch for links, one for addresses in
each namespace; then all links removed as one group, and the namespaces. Targets: each of the two under 0.5 s.

    python benches/network.py [--json]"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from _harness import Ratio, interleaved, show
from lastro import registry
from lastro.app.hosts import testbed
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance, InstanceSpec, instance_netns
from lastro.scenarios.routing.boot import segments_of
from lastro.study.topology import RouterTopology, grid
from lastro.testbed import Testbed, with_new_dut

N_PAIRS = 20


class Node(Instance):
    """A bare namespace."""

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net={NETNS_DIR / self.netns}", *argv]


@contextmanager
def ours(bed: Testbed, topology: RouterTopology) -> Iterator[None]:
    links = registry.get("attachment", "veth-bridge")()
    links.separated = True
    with ExitStack() as stack:
        place = stack.enter_context(with_new_dut(bed, bed.session.unique("hub")))
        nodes = []
        for _ in topology.names:
            spec = InstanceSpec(bed.session.unique("node"), "node")
            netns = stack.enter_context(instance_netns(bed.host, bed, spec))
            nodes.append(Node(bed, spec, netns=netns, cgroup=bed.session.cgroup))
        stack.enter_context(links.connect(place, segments_of(topology, nodes)))
        yield


@contextmanager
def by_hand(topology: RouterTopology) -> Iterator[None]:
    names = ["raw-hub", *(f"raw-{number}" for number in range(len(topology.names)))]
    lines, own = [], {number: [""] for number in range(len(topology.names))}
    for number, link in enumerate(topology.links):
        bridge = f"link add name br-{number} group 198 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        lines += [bridge, f"link set br-{number} up"]
        for side, end in zip("ab", (link.a, link.b), strict=True):
            far, port = f"hub-{number}{side}", topology.interface(end, number)
            lines.append(f"link add name {far} group 198 type veth peer name {port} netns raw-{end}")
            lines.append(f"link set {far} master br-{number} up")
            own[end] += [f"address add {topology.address(end, number)}/30 dev {port}", f"link set {port} up"]
    script = [f"ip netns add {name}; ip -n {name} link set lo up" for name in names]
    script.append("ip -n raw-hub -batch - <<'END'\n" + "\n".join(lines) + "\nEND")
    script += [f"ip -n raw-{end} -batch - <<'END'" + "\n".join(text) + "\nEND" for end, text in own.items()]
    _sh(script)
    try:
        yield
    finally:
        _sh(["ip -n raw-hub link del group 198", *(f"ip netns del {name}" for name in names)])


def _sh(lines: Sequence[str]) -> None:
    subprocess.run(["sh", "-e"], input="\n".join(lines) + "\n", text=True, check=True)


def ratios(n_pairs: int = N_PAIRS) -> list[Ratio]:
    topology = grid(4, 4)
    found = []
    with testbed("benches", wait=True) as bed:
        for phase, what in enumerate(("made", "removed")):

            def timed(whole: object, phase: int = phase) -> float:
                began_s = time.monotonic()
                with whole:  # type: ignore[attr-defined]
                    middle_s = time.monotonic()
                return 1000 * (middle_s - began_s if phase == 0 else time.monotonic() - middle_s)

            def lastro(timed: object = timed) -> float:
                with bed.host.recorded():
                    return timed(ours(bed, topology))  # type: ignore[operator, no-any-return]

            def raw(timed: object = timed) -> float:
                return timed(by_hand(topology))  # type: ignore[operator, no-any-return]

            found.append(interleaved(f"16 namespaces and 24 links {what}", "< 500 ms", lastro, raw, n_pairs))
    return found


if __name__ == "__main__":
    show(ratios())

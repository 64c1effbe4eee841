"""Networks without instances, against the same by hand: 16 namespaces and 24 links, and chains of firewalls.

By hand it is what a person who knows the tools would type: the namespaces, one batch for links, one for addresses in
each namespace; for a chain, also the sysctls, one ruleset for each firewall, and a ping through all of them; then all
links removed as one group, and the namespaces. Targets: the network is made and removed in under 0.5 s each; the
set-up of a chain of 1, 2, 4 or 8 firewalls takes at most 1.2 times as long.

    python benches/network.py [chains] [--json]    chains: only these"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise

from _harness import Ratio, interleaved, show, words
from lastro import registry
from lastro.app.hosts import testbed
from lastro.functions.base import PATHS, Function
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance, InstanceSpec, Platform, instance_netns
from lastro.scenarios.routing.boot import segments_of
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.function_row import EACH, in_row
from lastro.study.topology import RouterTopology, grid
from lastro.testbed import Testbed, set_sysctls, with_new_dut

N_PAIRS = 20
HOPS = (1, 2, 4, 8)


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


class Bare(Platform):
    name, summary = "bare", "bare namespaces"

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        with instance_netns(testbed.host, testbed, spec) as netns:
            set_sysctls(testbed.host, netns, dict(spec.sysctls))
            yield Node(testbed, spec, netns=netns, cgroup=testbed.session.cgroup)


def chains(bed: Testbed, n_pairs: int) -> Iterator[Ratio]:
    """The set-up of chains of firewalls, to the answer to a ping; the teardown is not timed."""
    links = registry.get("attachment", "veth-bridge")()
    with links.prepare(bed):
        for n in HOPS:
            functions = [registry.get("function", "firewall")() for _ in range(n)]

            def ours(functions: Sequence[Function] = functions) -> float:
                began_s = time.monotonic()
                with bed.host.recorded(), deployed(bed, Bare(), links, *functions):
                    return 1000 * (time.monotonic() - began_s)

            def raw(functions: Sequence[Function] = functions) -> float:
                began_s = time.monotonic()
                try:
                    _sh(chain_by_hand(functions))
                    return 1000 * (time.monotonic() - began_s)
                finally:
                    names = _ends(len(functions))
                    _sh(["ip -n raw-hub link del group 198", *(f"ip netns del {name}" for name in ["raw-hub", *names])])

            yield interleaved(f"set-up of a chain of {n} firewalls", "≤ 1.2", ours, raw, n_pairs)


def _ends(n_functions: int) -> list[str]:
    return ["raw-source", *(f"raw-{number}" for number in range(n_functions)), "raw-sink"]


def chain_by_hand(functions: Sequence[Function]) -> list[str]:
    """The commands for a chain of firewalls with a bridge, whose last one is the ping."""
    whole, names = PATHS["4"], _ends(len(functions))
    row = in_row(functions, whole, EACH, "kernel", n_routers=0)
    paths = [hop.path for hop in row.hops]
    leaving = [whole.source, *(path.outside_address for path in paths)]
    entering = [*(path.inside_address for path in paths), whole.sink]
    lines = [
        "link add name hub-br group 198 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        "link set hub-br up",
    ]
    own: dict[str, list[str]] = {name: [] for name in names}
    for number, (here, there) in enumerate(pairwise(names)):
        lines.append(f"link add name a{number} group 198 type veth peer name out0 netns {here}")
        lines.append(f"link add name b{number} group 198 type veth peer name in0 netns {there}")
        lines += [f"link set {side}{number} master hub-br up" for side in "ab"]
        own[here] += [f"address add {leaving[number]}/24 dev out0", "link set out0 up"]
        own[there] += [f"address add {entering[number]}/24 dev in0", "link set in0 up"]
    for number, name in enumerate(names):
        own[name] += [f"route add {whole.sink}/32 via {entering[number]}"] if number < len(functions) else []
        own[name] += [f"route add {whole.source}/32 via {leaving[number - 1]}"] if number > 1 else []
    script = [f"ip netns add {name}; ip -n {name} link set lo up" for name in ["raw-hub", *names]]
    script.append("ip -n raw-hub -batch - <<'END'\n" + "\n".join(lines) + "\nEND")
    script += [f"ip -n {name} -batch - <<'END'\n" + "\n".join(text) + "\nEND" for name, text in own.items()]
    sysctls = ["all.arp_ignore=1", "all.arp_announce=2", "all.rp_filter=0", "default.rp_filter=0", "all.forwarding=1"]
    setting = f"sysctl -qw {' '.join(f'net.ipv4.conf.{each}' for each in sysctls)}"
    script += [f"ip netns exec {name} {setting}" for name in names]
    for name, hop in zip(names[1:], row.hops, strict=False):
        script.append(f"nsenter --net=/run/netns/{name} nft -f - <<'END'\n{hop.function.ruleset(hop.path)}END")
    return [*script, f"nsenter --net=/run/netns/raw-source ping -n -c 1 -w 5 {whole.sink} >/dev/null"]


def _sh(lines: Sequence[str]) -> None:
    subprocess.run(["sh", "-e"], input="\n".join(lines) + "\n", text=True, check=True)


def ratios(n_pairs: int = N_PAIRS) -> list[Ratio]:
    topology = grid(4, 4)
    with testbed("benches", wait=True) as bed:
        found = [*chains(bed, n_pairs)]
        if "chains" in words():
            return found
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

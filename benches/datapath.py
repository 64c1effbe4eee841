"""TCP by iperf3 between two instances that Lastro has joined, against the same topology built by hand.

Both stand at the same time, and are measured in turn, so that what the host does meanwhile falls on both alike. Lastro
is out of the way while packets flow: the interval of the ratio should hold 1.

    python benches/datapath.py [PLATFORM ...] [--json]    default: every platform with a recipe"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from _harness import Ratio, interleaved, show, words
from _raw import MACHINES, RECIPES, Recipe, qemu
from lastro import registry
from lastro.app.hosts import testbed
from lastro.attachments.base import Segment
from lastro.errors import LastroError, Unavailable
from lastro.platforms.base import InstanceSpec, Port, Tap, start_all
from lastro.testbed import Testbed

N_PAIRS, SECONDS = 12, 2
OURS, RAW = ("198.18.1.1", "198.18.1.2"), ("198.18.2.1", "198.18.2.2")


def ratios(platforms: Sequence[str] = (), n_pairs: int = N_PAIRS) -> list[Ratio]:
    found = []
    with testbed("benches", wait=True) as bed:
        for platform in platforms or sorted(RECIPES):
            try:
                found.append(_ratio(bed, platform, n_pairs))
            except LastroError as error:
                print(f"{platform}: {error}", file=sys.stderr)
    return found


def _ratio(bed: Testbed, platform: str, n_pairs: int) -> Ratio:
    with ExitStack() as stack:
        ready = registry.get("platform", platform)()
        stack.enter_context(ready.prepare(bed))
        if not (found := ready.probe(bed)):
            raise Unavailable(str(found.reason))
        by_lastro = stack.enter_context(ours(bed, ready))
        raw = stack.enter_context(by_hand(bed, ready, platform))
        what = f"TCP over veth-bridge between instances of {platform}"
        return interleaved(what, "holds 1", by_lastro, raw, n_pairs, unit="Mbit/s")


@contextmanager
def ours(bed: Testbed, ready: Any) -> Iterator[Callable[[], float]]:
    """Two instances on veth-bridge; calling the result measures once."""
    specs = [InstanceSpec(bed.session.unique("end"), "end", ports=("eth0",)) for _ in range(2)]
    links = registry.get("attachment", "veth-bridge")()
    with ExitStack() as stack:
        ends = start_all(stack, ready, bed, specs)
        ports = [Port(end, "eth0", f"{address}/24") for end, address in zip(ends, OURS, strict=True)]
        stack.enter_context(links.connect(bed, [Segment("d", (ports[0], ports[1]))]))
        server = ends[1].spawn(["iperf3", "--server"])
        stack.callback(server.stop)
        yield lambda: _throughput(ends[0].wrap(_client(OURS[1])))


@contextmanager
def by_hand(bed: Testbed, ready: Any, platform: str) -> Iterator[Callable[[], float]]:
    """The same from a shell: two containers, two veth pairs, one bridge in a namespace of its own."""
    names = [bed.session.unique(f"raw-{platform}") for _ in range(2)]
    hub = bed.session.netns_name("raw-hub")
    with ExitStack() as stack:
        for netns in (hub, *(bed.session.netns_name(name) for name in names)):
            stack.enter_context(bed.session.owned("netns", netns))
        subprocess.run(["sh", "-e"], input=_bridge(hub), text=True, check=True)
        ends = []
        for number, (name, address) in enumerate(zip(names, RAW, strict=True)):
            if platform in MACHINES:
                end = qemu(bed, ready, name, Tap(f"v{number}"), hub)
                script = [_tap(hub, number), end.start, _inside(end, address)]
            else:
                end = RECIPES[platform](bed, ready, name)
                link = _link(hub, number, end.netns, address)
                before, after = (link, "") if end.make_netns else ("", link)
                script = [end.make_netns, before, end.start, end.name_netns, after]
            stack.callback(end.end)
            end.run("\n".join(script))
            ends.append(end)
        server = subprocess.Popen(["sh", "-ec", f"exec {ends[1].inside} iperf3 --server"], stdout=subprocess.DEVNULL)
        stack.callback(server.wait, 10)
        stack.callback(server.kill)
        time.sleep(1)
        yield lambda: _throughput(["sh", "-ec", f"exec {ends[0].inside} {' '.join(_client(RAW[1]))}"])


def _bridge(hub: str) -> str:
    """Bridged packets stay out of iptables, which a host with Docker switches on for every namespace."""
    quiet = "f=/proc/sys/net/bridge/bridge-nf-call-iptables; [ ! -e $f ] || echo 0 > $f"
    return f"""ip netns add {hub}
ip -n {hub} link add br0 type bridge
ip -n {hub} link set br0 up
nsenter --net=/run/netns/{hub} sh -c '{quiet}'"""


def _link(hub: str, number: int, netns: str, address: str) -> str:
    return f"""ip -n {hub} link add v{number} type veth peer name eth0 netns {netns}
ip -n {hub} link set v{number} master br0 up
ip -n {netns} address add {address}/24 dev eth0
ip -n {netns} link set eth0 up"""


def _tap(hub: str, number: int) -> str:
    return f"""ip -n {hub} tuntap add dev v{number} mode tap
ip -n {hub} link set v{number} master br0 up"""


def _inside(machine: Recipe, address: str) -> str:
    """The only card of a guest is its eth0."""
    return f"""{machine.inside} ip address add {address}/24 dev eth0
{machine.inside} ip link set eth0 up"""


def _client(server: str) -> list[str]:
    return ["iperf3", "--client", server, "--time", str(SECONDS), "--omit", "1", "--json"]


def _throughput(argv: list[str]) -> float:
    """Mbit/s that the receiver counted."""
    done = subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6


if __name__ == "__main__":
    show(ratios(words()))

"""One flow by Lastro's scenario uplink on `native`, against the tool by hand between two chroots on links by hand.

On both sides, two veth pairs meet at a bridge in its own namespace, and the sender has one CPU. By hand nothing is
metered or checked, and the bench itself reads the output that the tool prints for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from _by_hand import ByHand, by_hand
from _harness import Ratio, interleaved
from lastro.errors import TrialError, Unavailable
from lastro.scenarios.shared.resources import resources
from lastro.scenarios.uplink import UplinkScenario
from lastro.scenarios.uplink.offered_load import MOST
from lastro.study.model import Level
from lastro.testbed import Testbed
from lastro.units import parse_rate_bps

NEAR, FAR = "198.18.3.1", "198.18.3.2"
SECONDS, BELOW = 1, "200M"
BY_HAND, GROUP = ", read by hand", ", in a group of the same limits"  # in the name of a row
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Tool:
    """Commands as a person types them. `rate_pattern` finds the receiver's rate, in kbit/s, in the client's output."""

    server: str
    client: str
    rate_pattern: str
    metric: str = "udp_throughput"
    rates: tuple[str, ...] = (BELOW, MOST)

    def mbit_s(self, text: str) -> float:
        """Raises: TrialError when there is not one rate."""
        found = re.findall(self.rate_pattern, text)
        if len(found) != 1:
            raise TrialError(f"by hand, the output of the flow's tool has {len(found)} rates: …{text[-80:]!r}")
        return float(found[0]) / 1000


TOOLS = {
    "iperf2-udp": Tool(
        "iperf -s -u",
        "iperf -c {far} -u -b {bps:.0f} -l 1470 -t {seconds} -f k",
        r"([0-9.]+) Kbits/sec +[0-9.]+ ms",
    ),
    "iperf3-udp-load": Tool(
        "iperf3 -s -1 --forceflush",
        "iperf3 -c {far} -u -b {bps:.0f} -l 1470 -t {seconds} -f k",
        r"([0-9.]+) Kbits/sec .* receiver",
    ),
    "iperf3-tcp": Tool(
        "iperf3 -s -1 --forceflush",
        "iperf3 -c {far} -t {seconds} -f k",
        r"([0-9.]+) Kbits/sec +receiver",
        "throughput",
        (MOST,),
    ),
}


def config(name: str, rate: str) -> dict[str, Level]:
    settings = {setting.name: setting.default for setting in UplinkScenario.settings}
    parts = {"platform": "native", "isolation": "none", "instrument": name, "attachment": "veth-bridge"}
    return {**settings, **parts, "offered": rate, "load_s": SECONDS}


def ratio(scenario: UplinkScenario, name: str, rate: str, n_pairs: int, tries: int, *, grouped: bool = False) -> Ratio:
    """`grouped`: the sender by hand is in a control group with the instance's limits.

    Raises: Unavailable when it cannot be measured here; TrialError, PlatformError when that failed."""
    chosen, tool = config(name, rate), TOOLS[name]
    if not (found := scenario.availability(chosen)):
        raise Unavailable(str(found.reason))
    with _joined(scenario.testbed, chosen, grouped=grouped) as (near, far):
        return interleaved(
            f"{tool.metric} by `{name}` at {'the most' if rate == MOST else rate}{BY_HAND}{GROUP if grouped else ''}",
            "holds 1, or within 1 %",
            lambda: _ours(scenario, chosen, tool.metric, tries),
            lambda: _raw(tool, near, far, rate),
            n_pairs,
            unit="Mbit/s",
        )


def _ours(scenario: UplinkScenario, chosen: dict[str, Level], metric: str, tries: int) -> float:
    for _ in range(tries):
        with scenario.attempt():
            outcome = scenario.run(chosen, {})
        if outcome.valid and metric in outcome.measurements:
            return outcome.measurements[metric]
    raise TrialError("; ".join(outcome.invalid_because) or f"it measured no {metric}")


def _raw(tool: Tool, near: ByHand, far: ByHand, rate: str) -> float:
    server = far.spawn(tool.server.split())
    try:
        server.wait_line("Server listening", _PATIENCE_S)
        command = tool.client.format(far=FAR, bps=parse_rate_bps(rate), seconds=SECONDS)
        return tool.mbit_s(near.run(command.split(), timeout_s=_PATIENCE_S).text)
    finally:
        server.stop()


@contextmanager
def _joined(bed: Testbed, chosen: dict[str, Level], *, grouped: bool = False) -> Iterator[tuple[ByHand, ByHand]]:
    hub, near, far = (bed.session.netns_name(bed.session.unique(f"raw-{part}")) for part in ("hub", "near", "far"))
    with ExitStack() as stack:
        for netns in (hub, near, far):
            stack.enter_context(bed.session.owned("netns", netns))
        bed.host.run(["sh", "-e"], stdin=_links(hub, {near: NEAR, far: FAR}))
        sender = stack.enter_context(by_hand(bed, resources(chosen, bed), near, grouped=grouped))
        yield sender, stack.enter_context(by_hand(bed, netns=far))


def _links(hub: str, ends: dict[str, str]) -> str:
    """Bridged packets stay out of iptables, which a host with Docker switches on for every namespace."""
    lines = [f"ip netns add {hub}", f"ip -n {hub} link add br0 type bridge", f"ip -n {hub} link set br0 up"]
    quiet = "f=/proc/sys/net/bridge/bridge-nf-call-iptables; [ ! -e $f ] || echo 0 > $f"
    lines.append(f"ip netns exec {hub} sh -c '{quiet}'")
    for number, (netns, address) in enumerate(ends.items()):
        lines += [
            f"ip netns add {netns}",
            f"ip -n {hub} link add v{number} type veth peer name eth0 netns {netns}",
            f"ip -n {hub} link set v{number} master br0 up",
            f"ip -n {netns} address add {address}/24 dev eth0",
            f"ip -n {netns} link set lo up",
            f"ip -n {netns} link set eth0 up",
        ]
    return "\n".join(lines) + "\n"

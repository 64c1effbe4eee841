"""PDR by Lastro against the same generator driven by hand, on a chain by Lastro and on three namespaces by hand.

Both chains stand at the same time, and are searched in turn. By hand is what RFC 2544 describes: binary search, where
one probe of a second decides, and frames are counted at both ends by `ip -s link`. Lastro searches as in a trial, to
the same width. The capacity of a bottleneck is drawn for each pair, so that no search always ends at the same side of
it. The interval of the ratio should hold 1.

    python benches/packet_rates.py [bottleneck] [firewall] [--pairs N] [--json]    default: both, ten pairs

`coverage` is another question: how often the interval of a search holds the known rate of a bottleneck. It searches 100
times with short probes, which takes about five minutes, and exits with 1 if fewer than 95 hold it.

    python benches/packet_rates.py coverage"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

from _by_hand import ByHand, by_hand
from _harness import Ratio, interleaved, show, words
from lastro.app.hosts import testbed
from lastro.functions.base import PATHS
from lastro.functions.firewall import Firewall
from lastro.host.cgroups import Resources
from lastro.instruments.load_generator import BUFFER_BYTES, PORT, Direction, LoadGenerator, Traffic
from lastro.instruments.sockperf import Sockperf
from lastro.instruments.trafgen import Trafgen
from lastro.results.samples import Outcome
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.measuring import PDR, goals_of
from lastro.scenarios.load.probing import Prober
from lastro.scenarios.load.search import REACHED, Bounds, GoalInterval, search
from lastro.scenarios.load.steering import APART, steer
from lastro.testbed import Testbed

N_PAIRS, RULES = 10, 1000
_BOUNDS = {
    "bottleneck": Bounds(4_000, 40_000, width=0.01, sum_s=1),
    "firewall": Bounds(4_000, 150_000, width=0.01, sum_s=1),
}
_CAPACITIES_FPS = (8_000, 30_000)
_BURST, _QUEUE = 10, 20  # frames of a bottleneck
_SEARCHES, _FEWEST = 100, 95
_BRIEF = Bounds(2_000, 30_000, width=0.02, first_s=0.2, final_s=0.2, sum_s=0.6)
_BRIEF_FPS = (5_000, 15_000)
_EXACT = 0.005  # of the rate of a generator
_LOSS = 0.005
_TRIES = 4
_FRAME = "64"
_COUNTED_BYTES = 60
_PATH = PATHS["4"]


def ratio(bed: Testbed, what: str, n_pairs: int) -> Ratio:
    rules = RULES if what == "firewall" else 0
    with ExitStack() as stack:
        ours_netns, ours = stack.enter_context(_by_lastro(bed, what, rules))
        raw_netns, raw = stack.enter_context(_by_hand(bed, what, rules))
        if rules:
            return interleaved(f"PDR of a firewall of {RULES:,} rules", "holds 1", ours, raw, n_pairs, unit="frames/s")
        rng = random.Random(2544)
        capacities = [rng.uniform(*_CAPACITIES_FPS) for _ in range(n_pairs + 1)]
        sides = [
            partial(_behind_bottleneck, netns, iter(capacities), measure)
            for netns, measure in ((ours_netns, ours), (raw_netns, raw))
        ]
        return interleaved("PDR of a token bucket of a random rate", "holds 1", *sides, n_pairs, unit="frames/s")


def _behind_bottleneck(netns: str, capacities: Iterator[float], measure: Callable[[], float]) -> float:
    _narrow(netns, next(capacities))
    return measure()


def _narrow(netns: str, capacity_fps: float) -> None:
    """Let no more than a rate out of the function."""
    rate_bps = capacity_fps * 8 * _COUNTED_BYTES
    bucket = f"rate {rate_bps:.0f}bit burst {_BURST * _COUNTED_BYTES} limit {_QUEUE * _COUNTED_BYTES}"
    subprocess.run(["tc", "-n", netns, *f"qdisc replace dev {_PATH.outside} root tbf {bucket}".split()], check=True)


@contextmanager
def _by_lastro(bed: Testbed, what: str, rules: int) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the namespace of the function, and what searches once."""
    chosen = _config(function=f"firewall:rules={rules}" if rules else "none")
    with _searching(bed, chosen, Sockperf(), _BOUNDS[what]) as (netns, found):
        yield netns, lambda: found().lower_fps


@contextmanager
def _searching(
    bed: Testbed, chosen: dict[str, Any], generator: LoadGenerator, bounds: Bounds
) -> Iterator[tuple[str, Callable[[], GoalInterval]]]:
    """Yield the namespace of the function of a chain, and what searches its PDR once."""
    with closing(LoadScenario(bed)) as scenario, scenario.standing(chosen, {}, Outcome()) as standing:
        steer(standing.chain, APART)
        prober = Prober(bed, standing.chain, generator, Traffic.of(_FRAME))
        with prober.ready():

            def once() -> GoalInterval:
                for _ in range(_TRIES):
                    found = search("mlrsearch", goals_of(chosen), bounds, prober.probe)
                    if (pdr := found.of(PDR)) and not found.limited:
                        return pdr
                raise SystemExit("no rate meets the PDR, or the generator was the limit")

            yield standing.chain.instances["function"].netns, once


def _config(**more: Any) -> dict[str, Any]:
    settings = {setting.name: setting.default for setting in LoadScenario.settings}
    parts = {"platform": "native", "attachment": "veth-direct", "isolation": "none", "anomaly": "none"}
    return {**settings, **parts, "instrument": "sockperf", **more}


@contextmanager
def _by_hand(bed: Testbed, what: str, rules: int) -> Iterator[tuple[str, Callable[[], float]]]:
    """The same from a shell: three namespaces, two veth pairs, and the generator's other CPUs for the function."""
    source, function, sink = (bed.session.netns_name(f"raw-{role}") for role in ("source", "function", "sink"))
    first, *others = bed.usable_cpus
    with ExitStack() as stack:
        for netns in (source, function, sink):
            stack.enter_context(bed.session.owned("netns", netns))
        script = _namespaces(source, function, sink, sum(1 << cpu for cpu in others))
        subprocess.run(["sh", "-e"], input=script, text=True, check=True)
        if rules:
            loaded = Firewall(rules=rules).ruleset(_PATH)
            subprocess.run(["ip", "netns", "exec", function, "nft", "-f", "-"], input=loaded, text=True, check=True)
        sender = stack.enter_context(by_hand(bed, Resources(cpuset=str(first)), source))
        receiver = stack.enter_context(by_hand(bed, netns=sink))
        stack.enter_context(Sockperf().receiving(Direction(sender, receiver, _PATH.sink)))
        yield function, partial(_bisected, _BOUNDS[what], partial(_lost, sender, source, sink))


def _namespaces(source: str, function: str, sink: str, mask: int) -> str:
    """Commands as a person would type them; the last one gives the function's packets to the other CPUs."""
    p, steered = _PATH, f"/sys/class/net/{_PATH.inside}/queues/rx-0/rps_cpus"
    return f"""for ns in {source} {function} {sink}; do ip netns add $ns; ip -n $ns link set lo up; done
ip -n {source} link add out0 type veth peer name {p.inside} netns {function}
ip -n {function} link add {p.outside} type veth peer name in0 netns {sink}
ip -n {source} address add {p.source}/24 dev out0
ip -n {function} address add {p.inside_address}/24 dev {p.inside}
ip -n {function} address add {p.outside_address}/24 dev {p.outside}
ip -n {sink} address add {p.sink}/24 dev in0
ip -n {source} link set out0 up
ip -n {function} link set {p.inside} up
ip -n {function} link set {p.outside} up
ip -n {sink} link set in0 up
ip -n {source} route add {p.sink} via {p.inside_address}
ip -n {sink} route add {p.source} via {p.outside_address}
ip netns exec {function} sysctl -q net.ipv4.ip_forward=1
ip netns exec {function} sh -c 'mount -o remount,rw /sys; echo {mask:x} > {steered}'
ip netns exec {source} ping -q -c 1 -w 5 {p.sink} > /dev/null
"""


def _lost(sender: ByHand, source: str, sink: str, rate_fps: float) -> float:
    """The fraction of the frames that are lost in a second of this rate."""
    command = f"sockperf throughput --ip {_PATH.sink} --port {PORT} --time 1 --mps {rate_fps:.0f} --msg-size 18"
    for _ in range(_TRIES):  # other work on the host may take the generator's CPU for a moment
        before = _counted(source, "out0", "tx"), _counted(sink, "in0", "rx")
        sender.run([*command.split(), "--buffer-size", str(BUFFER_BYTES)])
        sent, received = _counted(source, "out0", "tx") - before[0], _counted(sink, "in0", "rx") - before[1]
        if sent > REACHED * rate_fps:
            return 1 - received / sent
    raise SystemExit("the generator was the limit")


def _counted(netns: str, link: str, side: str) -> int:
    command = f"ip -n {netns} -s -o link show {link}"
    text = subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout
    return int(text.partition(f"{side.upper()}:")[2].partition("\\")[2].split()[1])


def _bisected(bounds: Bounds, lost: Callable[[float], float]) -> float:
    low, high = bounds.least_fps, bounds.most_fps
    while high - low > bounds.width * high:
        middle = (low + high) / 2
        low, high = (middle, high) if lost(middle) <= _LOSS else (low, middle)
    return float(low)


def covered(bed: Testbed) -> int:
    """Return how many of the searches have an interval that holds the true PDR, but for the error of a rate.

    In a probe, the bottleneck lets out its rate, and what its bucket and its queue hold. Of the true PDR, that is all
    but the allowed loss."""
    rng, held = random.Random(9971), 0
    with _searching(bed, _config(function="none"), Trafgen(), _BRIEF) as (netns, search_once):
        for _ in range(_SEARCHES):
            capacity_fps = rng.uniform(*_BRIEF_FPS)
            _narrow(netns, capacity_fps)
            found = search_once()
            true_fps = (capacity_fps + (_BURST + _QUEUE) / _BRIEF.final_s) / (1 - _LOSS)
            upper_fps = found.upper_fps or float(_BRIEF.most_fps)
            held += found.lower_fps * (1 - _EXACT) <= true_fps <= upper_fps * (1 + _EXACT)
    return held


@contextmanager
def _host() -> Iterator[Testbed]:
    chosen = [_config(function="none"), _config(function="none", instrument="trafgen")]
    with testbed("benches", wait=True, needs=partial(LoadScenario.image_needs, configs=chosen)) as bed:
        yield bed


if __name__ == "__main__":
    if "coverage" in words():
        with _host() as bed:
            held = covered(bed)
        print(f"{held} of {_SEARCHES} intervals hold the rate of the bottleneck (at least {_FEWEST} should)")
        sys.exit(held < _FEWEST)
    pairs = int(sys.argv[sys.argv.index("--pairs") + 1]) if "--pairs" in sys.argv else N_PAIRS
    chosen = [word for word in words() if word in _BOUNDS] or list(_BOUNDS)
    with _host() as bed:
        for what in chosen:  # one that the generator limits takes no result of another with it
            show([ratio(bed, what, pairs)])

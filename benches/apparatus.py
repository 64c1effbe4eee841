"""Is the apparatus in a number? The same measurement, entered by the platform's own exec and entered from the host.

From the host, a command joins the namespaces and the control group of a running instance by nsenter(1), past the
platform's client, daemon and shim. Pairs are interleaved, in the same two instances on one link. If how a command
enters does not matter, the interval of the ratio holds 1, and its median is within 3 % for a rate, 5 % for a latency.
CPUs are kept awake while a latency of the link is measured: how soon a hypervisor wakes up one that halts depends on
what ran there before.

    python benches/apparatus.py [PLATFORM ...] [INSTRUMENT ...] [--json] [--write]

Default: every platform of this host that shares its kernel, every instrument below, in about 15 minutes. Needs root and
an idle host. --write puts the table into README.md. A word such as 3 is the number of pairs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from _harness import Ratio, interleaved, show, words
from lastro import registry
from lastro.app.hosts import testbed
from lastro.errors import LastroError
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.base import TIME_HOST, Workload
from lastro.instruments.irtt import Irtt
from lastro.platforms.base import Instance
from lastro.scenarios.chain.latency import IdleByIrtt
from lastro.scenarios.shared.awake import awake_cpus
from lastro.scenarios.shared.pools import PlatformPool
from lastro.study.model import Level
from lastro.testing.network import RIGHT, linked_pair
from lastro.testing.subject import Subject

N_PAIRS = 12
PLATFORMS = ("runc", "crun", "docker", "podman", "lxc", "lxd", "nspawn")
SETTINGS: Mapping[str, Level] = {
    "ping_s": 2, "ping_interval_ms": 10, "tcp_s": 2, "tcp_streams": 1, "probe_interval_ms": 10,
    "offered": "100M", "datagram_bytes": 1470, "load_s": 1,
}  # fmt: skip
# By name: what measures over the link, and the metric that is compared.
FLOWS = {
    "ping": "latency_p50", "irtt": "latency_p50", "iperf3-tcp": "throughput", "iperf3-udp-load": "udp_throughput",
}  # fmt: skip
# The same for workloads in one instance.
WORK = {
    "sysbench-cpu": ({"time_s": 1}, "cpu_events"),
    "sysbench-memory": ({"block": "1M", "time_s": 1}, "memory_bandwidth"),
    "gzip": ({"size": "16M"}, TIME_HOST.name),
}
LATENCIES = ("latency_p50", TIME_HOST.name)
_HEAD = [
    "| what | by its exec | from the host | ratio | target | pairs |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
]
_README = Path(__file__).with_name("README.md")
_PLACE = re.compile(r"(<!-- apparatus -->\n).*?(<!-- end of apparatus -->)", re.DOTALL)


@contextmanager
def from_the_host(*instances: Instance) -> Iterator[None]:
    """Enter instances from the host inside the block: in the group of each, by the namespaces of its first process.

    Of nspawn, the supervisor is in the group, too. crun makes no group in the tree of version 2 beside version 1."""
    with ExitStack() as stack:
        for instance in instances:
            instance.testbed.cgroups.make(instance.testbed.host, instance.cgroup)
            join = instance.testbed.cgroups.entering(instance.cgroup)
            target = min(pid for pid in instance.pids() if _namespace(pid) != _namespace("self"))
            enter = [*join, "nsenter", f"--target={target}", "--mount", "--uts", "--ipc", "--net", "--pid"]
            vars(instance)["wrap"] = partial(_behind, enter)
            stack.callback(vars(instance).pop, "wrap")
        yield


def _namespace(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def _behind(enter: Sequence[str], argv: Sequence[str]) -> list[str]:
    return [*enter, *argv]


def rows(subject: Subject, platform: str, instruments: Sequence[str], n: int) -> Iterator[Ratio]:
    with linked_pair(subject, "veth-direct") as (client, server), awake_cpus(subject.testbed) as awake:
        for name in instruments:
            measure, metric, unit = _measure(name, client, server)
            if metric == "latency_p50":
                measure = awake.keep_awake()(measure)

            def from_outside(measure: Callable[[], float] = measure) -> float:
                with from_the_host(client, server):
                    return measure()

            target = "within 5 %" if metric in LATENCIES else "within 3 %"
            yield interleaved(f"{platform}: {metric} by `{name}`", target, measure, from_outside, n, unit=unit)


def _measure(name: str, client: Instance, server: Instance) -> tuple[Callable[[], float], str, str]:
    """Return what measures once, its metric, and the metric's unit."""
    if name in FLOWS:
        metric = FLOWS[name]
        tool = IdleByIrtt() if name == Irtt.name else registry.get("instrument", name)()
        unit = next(each.unit for each in tool.metrics if each.name == metric)
        return lambda: tool.measure(client, server, RIGHT, SETTINGS).measurements[metric], metric, unit
    options, metric = WORK[name]
    work: Workload = registry.get("instrument", name)(**options)
    unit = next(each.unit for each in (*work.metrics, TIME_HOST) if each.name == metric)

    def run() -> float:
        work.prepare(client)
        return work.run(client, 60.0).measurements[metric]

    return run, metric, unit


def ratios(
    platforms: Sequence[str] = PLATFORMS, instruments: Sequence[str] = (*FLOWS, *WORK), n: int = N_PAIRS
) -> Iterator[Ratio]:
    packages = tuple(package for name in WORK for package in registry.get("instrument", name).packages)
    with (
        testbed("benches", wait=True, needs=lambda host: ImageAdditions((*packages, *Irtt.packages))) as bed,
        ExitStack() as stack,
    ):
        pool = PlatformPool(bed, stack)
        for platform in platforms:
            try:
                yield from rows(Subject(bed, pool.get(platform)), platform, instruments, n)
            except LastroError as error:
                print(f"{platform}: {error.message}", file=sys.stderr)


def table(found: Sequence[Ratio]) -> str:
    return "\n".join([*_HEAD, *map(row, found)])


def main() -> None:
    chosen = words()
    n = next((int(word) for word in chosen if word.isdecimal()), N_PAIRS)
    platforms = [name for name in PLATFORMS if name in chosen] or PLATFORMS
    found: list[Ratio] = []
    for ratio in ratios(platforms, [name for name in (*FLOWS, *WORK) if name in chosen] or [*FLOWS, *WORK], n):
        print(row(ratio), file=sys.stderr)  # the table comes at the end, and that is minutes away
        found.append(ratio)
    if "--json" in sys.argv:
        show(found)
        return
    if "--write" in sys.argv:
        text = _PLACE.sub(lambda place: f"{place[1]}{table(found)}\n{place[2]}", _README.read_text(encoding="utf-8"))
        _README.write_text(text, encoding="utf-8")
    print(table(found))


def row(ratio: Ratio) -> str:
    """With the digits that the target needs, and what the interval says of it."""
    low, high = ratio.interval()
    most = float(ratio.target.split()[1]) / 100
    start, _, _ = ratio.row.rpartition(f"{ratio.median:.2f} [")
    found = verdict(low, high, most)
    return f"{start}{ratio.median:.3f} [{low:.3f}, {high:.3f}] | {found} {ratio.target} | {len(ratio.pairs)} |"


def verdict(low: float, high: float, most: float) -> str:
    if 1 - most <= low and high <= 1 + most:
        return "is"
    if low <= 1 <= high:
        return "undecided: holds 1, not yet"
    return "**not**" if high < 1 - most or low > 1 + most else "differs, perhaps not"


if __name__ == "__main__":
    main()

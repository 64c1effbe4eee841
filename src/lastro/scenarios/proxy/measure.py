"""The measuring part of a trial with proxies: the requests, the meters around them, and the witnesses on their path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from lastro import validity
from lastro.attachments.hosting import HostingAttachment
from lastro.errors import InstrumentError
from lastro.host.base import Host
from lastro.host.cgroups import Resources, total
from lastro.instruments.http_load import HttpLoad, LoadOrigin
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import Instance, Platform
from lastro.results.samples import Metric, Outcome, Reading, Series
from lastro.scenarios.base import Config, chosen_part
from lastro.scenarios.proxy.origin import Origin
from lastro.scenarios.proxy.proxies import ROLE, Proxy, ProxyStarter
from lastro.scenarios.proxy.three_node import CLIENT, SERVER, ThreeNodeTestbed
from lastro.scenarios.shared.calibration import judge_ceiling
from lastro.scenarios.shared.disturbance import Disturbance, bounded, demanded
from lastro.scenarios.shared.host_memory import used_memory_bytes, used_swap_bytes
from lastro.scenarios.shared.topology import note_load, note_meter, note_witness
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.study.model import Setting
from lastro.units import MIB

CACHE = Setting("cache", "off", "whether a proxy keeps the object in memory", choices=("off", "on"))
METRICS = (
    Metric("proxy_cpu_time", "ms", "lower", "CPU time of the proxies' instances per request, as the host counts it"),
    Metric("proxy_cpus", "CPU", "lower", "CPUs kept busy by all proxies: the same, times the rate of requests"),
    Metric("proxy_memory", "MiB", "lower", "memory peak of an instance, as the host counts it; mean of all"),
    Metric("dut_cpu_time", "ms", "lower", "CPU time of the DUT per request, its kernel's work for the links included"),
    Metric("dut_cpus", "CPU", "lower", "CPUs that the DUT keeps busy for the requests: the same, times their rate"),
    Metric(
        "dut_memory", "MiB", "lower", "memory in use on the DUT after the load, less that before the proxies",
        signed=True,
    ),
    Metric(
        "dut_swap", "MiB", "lower", "swap in use on the DUT after the load, less that before the proxies", signed=True
    ),
    Metric("softirq_time", "ms", "lower", "CPU time of the DUT's kernel in interrupts per request, links included"),
    Metric("proxy_start", "ms", "lower", "time to create and start an instance, until it has its network; mean of all"),
    Metric(
        "proxy_answer", "ms", "lower",
        "time to start an instance, plus that from its proxy's start until the first answer; mean of all instances",
    ),
    Metric("proxies_up", "ms", "lower", "from the start of the first proxy until all have answered"),
)  # fmt: skip
# Metrics that show the bottleneck. For an open loop, only its times do: its rate is the one that was asked for.
TIMES, RATE = ("request_time", "request_cycle", "open_request_time"), "requests_per_s"
# These include JMeter's own start and warm-up, and requests besides the load, so no study of a paper uses them.
HOST_METRICS = tuple(
    replace(metric, summary=f"{metric.summary}; from the instrument's start to its end") for metric in HostMeter.metrics
)
_USUAL_WEIGHT, _MOST_WEIGHT = 100, 10_000  # of a control group
OWN_REQUESTS = 2  # requests through each proxy besides the load: its first answer, and one after the load


@dataclass(frozen=True, slots=True)
class MemoryInUse:
    """The bytes of memory and of swap in use on a host. `swap_bytes` is None on a host without swap."""

    memory_bytes: int = 0
    swap_bytes: int | None = None

    @classmethod
    def on(cls, host: Host) -> Self:
        return cls(used_memory_bytes(host), used_swap_bytes(host))


@dataclass(frozen=True, slots=True)
class RunningProxies:
    """The running components of a trial. Without proxies, the clients send requests to the server directly.

    `before` is the memory in use on the DUT's host before the proxies were started."""

    nodes: ThreeNodeTestbed
    platform: Platform
    links: HostingAttachment
    native: Platform
    client: Instance
    server: Instance
    origin: Origin
    proxies: Sequence[Proxy]
    starter: ProxyStarter
    started: Reading = field(default_factory=lambda: Reading({}))  # what disturbed the proxies' starts
    before: MemoryInUse = MemoryInUse()

    @property
    def first_of_each_instance(self) -> list[Proxy]:
        """The first proxy of each instance, since bare proxies may share an instance."""
        by_instance: dict[str, Proxy] = {}
        for proxy in self.proxies:
            by_instance.setdefault(proxy.instance.spec.name, proxy)
        return list(by_instance.values())

    def traffic_counters(self) -> dict[str, int]:
        """Return the counters of the attachment that hosts the proxies, by name; {} without proxies."""
        return self.links.traffic_counters(self.nodes.dut.testbed) if self.proxies else {}

    @property
    def everyone(self) -> dict[str, Instance]:
        """All instances by role: 'client', 'server', and 'proxyN', with the number N of the instance's first proxy."""
        numbered = {f"proxy{proxy.hosted.number}": proxy.instance for proxy in self.first_of_each_instance}
        return {"client": self.client, "server": self.server, **numbered}


@contextmanager
def disturbed(standing: RunningProxies, config: Config, timeout_s: float) -> Iterator[Disturbance | None]:
    """Run the anomaly as bare processes on the DUT inside the block; yield None if the anomaly does nothing."""
    dut = standing.nodes.dut
    load = demanded(config, dut.testbed, timeout_s)
    if load is None:
        yield None
        return
    anomaly, demand = load
    # By default, a cgroup weighs as much as one process. On the paper's host, each process had its own weight.
    weight = Resources(cpu_weight=min(_MOST_WEIGHT, _USUAL_WEIGHT * demand.n_workers))
    spec = bounded(dut.spec("neighbour", weight), dut.testbed, demand)
    with standing.native.start(dut.testbed, spec) as instance, anomaly.at_work(instance, demand) as neighbour:
        yield Disturbance(neighbour, anomaly)


def measure(standing: RunningProxies, config: Config, disturbance: Disturbance | None, outcome: Outcome) -> None:
    """Run the requests with meters around them; add measurements and reasons for invalidity to `outcome`."""
    tool = chosen_part(HttpLoad, config)
    load = tool.load(standing.origin.page, [proxy.endpoint for proxy in standing.proxies], config)
    everyone = dict(standing.everyone)
    if disturbance:
        everyone["neighbour"] = disturbance.neighbour.instance
    dut, beds = standing.nodes.dut.testbed, [node.testbed for node in standing.nodes.all]
    own_cgroups = standing.platform.own_cgroups
    window = MeasuredWindow(dut, everyone, config, own_cgroups, disturbance=disturbance, elsewhere=beds)
    witness = InterfaceMeter(dut, {"client": standing.client, "server": standing.server})
    witness.start()
    counters = standing.traffic_counters()
    with window:
        reading = tool.measure(LoadOrigin.beside(standing.client), load)
    witness.stop()
    outcome.add(reading)
    note_load(outcome, tool.name, CLIENT, SERVER)
    note_meter(outcome, witness)
    watches = "every request, as the server and each proxy saw it"
    note_witness(outcome, "logs", watches, (SERVER, ROLE) if standing.proxies else (SERVER,))
    outcome.notes["witness"] = witness.moved
    outcome.invalidate(carried_reasons(standing, counters, outcome))
    cached = is_cached(standing, config)
    outcome.invalidate(_path_reasons(tool.name, standing.nodes, witness.moved, reading.payload_bytes, cached))
    _record_usage(standing, window, outcome)
    _record_dut_usage(standing, window, outcome)
    window.judge(outcome)
    for proxy in standing.first_of_each_instance:
        proxy.running.require_alive()


def is_cached(standing: RunningProxies, config: Config) -> bool:
    return bool(standing.proxies) and CACHE.of(config) == "on"


def _path_reasons(
    tool: str, nodes: ThreeNodeTestbed, moved: Mapping[str, Any], payload_bytes: int, cached: bool
) -> list[str]:
    """Return reasons unless the payload crossed the clients' link and, without a cache, the server's link; else []."""
    hops = [(f"client.{nodes.client.links['dut']}", "rx_bytes")]
    if not cached:
        hops.insert(0, (f"server.{nodes.server.links['dut']}", "tx_bytes"))
    return validity.path_reasons(tool, moved, payload_bytes, hops)


def carried_reasons(standing: RunningProxies, before: Mapping[str, int], outcome: Outcome) -> list[str]:
    """Return a reason for each counter of the attachment that did not increase with the requests.

    The increase of each counter since `before` is noted. A counter in `lasting` need only be above 0, since requests
    before the load may have opened all connections."""
    now = standing.traffic_counters()
    outcome.notes["carried"] = {name: count - before[name] for name, count in now.items()}
    least = {**before, **dict.fromkeys(standing.links.lasting, 0)}
    still = [name for name, count in now.items() if count <= least[name]]
    return [f"the attachment did not carry the requests: its counter '{name}' stood still" for name in still]


def total_sent(outcome: Outcome) -> int:
    """Return how many requests the instrument has sent, including requests that it does not measure."""
    return sum(sent_by_proxy(outcome))


def sent_by_proxy(outcome: Outcome) -> list[int]:
    """Return how many requests the instrument sent through each proxy, in the order of the proxies.

    Without proxies, there is one number: of requests to the server. Raises: InstrumentError if none were reported."""
    http = outcome.notes.get("http")
    if not isinstance(http, dict) or "shares" not in http:
        raise InstrumentError("the instrument did not report how many requests it sent through each proxy")
    return list(http["shares"])


def _record_usage(standing: RunningProxies, window: MeasuredWindow, outcome: Outcome) -> None:
    host = window.host
    used = window.usage.used
    elapsed_s = window.host.elapsed_s
    sent = total_sent(outcome)
    outcome.measurements |= host.read()
    interrupts_s = host.totals.cpu_s["softirq"] + host.totals.cpu_s["irq"]
    outcome.measurements["softirq_time"] = 1000 * interrupts_s / max(1, sent)
    proxies = [proxy_usage for role, proxy_usage in used.items() if role.startswith("proxy")]
    usage = {role: asdict(role_usage) for role, role_usage in used.items() if not role.startswith("proxy")}
    if proxies:
        usage["proxies"] = asdict(total(proxies))
    outcome.notes |= {"usage": usage, "elapsed_s": elapsed_s}
    if not proxies:
        return
    cpu_s = sum(proxy_usage.cpu_s for proxy_usage in proxies)
    starts_ms = tuple(1000 * proxy.start_s for proxy in standing.first_of_each_instance)
    # Only the first of proxies that share a server: when the others get their first request, the server is long up.
    answers_ms = tuple(1000 * proxy.answer_s for proxy in standing.first_of_each_instance)
    outcome.measurements |= {
        "proxy_cpu_time": 1000 * cpu_s / max(1, sent),
        "proxy_cpus": cpu_s / max(1, sent) * _rate_per_s(outcome, sent / elapsed_s),
        "proxy_memory": sum(proxy_usage.memory_peak_bytes for proxy_usage in proxies) / len(proxies) / MIB,
        "proxy_start": sum(starts_ms) / len(starts_ms),
        "proxy_answer": sum(answers_ms) / len(answers_ms),
        "proxies_up": 1000 * (standing.starter.ended_s - standing.starter.began_s),
    }
    outcome.series += [Series("proxy_start", "ms", starts_ms), Series("proxy_answer", "ms", answers_ms)]


def _record_dut_usage(standing: RunningProxies, window: MeasuredWindow, outcome: Outcome) -> None:
    """Record the DUT's CPU time and memory for the proxies; do nothing without proxies.

    They include work of the DUT's kernel that no instance is charged for. The CPU time of Lastro, and of the
    instances of other roles on the same machine, is not included."""
    if not standing.proxies:
        return
    here, sent = standing.nodes.dut.testbed.host, max(1, total_sent(outcome))
    instances, host = window.usage.instances, window.host
    others = [role for role in window.usage.used if not role.startswith("proxy")]
    others_s = sum(window.usage.used[role].cpu_s for role in others if instances[role].testbed.host is here)
    request_s = max(0.0, host.busy_s - others_s - host.own_cpu_s) / sent
    after = MemoryInUse.on(here)
    outcome.measurements |= {
        "dut_cpu_time": 1000 * request_s,
        "dut_cpus": request_s * _rate_per_s(outcome, sent / host.elapsed_s),
        "dut_memory": (after.memory_bytes - standing.before.memory_bytes) / MIB,
    }
    if after.swap_bytes is None or standing.before.swap_bytes is None:
        outcome.notes["dut_swap"] = "the host has no swap"
    else:
        outcome.measurements["dut_swap"] = (after.swap_bytes - standing.before.swap_bytes) / MIB


def _rate_per_s(outcome: Outcome, otherwise: float) -> float:
    """Return the rate of requests that the instrument measured, without its start; `otherwise` if it measured none."""
    rates = (outcome.measurements.get(name) for name in ("requests_per_s", "open_requests_per_s"))
    return next((rate for rate in rates if rate is not None), otherwise)


def rates(outcome: Outcome) -> dict[str, float]:
    return {name: outcome.measurements[name] for name in (*TIMES, RATE) if name in outcome.measurements}


def judge_generator(direct: Mapping[str, float] | None, outcome: Outcome) -> None:
    """Flag a generator-limited trial: the clients' result is within a tenth of their result without proxies.

    `direct` has that result by metric, or is None. The trial stays valid. A closed loop is judged by its rate; an
    open loop, whose rate is fixed, by its request times."""
    judge_ceiling(outcome, direct, rates=(RATE,), times=("open_request_time",))

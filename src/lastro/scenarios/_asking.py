"""The measuring part of a trial with proxies: the requests, the meters around them, and the checks of every witness."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from lastro import registry, validity
from lastro.anomalies.base import Anomaly, Demand
from lastro.attachments._hosting import Hosting
from lastro.errors import InstrumentError
from lastro.functions.http_proxy import HttpProxy, Served, judge_served
from lastro.host.cgroups import Resources, Usage
from lastro.instruments._http import HttpLoad, Station
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.results.samples import Metric, Outcome, Series
from lastro.scenarios._built import note_load, note_meter, note_witness
from lastro.scenarios._hosts import HostsMeter
from lastro.scenarios._line import CLIENT, SERVER, Line
from lastro.scenarios._measure import Disturbance
from lastro.scenarios._origin import APACHE, NGINX, Asked, Origin
from lastro.scenarios._proxies import ROLE, Farm, Proxy
from lastro.scenarios.base import Config, make_part
from lastro.study.levels import part_level
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

METRICS = (
    Metric("proxy_cpu_time", "ms", "lower", "CPU time of the proxies' instances per request, as the host counts it"),
    Metric("proxy_cpus", "CPU", "lower", "CPUs kept busy by all proxies: the same, times the rate of requests"),
    Metric("proxy_memory", "MiB", "lower", "memory peak of an instance, as the host counts it; mean of all"),
    Metric("softirq_time", "ms", "lower", "CPU time of the DUT's kernel in interrupts per request, links included"),
    Metric("proxy_start", "ms", "lower", "time to create and start an instance, until it has its network; mean of all"),
    Metric(
        "proxy_answer",
        "ms",
        "lower",
        "create and start of an instance, and from its proxy's own start until its first answer; mean of all instances",
    ),
    Metric("proxies_up", "ms", "lower", "from the start of the first proxy until all have answered"),
)
# Metrics that show what limits. For an open loop only its time does: its rate is the one that was asked for.
_TIMES, _RATE = ("request_time", "request_cycle", "open_request_time"), "requests_per_s"
# These include JMeter's own start and warm-up, and the requests besides the load, so no study of a paper uses them.
HOST_METRICS = tuple(
    replace(metric, summary=f"{metric.summary}; from the instrument's start to its end") for metric in HostMeter.metrics
)
_AT_CEILING = 0.1  # within this fraction of the clients' result without a proxy, the clients are the limit
_USUAL_WEIGHT, _MOST_WEIGHT = 100, 10_000  # of a control group
_LOG_S = 3.0  # servers and proxies write to their logs after they have answered
_BY_HAND = 2  # requests through each proxy besides the load: its first answer, and one after the load


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything that takes part in a trial, up and running. Without proxies the clients ask the server directly."""

    wire: Line
    platform: Platform
    links: Hosting
    native: Platform
    client: Instance
    server: Instance
    origin: Origin
    proxies: Sequence[Proxy]
    farm: Farm
    started: Outcome = field(default_factory=Outcome)  # notes and reasons for invalidity from the proxies' starts

    @property
    def firsts(self) -> list[Proxy]:
        """The first proxy of each instance: bare proxies share an instance."""
        found: dict[str, Proxy] = {}
        for proxy in self.proxies:
            found.setdefault(proxy.instance.spec.name, proxy)
        return list(found.values())

    @property
    def everyone(self) -> dict[str, Instance]:
        """Instances by role; an instance of proxies is named by the number of its first proxy, as in `proxy0`."""
        numbered = {f"proxy{proxy.hosted.number}": proxy.instance for proxy in self.firsts}
        return {"client": self.client, "server": self.server, **numbered}


@contextmanager
def disturbed(standing: Standing, config: Config, timeout_s: float) -> Iterator[Disturbance | None]:
    """Run the anomaly as bare processes on the DUT while the block lasts; yield None when it does nothing."""
    anomaly: Anomaly = registry.get("anomaly", str(config["anomaly"]))()
    memory_bytes = parse_size_bytes(str(config["anomaly_memory"]))
    dut = standing.wire.dut
    demand = Demand(
        str(config["anomaly_tool"]),
        int(config["anomaly_workers"]),
        memory_bytes,
        timeout_s,
        len(dut.testbed.usable_cpus),
    )
    if not anomaly.argv(demand):
        yield None
        return
    # A group weighs as much as one process. On the paper's host, each process had its own weight, without a group.
    weight = Resources(cpu_weight=min(_MOST_WEIGHT, _USUAL_WEIGHT * demand.n_workers))
    with ExitStack() as stack:
        instance = stack.enter_context(standing.native.start(dut.testbed, dut.spec("neighbour", weight)))
        yield stack.enter_context(anomaly.at_work(instance, demand)), anomaly, demand


def measure(standing: Standing, config: Config, disturbance: Disturbance | None, outcome: Outcome) -> None:
    """Run the requests with meters around them, and judge what the meters saw."""
    tool: HttpLoad = make_part("instrument", part_level(config, "instrument"))
    load = tool.load(standing.origin.page, [proxy.endpoint for proxy in standing.proxies], config)
    everyone = dict(standing.everyone)
    if disturbance:
        everyone["neighbour"] = disturbance[0].instance
        disturbance[0].require_alive()
    hosts = HostsMeter(standing.wire, standing.platform.own_cgroups)
    witness = InterfaceMeter(standing.wire.dut.testbed, {"client": standing.client, "server": standing.server})
    witness.start()
    carried = standing.links.carried(standing.wire.dut.testbed)
    dose_before = disturbance[0].reading() if disturbance else None
    before = {role: instance.usage() for role, instance in everyone.items()}
    began_s = time.monotonic()
    hosts.start()
    reading = tool.measure(Station.beside(standing.client), load)
    hosts.stop()
    elapsed_s = time.monotonic() - began_s
    used = {role: instance.usage().since(before[role]) for role, instance in everyone.items()}
    if disturbance and dose_before:
        neighbour, anomaly, demand = disturbance
        dose = neighbour.dose_since(dose_before, elapsed_s)
        outcome.notes["doses"] = {**asdict(dose), **hosts.dut.pressure()}
        unmet = anomaly.unmet(dose, demand, neighbour.instance.spec.resources)
        outcome.doubt([f"the load on the DUT missed its dose: {unmet}"] if unmet else [])
    witness.stop()
    outcome.add(reading)
    note_load(outcome, tool.name, CLIENT, SERVER)
    for meter in (witness, hosts.dut):
        note_meter(outcome, meter)
    note_witness(
        outcome,
        "logs",
        "every request, as the server and each proxy saw it",
        (SERVER, ROLE) if standing.proxies else (SERVER,),
    )
    outcome.notes["witness"] = witness.moved
    outcome.doubt(carried_reasons(standing, carried, outcome))
    outcome.doubt(_path(tool.name, standing.wire, witness.moved, reading.payload_bytes, _cached(standing, config)))
    _account(standing, hosts.dut, used, _sent(outcome), elapsed_s, outcome)
    judged = hosts.judge(used, everyone, config)
    outcome.notes |= judged.notes
    outcome.doubt(judged.invalid_because)
    for proxy in standing.firsts:
        proxy.running.require_alive()


def _cached(standing: Standing, config: Config) -> bool:
    return bool(standing.proxies) and config["cache"] == "on"


def _path(tool: str, wire: Line, moved: Mapping[str, Any], payload_bytes: int, cached: bool) -> list[str]:
    """Return reasons unless the clients' bytes came over their link and, without a cache, over the server's link."""
    hops = [(f"client.{wire.client.links['dut']}", "rx_bytes")]
    if not cached:
        hops.insert(0, (f"server.{wire.server.links['dut']}", "tx_bytes"))
    return validity.path_reasons(tool, moved, payload_bytes, hops)


def carried_reasons(standing: Standing, before: Mapping[str, int], outcome: Outcome) -> list[str]:
    """Return a reason for each counter of the attachment that did not move with the requests.

    How far each moved since `before` is noted. Lasting counters are judged by all that they have counted: the requests
    besides the load may have been enough."""
    links, now = standing.links, standing.links.carried(standing.wire.dut.testbed)
    outcome.notes["carried"] = {name: count - before[name] for name, count in now.items()}
    still = [name for name, count in now.items() if count <= (0 if name in links.lasting else before[name])]
    told = "the attachment did not carry the requests: its counter '{}' stood still"
    return [told.format(name) for name in still] if standing.proxies else []


def _sent(outcome: Outcome) -> int:
    """Return how many requests the instrument has sent, including those that it does not measure."""
    return sum(_shares(outcome))


def _shares(outcome: Outcome) -> list[int]:
    """Return how many requests the instrument sent through each proxy in turn, or directly to the server.

    Raises: InstrumentError when the instrument does not report it."""
    http = outcome.notes.get("http")
    if not isinstance(http, dict) or "shares" not in http:
        raise InstrumentError("the instrument did not report how many requests it sent through each proxy")
    return list(http["shares"])


def _account(
    standing: Standing, host: HostMeter, used: Mapping[str, Usage], sent: int, elapsed_s: float, outcome: Outcome
) -> None:
    outcome.measurements |= host.read()
    outcome.measurements["softirq_time"] = (
        1000 * (host.totals.cpu_s["softirq"] + host.totals.cpu_s["irq"]) / max(1, sent)
    )
    proxies = [each for role, each in used.items() if role.startswith("proxy")]
    told = {role: asdict(each) for role, each in used.items() if not role.startswith("proxy")}
    if proxies:
        told["proxies"] = {f.name: sum(getattr(each, f.name) for each in proxies) for f in fields(Usage)}
    outcome.notes |= {"usage": told, "elapsed_s": elapsed_s}
    if not proxies:
        return
    cpu_s = sum(each.cpu_s for each in proxies)
    starts_ms = tuple(1000 * proxy.start_s for proxy in standing.firsts)
    # Only the first of the proxies that share a server: when the others are asked, the server has long been up.
    answers_ms = tuple(1000 * proxy.answer_s for proxy in standing.firsts)
    outcome.measurements |= {
        "proxy_cpu_time": 1000 * cpu_s / max(1, sent),
        "proxy_cpus": cpu_s / max(1, sent) * _rate_per_s(outcome, sent / elapsed_s),
        "proxy_memory": sum(each.memory_peak_bytes for each in proxies) / len(proxies) / 2**20,
        "proxy_start": sum(starts_ms) / len(starts_ms),
        "proxy_answer": sum(answers_ms) / len(answers_ms),
        "proxies_up": 1000 * (standing.farm.ended_s - standing.farm.began_s),
    }
    outcome.series += [Series("proxy_start", "ms", starts_ms), Series("proxy_answer", "ms", answers_ms)]


def _rate_per_s(outcome: Outcome, otherwise: float) -> float:
    """Return the rate while requests were sent: while the instrument starts, proxies have nothing to do."""
    found = (outcome.measurements.get(name) for name in ("requests_per_s", "open_requests_per_s"))
    return next((rate for rate in found if rate is not None), otherwise)


# The logs of proxies and server over the whole trial


def judge_logs(standing: Standing, config: Config, outcome: Outcome) -> None:
    """Check that the logs of proxies and server account for every request.

    Each must be in the log of its proxy, and must have reached the server unless a cache had the object."""
    n, cached = len(standing.proxies), _cached(standing, config)
    sent = _sent(outcome) + (_BY_HAND * n if n else 1)  # directly to the server: only one before the load
    expected = len(standing.firsts) if cached else sent
    asked, served = _logged(standing, expected, sent if n else 0)
    outcome.notes["logs"] = {
        "server": {f"{client} {status} {n_bytes}": count for (client, status, n_bytes), count in asked.items()},
        "proxies": {str(number): dict(found.results) for number, found in served.items()},
        "links": standing.links.carried(standing.wire.dut.testbed),
    }
    reasons = _served_reasons(standing, served, _shares(outcome), cached) if n else []
    reasons += _askers(standing, served)
    if asked.total() != expected:
        reasons.append(f"{asked.total()} requests reached the server instead of {expected}")
    wrong = {key: count for key, count in asked.items() if key[1:] != (200, standing.origin.page.length_bytes)}
    if wrong:
        reasons.append(f"the server did not answer all requests completely: {wrong}")
    outcome.doubt([*reasons, *_ways(standing, {client for client, _, _ in asked})])


def _logged(standing: Standing, of_server: int, of_proxies: int) -> tuple[Counter[Asked], dict[int, Served]]:
    """Return what the logs hold, as soon as they have these numbers of requests or a deadline has passed."""
    deadline_s = time.monotonic() + _LOG_S
    while True:
        asked, served = standing.origin.asked(), _served(standing)
        n_served = sum(found.results.total() for found in served.values())
        if (asked.total() >= of_server and n_served >= of_proxies) or time.monotonic() > deadline_s:
            return asked, served
        time.sleep(0.05)


def _served_reasons(standing: Standing, served: Mapping[int, Served], shares: Sequence[int], cached: bool) -> list[str]:
    """Return reasons against the proxies' logs. `shares` are the requests that went through each proxy."""
    firsts = {proxy.hosted.number for proxy in standing.firsts}
    return [
        f"proxy {number}: {why}"
        for (number, found), share in zip(served.items(), shares, strict=True)
        for why in judge_served(found.results, share + _BY_HAND, cache=cached, first=number in firsts)
    ]


def _served(standing: Standing) -> dict[int, Served]:
    """Return what each proxy's log holds, by number; bare proxies share a log, in which each has its port."""
    by_server = {first.instance.spec.name: first.running.served() for first in standing.firsts}
    return {
        proxy.hosted.number: by_server[proxy.instance.spec.name].get(proxy.hosted.listens_at, Served())
        for proxy in standing.proxies
    }


def _askers(standing: Standing, served: Mapping[int, Served]) -> list[str]:
    """Return a reason for each proxy that saw the clients under another address than their own.

    Published proxies must see it, too: publishing a port changes where a request goes, not where it comes from."""
    own = standing.wire.client.address
    return [
        f"requests came to proxy {number} from {sorted(found.clients)} instead of {own}"
        for number, found in served.items()
        if found.clients - {own}
    ]


def _ways(standing: Standing, seen: set[str]) -> list[str]:
    """Return a reason unless the server saw the addresses that the attachment gives: the proxies' own or the DUT's."""
    known = {proxy.seen_as for proxy in standing.proxies} or {standing.wire.client.address}
    return [] if seen == known else [f"requests came to the server from {sorted(seen)} instead of {sorted(known)}"]


# The generator's own limit


def rates(outcome: Outcome) -> dict[str, float]:
    return {name: outcome.measurements[name] for name in (*_TIMES, _RATE) if name in outcome.measurements}


def judge_generator(straight: Mapping[str, float] | None, outcome: Outcome) -> None:
    """Flag a generator-limited trial: the clients' result is within a tenth of that without proxies.

    This is not a verdict. A closed loop is judged by its rate; an open loop, which keeps its rate, by its time."""
    own, time_name = rates(outcome), "open_request_time"
    if not straight:
        return
    outcome.notes["ceiling"] = dict(straight)
    if _RATE in own and _RATE in straight:
        outcome.notes["generator_limited"] = own[_RATE] >= (1 - _AT_CEILING) * straight[_RATE]
    elif time_name in own and time_name in straight:
        outcome.notes["generator_limited"] = (1 - _AT_CEILING) * own[time_name] <= straight[time_name]


# Provenance


def versions(testbed: Testbed, native: Platform, origins: Sequence[str]) -> dict[str, str]:
    """Return the first line of each tool's version output in the image."""
    argv = {APACHE: ("apache2", "-v"), NGINX: ("nginx", "-v")}
    wanted = {"squid": HttpProxy.version_argv, **{name: argv[name] for name in origins}}
    with native.start(testbed, InstanceSpec(testbed.session.unique("facts"), "probe")) as instance:
        done = {name: instance.run(command, check=False) for name, command in wanted.items()}
    lines = {name: (each.text + each.error_text).splitlines() for name, each in done.items()}
    return {name: words[0] for name, words in lines.items() if words}

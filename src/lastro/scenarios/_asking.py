"""The measuring part of a trial with proxies: the requests, with meters around them, and every witness asked after."""

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
    Metric("proxy_cpu_time", "ms", "lower", "CPU time of the proxies' instances for a request, as the host counts it"),
    Metric("proxy_cpus", "CPU", "lower", "the same times the rate of requests: CPUs that all proxies kept busy"),
    Metric("proxy_memory", "MiB", "lower", "peak of memory of an instance as the host counts it; mean of all"),
    Metric("softirq_time", "ms", "lower", "CPU time of the DUT's kernel in interrupts for a request, links included"),
    Metric("proxy_start", "ms", "lower", "create and start of an instance, until it has its network; mean of all"),
    Metric(
        "proxy_answer",
        "ms",
        "lower",
        "create and start of an instance, and from its proxy's own start until its first answer; mean of all instances",
    ),
    Metric("proxies_up", "ms", "lower", "from the start of the first until all proxies have answered"),
)
# What tells who limits. Of an open loop its time alone: its rate is what was asked for.
_TIMES, _RATE = ("request_time", "request_cycle", "open_request_time"), "requests_per_s"
# JMeter's own start and warm-up, and what is asked beside the load, are within: so no study of a paper has these.
HOST_METRICS = tuple(
    replace(metric, summary=f"{metric.summary}; from the instrument's start to its end") for metric in HostMeter.metrics
)
_AT_CEILING = 0.1  # within this of what the clients do without a proxy, it is they who limit
_USUAL_WEIGHT, _MOST_WEIGHT = 100, 10_000  # of a control group
_LOG_S = 3.0  # servers and proxies write to their logs when the answer has gone
_BY_HAND = 2  # requests through each proxy: its first answer, and one after the load


@dataclass(frozen=True, slots=True)
class Standing:
    """All that takes part in a trial, standing. Without proxies the clients ask the server itself."""

    wire: Line
    platform: Platform
    links: Hosting
    native: Platform
    client: Instance
    server: Instance
    origin: Origin
    proxies: Sequence[Proxy]
    farm: Farm
    started: Outcome = field(default_factory=Outcome)  # what is to be said of the time in which proxies started

    @property
    def firsts(self) -> list[Proxy]:
        """The first of each instance: bare proxies share one."""
        found: dict[str, Proxy] = {}
        for proxy in self.proxies:
            found.setdefault(proxy.instance.spec.name, proxy)
        return list(found.values())

    @property
    def everyone(self) -> dict[str, Instance]:
        """By role; proxies by their numbers, and those that share an instance by the number of the first."""
        numbered = {f"proxy{proxy.hosted.number}": proxy.instance for proxy in self.firsts}
        return {"client": self.client, "server": self.server, **numbered}


@contextmanager
def disturbed(standing: Standing, config: Config, timeout_s: float) -> Iterator[Disturbance | None]:
    """Bare processes on the DUT at their misdeed."""
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
    # A group of processes has the weight of one; on the published host they were in no group, and each had its own.
    weight = Resources(cpu_weight=min(_MOST_WEIGHT, _USUAL_WEIGHT * demand.n_workers))
    with ExitStack() as stack:
        instance = stack.enter_context(standing.native.start(dut.testbed, dut.spec("neighbour", weight)))
        yield stack.enter_context(anomaly.at_work(instance, demand)), anomaly, demand


def measure(standing: Standing, config: Config, disturbance: Disturbance | None, outcome: Outcome) -> None:
    """The requests, with meters around them."""
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
    """What the clients have came over their link; without a cache it came over the server's link, too."""
    hops = [(f"client.{wire.client.links['dut']}", "rx_bytes")]
    if not cached:
        hops.insert(0, (f"server.{wire.server.links['dut']}", "tx_bytes"))
    return validity.path_reasons(tool, moved, payload_bytes, hops)


def carried_reasons(standing: Standing, before: Mapping[str, int], outcome: Outcome) -> list[str]:
    """Reasons against the attachment's counters, as they were before the requests and are now; by how much they moved

    is noted. Those that last are judged on all that they have counted: what was asked by hand may have been enough."""
    links, now = standing.links, standing.links.carried(standing.wire.dut.testbed)
    outcome.notes["carried"] = {name: count - before[name] for name, count in now.items()}
    still = [name for name, count in now.items() if count <= (0 if name in links.lasting else before[name])]
    told = "the attachment did not carry the requests: its counter '{}' stood still"
    return [told.format(name) for name in still] if standing.proxies else []


def _sent(outcome: Outcome) -> int:
    """Requests that the instrument has sent in all, those that it does not measure included."""
    return sum(_shares(outcome))


def _shares(outcome: Outcome) -> list[int]:
    """The same through each proxy in turn, or straight to the server. Raises: InstrumentError when it does not tell."""
    http = outcome.notes.get("http")
    if not isinstance(http, dict) or "shares" not in http:
        raise InstrumentError("the instrument does not tell how many requests it sent through each proxy")
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
    # Of proxies that share a server, the first alone: when the others are asked, it has long been there.
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
    """While requests went: an instrument takes a while to start, in which proxies have nothing to do."""
    found = (outcome.measurements.get(name) for name in ("requests_per_s", "open_requests_per_s"))
    return next((rate for rate in found if rate is not None), otherwise)


# What the logs of proxies and server say of the whole trial


def judge_logs(standing: Standing, config: Config, outcome: Outcome) -> None:
    """Every request must be in the log of the proxy through which it was sent, and reach the server unless a cache had

    the object."""
    n, cached = len(standing.proxies), _cached(standing, config)
    sent = _sent(outcome) + (_BY_HAND * n if n else 1)  # straight to the server, one before the load alone
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
        reasons.append(f"the server did not answer all wholly: {wrong}")
    outcome.doubt([*reasons, *_ways(standing, {client for client, _, _ in asked})])


def _logged(standing: Standing, of_server: int, of_proxies: int) -> tuple[Counter[Asked], dict[int, Served]]:
    """What the logs hold, as soon as they have so many requests, or have been waited for."""
    deadline_s = time.monotonic() + _LOG_S
    while True:
        asked, served = standing.origin.asked(), _served(standing)
        n_served = sum(found.results.total() for found in served.values())
        if (asked.total() >= of_server and n_served >= of_proxies) or time.monotonic() > deadline_s:
            return asked, served
        time.sleep(0.05)


def _served_reasons(standing: Standing, served: Mapping[int, Served], shares: Sequence[int], cached: bool) -> list[str]:
    """`shares` are what the instrument sent through each proxy."""
    firsts = {proxy.hosted.number for proxy in standing.firsts}
    return [
        f"proxy {number}: {why}"
        for (number, found), share in zip(served.items(), shares, strict=True)
        for why in judge_served(found.results, share + _BY_HAND, cache=cached, first=number in firsts)
    ]


def _served(standing: Standing) -> dict[int, Served]:
    """What the log of each proxy holds, by its number: bare ones share a log, in which each has its port."""
    by_server = {first.instance.spec.name: first.running.served() for first in standing.firsts}
    return {
        proxy.hosted.number: by_server[proxy.instance.spec.name].get(proxy.hosted.listens_at, Served())
        for proxy in standing.proxies
    }


def _askers(standing: Standing, served: Mapping[int, Served]) -> list[str]:
    """Each proxy must know the clients by their own address. Published ones must, too: to publish a port changes where

    a request goes, and not from where it comes."""
    own = standing.wire.client.address
    return [
        f"requests came to proxy {number} from {sorted(found.clients)} instead of {own}"
        for number, found in served.items()
        if found.clients - {own}
    ]


def _ways(standing: Standing, seen: set[str]) -> list[str]:
    """The server must know each proxy as the attachment says: by its own address, or by the DUT's, translated."""
    known = {proxy.seen_as for proxy in standing.proxies} or {standing.wire.client.address}
    return [] if seen == known else [f"requests came to the server from {sorted(seen)} instead of {sorted(known)}"]


# The generator's own limit


def rates(outcome: Outcome) -> dict[str, float]:
    return {name: outcome.measurements[name] for name in (*_TIMES, _RATE) if name in outcome.measurements}


def judge_generator(straight: Mapping[str, float] | None, outcome: Outcome) -> None:
    """A mark, not a verdict: are the clients through proxies within a tenth of what they do without?

    Those of a closed loop by their rate; an open loop, which sends at its rate whatever happens, by its time."""
    own, time_name = rates(outcome), "open_request_time"
    if not straight:
        return
    outcome.notes["ceiling"] = dict(straight)
    if _RATE in own and _RATE in straight:
        outcome.notes["generator_limited"] = own[_RATE] >= (1 - _AT_CEILING) * straight[_RATE]
    elif time_name in own and time_name in straight:
        outcome.notes["generator_limited"] = (1 - _AT_CEILING) * own[time_name] <= straight[time_name]


# What else is told


def versions(testbed: Testbed, native: Platform, origins: Sequence[str]) -> dict[str, str]:
    """First line of what each tool in the image says of itself."""
    argv = {APACHE: ("apache2", "-v"), NGINX: ("nginx", "-v")}
    wanted = {"squid": HttpProxy.version_argv, **{name: argv[name] for name in origins}}
    with native.start(testbed, InstanceSpec(testbed.session.unique("facts"), "probe")) as instance:
        done = {name: instance.run(command, check=False) for name, command in wanted.items()}
    lines = {name: (each.text + each.error_text).splitlines() for name, each in done.items()}
    return {name: words[0] for name, words in lines.items() if words}

"""JMeter by Lastro against the same test plan started by hand; and what each load generator can do at most.

Both sides ask the same server through the same proxy, in turn. By hand there is no meter and no check: what Lastro
adds to a request would show, and the interval of the ratio should hold 1. So should it without the clients' control
group, by whose weight they share CPUs with the proxy. The ceilings are straight to the server, through a host that
forwards, and in answers per second of both: JMeter's with more and more clients, vegeta's at higher rates, until it
does not keep its own schedule, or answers do not keep up with it.

    python benches/http_load.py [--json] [--short]    default: the ratio in ten pairs, both ceilings, many proxies"""

from __future__ import annotations

import csv
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from _harness import HEAD, Ratio, interleaved, show
from lastro.app.hosts import testbed
from lastro.errors import TrialError
from lastro.instruments import _jmeter_plan
from lastro.instruments.http_load import ClosedLoad, LoadOrigin, OpenLoad
from lastro.instruments.jmeter import Jmeter
from lastro.instruments.vegeta import Vegeta
from lastro.results.samples import OVERLOADED, Outcome
from lastro.scenarios.proxy import ProxyScenario
from lastro.scenarios.proxy import measure as proxy_measure
from lastro.scenarios.proxy.measure import RunningProxies

N_PAIRS = 10
_FIRST_PER_S, _CLOSE, _MOST_STEPS = 200.0, 1.05, 14  # a rate that was carried and one that was not, so close
_KEPT = 0.99  # of the rate
_REQUESTS, _WARM_UP = 8000, 1600  # of all clients together
_TOGETHER_S = 20.0
_CLIENTS = (1, 2, 4, 8, 16, 32)
CEILING_HEAD = ["| object | JMeter, closed loop, answered | vegeta, open loop, answered |", "| --- | ---: | ---: |"]
TOGETHER_HEAD = ["| what | median (least – most) of 5 | target |", "| --- | ---: | ---: |"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most answers per second that each generator was seen to have, and how."""

    what: str
    closed_per_s: float
    clients: int
    open_per_s: float

    @property
    def row(self) -> str:
        closed = f"{self.closed_per_s:,.0f} requests/s with {self.clients} client{'s' * (self.clients > 1)}"
        return f"| {self.what} | {closed} | {self.open_per_s:,.0f} requests/s |"


def config(**more: Any) -> dict[str, Any]:
    settings = {setting.name: setting.default for setting in ProxyScenario.settings}
    anyhow = {"max_foreign_cpus": 4096.0, "max_steal_percent": 100.0}
    parts = {"platform": "native", "attachment": "host", "anomaly": "none", "instrument": "jmeter"}
    return {**settings, **anyhow, **parts, "clients": 4, "requests": 250, "warm_up": 50, **more}


@contextmanager
def standing(chosen: dict[str, Any]) -> Iterator[RunningProxies]:
    needs = partial(ProxyScenario.image_needs, configs=[chosen])
    with testbed("benches", wait=True, needs=needs) as bed, ExitStack() as stack:
        scenario = ProxyScenario(bed)
        stack.callback(scenario.close)
        yield scenario._deploy(stack, chosen)


def ratios(n_pairs: int = N_PAIRS, **more: Any) -> list[Ratio]:
    chosen = config(cache="on", **more)
    with standing(chosen) as stood:
        load = Jmeter().load(stood.origin.page, [proxy.endpoint for proxy in stood.proxies], chosen)
        inside = LoadOrigin.beside(stood.client).enter
        ways = {"in the clients' control group": inside, "in no control group": inside[-2:]}  # of the network alone
        ours = partial(_ours, stood, chosen)
        return [
            interleaved(
                f"request_time by `jmeter` through Squid, by hand {where}", "holds 1", ours,
                partial(_raw, stood, load, way), n_pairs,
            )
            for where, way in ways.items()
        ]  # fmt: skip


def _ours(stood: RunningProxies, chosen: dict[str, Any]) -> float:
    outcome = Outcome()
    proxy_measure.measure(stood, chosen, None, outcome)
    if not outcome.valid:
        raise TrialError("; ".join(outcome.invalid_because))
    return outcome.measurements["request_time"]


def _raw(stood: RunningProxies, load: ClosedLoad, way: Sequence[str]) -> float:
    """The plan as a file, JMeter in the client's namespace, and the mean of a column of its results."""
    home = stood.client.testbed.scratch_dir / "by-hand"
    home.mkdir()
    try:
        (home / "load.jmx").write_text(_jmeter_plan.test_plan(load))
        subprocess.run([*way, *Jmeter().argv(str(home))], check=True, capture_output=True, timeout=600)
        return _mean_ms(home / "load.jtl")
    finally:
        shutil.rmtree(home)


def _mean_ms(jtl: Path) -> float:
    with jtl.open(newline="") as file:
        return fmean(float(row["elapsed"]) for row in csv.DictReader(file) if row["label"] != _jmeter_plan.WARM_UP)


# Many at once


def together(n: int = 32, n_times: int = 5) -> list[str]:
    """A row for each platform: from the first start until all proxies have answered, and whether always in time."""
    rows = []
    for platform in ("runc", "docker"):
        took_s = []
        for _ in range(n_times):
            with standing(config(platform=platform, attachment="routed", proxies=n, clients=n, cache="on")) as stood:
                took_s.append(stood.starter.ended_s - stood.starter.began_s)
        between = f"{median(took_s):.1f} s ({min(took_s):.1f} – {max(took_s):.1f})"
        met = f"< {_TOGETHER_S:g} s: {'met' if max(took_s) < _TOGETHER_S else 'missed'}"
        rows.append(f"| {n} proxies on {platform}, until all have answered | {between} | {met} |")
    return rows


# What each can do at most


def ceilings(*, short: bool = False) -> list[Ceiling]:
    found = []
    for what, n_bytes in (("1 kB", 1000), ("1024 kB", 1_024_000)):
        with standing(config(proxies=0, object_bytes=n_bytes)) as stood:
            closed = [(_closed(stood, clients, short), clients) for clients in (_CLIENTS[:2] if short else _CLIENTS)]
            found.append(Ceiling(what, *max(closed), _open(stood, short)))
    return found


def _closed(stood: RunningProxies, clients: int, short: bool) -> float:
    requests, warm_up = (total // clients // (10 if short else 1) for total in (_REQUESTS, _WARM_UP))
    load = ClosedLoad(stood.origin.page, clients=clients, requests=requests, warm_up=warm_up)
    reading = Jmeter().measure(LoadOrigin.beside(stood.client), load)
    return reading.measurements.get("requests_per_s", 0.0)


def _open(stood: RunningProxies, short: bool) -> float:
    """The most answers per second at a rate that was carried: found by doubling, then between the last two rates."""
    most, carried_per_s, broke_per_s, rate_per_s = 0.0, 0.0, math.inf, _FIRST_PER_S
    for _ in range(2 if short else _MOST_STEPS):
        answered_per_s = _answered(stood, OpenLoad(stood.origin.page, (), rate_per_s, 1.0 if short else 5.0))
        if answered_per_s is None:
            broke_per_s = rate_per_s
        else:
            most, carried_per_s = max(most, answered_per_s), rate_per_s
        if broke_per_s < _CLOSE * carried_per_s:
            break
        rate_per_s = 2 * rate_per_s if broke_per_s == math.inf else math.sqrt(max(1.0, carried_per_s) * broke_per_s)
    return most


def _answered(stood: RunningProxies, load: OpenLoad) -> float | None:
    """Answers per second; None where the generator, or the server, did not keep up with the rate."""
    reading = Vegeta().measure(LoadOrigin.beside(stood.client), load)
    found, kinds = reading.measurements, {remark.kind for remark in reading.remarks}
    # Without right answers there is no rate of them. Its delay in short answers is no matter here, only in their times.
    if found.get("open_rate", 0.0) < _KEPT * load.rate_per_s or OVERLOADED in kinds:
        return None
    return found["open_requests_per_s"]


def table() -> str:
    """Markdown: the ratio, the ceilings below it, and how long many proxies take."""
    found = [*HEAD, *(ratio.row for ratio in ratios()), "", *CEILING_HEAD, *(each.row for each in ceilings())]
    return "\n".join([*found, "", *TOGETHER_HEAD, *together()])


if __name__ == "__main__":
    if "--short" in sys.argv:  # to see that it works: no figure of it means anything
        show(ratios(1, requests=20, warm_up=5))
        print("\n".join([*CEILING_HEAD, *(each.row for each in ceilings(short=True))]))
        print("\n".join([*TOGETHER_HEAD, *together(2, 1)]))
    elif "--json" in sys.argv:
        show(ratios())
    else:
        print(table())

"""Checks of the logs of proxies and server over the whole trial: they must have a line for every request."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from lastro.functions.http_proxy import RequestCounts, judge_served
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config
from lastro.scenarios.proxy.measure import OWN_REQUESTS, RunningProxies, is_cached, sent_by_proxy, total_sent
from lastro.scenarios.proxy.origin import LoggedRequest

_LOG_S = 3.0  # servers and proxies write to their logs after they have answered


def judge_logs(standing: RunningProxies, config: Config, outcome: Outcome) -> None:
    """Invalidate the trial unless the logs of the proxies and of the server account for every request.

    Each request must be in the log of its proxy. It must also be in the server's log, unless the proxy's cache had the
    object. Addresses of clients and proxies in the logs must be right, too."""
    n, cached = len(standing.proxies), is_cached(standing, config)
    sent = total_sent(outcome) + (OWN_REQUESTS * n if n else 1)  # directly to the server: only one before the load
    expected = len(standing.first_of_each_instance) if cached else sent
    asked, served = _wait_for_logs(standing, expected, sent if n else 0)
    outcome.notes["logs"] = {
        "server": {f"{client} {status} {n_bytes}": count for (client, status, n_bytes), count in asked.items()},
        "proxies": {str(number): dict(requests.results) for number, requests in served.items()},
        "links": standing.traffic_counters(),
    }
    reasons = _served_reasons(standing, served, sent_by_proxy(outcome), cached) if n else []
    reasons += _client_reasons(standing, served)
    if asked.total() != expected:
        reasons.append(f"{asked.total()} requests reached the server instead of {expected}")
    wrong = {key: count for key, count in asked.items() if key[1:] != (200, standing.origin.page.length_bytes)}
    if wrong:
        reasons.append(f"the server did not answer all requests completely: {wrong}")
    known = {proxy.seen_as for proxy in standing.proxies} or {standing.nodes.client.address}
    if (seen := {client for client, _, _ in asked}) != known:
        reasons.append(f"requests came to the server from {sorted(seen)} instead of {sorted(known)}")
    outcome.invalidate(reasons)


def _wait_for_logs(
    standing: RunningProxies, of_server: int, of_proxies: int
) -> tuple[Counter[LoggedRequest], dict[int, RequestCounts]]:
    """Wait for this many requests in the logs; return (requests in the server's log, {proxy number: requests}).

    `of_server` and `of_proxies` are the numbers to wait for, in the server's log and in all proxies' logs together.
    After a deadline, return what the logs have."""
    deadline_s = time.monotonic() + _LOG_S
    while True:
        asked = standing.origin.asked()
        # Proxies that share a log are distinguished by their ports.
        logs = {first.instance.spec.name: first.running.served() for first in standing.first_of_each_instance}
        served = {
            proxy.hosted.number: logs[proxy.instance.spec.name].get(proxy.hosted.listens_at, RequestCounts())
            for proxy in standing.proxies
        }
        n_served = sum(requests.results.total() for requests in served.values())
        if (asked.total() >= of_server and n_served >= of_proxies) or time.monotonic() > deadline_s:
            return asked, served
        time.sleep(0.05)


def _served_reasons(
    standing: RunningProxies, served: Mapping[int, RequestCounts], sent: Sequence[int], cached: bool
) -> list[str]:
    """Return why the proxies' logs do not account for the requests; [] if they do.

    `served` maps a proxy's number to its log. `sent` has how many requests the load sent through each proxy. `cached`
    is true if the proxies have a cache."""
    first_numbers = {proxy.hosted.number for proxy in standing.first_of_each_instance}
    return [
        f"proxy {number}: {reason}"
        for (number, requests), n_sent in zip(served.items(), sent, strict=True)
        for reason in judge_served(requests.results, n_sent + OWN_REQUESTS, cache=cached, first=number in first_numbers)
    ]


def _client_reasons(standing: RunningProxies, served: Mapping[int, RequestCounts]) -> list[str]:
    """Return a reason for each proxy whose log has another client address than that of the client's role.

    This includes published proxies: publishing a port changes the destination of a request, not its source."""
    client = standing.nodes.client.address
    others = [(number, sorted(requests.clients)) for number, requests in served.items() if requests.clients - {client}]
    return [f"requests came to proxy {number} from {clients} instead of {client}" for number, clients in others]

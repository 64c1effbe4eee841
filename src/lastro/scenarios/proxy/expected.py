"""How long a trial with proxies is expected to take, for plans without measurements."""

from __future__ import annotations

from lastro import registry
from lastro.instruments.http_load import HttpLoad
from lastro.scenarios.base import Config, slowdown, start_s
from lastro.study.levels import NONE, split_options

_AROUND_S = 2.5  # what a trial takes besides its requests, roughly
_HEAVIER = 1.8  # an emulated processor slows forwarding down even more than computing: 18 times against 5 were measured


def load_of(config: Config) -> type[HttpLoad]:
    """Return the load generator of a treatment."""
    return registry.get(HttpLoad, split_options(str(config["instrument"]))[0])


def expected_s(config: Config, n_cpus: int) -> float:
    """Estimate how long a trial takes on a DUT with this number of CPUs."""
    n = max(int(config["proxies"]), int(config["instances"]))
    starts_s = (start_s(config) + 0.25) * (1 + n / 8)
    more_s = float(config["capacity_s"]) if config["max_proxies"] else 0.0
    requests_s = load_of(config).expected_s(config, _slowdown(config, n_cpus))
    return _AROUND_S + starts_s + float(config["settle_s"]) + requests_s + more_s


def _slowdown(config: Config, n_cpus: int) -> float:
    """Estimate the ratio of a request's time to that through one proxy on a bare and idle host.

    It depends on the platform and on the load; each process of the load counts as a proxy."""
    proxies = max(1, int(config["proxies"]))
    load = (int(config["anomaly_workers"]) or n_cpus) if config["anomaly"] != NONE else 0
    slower: float = slowdown(config) ** _HEAVIER
    return slower * max(1.0, (proxies + load) / n_cpus / proxies)

"""How long a trial with proxies is expected to take, for plans without measurements."""

from __future__ import annotations

from lastro.instruments.http_load import HttpLoad
from lastro.scenarios.base import Config, chosen_class, slowdown, start_s
from lastro.scenarios.proxy.proxies import MOST
from lastro.scenarios.shared.disturbance import ANOMALY_WORKERS
from lastro.study.levels import NONE, part_name
from lastro.study.model import DAY_S, Setting

PROXIES = Setting("proxies", 1, "number of proxies; 0: the clients ask the server directly", 0, MOST)
INSTANCES = Setting(
    "instances", 0, "instances that exist on the DUT: those beyond `proxies` are idle; 0: one for each proxy", 0, MOST
)
SETTLE_S = Setting("settle_s", 0.5, "time between the start of the anomaly and the requests", 0, DAY_S)
MAX_PROXIES = Setting(
    "max_proxies", 0, "afterwards, add proxies until the host fails, up to this number; 0: do not", 0, MOST
)
CAPACITY_S = Setting("capacity_s", 120.0, "time after which no more proxies are added", 1, DAY_S)
_AROUND_S = 2.5  # what a trial takes besides its requests, roughly
_HEAVIER = 1.8  # exponent: an emulated processor slows down forwarding more than computing, 18 times instead of 5 times


def load_of(config: Config) -> type[HttpLoad]:
    """Return the class of the treatment's load generator."""
    return chosen_class(HttpLoad, config)


def expected_s(config: Config, n_cpus: int) -> float:
    """Estimate the seconds that a trial takes on a DUT with this number of CPUs."""
    n = max(PROXIES.of(config), INSTANCES.of(config))
    starts_s = (start_s(config) + 0.25) * (1 + n / 8)
    more_s = CAPACITY_S.of(config) if MAX_PROXIES.of(config) else 0.0
    requests_s = load_of(config).expected_s(config, _slowdown(config, n_cpus))
    return _AROUND_S + starts_s + SETTLE_S.of(config) + requests_s + more_s


def _slowdown(config: Config, n_cpus: int) -> float:
    """Estimate how many times longer a request takes than through one proxy on a bare and idle host.

    The factor depends on the platform, and on how many proxies and processes of the anomaly share the CPUs."""
    proxies = max(1, PROXIES.of(config))
    load = (ANOMALY_WORKERS.of(config) or n_cpus) if part_name(config, "anomaly") != NONE else 0
    slower: float = slowdown(config) ** _HEAVIER
    return slower * max(1.0, (proxies + load) / n_cpus / proxies)

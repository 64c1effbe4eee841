"""The number of proxies that a host carries: proxies are added step by step, and all get a request, until one fails."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from lastro.errors import LastroError
from lastro.results.samples import Metric, Outcome
from lastro.results.trial_notes import SearchEnd
from lastro.scenarios.base import Config
from lastro.scenarios.proxy.expected import CAPACITY_S, MAX_PROXIES
from lastro.scenarios.proxy.measure import RunningProxies
from lastro.scenarios.proxy.proxies import ask_all
from lastro.scenarios.shared.host_memory import ENOUGH, record_capacity, used_memory_bytes
from lastro.units import MIB

CAPACITY = Metric("capacity", "1", "higher", "most proxies that all answered; limited by host or study")
_MOST_AT_ONCE = 32


def fill_up(standing: RunningProxies, config: Config, outcome: Outcome) -> None:
    """Search the largest number of proxies that all answer, and record it with what ended the search.

    Each step doubles the number of proxies, but adds at most `_MOST_AT_ONCE`. After the first failure, proxies are no
    longer doubled, and each failure halves the step. The search ends when a single further proxy fails, or at a limit
    of the study."""
    deadline_s = time.monotonic() + CAPACITY_S.of(config)
    most, host = MAX_PROXIES.of(config), standing.nodes.dut.testbed.host
    proxies, empty_bytes = list(standing.proxies), used_memory_bytes(host)
    steps: list[dict[str, Any]] = []
    stopped_by, n_more = "", max(1, len(proxies))
    with ExitStack() as stack:
        while len(proxies) < most:
            if time.monotonic() > deadline_s:
                stopped_by = f"{ENOUGH}: capacity_s = {CAPACITY_S.of(config):g}"
                break
            n_more = max(1, min(n_more, _MOST_AT_ONCE, most - len(proxies)))
            with ExitStack() as batch:
                try:
                    added = standing.starter.add(batch, n_more)
                    ask_all(standing.client, standing.origin.page, [*proxies, *added])
                    taken = (used_memory_bytes(host) - empty_bytes) / MIB
                except (LastroError, OSError) as error:  # OSError: Lastro itself cannot open more files
                    stopped_by = getattr(error, "message", str(error))
                    steps.append({"proxies": len(proxies) + n_more, "broke": stopped_by})
                    if n_more == 1:
                        break
                    n_more //= 2
                    continue
                stack.push(batch.pop_all())
            proxies += added
            steps.append({"proxies": len(proxies), "memory_taken_mib": round(taken, 1)})
            n_more = len(proxies) if not any("broke" in step for step in steps) else n_more
        else:
            stopped_by = f"{ENOUGH}: max_proxies = {most}"
    record_capacity(outcome, SearchEnd("proxies", len(proxies), stopped_by, steps))

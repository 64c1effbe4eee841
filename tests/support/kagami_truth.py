"""A world in which everything that Kagami and Gaspary (2017) published is so, with noise of our own choosing."""

from __future__ import annotations

import random
from collections.abc import Mapping

from lastro.study.model import Level

ANOMALIES = ("cpu", "memory", "disk", "io")

# Published: means over the anomalies of 10.39 % and 129.78 %, memory 20.05 % and 273.6 %; cgroups take back 62.59 % of
# the one (94.38 % under memory) and 60.26 % of the other. The rest is shared out so that disk and I/O are the mildest.
_LOSS = {"cpu": 0.135, "memory": 0.2005, "disk": 0.039, "io": 0.0411}
_LOSS_CGROUPS = {"cpu": 0.075, "memory": 0.01127, "disk": 0.0335, "io": 0.03571}
_RISE = {"cpu": 1.5, "memory": 2.736, "disk": 0.46, "io": 0.4952}
_RISE_CGROUPS = {"cpu": 0.8, "memory": 0.436, "disk": 0.4, "io": 0.427}

_CARRIES = {"veth-bridge": 1.0, "veth-direct": 1.2229, "macvlan-bridge": 1.2229 * 1.0474}
_DELAYS = {"veth-bridge": 1.0, "veth-direct": 0.8383, "macvlan-bridge": 0.95}
_PEAKS = {"veth-bridge": 1.0, "veth-direct": 0.85, "macvlan-bridge": 1.15}
_FUNCTION_MS = {"firewall": 0.0, "dpi": 0.0231, "nat": 0.0583}
_FUNCTION_PEAKS = {"firewall": 0.95, "dpi": 1.0, "nat": 1.05}

_NOISE = {"throughput": 0.01, "frame_size": 0.01, "jitter": 0.05, "latency_mean": 0.02, "latency_max": 0.08}


def mean_of(levels: Mapping[str, Level], metric: str) -> float:
    """The true mean of a metric at a treatment, in the metric's unit."""
    attachment, isolation, function, anomaly = (
        str(levels[name]) for name in ("attachment", "isolation", "function", "anomaly")
    )
    guarded = isolation.startswith("cgroups")
    if metric == "throughput":
        loss = (_LOSS_CGROUPS if guarded else _LOSS).get(anomaly, 0.0)
        if isolation == "cgroups+apparmor":
            loss *= 0.0381 / 0.03887  # published: 3.81 % are lost with both
        costs = isolation == "apparmor" or (isolation == "cgroups+apparmor" and anomaly == "none")
        profile = 0.98927 if costs else 1.0  # under anomalies, by its own numbers, not beside cgroups
        return 3006.64 * _centred(_CARRIES, attachment) * (1 - loss) * profile
    if metric == "frame_size":
        return 52_000  # not published: segments of a virtual link
    if metric == "jitter":
        return 0.020 + (0.0048 if isolation == "cgroups" and anomaly == "none" else 0.0)
    if metric == "latency_mean":
        rise = 0.0 if anomaly == "none" else {"cgroups": 0.0141, "cgroups+apparmor": 0.005}.get(isolation, 0.06)
        return _centred(_DELAYS, attachment) * (0.3 + _FUNCTION_MS[function] + rise)
    rise = (_RISE_CGROUPS if guarded else _RISE).get(anomaly, 0.0)
    if isolation == "cgroups+apparmor":
        rise *= 0.2  # published: not told from the ideal
    return 0.7967 * _centred(_PEAKS, attachment) * _FUNCTION_PEAKS[function] * (1 + rise)


def _centred(factors: Mapping[str, float], level: str) -> float:
    return factors[level] * len(factors) / sum(factors.values())


def published_value(levels: Mapping[str, Level], block: int, metric: str) -> float:
    """A measurement in that world, the same at every call."""
    noise = random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, _NOISE[metric])
    block_effect = random.Random(f"{block}:{metric}").gauss(0, 0.01)
    return mean_of(levels, metric) * (1 + block_effect) * (1 + noise)

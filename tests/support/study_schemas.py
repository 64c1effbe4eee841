"""The chain scenario's schema as study files see it, written by hand: no part needs to be importable here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lastro.papers
from lastro.results.samples import Better, Metric
from lastro.study.model import ScenarioSchema, Setting

DAY_S = 86400


def _setting(name: str, default, minimum=None, maximum=None, choices=(), by_profile=False) -> Setting[Any]:
    return Setting(name, default, f"what {name} is", minimum, maximum, choices, by_profile=by_profile)


def _metric(name: str, unit: str, better: Better) -> Metric:
    return Metric(name, unit, better, f"what {name} is")


_SETTINGS = (
    _setting("settle_s", 2.0, 0, DAY_S),
    _setting("tcp_s", 5.0, 0.5, DAY_S),
    _setting("udp_s", 5.0, 0.5, DAY_S),
    _setting("ping_s", 5.0, 0.5, DAY_S),
    _setting("gap_s", 1.0, 0, DAY_S),
    _setting("ping_interval_ms", 100, 2, 10_000),
    _setting("ping_suspect_percent", 0, 0, 100),
    _setting("udp_rate", "1M"),
    _setting("tcp_streams", 1, 1, 128),
    _setting("implementation", "kernel", choices=("kernel", "click"), by_profile=True),
    _setting("offloads", "kernel", choices=("kernel", "off")),
    _setting("anomaly_workers", 0, 0, 1024),
    _setting("anomaly_memory", "256M"),
    _setting("anomaly_tool", "stress-ng", choices=("stress-ng", "stress")),
    _setting("max_steal_percent", 5.0, 0, 100),
    _setting("max_foreign_cpus", 0.5, 0),
)
_METRICS = (
    _metric("throughput", "Mbit/s", "higher"),
    _metric("frame_size", "B", "neither"),
    _metric("jitter", "ms", "lower"),
    _metric("udp_loss", "%", "lower"),
    _metric("latency_mean", "ms", "lower"),
    _metric("latency_max", "ms", "lower"),
    _metric("latency_p50", "ms", "lower"),
    _metric("cpu_per_gbit", "s/Gbit", "lower"),
    _metric("latency_p95", "ms", "lower"),
    _metric("latency_p99", "ms", "lower"),
    _metric("function_cpus", "CPUs", "lower"),
)

CHAIN = ScenarioSchema(
    name="chain",
    summary="a flow crosses a function",
    parts={
        "platform": frozenset({"native", "runc", "docker"}),
        "attachment": frozenset({"veth-bridge", "veth-direct", "macvlan-bridge"}),
        "isolation": frozenset({"none", "cgroups", "apparmor", "seccomp"}),
        "function": frozenset({"none", "firewall", "dpi", "nat"}),
        "anomaly": frozenset({"none", "cpu", "memory", "disk", "io"}),
    },
    combinable=frozenset({"isolation"}),
    settings={setting.name: setting for setting in _SETTINGS},
    metrics={metric.name: metric for metric in _METRICS},
)
SCHEMAS = {"chain": CHAIN}

KAGAMI = Path(lastro.papers.__file__).parent / "kagami2017" / "study.toml"

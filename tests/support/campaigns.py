"""Synthetic campaigns for tests of whatever reads one: `make_campaign` writes a real database, without a host."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lastro.results.samples import MAX_ATTEMPTS, Metric, Outcome, PackedHistogram, Series
from lastro.results.store import Store
from lastro.study.design import treatments, trials
from lastro.study.model import Design, Factor, Level, Study

Levels = Mapping[str, Level]

METRICS = (
    Metric("throughput", "Mbit/s", "higher", "TCP throughput, mean of the seconds"),
    Metric("jitter", "ms", "lower", "UDP jitter as iperf3 defines it"),
    Metric("latency_mean", "ms", "lower", "mean round-trip time"),
    Metric("latency_max", "ms", "lower", "largest round-trip time"),
)

SMALL = {"platform": ("native", "runc"), "isolation": ("none", "cgroups", "apparmor")}

KAGAMI = {
    "attachment": ("veth-bridge", "veth-direct", "macvlan-bridge"),
    "isolation": ("none", "cgroups", "apparmor", "cgroups+apparmor"),
    "function": ("firewall", "dpi", "nat"),
    "anomaly": ("none", "cpu", "memory", "disk", "io"),
}

_CENTRE = {"throughput": 21_000.0, "jitter": 0.012, "latency_mean": 0.046, "latency_max": 0.9}
_SPREAD = {"throughput": 0.03, "jitter": 0.15, "latency_mean": 0.05, "latency_max": 0.4}
_COST = {
    "veth-direct": 1.22, "macvlan-bridge": 1.28, "runc": 0.97, "cgroups": 0.99, "apparmor": 0.985,
    "cgroups+apparmor": 0.975, "cpu": 0.93, "memory": 0.8, "disk": 0.97, "io": 0.98, "dpi": 0.995, "nat": 0.98,
}  # fmt: skip

PROVENANCE: dict[str, Any] = {
    "host": {
        "hostname": "edge-7",
        "kernel": "6.1.0-27-amd64",
        "cpu_model": "AMD EPYC 7B13",
        "cpus": 2,
        "virtual_machine": True,
        "governor": "performance",
        "memory_bytes": 25_277_771_776,
    },
    "kernel": {"mitigations": {"spectre_v2": "on"}},
    "tools": {"iperf3": {"version": "3.12", "sha256": "0f" * 32}, "runc": {"version": "1.1.5", "sha256": "a1" * 32}},
    "root_filesystem": {"sha256": "7c" * 32},
    "lastro": {"version": "0.1.0", "python": "3.11.2"},
}


def plausible_value(levels: Levels, block: int, metric: str) -> float:
    """A value that depends on the levels as a real one might, the same at every call."""
    speed = 1.0
    for level in levels.values():
        speed *= _COST.get(str(level), 1.0)
    factor = speed if metric == "throughput" else 1 / speed**2
    noise = random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, _SPREAD.get(metric, 0.05))
    return _CENTRE.get(metric, 1.0) * factor * (1 + random.Random(f"{block}:{metric}").gauss(0, 0.02)) * (1 + noise)


def plausible_notes(levels: Levels, block: int) -> dict[str, Any]:
    """Notes as a chain trial writes them."""
    rng = random.Random(f"{sorted(levels.items())}:{block}")
    native = levels.get("platform") == "native"
    notes: dict[str, Any] = {
        "residuals": {
            "kernel": "6.1.0-27-amd64",
            "mtu": 1500,
            "clock source": "tsc",
            "vCPUs": 2,
            "storage path": "chroot on ext4" if native else "overlayfs on ext4",
        },
        "usage": {
            name: {"cpu_s": rng.uniform(2, 9), "memory_bytes": rng.randint(8, 30) * 2**20}
            for name in ("source", "function", "sink")
        },
        "host": {"steal_percent": rng.uniform(0, 0.4), "foreign_cpus": rng.uniform(0, 0.1)},
        "witness": {"packets_in": 1000, "packets_out": 1000},
    }
    if levels.get("anomaly", "none") != "none":
        notes["doses"] = {"elapsed_s": 15.0, "cpus": rng.uniform(14, 16) / 15, "psi_cpu": rng.uniform(20, 40)}
    return notes


def make_study(
    factors: Mapping[str, tuple[Level, ...]] = SMALL,
    *,
    replicates: int = 5,
    metrics: tuple[Metric, ...] = METRICS,
    baseline: Levels | None = None,
    title: str = "What isolation costs on this host",
    **others: Any,
) -> Study:
    defaults: dict[str, Any] = {
        "description": "A small study for tests.",
        "scenario": "chain",
        "settings": {"tcp_s": 15, "anomaly": "none", "platform": "runc"},
        "source": f"title = '''{title}'''\n",
        "file": "small.toml",
    }
    return Study(
        name="small",
        title=title,
        factors=tuple(Factor(name, tuple(levels)) for name, levels in factors.items()),
        metrics=metrics,
        design=Design(replicates=replicates, seed=7, baseline=dict(baseline or {})),
        **(defaults | others),
    )


def make_campaign(
    directory: Path,
    study: Study | None = None,
    *,
    value: Callable[[Levels, int, str], float | None] = plausible_value,
    doubts: Callable[[Levels, int, int], list[str]] = lambda levels, block, attempt: [],
    unavailable: Callable[[Levels], tuple[str, str | None] | None] = lambda levels: None,
    notes: Callable[[Levels, int], dict[str, Any]] = plausible_notes,
    series: Callable[[Levels, int], list[Series]] = lambda levels, block: [],
    histograms: Callable[[Levels, int], list[PackedHistogram]] = lambda levels, block: [],
    extra: Mapping[str, float] | None = None,
    measured: Sequence[Metric] | None = None,
    stop_after: int | None = None,
    provenance: dict[str, Any] | None = None,
    day: str = "2026-11-02",
) -> Path:
    """A campaign in `directory`, run as far as `stop_after` attempts, and the directory.

    `value(levels, block, metric)` gives each measurement (None: not measured), of the study's metrics unless others
    are `measured`; `doubts(levels, block, attempt)` the reasons why an attempt is invalid; `unavailable(levels)` the
    (reason, remedy) of a treatment that cannot run."""
    study = study or make_study(baseline={"isolation": "none"})
    rows = treatments(study)
    with Store.create(directory, study, rows, trials(study, len(rows)), provenance or PROVENANCE) as store:
        store._db.execute("PRAGMA synchronous=OFF")  # a test may lose power
        store.log("2026-11-02T10:00:00Z", "start", "lastro run small.toml")
        for row in rows:
            if why := unavailable(row.levels):
                store.mark_unavailable(row.index, *why)
        with store.transaction():  # a transaction for each trial would take most of the time
            _run(
                store,
                study.metrics if measured is None else measured,
                value,
                doubts,
                notes,
                series,
                histograms,
                dict(extra or {}),
                MAX_ATTEMPTS * 10**6 if stop_after is None else stop_after,
                day,
            )
        store.log("2026-11-02T12:00:00Z", "end" if store.next_trial() is None else "interrupted", "SIGINT")
    return directory


def _run(
    store: Store,
    metrics: Sequence[Metric],
    value: Callable[[Levels, int, str], float | None],
    doubts: Callable[[Levels, int, int], list[str]],
    notes: Callable[[Levels, int], dict[str, Any]],
    series: Callable[[Levels, int], list[Series]],
    histograms: Callable[[Levels, int], list[PackedHistogram]],
    extra: dict[str, float],
    stop_after: int,
    day: str,
) -> None:
    levels_of = {row.treatment.index: row.treatment.levels for row in store.treatments()}
    for count in range(stop_after):
        trial = store.next_trial()
        if trial is None:
            return
        levels = levels_of[trial.treatment]
        values = {metric.name: value(levels, trial.block, metric.name) for metric in metrics}
        outcome = Outcome({name: found for name, found in values.items() if found is not None} | extra)
        outcome.series.append(Series("throughput_per_s", "Mbit/s", (1.0, 2.0)))
        outcome.series.extend(series(levels, trial.block))
        outcome.histograms.extend(histograms(levels, trial.block))
        outcome.notes.update(notes(levels, trial.block))
        outcome.invalidate(doubts(levels, trial.block, trial.attempts + 1))
        store.begin(trial.number)
        minutes, seconds = divmod(count * 20, 60)
        started = f"{day}T{10 + minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}Z"
        store.finish(trial.number, outcome, started_utc=started, duration_s=18.5 + trial.number % 3, transcript=[])

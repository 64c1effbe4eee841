"""Caveats on the key findings: circumstances, such as shared cores, that may explain a part of an effect. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.doses import doses_of, unequal_doses
from lastro.study.levels import hops
from lastro.words.language import Language
from lastro.words.numbers import percent

_CPU_NEIGHBOUR = 0.1  # CPUs, above which a neighbour takes execution units from the other thread of its core
_ENDS = 2  # of a chain: its source and its sink
_CALIBRATION = "calibration"  # as `host.processors` writes it


def caveats(report: CampaignResults, say: Language) -> tuple[str, ...]:
    """Return the caveats on the key findings: shared or few CPUs, unequal neighbours, missing conditions."""
    return (
        *_shared_cores(report, say), *_idle_cpus(report, say), *_few_cpus(report, say), *_unequal_doses(report, say),
        *_conditions(report, say),
    )  # fmt: skip


def _conditions(report: CampaignResults, say: Language) -> Iterator[str]:
    measured = sum(row.n_valid > 0 for row in report.rows)
    if len(report.varying) > 1 and 0 < measured < len(report.rows):
        yield say(
            "{n} of {all} treatments have a valid trial. Levels are compared over the conditions in which both have "
            "one.",
            n=say.integer(measured),
            all=say.integer(len(report.rows)),
        )


def _shared_cores(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a caveat if several CPUs of the host share a core and a neighbour used CPU time; otherwise nothing."""
    cores = report.provenance.cores
    if not cores.shared or not _has_cpu_neighbour(report):
        return
    words = {"cpus": "; ".join(cores.shared)}
    if cores.known_by == _CALIBRATION and cores.speed_beside:
        yield say(
            "CPUs {cpus} share a core, by a calibration: a loop on one runs at {speed} of its speed beside a loop on "
            "the other. What a neighbour takes is in part the core itself, and not time on a CPU.",
            speed=percent(min(cores.speed_beside.values()), say, decimals=0),
            **words,
        )
    else:
        yield say(
            "CPUs {cpus} share a core. What a neighbour takes is in part the core itself, and not time on a CPU.",
            **words,
        )


def _idle_cpus(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a caveat if a neighbour used CPU time and a metric is measured with paced packets.

    Idle CPUs halt between such packets. If a neighbour keeps CPUs busy, packets need not wait until a CPU wakes up. A
    constant of the study can keep CPUs awake while latency is measured, but not in any other phase."""
    if report.study.scenario != "chain" or not _has_cpu_neighbour(report):
        return
    awake = report.study.settings.get("cpus_idle") == "awake"
    names = [metric.name for metric in report.metrics if _paced(metric.name) and (metric.name == "jitter" or not awake)]
    if names:
        yield say(
            "CPUs halt between paced packets, and a neighbour that keeps them busy spares the packets the wake-up. So "
            "a part of what neighbours, and limits on them, change in {metrics} is not an effect on the function.",
            metrics=", ".join(names),
        )


def _few_cpus(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a caveat if a chain, or all chains together, have more instances than the host has CPUs."""
    most_in_a_row, instances, chains = 1, 0, 1
    for row in report.rows:
        if not row.n_valid:
            continue
        config = report.study.config(row.treatment.levels)
        in_a_row = 1
        if config.get("placement", "each") == "each":
            in_a_row = len(hops(str(config.get("function", "")))) * int(config.get("length", 1))
        n_chains = int(config.get("chains", 1))
        most_in_a_row, chains = max(most_in_a_row, in_a_row), max(chains, n_chains)
        instances = max(instances, n_chains * (in_a_row + _ENDS))
    n_cpus = report.provenance.host.cpus
    if not isinstance(n_cpus, int) or not n_cpus:
        return
    if most_in_a_row > 1 and most_in_a_row + _ENDS > n_cpus:
        yield say(
            "Up to {n} instances in a row share {cpus} CPUs. What a further hop costs includes that they take turns, "
            "so it also measures the scheduler; with more CPUs, it may be less.",
            n=most_in_a_row + _ENDS,
            cpus=say.integer(n_cpus),
        )
    if chains > 1 and instances > n_cpus:
        yield say(
            "Up to {n} instances of several chains share {cpus} CPUs. What the chains take from one another includes "
            "that they take turns, so it also measures the scheduler; with more CPUs, it may be less.",
            n=instances,
            cpus=say.integer(n_cpus),
        )


def _paced(metric: str) -> bool:
    """Return whether a metric of a chain is measured with paced packets, between which CPUs are idle."""
    return metric == "jitter" or (metric.startswith("latency_") and not metric.endswith("_loaded"))


def _unequal_doses(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a caveat if the neighbours of two levels that are compared did unequal work."""
    unequal = unequal_doses(doses_of(report))
    if unequal is None:
        return
    less, more, quantity = unequal.less, unequal.more, unequal.quantity
    yield say(
        "The neighbours did unequal work ({quantity}: {least} at {less}, {most} at {more}). A difference between the "
        "two includes that of their neighbours.",
        less=less.text,
        more=more.text,
        quantity=say(quantity.label),
        least=say.number(quantity.text(less.spreads[quantity.name].mean)),
        most=say.number(quantity.text(more.spreads[quantity.name].mean)),
    )


def _has_cpu_neighbour(report: CampaignResults) -> bool:
    cpus = (row.spreads.get("cpus") for row in doses_of(report).rows)
    return any(spread is not None and spread.greatest >= _CPU_NEIGHBOUR for spread in cpus)

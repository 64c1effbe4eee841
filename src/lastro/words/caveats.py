"""Caveats on key findings, such as shared cores that may explain an effect, and on the means of a metric. Pure.

What restricts the use of means is a second mode, and lost trials."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.doses import doses_of, unequal_doses
from lastro.analysis.model import LostTrials, MetricAnalysis
from lastro.stats.intervals import Interval
from lastro.stats.notes import N_
from lastro.study.levels import hops
from lastro.units import significant
from lastro.words.language import Language
from lastro.words.numbers import MINUS, mean_text, percent, ratio_text
from lastro.words.phrases import unit_suffix

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
    n, n_all = sum(row.n_valid > 0 for row in report.rows), len(report.rows)
    if len(report.varying) > 1 and 0 < n < n_all:
        text = N_(
            "{n} of {all} treatments have a valid trial. Levels are compared over the conditions in which both have "
            "one."
        )
        yield say(text, n=say.integer(n), all=say.integer(n_all))


def _shared_cores(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a caveat if several CPUs of the host share a core and a neighbour used CPU time; otherwise nothing."""
    cores = report.provenance.cores
    if not cores.shared or not _has_cpu_neighbour(report):
        return
    cpus = "; ".join(cores.shared)
    if cores.known_by == _CALIBRATION and cores.speed_beside:
        yield say(
            "CPUs {cpus} share a core, by a calibration: a loop on one runs at {speed} of its speed beside a loop on "
            "the other. What a neighbour takes is in part the core itself, and not time on a CPU.",
            cpus=cpus,
            speed=percent(min(cores.speed_beside.values()), say, decimals=0),
        )
    else:
        yield say(
            "CPUs {cpus} share a core. What a neighbour takes is in part the core itself, and not time on a CPU.",
            cpus=cpus,
        )


def _idle_cpus(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a caveat if a neighbour used CPU time and a metric is measured with paced packets.

    Idle CPUs halt between such packets. If a neighbour keeps CPUs busy, packets need not wait until a CPU wakes up. A
    constant of the study can keep CPUs awake while latency is measured, but not in any other phase."""
    if report.study.scenario != "chain" or not _has_cpu_neighbour(report):
        return
    awake = report.study.settings.get("cpus_idle") == "awake"
    latencies = () if awake else [m.name for m in report.metrics if m.name.startswith("latency_")]
    paced = {"jitter", *(name for name in latencies if not name.endswith("_loaded"))}
    if names := [metric.name for metric in report.metrics if metric.name in paced]:
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


MOST = 6  # treatments that are named

_HOLDS = {
    True: N_("The verdict is the same at both ends."),
    False: N_("The verdict is not the same at both ends: it depends on the lost trials."),
}


def mode_sentences(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield sentences on a second mode: trials whose values are far from all others of their treatment and block.

    They say how many trials, how far, and in which treatments. Nothing if the metric has no second mode."""
    modes, name = metric.second_mode, metric.metric.name
    if modes is None:
        return
    size = {"n": say.integer(modes.n), "trials": say.count(modes.trials, "trial"), "metric": name}
    size["share"] = percent(modes.n / modes.trials, say, decimals=1)
    size["sds"] = say.number(f"{modes.sds:.1f}")
    distance = significant(modes.distance, 2).replace("-", MINUS)
    if modes.relative:
        yield say(
            "A second mode: in {n} of {trials} ({share}), {metric} is about {ratio} times that of the others of "
            "the same treatment and block, {sds} standard deviations of the noise away.",
            ratio=say.number(distance),
            **size,
        )
    else:
        yield say(
            "A second mode: in {n} of {trials} ({share}), {metric} differs by about {difference} from the others of "
            "the same treatment and block, {sds} standard deviations of the noise.",
            difference=say.number(distance) + unit_suffix(metric.metric.unit, say),
            **size,
        )
    affected = [(treatment, n, trials) for treatment, n, trials in modes.counts if n]
    named = [
        say("{treatment} {n} of {all}", treatment=treatment.label, n=n, all=trials)
        for treatment, n, trials in affected[:MOST]
    ]
    yield say(
        "These trials are: {treatments}. A mean describes neither group, and in simulations 95 % intervals of such "
        "means hold the truth in 62 to 95 %: look at the points.",
        treatments="; ".join((*named, *_more(len(affected), say))),
    )


def lost_sentences(metric: MetricAnalysis, say: Language) -> Iterator[str]:
    """Yield a sentence with bounds for each treatment that lost many trials; after six, only count the treatments."""
    if not metric.lost:
        return
    for lost in metric.lost[:MOST]:
        yield " ".join(_lost(lost, say))
    yield from (f"{more[:1].upper()}{more[1:]}." for more in _more(len(metric.lost), say))
    yield say("Bounds hold if no lost trial was outside of the range of the valid trials of its treatment.")


def _more(n: int, say: Language) -> tuple[str, ...]:
    return (say("further treatments: {n}", n=say.integer(n - MOST)),) if n > MOST else ()


def _lost(lost: LostTrials, say: Language) -> Iterator[str]:
    """Yield how many trials a treatment lost, and bounds of its ratio or mean with the lost trials included."""
    words = {"treatment": lost.treatment.label, "n": say.integer(lost.lost), "trials": say.count(lost.trials, "trial")}
    words["and_baseline"] = (
        say(", and {n} of its baseline", n=say.integer(lost.baseline_lost)) if lost.baseline_lost else ""
    )
    if lost.bounds is not None and lost.ratio is not None:
        yield say(
            "{treatment}: {n} of {trials} lost{and_baseline}; the valid ones have a ratio of {ratio}, and with the "
            "lost ones it is between ×{low} and ×{high}.",
            ratio=ratio_text(lost.ratio, say),
            **_ends(lost.bounds, say),
            **words,
        )
        if lost.holds is not None:
            yield say(_HOLDS[lost.holds])
    elif lost.mean is not None and lost.summary is not None:
        yield say(
            "{treatment}: {n} of {trials} lost{and_baseline}; the valid ones have a mean of {mean}, and with the "
            "lost ones it is between {low} and {high}.",
            mean=mean_text(lost.summary, say),
            **_ends(lost.mean, say),
            **words,
        )
    else:
        yield say("{treatment}: {n} of {trials} lost{and_baseline}; too few are valid for bounds.", **words)


def _ends(bounds: Interval, say: Language) -> dict[str, str]:
    ends = {"low": bounds.low, "high": bounds.high}
    return {name: say.number(significant(end, 3).replace("-", MINUS)) for name, end in ends.items()}

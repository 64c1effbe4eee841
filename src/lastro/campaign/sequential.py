"""Campaigns whose number of blocks is not fixed, and sequential stopping: whether a campaign has enough blocks.

The decision depends only on the database, so a resumed campaign stops where an uninterrupted one would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lastro.results.looks import Look
from lastro.results.rows import Attempt
from lastro.results.segments import split_blocks
from lastro.results.store import Store
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.stopping import StoppingDecision, StoppingRule, decide_to_stop, relative_half_width
from lastro.study.design import Treatment, baseline_indices
from lastro.study.model import Study
from lastro.words.numbers import percent


@dataclass(frozen=True, slots=True)
class NextStep:
    """The decision whether a campaign that grows stops after its present blocks.

    `why` is the reason to continue, for the user. `events` are (kind, text) for the journal. `look` is the look to
    record, if any. Further blocks have only the treatments with an index in `kept`; all treatments if it is None."""

    stop: bool
    why: str
    events: tuple[tuple[str, str], ...] = ()
    look: Look | None = None
    kept: frozenset[int] | None = None


def next_step(store: Store) -> NextStep:
    """Decide whether a sequential campaign stops: its ratios are precise enough, or it has the maximum of blocks."""
    stopping = decision(store)
    events = (("sequential", reason(stopping)),) if stopping.stop else ()
    return NextStep(stopping.stop, "not precise enough yet", events)


def decision(store: Store) -> StoppingDecision:
    """Return the stopping decision of a sequential campaign after its present blocks."""
    study = store.study
    rule = StoppingRule(study.design.precision, study.design.max_replicates)
    treatments = [row.treatment for row in store.treatments()]
    attempts, _ = split_blocks(store.attempts(), store.segments())
    return decide_to_stop(rule, study.design.replicates, half_widths(study, treatments, attempts))


def is_finished(store: Store) -> bool:
    """Return whether a campaign has no remaining trials, and has also decided not to add a block.

    A process may be killed after the last trial of a block and before this decision."""
    design = store.study.design
    if store.next_trial() is not None:
        return False
    if design.sequential:
        return decision(store).stop
    looks = store.looks()
    return design.stopping == "fixed" or (bool(looks) and bool(looks[-1].stop))


def half_widths(study: Study, treatments: Sequence[Treatment], attempts: Iterable[Attempt]) -> dict[str, float]:
    """Return {"METRIC of TREATMENT": relative half width of the interval of its ratio to the baseline}.

    The metrics are those that the study requires to be precise. A ratio is left out if the treatment or its baseline
    has no valid trial with the metric, or if one of their values is only a lower bound: more blocks would not help."""
    names = study.design.precise_metrics or tuple(metric.name for metric in study.metrics)
    values: dict[tuple[int, str], dict[int, float]] = {}
    bounded: set[tuple[int, str]] = set()
    for attempt in attempts:
        if attempt.valid:
            for name in attempt.measurements.keys() & set(names):
                values.setdefault((attempt.treatment, name), {})[attempt.block] = attempt.measurements[name]
                if attempt.typed_notes.only_at_least(name):
                    bounded.add((attempt.treatment, name))
    widths = {}
    by_index = {treatment.index: treatment for treatment in treatments}
    for index, reference in baseline_indices(study, treatments).items():
        for name in names if index != reference else ():
            if bounded & {(index, name), (reference, name)}:
                continue
            treated, baseline = values.get((index, name), {}), values.get((reference, name), {})
            ratio = ratio_to_baseline(treated, baseline, study.design.confidence)
            if ratio is not None:
                widths[f"{name} of {by_index[index].label}"] = relative_half_width(ratio.value, ratio.interval)
    return widths


def reason(decision: StoppingDecision) -> str:
    """Return a decision as text: '17 blocks: narrow enough; widest: jitter of runc, ±4.8 %'."""
    why = f"{decision.blocks} blocks: {decision.reason}"
    if decision.widest is None:
        return why
    return f"{why}; widest: {decision.widest}, ±{percent(decision.half_width or 0.0, digits=2)}"

"""Sequential stopping: the decision whether a campaign has enough blocks.

The database alone decides, so that a resumed campaign stops where an uninterrupted one would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lastro.results.looks import Look
from lastro.results.rows import Attempt
from lastro.results.segments import apart
from lastro.results.store import Store
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.stopping import Decision, Rule, decide, relative_half_width
from lastro.study.design import Treatment, baseline_indices
from lastro.study.model import Study


@dataclass(frozen=True, slots=True)
class NextStep:
    """Whether a campaign that grows stops after its blocks so far, and why it does not, for those who watch it.

    `events` (kind, text) are for the journal. A `look` is recorded. More blocks have only the treatments that are
    `kept`; all if None."""

    stop: bool
    why: str
    events: tuple[tuple[str, str], ...] = ()
    look: Look | None = None
    kept: frozenset[int] | None = None


def next_step(store: Store) -> NextStep:
    """Decide whether the ratios of a campaign are precise enough, or more blocks are needed."""
    decided = decision(store)
    return NextStep(decided.stop, "not precise enough yet", (("sequential", reason(decided)),) if decided.stop else ())


def decision(store: Store) -> Decision:
    """Decide whether the ratios of a sequential campaign are precise enough after the blocks so far."""
    study = store.study
    rule = Rule(study.design.precision, study.design.max_replicates)
    treatments = [row.treatment for row in store.treatments()]
    return decide(
        rule, study.design.replicates, half_widths(study, treatments, apart(store.attempts(), store.segments())[0])
    )


def half_widths(study: Study, treatments: Sequence[Treatment], attempts: Iterable[Attempt]) -> dict[str, float]:
    """Return the relative half width of each treatment's ratio to its baseline, for each metric to be precise.

    A metric that was never measured on one side has no ratio, and one with a lower bound has no exact ratio. More
    blocks would not change that, so both are left out."""
    names = study.design.precise_metrics or tuple(metric.name for metric in study.metrics)
    values: dict[tuple[int, str], dict[int, float]] = {}
    bounded: set[tuple[int, str]] = set()
    for attempt in attempts:
        if attempt.valid:
            for name in attempt.measurements.keys() & set(names):
                values.setdefault((attempt.treatment, name), {})[attempt.block] = attempt.measurements[name]
                if attempt.noted.only_at_least(name):
                    bounded.add((attempt.treatment, name))
    widths = {}
    by_index = {treatment.index: treatment for treatment in treatments}
    for index, reference in baseline_indices(study, treatments).items():
        for name in names if index != reference else ():
            if bounded & {(index, name), (reference, name)}:
                continue
            own, other = (values.get((treatment, name), {}) for treatment in (index, reference))
            ratio = ratio_to_baseline(own, other, study.design.confidence)
            if ratio is not None:
                widths[f"{name} of {by_index[index].label}"] = relative_half_width(ratio.value, ratio.interval)
    return widths


def reason(decision: Decision) -> str:
    """Describe a decision: '17 blocks: narrow enough; widest: jitter of runc, ±4.8 %'."""
    widest = (
        "" if decision.widest is None else f"; widest: {decision.widest}, ±{100 * (decision.half_width or 0):.2g} %"
    )
    return f"{decision.blocks} blocks: {decision.reason}{widest}"

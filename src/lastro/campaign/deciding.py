"""A campaign that runs until its service levels are decided: the decision after its present blocks.

The decision depends only on the database and on the time that has passed, so a resumed campaign continues like an
uninterrupted one. With adaptive allocation, the next block has only the candidates that are still undecided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from lastro.analysis.build import build_report
from lastro.analysis.decision import SlaDecision, look_at
from lastro.campaign.sequential import NextStep
from lastro.grouping import by_key
from lastro.results.looks import Look, Stop, settled_by
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.looks import is_decision_made
from lastro.study.service_level import Cost
from lastro.words.language import ENGLISH
from lastro.words.looks import decision_state, stop_text, why_dropped


def next_step(store: Store, at_utc: str, passed_s: float) -> NextStep:
    """Look at the trials so far, and decide whether the campaign stops, or which treatments the next block has.

    `at_utc` is the time of the look, and `passed_s` the seconds that the campaign has taken. There is only one look
    after any number of blocks: if it has been recorded, the campaign stops, even if trials were repeated since."""
    data = load_campaign(store)
    if data.looks and data.looks[-1].block >= data.study.design.replicates:
        return NextStep(stop=True, why="")
    study, design = data.study, data.study.design
    needed = {*study.sla, *(Cost.of(study.cost, study.metrics).weights if study.cost else ())}
    metrics = tuple(metric for metric in study.metrics if metric.name in needed)
    report = build_report(replace(data, study=replace(study, metrics=metrics)))
    block, before = design.replicates, settled_by(data.looks, design.most_blocks)
    decision, after = look_at(report, block / design.most_blocks, before)
    gone = after.gone if design.allocation == "adaptive" else frozenset()
    treatments = [row.treatment for row in data.treatments]
    if decision is not None:
        treatments = [treatment for treatment in treatments if decision.candidate_of(treatment) not in gone]
    kept = frozenset(treatment.index for treatment in treatments)
    stop: Stop = ""
    if decision is not None and is_decision_made(decision.choice, after):
        stop = "decided"
    elif block >= design.most_blocks:
        stop = "most blocks"
    elif design.within_s and passed_s + block_s(store, kept) > design.within_s:
        stop = "time"
    choice = decision.choice if decision else None
    record = Look(
        block,
        at_utc,
        tuple(sorted(after.accepted)),
        tuple(sorted(after.rejected)),
        after.dropped[len(before.dropped) :],
        choice.recommended if choice else None,
        stop,
    )
    why = f"{block} blocks: {decision_state(decision, after.gone)}"
    return NextStep(bool(stop), why, tuple(_events(decision, record, why, adaptive=bool(gone))), record, kept)


def _events(decision: SlaDecision | None, look: Look, why: str, *, adaptive: bool) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each event of a look, to be logged in the campaign's journal."""
    ended = stop_text(look, ENGLISH)
    yield "look", f"{why}; {ended}" if ended else why
    if decision is not None:
        for dropped in look.dropped:
            label = decision.candidates[dropped.candidate].label
            yield "dropped" if adaptive else "settled", f"{label}: {why_dropped(decision, dropped, ENGLISH)}"


def block_s(store: Store, kept: frozenset[int] | None) -> float:
    """Return the seconds that a block is expected to take, from the mean duration of each treatment's attempts.

    `kept` are the indices of the treatments in the block; None means all."""
    took_s = by_key(store.durations())
    return sum(fmean(seconds) for treatment, seconds in took_s.items() if kept is None or treatment in kept)

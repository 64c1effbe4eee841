"""A campaign that runs until its service levels, or its variants, are decided: the decision after its present blocks.

The decision depends only on the database and on the time that has passed, so a resumed campaign continues like an
uninterrupted one. With adaptive allocation, the next block has only the candidates that are still undecided. After an
alarm about a variant, the campaign runs the same number of new blocks, and looks at them once, when all have run."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from lastro.analysis.build import build_report
from lastro.analysis.decision import look_at
from lastro.analysis.variants import judge_variants
from lastro.campaign.sequential import NextStep
from lastro.grouping import by_key
from lastro.results.looks import Look, Stop, settled_by
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.looks import is_decision_made
from lastro.stats.variants import new_blocks
from lastro.study.service_level import Cost
from lastro.words.language import ENGLISH
from lastro.words.looks import decision_state, stop_text, why_dropped
from lastro.words.variants import headline


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
    accepted, rejected = tuple(sorted(after.accepted)), tuple(sorted(after.rejected))
    new, best = after.dropped[len(before.dropped) :], choice.recommended if choice else None
    look = Look(block, at_utc, accepted, rejected, new, best, stop)
    why = f"{block} blocks: {decision_state(decision, after.gone)}"
    events = [("look", "; ".join(filter(None, (why, stop_text(look, ENGLISH)))))]
    if decision is not None:
        for dropped in new:
            text = f"{decision.candidates[dropped.candidate].label}: {why_dropped(decision, dropped, ENGLISH)}"
            events.append(("dropped" if gone else "settled", text))
    return NextStep(bool(stop), why, tuple(events), look, kept)


def block_s(store: Store, kept: frozenset[int] | None) -> float:
    """Return the seconds that a block is expected to take, from the mean duration of each treatment's attempts.

    `kept` are the indices of the treatments in the block; None means all."""
    took_s = by_key(store.durations())
    return sum(fmean(seconds) for treatment, seconds in took_s.items() if kept is None or treatment in kept)


def next_step_of_variants(store: Store, at_utc: str, passed_s: float) -> NextStep:
    """Look at the trials of the present blocks if a look is due, and decide whether the campaign stops.

    `at_utc` is the time of the look, and `passed_s` the seconds that the campaign has taken."""
    data = load_campaign(store)
    study, block, looks = data.study, data.study.design.replicates, data.looks
    test = study.test
    assert test is not None
    if looks and (looks[-1].stop or looks[-1].block >= block):
        return NextStep(stop=bool(looks[-1].stop), why="")
    alarm_block = next((look.block for look in looks if look.rejected), None)
    if alarm_block is None:
        first_block, last_block = test.first_look, test.last_look
    else:
        first_block = last_block = min(alarm_block + new_blocks(alarm_block), study.design.most_blocks)
    is_late = bool(study.design.within_s) and passed_s + block_s(store, None) > study.design.within_s
    if block < first_block and not is_late:
        why = "no look yet" if alarm_block is None else "an alarm is tried again"
        return NextStep(stop=False, why=f"{block} blocks: {why}")
    metrics = tuple(metric for metric in study.metrics if metric.name == test.metric)
    report = build_report(replace(data, study=replace(study, metrics=metrics)))
    look = Look(block, at_utc, (), (), (), None, "most blocks" if alarm_block else "")
    comparison = judge_variants(report, test, (*looks, look))
    verdicts = [comparison.verdict(pair) for pair in comparison.pairs]
    accepted = tuple(index for index, verdict in enumerate(verdicts) if verdict == "no worse")
    worse = tuple(index for index, verdict in enumerate(verdicts) if verdict == "worse")
    stop: Stop = "time" if is_late else ""
    if comparison.outcome in ("worse", "no worse"):
        stop = "decided"
    elif block >= last_block and (alarm_block or not worse):
        stop = "most blocks"
    look = replace(look, accepted=accepted, rejected=() if alarm_block else worse, stop=stop)
    comparison = replace(comparison, looks=(*looks, look), alarm=alarm_block or (block if worse else None))
    why = f"{block} blocks: {headline(comparison, ENGLISH)}"
    return NextStep(bool(stop), why, (("look", f"{why}; {stop_text(look, ENGLISH)}" if stop else why),), look)

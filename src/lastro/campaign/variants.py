"""A campaign of variants that runs until it is decided whether one is worse: the decision after its present blocks.

After an alarm, the campaign runs the same number of new blocks, and looks at them once, when all have run. The decision
depends only on the database, and on the time that has passed."""

from __future__ import annotations

from dataclasses import replace

from lastro.analysis.build import build_report
from lastro.analysis.variants import judge_variants
from lastro.campaign.deciding import block_s
from lastro.campaign.sequential import NextStep
from lastro.results.looks import Look, Stop
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.variants import new_blocks
from lastro.words.language import ENGLISH
from lastro.words.looks import stop_text
from lastro.words.variants import headline


def next_step(store: Store, at_utc: str, passed_s: float) -> NextStep:
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

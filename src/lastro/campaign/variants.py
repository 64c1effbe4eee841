"""A campaign of variants that runs until it is decided whether one is worse: what a look after its blocks decides.

After an alarm, new blocks follow, as many as it took; they are looked at once, when they are all there. The database
alone decides, except on the time that has passed."""

from __future__ import annotations

from dataclasses import replace

from lastro.analysis.build import build_report
from lastro.analysis.variants import answer
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
    """Look at the trials of the blocks so far, or go on to the next look. `passed_s` is the time of the campaign."""
    data = load_campaign(store)
    study, block, looks = data.study, data.study.design.replicates, data.looks
    test = study.test
    assert test is not None
    if looks and (looks[-1].stop or looks[-1].block >= block):
        return NextStep(stop=bool(looks[-1].stop), why="")
    raised = next((each.block for each in looks if each.rejected), None)
    ends = min(raised + new_blocks(raised), study.design.most_blocks) if raised else test.last_look
    late = bool(study.design.within_s) and passed_s + block_s(store, None) > study.design.within_s
    if block < (ends if raised else test.first_look) and not late:
        return NextStep(stop=False, why=f"{block} blocks: {'an alarm is tried again' if raised else 'no look yet'}")
    metrics = tuple(metric for metric in study.metrics if metric.name == test.metric)
    report = build_report(replace(data, study=replace(study, metrics=metrics)))
    seen = Look(block, at_utc, (), (), (), None, "most blocks" if raised else "")
    found = answer(report, test, (*looks, seen))
    verdicts = [found.verdict(pair) for pair in found.pairs]
    accepted, worse = (tuple(at for at, each in enumerate(verdicts) if each == kind) for kind in ("no worse", "worse"))
    stop: Stop = "time" if late else ""
    if found.outcome in ("worse", "no worse"):
        stop = "decided"
    elif block >= ends and (raised or not worse):
        stop = "most blocks"
    look = replace(seen, accepted=accepted, rejected=() if raised else worse, stop=stop)
    found = replace(found, looks=(*looks, look), alarm=raised or (block if worse else None))
    why = f"{block} blocks: {headline(found, ENGLISH)}"
    return NextStep(bool(stop), why, (("look", f"{why}; {stop_text(look, ENGLISH)}" if stop else why),), look)

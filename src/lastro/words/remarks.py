"""The wording of the marks that follow numbers: a sign, a short meaning for legends, and a sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import lastro.results.samples as samples
from lastro.analysis.remarks import ALIASED, FEWER_BLOCKS, LOST_TRIALS, SECOND_MODE, Mark
from lastro.analysis.remarks import KINDS as KNOWN
from lastro.stats.notes import N_
from lastro.words.language import Language

_UNKNOWN = "*"
_SIGNS = dict(zip(KNOWN, "†‡§¶°↻‖⁺≫⊘⊕⊖∞≠⊗⊙∩∅⁑≡", strict=True))
KINDS = (
    N_("generator-limited"), N_("through a cache"), N_("wrong clock"), N_("clock not verified"),
    N_("too short to time"), N_("closed loop"), N_("peak of a whole life"), N_("at least"),
    N_("overloaded"), N_("generator delay"), N_("segments beyond the MTU"), N_("too few packets"),
    N_("among lost packets"), N_("other traffic"), N_("goal not met"), N_("memory given back"), N_("fewer blocks"),
    N_("lost trials"), N_("second mode"), N_("aliased"),
)  # fmt: skip
MEANINGS = {
    samples.GENERATOR_LIMITED: N_(
        "the load generator was the bottleneck, not the system under test (the rate was no higher without that "
        "system: by plain forwarding, or on the bare host; or the generator sent less than it was asked for), so the "
        "rate is a lower bound of what the system can carry."
    ),
    samples.THROUGH_CACHE: N_(
        "a cache may hide what is measured (the page cache hides a disk, the processor’s caches hide memory), so the "
        "value may be that of the cache."
    ),
    samples.WRONG_CLOCK: N_(
        "the instance’s clock ran at a different rate from the host’s, so times measured with it were dropped; times "
        "measured by the host are valid."
    ),
    samples.CLOCK_NOT_VERIFIED: N_(
        "timed by the clock of a foreign kernel, whose rate could not be verified; times measured by the host do not "
        "depend on it."
    ),
    samples.TOO_SHORT: N_(
        "the work was too short: less than five times a message to the instance, whose variation then affects the "
        "time, or less than the tool needs to compute a rate. If a trial of a treatment has no value for this reason, "
        "no mean of the others is shown, because they would be a selection."
    ),
    samples.CLOSED_LOOP: N_(
        "each client sent its next request only after it had the answer, so a slow server received fewer requests, "
        "and requests that would have had to wait were never sent; an open loop sends at a fixed rate, and counts "
        "each time from when the request was due."
    ),
    samples.WHOLE_LIFE: N_(
        "the host could not measure the peak under the workload alone: this is the peak since the instance’s start, "
        "including the preparation of the workload (before Linux 5.19, the amount in use at the end)."
    ),
    samples.AT_LEAST: N_(
        "the number is a lower bound: the search ended before it found a limit, by the study or by the generator, or "
        "packets without an answer are not in a maximum; if time ran out in a search for instances, it shows how fast "
        "they start, not how many the host can run. Without a limit, an interval has no upper end; if any trial has "
        "none, no mean of the others is shown."
    ),
    samples.OVERLOADED: N_(
        "requests came faster than they were answered, so more and more of them waited: the times grow with the "
        "duration of the load, and show the queue, not the time of one request."
    ),
    samples.GENERATOR_DELAY: N_(
        "the generator’s own delay may make up too much of this percentile, a tenth of a request’s time or half of a "
        "packet’s, or the generator’s receiver lost the packets: the value was dropped."
    ),
    samples.LARGE_SEGMENTS: N_(
        "the links’ offloads gave the function segments larger than the MTU, so it worked once for each segment, not "
        "once for each frame. On a wire without offloads, the rate would be lower. The metric frame_size "
        'is their mean size; the setting offloads = "off" measures without them.'
    ),
    samples.TOO_FEW: N_(
        "fewer than ten packets of the trial lie beyond this percentile, so it would be the time of a few: the value "
        "was dropped. A longer measurement, or a higher load, has more packets. If a trial of a treatment has no value "
        "for this reason, no mean of the others is shown, because they would be a selection."
    ),
    samples.AMONG_LOST: N_(
        "so many packets got no answer that this percentile lies among the lost ones, which have no time: the value "
        "was dropped. A percentile of the answered packets alone would hide them."
    ),
    samples.OTHER_TRAFFIC: N_(
        "latency is measured on a single chain with one flow of frames of one size over IPv4, in one direction: this "
        "treatment’s traffic is another, so it has no latency."
    ),
    samples.GOAL_NOT_MET: N_(
        "in some trial, no load of the search met this goal, or the PDR that this value needs: too many frames were "
        "lost even at the smallest. No mean of the other trials is shown, because they would be a selection."
    ),
    samples.GIVEN_BACK: N_(
        "the host had more memory available in this phase than before the network was started: other programs gave "
        "memory back, so the memory of the phase is not the network’s alone, and no growth is computed from it. If a "
        "trial has no growth for this reason, no mean of the other trials is shown, because they would be a selection."
    ),
    FEWER_BLOCKS: N_(
        "trials are missing, so the ratio is over fewer blocks than the mean: only those with a valid trial of both "
        "the treatment and its baseline."
    ),
    LOST_TRIALS: N_(
        "more than a tenth of the finished trials have no valid value: if they were lost because of what they "
        "measured, the mean and its ratio are biased. The statistics of a report give bounds."
    ),
    SECOND_MODE: N_(
        "some trials lie far apart from the others of the same treatment and block, as if the host had been in another "
        "state: a mean then describes neither group. The statistics of a report name the treatments."
    ),
    ALIASED: N_(
        "the study is a fraction of its factorial design, in which this effect is measured together with others: the "
        "number is their sum. The section on the study names them."
    ),
}
SHORT = {
    samples.GENERATOR_LIMITED: N_("generator-limited: a lower bound"),
    samples.THROUGH_CACHE: N_("a cache may hide what is measured"),
    samples.WRONG_CLOCK: N_("timed by a wrong clock: dropped"),
    samples.CLOCK_NOT_VERIFIED: N_("timed by an unverified clock"),
    samples.TOO_SHORT: N_("too short to time"),
    samples.CLOSED_LOOP: N_("a closed loop, which hides queueing"),
    samples.WHOLE_LIFE: N_("the peak since its start, not of the workload alone"),
    samples.AT_LEAST: N_("at least this much: a lower bound"),
    samples.OVERLOADED: N_("more requests than answers: times grow as the load lasts"),
    samples.GENERATOR_DELAY: N_("the generator’s own delay: dropped"),
    samples.LARGE_SEGMENTS: N_("the function received segments larger than the MTU"),
    samples.TOO_FEW: N_("fewer than ten packets beyond it: dropped"),
    samples.AMONG_LOST: N_("the percentile of lost packets: dropped"),
    samples.OTHER_TRAFFIC: N_("no latency of this traffic"),
    samples.GOAL_NOT_MET: N_("no load met the goal: dropped"),
    samples.GIVEN_BACK: N_("other programs gave back more memory than the network took"),
    FEWER_BLOCKS: N_("the ratio is over fewer blocks than the mean"),
    LOST_TRIALS: N_("more than a tenth of the trials lost"),
    SECOND_MODE: N_("some trials lie apart, a second mode: the interval of the mean holds less often than it says"),
    ALIASED: N_("in this fraction of the design, the sum of several effects"),
}


def sign(kind: str) -> str:
    """Return the sign of a kind of mark, such as '†'; '*' for a kind that only a scenario knows."""
    return _SIGNS.get(kind, _UNKNOWN)


def signs(marks: Iterable[Mark]) -> str:
    """Return the signs of marks, after a space, to follow a number: ' †‡'; empty without marks."""
    return signs_of(mark.kind for mark in marks)


def signs_of(kinds: Iterable[str]) -> str:
    """Return the signs of kinds of marks, each sign once, after a space: ' †‡'; empty without kinds."""
    text = "".join(dict.fromkeys(map(sign, kinds)))
    return f" {text}" if text else ""


def meaning(kind: str, say: Language) -> str:
    """Return the meaning of a kind of mark as a sentence; 'a remark of the scenario.' if only a scenario knows it."""
    return say(MEANINGS[kind]) if kind in MEANINGS else say("a remark of the scenario.")


def short(kind: str, say: Language) -> str:
    """Return a sign with its short meaning, for the legend of a figure: '‡ a cache may hide what is measured'."""
    return f"{sign(kind)} {say(SHORT[kind]) if kind in SHORT else kind}"

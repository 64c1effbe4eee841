"""The document on the status of a campaign or a suite, from what `lastro status --json` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lastro.analysis.campaign import MeasuredIn
from lastro.document import Block, CommandLine, Items, Table, Title
from lastro.stats.notes import N_
from lastro.units import human_duration
from lastro.words.campaign import of_guest, when
from lastro.words.estimates import numeric
from lastro.words.language import Language
from lastro.words.phrases import said_once

Facts = Mapping[str, Any]
_COUNTS = {
    "valid": N_("{n} valid"),
    "invalid": N_("{n} invalid"),
    "unavailable": N_("{n} unavailable"),
    "running": N_("{n} running"),
    "pending": N_("{n} pending"),
}


def status_blocks(facts: Facts, say: Language) -> Iterator[Block]:
    """Yield how far a campaign is, what happened last, its testbeds, and the next command."""
    yield _title(facts["title"] or facts["study"], facts["profile"], say)
    yield Items((*_of_guests([("", facts)], say), *_progress(facts, say), *_now(facts, say)))
    if testbeds := facts.get("testbeds"):
        columns = (say("testbed"), say("blocks"), say("valid"), say("now in block"))
        yield Table("testbeds", "", columns, tuple(_testbed(each, say) for each in testbeds), numeric(1, 3))
    if not facts["running"]:
        yield CommandLine(say("next"), facts["next"])


def _testbed(testbed: Facts, say: Language) -> tuple[str, ...]:
    blocks, valid = (say.integer(testbed[key]) for key in ("blocks", "valid_trials"))
    return testbed["name"], blocks, valid, str(testbed["block"] or "·")


def _title(text: str, profile: str | None, say: Language) -> Title:
    return Title(say("{title} (profile {profile})", title=text, profile=profile) if profile else text)


def _of_guests(measured: Sequence[tuple[str, Facts]], say: Language) -> Iterator[str]:
    """Yield in which guests campaigns are measured, from their names and statuses; nothing for real hosts."""
    guests = ((name, MeasuredIn(**facts["guest"]) if facts["guest"] else None) for name, facts in measured)
    return said_once(((name, of_guest(guest, say)) for name, guest in guests), say, len(measured))


def _progress(facts: Facts, say: Language) -> Iterator[str]:
    counts = facts["counts"]
    yield _bar(counts, say)
    yield ", ".join(say(_COUNTS[state], n=say.integer(n)) for state, n in counts.items() if n)
    grows = {
        "sequential": N_("sequential: blocks are added until every ratio is precise, {most} at most"),
        "decided": N_("blocks are added until the decision is made, {most} at most"),
    }
    if facts["stopping"] in grows:
        yield say(grows[facts["stopping"]], most=facts["most_replicates"])
    for text in facts["dropped"]:
        yield say("dropped: {text}", text=text)
    if facts["invalid_attempts"]:
        n, total = say.integer(facts["invalid_attempts"]), say.count(facts["attempts"], "attempt")
        yield say("{n} of {attempts} were invalid and set aside", n=n, attempts=total)


def _bar(counts: Mapping[str, int], say: Language) -> str:
    """Return a bar of the trials with a verdict among those that can run here, as the running campaign shows it."""
    done = counts["valid"] + counts["invalid"]
    trials = sum(counts.values()) - counts["unavailable"]
    share = done / trials if trials else 1.0
    bar = f"{'█' * int(30 * share)}{'░' * (30 - int(30 * share))}"
    n = say("{n} of {all}", n=say.integer(done), all=say.count(trials, "trial"))
    return f"{bar}  {n} ({share:.0%})"


def _now(facts: Facts, say: Language) -> Iterator[str]:
    if event := facts["last_event"]:
        yield say("last event: {at} {kind}: {text}", at=event["at_utc"], kind=say(event["kind"]), text=event["text"])
    if running := facts["running"]:
        yield say("running: process {pid}, since {since} UTC", pid=running["pid"], since=when(running["since_utc"]))
    yield from _to_go(facts, say)


def _to_go(facts: Facts, say: Language) -> Iterator[str]:
    if facts["remaining_s"]:
        yield say("about {time} to go, if nothing is repeated", time=human_duration(facts["remaining_s"]))


# Of a suite


def suite_status_blocks(facts: Facts, say: Language) -> Iterator[Block]:
    """Yield how far a suite and each of its studies are, and why some stopped."""
    members = facts["studies"]
    yield _title(facts["title"] or facts["suite"], facts["profile"], say)
    measured = [(member["suite_study"], member) for member in members if member["begun"]]
    yield Items((*_of_guests(measured, say), _bar(facts["counts"], say)))
    columns = (say("study"), *map(say, facts["counts"]), "")
    yield Table("studies", "", columns, tuple(_row(member, say) for member in members), numeric(1, len(columns) - 1))
    yield Items(tuple(line for member in members for line in _why_stopped(member, say)))
    yield Items(tuple(_to_go(facts, say)))


def _row(member: Facts, say: Language) -> tuple[str, ...]:
    left_s = member["remaining_s"]
    state = say("finished") if member["finished"] else say("unfinished")
    if left_s and not member["finished"]:
        state = say("{time} to go", time=human_duration(left_s))
    if member["stopped"]:
        state = say("stopped, {state}", state=state) if member["midway"] else say("could not run")
    elif member.get("running") and not member["finished"]:
        state = say("running, {state}", state=state)
    elif not member["begun"]:
        state = say("not begun, {state}", state=state)
    return (member["suite_study"], *(str(n or "·") for n in member["counts"].values()), state)


def _why_stopped(member: Facts, say: Language) -> Iterator[str]:
    if not member["stopped"]:
        return
    words = N_("{study} was ended by an error: {why}") if member["midway"] else N_("{study} could not run: {why}")
    yield say(words, study=member["suite_study"], why=member["stopped"])
    if member["remedy"]:
        yield f"  {say('remedy: {remedy}', remedy=member['remedy'])}"

"""The document on the status of a campaign or a suite, from the object that `lastro status --json` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from lastro.analysis.campaign import MeasuredIn
from lastro.document import Block, CommandLine, Grid, GridCell, GridRow, Items, Paragraph, Span, Table, Title
from lastro.errors import LastroError
from lastro.stats.notes import N_
from lastro.units import human_duration
from lastro.words.campaign import counts_text, guest_sentences, when
from lastro.words.estimates import number_text, numeric
from lastro.words.language import Language
from lastro.words.numbers import percent
from lastro.words.opening import many_invalid_warning
from lastro.words.phrases import merged_sentences

Facts = Mapping[str, Any]  # the status of a campaign, a suite or a testbed, as `lastro status --json` prints it
_BAR = 24  # characters, which fit on a telephone


def status_document(facts: Facts, say: Language) -> Iterator[Block]:
    """Yield the status of a campaign or a suite, and the next command."""
    if "studies" in facts:
        yield from suite_status_blocks(facts, say)
    else:
        yield from _status_blocks(facts, say)
    if not facts.get("running"):
        yield CommandLine(say("next"), facts["next"])


def _status_blocks(facts: Facts, say: Language) -> Iterator[Block]:
    """Yield the progress of a campaign, what runs now, its testbeds, and its latest valid and invalid trials."""
    yield _title(facts["title"] or facts["study"], facts, say)
    yield Items((*_of_guests([("", facts)], say), *_progress(facts, say), *_now(facts, say)))
    if testbeds := facts.get("testbeds"):
        columns = (say("testbed"), say("blocks"), say("valid"), say("now in block"))
        beds = tuple(
            (bed["name"], say.integer(bed["blocks"]), say.integer(bed["valid_trials"]), str(bed["block"] or "·"))
            for bed in testbeds
        )
        yield Table("testbeds", "", columns, beds, numeric(1, 3))
    if live := facts["live"]:
        rows = tuple(_latest(trial, say) for trial in live["latest"])
        names = (say("trial"), say("treatment"), say("metric"), say("value"), say("mean of the earlier trials"))
        yield Table("latest", say("Latest valid trials"), names, rows, frozenset({0, 3}), whole=True)
        words = N_("trial {trial}, attempt {attempt}, {treatment}: {why}")
        invalid = tuple(say(words, **{**attempt, "why": "; ".join(attempt["reasons"])}) for attempt in live["invalid"])
        yield Items(invalid, title=say("Latest invalid attempts"))


def _latest(trial: Facts, say: Language) -> tuple[str, ...]:
    value, earlier = f"{number_text(trial['value'], say)} {trial['unit']}".rstrip(), "·"
    if summary := trial["earlier"]:
        mean, low, high = (number_text(summary[key], say) for key in ("mean", "min", "max"))
        trials = say.count(summary["n"], "trial")
        words = N_("{mean} ({low} to {high}, {trials})") if summary["n"] > 1 else "{mean} ({trials})"
        earlier = say(words, mean=mean, low=low, high=high, trials=trials)
    return str(trial["trial"]), trial["treatment"], trial["metric"], value, earlier


def _title(text: str, facts: Facts, say: Language) -> Title:
    if facts["profile"]:
        text = say("{title} (profile {profile})", title=text, profile=facts["profile"])
    (done, trials), left_s = _done(facts["counts"]), facts["remaining_s"]
    tiles = [(f"{say.integer(done)} / {say.integer(trials)}", say("trials done"), "")]
    tiles += [(human_duration(left_s), say("to go"), "")] if left_s else []
    return Title(text, tiles=tuple(tiles))


def _of_guests(measured: Sequence[tuple[str, Facts]], say: Language) -> Iterator[str]:
    """Yield which campaigns run in which guests; nothing for real hosts. `measured` are (name, its status)."""
    guests = ((name, MeasuredIn(**facts["guest"]) if facts["guest"] else None) for name, facts in measured)
    return merged_sentences(((name, guest_sentences(guest, say)) for name, guest in guests), say, len(measured))


def _progress(facts: Facts, say: Language) -> Iterator[str]:
    counts = facts["counts"]
    yield _bar(counts, say)
    yield counts_text(counts, say)
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
    """Return a progress bar: how many of the trials that can run here are valid or invalid, as in `lastro run`."""
    done, trials = _done(counts)
    share = done / trials if trials else 1.0
    bar = f"{'█' * int(_BAR * share)}{'░' * (_BAR - int(_BAR * share))}"
    n = say("{n} of {all}", n=say.integer(done), all=say.count(trials, "trial"))
    return f"{bar}  {n} ({percent(share, say, decimals=0)})"


def _done(counts: Mapping[str, int]) -> tuple[int, int]:
    """Return how many trials are valid or invalid, and how many trials can run on this host."""
    return counts["valid"] + counts["invalid"], sum(counts.values()) - counts["unavailable"]


def _now(facts: Facts, say: Language) -> Iterator[str]:
    """Yield what runs now, the last decision and event, the process that runs the campaign, and the remaining time."""
    live = facts["live"] or {"trials": (), "probing": False, "look": None}
    for trial in live["trials"]:
        words = N_("now: trial {trial} in block {block}, attempt {attempt}: {treatment}")
        yield say(words, **trial)
        if trial["calibrating"]:
            yield say("calibrating first: {key}", key=trial["calibrating"])
    if live["probing"]:
        yield say("now: probing what can run here")
    if live["look"]:
        yield say("decision: {standing}", standing=live["look"])
    if event := facts["last_event"]:
        yield say("last event: {at} {kind}: {text}", at=event["at_utc"], kind=say(event["kind"]), text=event["text"])
    if running := facts["running"]:
        yield say("running: process {pid}, since {since} UTC", pid=running["pid"], since=when(running["since_utc"]))
    yield from _to_go(facts, say)


def _to_go(facts: Facts, say: Language) -> Iterator[str]:
    if facts["remaining_s"]:
        yield say("about {time} to go, if nothing is repeated", time=human_duration(facts["remaining_s"]))


def suite_status_blocks(facts: Facts, say: Language) -> Iterator[Block]:
    """Yield the progress of a suite and of each of its studies, and why studies stopped."""
    members = facts["studies"]
    yield _title(facts["title"] or facts["suite"], facts, say)
    measured = [(member["suite_study"], member) for member in members if member["begun"]]
    yield Items((*_of_guests(measured, say), _bar(facts["counts"], say)))
    columns = (say("study"), *map(say, facts["counts"]), "")
    yield Table("studies", "", columns, tuple(_row(member, say) for member in members), numeric(1, len(columns) - 1))
    lines = []
    for member in filter(itemgetter("stopped"), members):
        words = N_("{study} was ended by an error: {why}") if member["midway"] else N_("{study} could not run: {why}")
        lines.append(say(words, study=member["suite_study"], why=member["stopped"]))
        lines += [f"  {say('remedy: {remedy}', remedy=member['remedy'])}"] if member["remedy"] else []
    yield Items(tuple(lines))
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


def suite_conclusion(facts: Facts, directory: str, say: Language) -> Iterator[Block]:
    """Yield the status of a suite that has just run, and the commands that print its results.

    `directory` is that of the suite, quoted for a shell."""
    yield from suite_status_blocks(facts, say)
    yield CommandLine(say("tables"), f"lastro results {directory}")
    yield CommandLine(say("verdicts on the claims"), f"lastro claims {directory}")


def suite_warnings(facts: Facts, say: Language) -> Iterator[str]:
    """Yield which studies of a suite stopped, and a warning for each study with many invalid trials."""
    members = facts["studies"]
    for text, midway in ((N_("did not run here: {studies}"), False), (N_("ended by an error: {studies}"), True)):
        if names := [member["suite_study"] for member in members if member["stopped"] and member["midway"] is midway]:
            yield say(text, studies=", ".join(names))
    for member in members:
        if warning := many_invalid_warning(member["counts"], say):
            yield say("study {study}: {warning}", study=member["suite_study"], warning=warning)


# A directory of campaigns, as `lastro serve` shows it


@dataclass(frozen=True, slots=True)
class ListedCampaign:
    """A campaign or a suite in the list of a directory, with the address of its page.

    `facts` is its status; None if it cannot be read, for the reason `problem`."""

    name: str
    address: str
    facts: Facts | None
    problem: str = ""


def list_blocks(directory: str, listed: Sequence[ListedCampaign], history: str, say: Language) -> Iterator[Block]:
    """Yield a table of the campaigns in a directory, each with its state, its trials and the remaining time.

    `history` is the address of the page on their history; empty if there is none."""
    yield Title(say("Campaigns in {directory}", directory=directory))
    yield Paragraph((Span(say("The history"), link=history),) if history else "")
    if not listed:
        yield Paragraph(say("There are no campaigns here yet: `lastro run` writes them."))
    columns = (say("name"), say("state"), say("done"), say("to go"))
    head = tuple(GridCell(((Span(text),),), head=True, right=at > 1) for at, text in enumerate(columns))
    yield Grid(head, tuple(_listed(campaign, say) for campaign in listed), ())


def _listed(campaign: ListedCampaign, say: Language) -> GridRow:
    name = Span(campaign.name, link=campaign.address)
    if (facts := campaign.facts) is None:
        why = GridCell(((Span(campaign.problem),),), columns=3, absent=True)
        return GridRow((GridCell(((name,),), head=True), why))
    (done, trials), left_s = _done(facts["counts"]), facts["remaining_s"]
    state = say("unfinished")
    if facts["finished"]:
        state = say("finished")
    elif any(member.get("running") for member in campaigns_of(facts)):
        state = say("running")
    texts = (
        say("{n} of {all}", n=say.integer(done), all=say.integer(trials)),
        human_duration(left_s) if left_s else "·",
    )
    cells = [GridCell(((Span(text),),), right=True) for text in texts]
    title = (Span(facts["title"], "dim"),)
    named = GridCell(((name,), title) if facts["title"] else ((name,),), head=True)
    return GridRow((named, GridCell(((Span(state),),)), *cells))


def campaigns_of(facts: Facts) -> Sequence[Facts]:
    """Return the status of each study of a suite; for a campaign, a list with only `facts`."""
    studies: Sequence[Facts] = facts.get("studies", [facts])
    return studies


def links(report: bool, studies: Sequence[tuple[str, str]], say: Language) -> Paragraph:
    """Return a line of links: to the report, if `report` is true, and to the studies of a suite: (name, address)."""
    named = [(say("The report"), "report.html")] if report else []
    spans = [span for name, link in (*named, *studies) for span in (Span(" · "), Span(name, link=link))]
    return Paragraph(tuple(spans[1:]))


def problem_blocks(name: str, problem: LastroError | None) -> Iterator[Block]:
    """Yield the page of a campaign or a history that cannot be read."""
    yield Title(name)
    if problem:
        yield Paragraph(problem.message)
        yield Paragraph(problem.hint or "", dim=True)

"""The sentences of a report, made from its data: what was compared, how many trials are valid, and the limitations."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from lastro.analysis.campaign import CampaignResults, MeasuredIn
from lastro.analysis.host_facts import compare_members
from lastro.analysis.properties import PropertyTable
from lastro.results.provenance import HostFacts
from lastro.results.samples import MAX_ATTEMPTS, Metric
from lastro.stats.contrasts import NO_SPREAD
from lastro.stats.intervals import BOTH_ARE_BOUNDS, RATIO_IS_BOUND, Estimate
from lastro.stats.notes import N_, Note
from lastro.units import human_bytes, human_duration
from lastro.words.language import Language
from lastro.words.numbers import direction_text, percent
from lastro.words.remarks import meaning, sign

_MOST_LINKS = 3  # treatments to name


def summary(report: CampaignResults, say: Language) -> str:
    """Return a paragraph: what was compared, how many trials are valid, and on which host and when they ran."""
    study, progress = report.study, report.progress
    factors = " × ".join(f"{factor.name} ({len(factor.levels)})" for factor in report.varying)
    compared = say.count(len(report.rows), "treatment") + (f": {factors}" if factors else "")
    blocks = say.count(study.design.replicates, "randomised block")
    ran = N_("This campaign ran the scenario “{scenario}” to compare {compared}, in {blocks}.")
    if report.members and not report.of_fleet:
        ran = N_("These campaigns ran the scenario “{scenario}” to compare {compared}, in {blocks}.")
    sentences = [
        say(ran, scenario=study.scenario, compared=compared, blocks=blocks),
        *premises(report, say),
        _tally(report, say),
    ]
    if where := host_line(report.provenance.host, say):
        sentences.append(say("Host: {host}.", host=where))
    if progress.first_utc and progress.last_utc:
        first, last = when(progress.first_utc), when(progress.last_utc)
        span = say("on {when}", when=first) if first == last else say("from {first} to {last}", first=first, last=last)
        spent = human_duration(progress.measured_s)
        sentences.append(say("Measured {span} UTC, {duration} of trials.", span=span, duration=spent))
    return " ".join(sentences)


def premises(report: CampaignResults, say: Language) -> tuple[str, ...]:
    """Return sentences to read before any number: changes of the study, a guest, and several campaigns or testbeds."""
    changes = report.study.changes
    sentences = [say("The study was changed by {options}.", options=shlex.join(changes))] if changes else []
    return (*sentences, *guest_sentences(report.guest, say), *_several_campaigns(report, say))


def guest_sentences(guest: MeasuredIn | None, say: Language) -> Iterator[str]:
    """Yield a sentence that the host, or some of several hosts, was a virtual machine; nothing if `guest` is None."""
    if guest is None:
        return
    if isinstance(guest.title, Note):
        sentence = N_("Measured in guests: {guest}. The figures in them are those of virtual machines.")
        if guest.emulated:
            sentence = N_(
                "Measured in guests: {guest}. Times and rates in an emulated guest are not comparable with those of "
                "any host. Ratios within it compare treatments under emulation, which may slow one of them down more "
                "than another."
            )
        yield say(sentence, guest=say.note(guest.title))
    elif guest.emulated:
        yield say(
            "Measured in {guest}: times and rates are not comparable with those of any host. Ratios compare "
            "treatments under emulation, which may slow one of them down more than another.",
            guest=guest.title,
        )
    else:
        yield say("Measured in {guest}: the figures are those of a virtual machine.", guest=guest.title)


def place(report: CampaignResults, say: Language) -> str:
    """Return where a campaign ran, for captions: 'in a guest' or 'in an emulated guest'; empty for a real host."""
    return place_of([report.guest], say)


def place_of(places: Sequence[MeasuredIn | None], say: Language) -> str:
    """Return where several measurements ran, in the words of `place`; None in `places` is a real host.

    If they ran on different kinds of host, return 'partly in a guest' or 'partly in an emulated guest'."""
    guests = [guest for guest in places if guest is not None]
    if not guests:
        return ""
    emulated = any(guest.emulated for guest in guests)
    if len(guests) < len(places) or any(guest.partly or guest.emulated != emulated for guest in guests):
        return say("partly in an emulated guest") if emulated else say("partly in a guest")
    return say("in an emulated guest") if emulated else say("in a guest")


def title_with_place(title: str, place: str) -> str:
    """Return the title of a table or figure, followed by `place`; only the title if `place` is empty."""
    return f"{title}, {place}" if title and place else title


def _several_campaigns(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield sentences on a report over several campaigns or testbeds; nothing for one campaign.

    They say what is combined, how the machines differ, and how ratios are made."""
    if (across := compare_members(report)) is None:
        return
    fleet = report.of_fleet
    yield (_testbeds if fleet else _campaigns)(report, say)
    if across.other_machine:
        other = N_("WARNING: The machines differ, so ratios across campaigns compare machines, too.")
        if fleet:
            other = N_("WARNING: The machines differ, so means over testbeds are of several machines.")
        yield say(other)
    if across.differing:
        unknown = say("not recorded")
        facts = [
            f"{say(name)} ({' / '.join(v or unknown for v in values)})" for name, values in across.differing.items()
        ]
        differ = N_("The testbeds differ in: {facts}.") if fleet else N_("The campaigns differ in: {facts}.")
        yield say(differ, facts="; ".join(facts))
    if across.more:
        yield say("Other recorded facts that differ: {names}.", names=", ".join(across.more))
    if fleet:
        yield say(
            "Each block was measured on one testbed, so ratios compare treatments within testbeds. The intervals hold "
            "for these testbeds; `lastro pool` estimates what another one will show. Trends are not computed over "
            "several testbeds."
        )
        return
    if not across.links:
        yield say("They have no treatment in common, so treatments of different campaigns are not compared.")
        return
    links = "; ".join(treatment.label for treatment in across.links[:_MOST_LINKS])
    yield say(
        "Treatments of different campaigns are compared through what several campaigns measured: {treatments}. "
        "No interval covers a change between the campaigns that affected only some treatments. Trends are in "
        "the report of each campaign.",
        treatments=links if len(across.links) <= _MOST_LINKS else f"{links}; … ({len(across.links)})",
    )


def _campaigns(report: CampaignResults, say: Language) -> str:
    listed = []
    for member in report.members:
        text = N_("{directory} (blocks {blocks}, trials {trials})")
        if member.changes:
            text = N_("{directory} (blocks {blocks}, trials {trials}; changed by {options})")
        blocks, trials, options = _span(member.blocks), _span(member.trials), shlex.join(member.changes)
        listed.append(say(text, directory=member.directory, blocks=blocks, trials=trials, options=options))
    return say("The numbers are of {n} campaigns: {list}.", n=say.integer(len(listed)), list="; ".join(listed))


def _span(numbers: Collection[int]) -> str:
    return f"{min(numbers)}–{max(numbers)}" if numbers else "–"


def _testbeds(report: CampaignResults, say: Language) -> str:
    valid = Counter(attempt.block for attempt in report.attempts if attempt.valid)
    listed = []
    for member in report.members:
        blocks, trials = len(member.blocks), sum(valid[block] for block in member.blocks)
        counts = {"blocks": say.count(blocks, "block"), "trials": say.count(trials, "valid trial")}
        listed.append(say("{name} ({blocks}, {trials})", name=member.directory, **counts))
    return say("The numbers are of {n} testbeds: {list}.", n=say.integer(len(listed)), list="; ".join(listed))


def _tally(report: CampaignResults, say: Language) -> str:
    """Return a sentence with the numbers of valid, invalid, unavailable and waiting trials, and of invalid attempts."""
    progress = report.progress
    states = (
        (N_("{n} yielded a valid result"), progress.counts.get("valid", 0)),
        (N_("{n} stayed invalid"), progress.counts.get("invalid", 0)),
        (N_("{n} cannot run on this host"), progress.counts.get("unavailable", 0)),
        (N_("{n} have not run yet"), waiting(report)),
    )
    parts = ", ".join(say(words, n=say.integer(n)) for at, (words, n) in enumerate(states) if n or not at)
    text = say("Of {trials}, {parts}", trials=say.count(progress.n_trials, "trial"), parts=parts)
    if progress.n_invalid_attempts:
        attempts = say.count(progress.n_invalid_attempts, "attempt")
        text += "; " + say("{attempts} judged invalid and set aside", attempts=attempts)
    return text + "."


_COUNTS = {
    "valid": N_("{n} valid"),
    "invalid": N_("{n} invalid"),
    "unavailable": N_("{n} unavailable"),
    "running": N_("{n} running"),
    "pending": N_("{n} pending"),
}


def counts_text(counts: Mapping[str, int], say: Language) -> str:
    """Return the numbers of trials by state: '38 valid, 2 invalid'; `counts` are {state: number of trials}."""
    return ", ".join(say(words, n=say.integer(counts[state])) for state, words in _COUNTS.items() if counts.get(state))


def limitations(report: CampaignResults, say: Language) -> tuple[str, ...]:
    """Return the limitations of the results, from the design and from events in this campaign."""
    marks = (f"{sign(kind)} {say(kind)}: {meaning(kind, say)}" for kind in report.kinds_of_marks)
    return (*_limits_of_design(report, say), *marks, *_limits_of_attempts(report, say))


def _limits_of_design(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield sentences on the limitations by the design, by gaps in it, and by CPUs that roles share."""
    design, n = report.study.design, report.study.design.replicates
    if not report.members:
        yield say(
            "One host, one campaign: the figures hold for this hardware, kernel and day. Repeat on yours before "
            "deciding."
        )
    yield say(
        "Intervals are {confidence} confidence intervals; the unit is the trial. Those of ratios to the baseline and "
        "of effects are corrected for the number of comparisons within a metric, and so are the marks beside them.",
        confidence=percent(design.confidence, say),
    )
    if not report.progress.finished:
        yield say("The campaign is unfinished: what is shown may change when the remaining trials have run.")
    if report.progress.counts.get("valid", 0) == 0:
        yield say("No trial is valid, so nothing can be concluded.")
    if n == 1:
        yield say("There is only one replicate, so the spread is not known: no interval, no comparison.")
    elif n < 5:
        yield say("With {n} replicates the intervals are wide; small differences cannot be detected.", n=n)
    if design.sequential:
        yield sequential_note(report, say)
    if design.stopping == "decided":
        yield say(
            "Blocks were added until the decision was made, {most} at most. The intervals of single treatments do not "
            "correct for that.",
            most=say.integer(design.most_blocks),
        )
    if not design.baseline:
        yield say("The study names no baseline, so there are no ratios.")
    if report.gaps:
        yield say(
            "Unavailable levels leave gaps in the design: effects hold only for the combinations that were measured."
        )
    if shared := report.provenance.testbed.shared_cpus:
        yield say(
            "Roles share CPUs ({shared}): CPU time that one uses is lost to the others, so load on the client or the "
            "server affects the system under test.",
            shared="; ".join(shared),
        )


def _limits_of_attempts(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a sentence if trials became valid only in a late repetition, and one if invalid attempts are excluded."""
    if n_late := sum(attempt.valid and attempt.attempt > MAX_ATTEMPTS for attempt in report.attempts):
        yield say(
            "Trials that were given up, but valid when repeated later: {n}. They ran at another time than the rest of "
            "their blocks.",
            n=n_late,
        )
    if report.progress.n_invalid_attempts:
        yield say(
            "Invalid attempts are excluded from all means. If they were invalid because of what they measured, the "
            "means are biased."
        )


def sequential_note(report: CampaignResults, say: Language) -> str:
    """Return the caveat for a campaign whose number of blocks was not fixed in advance."""
    design = report.study.design
    return say(
        "Sequential campaign: blocks were added until every chosen ratio was known to ±{precision}, or there were "
        "{most}. Such a campaign tends to stop when the spread looks small by chance, so its intervals are slightly "
        "too narrow: 95% intervals contain the true value in 92.5% of cases or more.",
        precision=percent(design.precision, say),
        most=design.max_replicates,
    )


def reason(ratio: Estimate, say: Language) -> str:
    """Return why a ratio has no interval, or an unbounded one, or is only a bound; empty if it has an interval."""
    why = ratio.absent_because
    if why is not None and (ratio.unbounded or why.message in (RATIO_IS_BOUND, BOTH_ARE_BOUNDS, NO_SPREAD)):
        return say.note(why)
    return "" if ratio.interval is not None else say("an interval needs 2 trials or more")


def pairing(ratio: Estimate, say: Language) -> str:
    """Return the pairing of a ratio and its n, such as 'paired within blocks, n = 5'."""
    if ratio.pairing == "paired":
        return say("paired within blocks, n = {n}", n=ratio.sides[0])
    return say("unpaired, n = {n} and {m}", n=ratio.sides[0], m=ratio.sides[1])


def host_line(host: HostFacts, say: Language) -> str:
    """Describe a host as far as it is recorded: 'edge-7, AMD EPYC 7B13, 2 CPUs, 23.5 GiB, 6.1.0'."""
    cpus = say("{n} CPUs", n=host.cpus) if host.cpus else ""
    size = say.number(human_bytes(host.memory_bytes)) if host.memory_bytes else ""
    return ", ".join(filter(None, (host.hostname, host.cpu_model, cpus, size, host.kernel)))


def when(utc: str) -> str:
    """Convert an ISO time to '2026-11-02 10:00'; return any other text as it is."""
    try:
        return datetime.fromisoformat(utc).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return utc


def metric_note(metric: Metric, say: Language) -> str:
    """Return the summary and direction of a metric: 'TCP throughput; higher is better'."""
    return "; ".join(part for part in (metric.summary, direction_text(metric, say)) if part)


def commands(report: CampaignResults, say: Language) -> list[tuple[str, str]]:
    """Return (purpose, command line) of the commands that repeat the campaign or show more of it.

    For several campaigns, they only show reports and values: the report of each campaign has the commands that repeat
    it."""
    if report.members and not report.of_fleet:
        places = [shlex.quote(member.directory) for member in report.members]
        reports = " && ".join(f"lastro report {place}" for place in places)
        return [
            (say("The report of each campaign, with the commands that repeat it"), reports),
            (say("Every value, for R or pandas"), f"lastro results {' '.join(places)} --csv values.csv"),
        ]
    here = shlex.quote(report.directory)
    study = shlex.quote(f"{report.directory}/study.toml")
    chosen = ("--profile", report.study.profile) if report.study.profile else ()
    options = "".join(f" {shlex.quote(word)}" for word in (*chosen, *report.study.changes))
    first = report.attempts[0].trial if report.attempts else 1
    return [
        (say("What this host can run of the study"), f"lastro plan {study}{options}"),
        (say("The whole campaign again, in the same order"), f"sudo lastro run {study}{options} -o again"),
        (say("One trial with the raw tools, as a shell script"), f"lastro show {here} {first} --commands"),
        (say("Every value, for R or pandas"), f"lastro results {here} --csv values.csv"),
    ]


def resources(report: CampaignResults, say: Language) -> list[tuple[str, str, PropertyTable]]:
    """Return (name, title, table) for the usage of instances and the disturbances of the host, without empty tables."""
    usage, host = report.properties.usage, report.properties.host
    tables = [("usage", say("Used by each instance, from its own cgroup"), usage)] if usage else []
    return [*tables, *([("host", say("Disturbances of the host"), host)] if host else [])]


def waiting(report: CampaignResults) -> int:
    """Return the number of trials that have not run yet."""
    return report.progress.counts.get("pending", 0) + report.progress.counts.get("running", 0)


HOW_TO_READ = N_(
    "Each p is raw, then corrected for the number of comparisons beside it, but not for the other tables and sentences "
    "on the metric: of simulated metrics on which nothing has an effect, 17 % have some false statement. Percentages "
    "of the variation are those of the sums of squares."
)
AS_WRITTEN = N_("Text from tools, parts and the author of the study is not translated.")
CONTINUE = N_("This campaign has trials left to run. To continue it:")
NOTHING_MISSING = N_("Nothing: every trial of the plan was valid at the first attempt.")
REALLY = N_(
    "How each platform was measured, as its trials recorded it: file system, storage, caches, clock. If two "
    "platforms have different storage, their difference includes that of the storage."
)
RESIDUALS = N_(
    "Every platform ran the same files. These properties still differed between them, and may explain a difference "
    "in results."
)

# Words that the store and the log write; the report translates them through variables
STATES = (N_("pending"), N_("running"), N_("valid"), N_("invalid"), N_("unavailable"))
EVENTS = (N_("started"), N_("resumed"), N_("finished"), N_("interrupted"), N_("stopped"))
MORE_EVENTS = (N_("not calibrated"), N_("noise floor"), N_("changed host"), N_("moved"), N_("testbed"))
LOOKS = (N_("look"), N_("dropped"), N_("settled"))

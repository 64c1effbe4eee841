"""The document on a study that several hosts measured: its sentences and its tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lastro.analysis.host_facts import named_facts
from lastro.analysis.pooled_study import JudgedClaim, PooledEffect, PooledStudy
from lastro.builders.content import notices
from lastro.builders.page_figures import NO_FIGURES, PageFigures
from lastro.builders.stat_tables import claims_table
from lastro.document import Block, Figures, Fold, Heading, Items, Paragraph, Table, Title
from lastro.figures.forest import ratio_on
from lastro.results.members import NAMELESS
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.stats.pooling import FEWEST
from lastro.words import numbers as formats
from lastro.words.campaign import place_of, premises, title_with_place
from lastro.words.claims import counts_text
from lastro.words.estimates import difference_text, numeric, p_text
from lastro.words.language import Language
from lastro.words.phrases import join_names, merged_sentences

_FEW = 3  # ratios, which the first sentences name one by one
ESTIMATORS = {"reml": N_("restricted maximum likelihood"), "paule-mandel": N_("Paule and Mandel’s method")}


def pool_blocks(pooled: PooledStudy, say: Language, page_figures: PageFigures = NO_FIGURES) -> Iterator[Block]:
    """Yield the answer, the hosts, the tables and figures of each metric, the claims, and how to read the tables.

    The table of ratios on each host is folded, unless it is the only table of its metric."""
    title = pooled.study.title or pooled.study.name
    measured = place_of([host.report.guest for host in pooled.hosts], say)

    def captioned(table: Table) -> Table:
        return replace(table, title=title_with_place(table.title, measured), whole=True)

    yield Title(title, tuple(opening_sentences(pooled, say)), kicker=say("Lastro, over several hosts"))
    yield from notices(say, unfinished=False)
    yield Items(tuple(warnings(pooled, say)), tag=say("note"))
    hosts = hosts_table(pooled, say)
    yield Heading(title_with_place(hosts.title, measured), "hosts", hosts.title)
    yield replace(hosts, title="", whole=True)
    for at, metric in enumerate(pooled.metrics):
        pooled_tables = [
            captioned(table) for table in (means_table(pooled, metric, say), apart_table(pooled, metric, say)) if table
        ]
        on_hosts = captioned(hosts_effects_table(pooled, metric, say))
        yield Heading(metric.name, f"metric-{at + 1}")
        yield Paragraph(metric.summary, dim=True)
        yield Figures(page_figures.of("forest", metric=at))
        yield from pooled_tables
        if on_hosts:
            yield Fold(on_hosts.title, (replace(on_hosts, title=""),)) if pooled_tables else on_hosts
    if pooled.claims:
        yield Heading(say("Claims"), "claims")
        yield captioned(pooled_claims_table(pooled.claims, say))
    yield Heading(say("How to read it"), "reading")
    yield Items(tuple(notes(pooled, say)))


def opening_sentences(pooled_study: PooledStudy, say: Language) -> Iterator[str]:
    """Yield how many ratios differ from 1 on average over hosts, how a new host differs, and how two hosts do.

    Of more than three ratios, only how many intervals for a new host exclude 1."""
    pooled = [effect for effect in pooled_study.effects if effect.pooled]
    between = [effect for effect in pooled_study.effects if effect.between_hosts]
    alpha = pooled_study.study.design.alpha
    if pooled:
        kinds = [effect.verdict for effect in pooled if effect.verdict not in ("", "same")]
        if kinds:
            text = N_("On average over hosts, {n} of {all} ratios differ from 1: {parts}.")
            yield say(text, n=len(kinds), all=len(pooled), parts=formats.verdict_counts(kinds, say))
        else:
            yield say("On average over hosts, none of {all} ratios is distinguishable from 1.", all=len(pooled))
        ranges = [(effect, effect.prediction) for effect in pooled if effect.prediction is not None]
        for effect, prediction in ranges if len(ranges) <= _FEW else ():
            text = N_("A new host will see {metric} {range} ({label}).")
            yield say(text, metric=effect.metric.name, range=formats.ratio_range(prediction, say), label=effect.label)
        if len(ranges) > _FEW:
            n = sum(not prediction.holds(1.0) for _, prediction in ranges)
            text = N_("For {n} of {all} ratios, the interval for a new host is on one side of 1.")
            yield say(text, n=n, all=len(ranges))
    if len(pooled_study.hosts) < FEWEST:
        yield say(
            "Two hosts cannot show how much hosts differ, so there is no mean over hosts, no spread between hosts, and "
            "no interval for a new host."
        )
    if between:
        n = sum(effect.p_adjusted is not None and effect.p_adjusted < alpha for effect in between)
        yield say("Between two hosts, {n} of {all} ratios are distinguishable.", n=n, all=len(between))
    if not (pooled or between):
        yield say("Nothing could be pooled.")


def notes(pooled: PooledStudy, say: Language) -> Iterator[str]:
    """Yield how to read the tables: the statistical method behind each column, and what a ratio averages over."""
    confidence = formats.percent(pooled.confidence, say)
    if n_pooled := sum(bool(effect.pooled) for effect in pooled.effects):
        yield say(
            "Mean over hosts: of the logarithms of the ratios, by random effects ({method}), with its {confidence} "
            "interval by Hartung, Knapp, Sidik and Jonkman, which holds for one ratio alone. p is corrected by Holm’s "
            "method for {n} ratios, and the verdict follows from the corrected p.",
            method=say(ESTIMATORS[pooled.estimator]), confidence=confidence, n=n_pooled,
        )  # fmt: skip
        yield say(
            "Spread τ: the standard deviation of the logarithms of the true ratios between hosts, with its interval by "
            "the Q profile; 0.1 is about 10 %. It includes what changes on a host from day to day."
        )
        yield say(
            "New host: the {confidence} interval for the true ratio on one more host, if it is a host like these.",
            confidence=confidence,
        )
    if n_between := sum(bool(effect.between_hosts) for effect in pooled.effects):
        yield say(
            "Second / first: the ratio on the second host divided by that on the first; p is corrected by Holm’s "
            "method for {n} ratios.",
            n=n_between,
        )
    yield say(
        "A ratio is that of two means over all combinations of the other factors that were measured on every host "
        "with this ratio."
    )


def warnings(pooled: PooledStudy, say: Language) -> Iterator[str]:
    """Yield what to know about the hosts first: several or unfinished campaigns of one, missing names, and guests."""
    for host in pooled.hosts:
        if len(host.campaigns) > 1:
            names = join_names(host.campaigns, say)
            yield say("The campaigns {names} are of one host, {host}, and count as one.", names=names, host=host.name)
        if not host.report.progress.finished:
            yield say("The campaign of {host} is unfinished.", host=host.name)
    if any(named_facts(host.report.provenance.chapters)["host"] == NAMELESS for host in pooled.hosts):
        yield say("Hosts named anonymous are taken as different from each other and from all other hosts.")
    yield from merged_sentences(
        ((host.name, premises(host.report, say)) for host in pooled.hosts), say, len(pooled.hosts)
    )


def hosts_table(pooled: PooledStudy, say: Language) -> Table:
    names = (N_("kernel"), N_("CPU model"), N_("CPUs"), "Lastro")
    rows = []
    for host in pooled.hosts:
        known = named_facts(host.report.provenance.chapters)
        trials = say.integer(host.report.progress.counts.get("valid", 0))
        rows.append((host.name, ", ".join(host.campaigns), *(known[name] or "—" for name in names), trials))
    columns = (say("host"), say("campaigns"), *map(say, names), say("valid trials"))
    return Table("hosts", say("Hosts"), columns, tuple(rows), frozenset({4, 6}), frozenset({1}))


def means_table(pooled: PooledStudy, metric: Metric, say: Language) -> Table:
    """Return the table of pooled ratios of a metric: mean, interval for a new host, spread between hosts.

    The mean and the verdict come first, because on a narrow page the last columns are out of sight."""
    columns = (
        say("level / reference"), say("mean over hosts"), say("verdict"), say("new host"), say("spread τ"), "p",
        say("p corrected"), say("hosts"),
    )  # fmt: skip
    rows = []
    for effect in pooled.of(metric):
        if over_hosts := effect.pooled:
            assert effect.mean and effect.prediction
            rows.append((
                _label(effect, say), formats.ratio_text(effect.mean, say), formats.verdict_text(effect.verdict, say),
                formats.ratio_range(effect.prediction, say), difference_text(over_hosts.tau, say),
                p_text(over_hosts.estimate.p, say), p_text(effect.p_adjusted, say), str(over_hosts.estimate.n),
            ))  # fmt: skip
    title, note = say("{metric} over hosts", metric=formats.metric_heading(metric)), formats.direction_text(metric, say)
    return Table(f"pooled-{metric.name}", title, columns, tuple(rows), numeric(1, 8) - {2}, note=note)


def apart_table(pooled: PooledStudy, metric: Metric, say: Language) -> Table:
    """Return the table of the ratios of a metric that exist on exactly two hosts: on each host, and their quotient."""
    columns = (
        say("level / reference"), say("first host"), say("second host"), say("second / first"), "p", say("p corrected"),
    )  # fmt: skip
    rows = []
    for effect in pooled.of(metric):
        if effect.between_hosts:
            ratios = [
                f"{pooled.hosts[host_effect.host].name}: {ratio_on(host_effect, say)}"
                for host_effect in effect.hosts
                if host_effect.effect
            ]
            ps = p_text(effect.between_hosts.p, say), p_text(effect.p_adjusted, say)
            rows.append((_label(effect, say), *ratios, formats.ratio_text(effect.between_hosts, say), *ps))
    title = say("{metric} on two hosts", metric=formats.metric_heading(metric))
    return Table(
        f"apart-{metric.name}", title, columns, tuple(rows), numeric(3, 6), note=formats.direction_text(metric, say)
    )


def hosts_effects_table(pooled: PooledStudy, metric: Metric, say: Language) -> Table:
    """Return the table of the ratios of a metric on every host, with the reason where a host has no ratio."""
    rows = tuple(
        (_label(effect, say), pooled.hosts[host_effect.host].name, ratio_on(host_effect, say))
        for effect in pooled.of(metric)
        for host_effect in effect.hosts
    )
    columns = (say("level / reference"), say("host"), say("ratio"))
    title = say("{metric} on each host", metric=formats.metric_heading(metric))
    return Table(f"each-{metric.name}", title, columns, rows, long=frozenset({2}))


def pooled_claims_table(claims: Sequence[JudgedClaim], say: Language) -> Table:
    """Return the table of claims judged over all hosts, with the verdicts of single hosts: '3 reproduced, …'."""
    table = claims_table([claim.pooled for claim in claims], "", say)
    rows = tuple((*row, counts_text(claim.on_each, say)) for row, claim in zip(table.rows, claims, strict=True))
    note = say(
        "Judged by the mean over hosts, with p corrected by Holm’s method for the claims of the file; n counts hosts. "
        "The last column counts the verdicts of the hosts, each judged alone."
    )
    columns = (*table.columns[:-1], say("verdict over hosts"), say("verdicts on each host"))
    last = len(table.columns)
    return Table(table.name, table.title, columns, rows, table.right, table.long | {last}, note)


def _label(effect: PooledEffect, say: Language) -> str:
    if effect.strata == effect.all_strata:
        return effect.label
    return f"{effect.label} ({say('{n} of {all} combinations', n=effect.strata, all=effect.all_strata)})"

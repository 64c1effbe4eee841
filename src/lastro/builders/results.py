"""The document on the results of a campaign: for a page, for Markdown, and for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lastro import document as doc
from lastro import papers
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.decision import decision_of
from lastro.builders.content import Content
from lastro.builders.decision import decision_section, short_answer
from lastro.builders.page_figures import NOT_DRAWN, PageFigures
from lastro.builders.part_properties import part_tables
from lastro.builders.published_tables import published_blocks
from lastro.builders.results_grid import results_grid
from lastro.builders.search_tables import tables_of
from lastro.builders.stat_tables import claims_table, effects_table, interaction_table
from lastro.builders.statistics import statistics_blocks
from lastro.builders.statistics_words import time_sentences
from lastro.builders.tables import (
    captioned,
    curve_tables,
    doses_table,
    gaps_table,
    growth_tables,
    invalid_table,
    property_table,
    really_table,
    remarks_table,
)
from lastro.stats.notes import N_
from lastro.study.fraction import Fraction
from lastro.words import campaign as words
from lastro.words.fraction import fraction_text, relation_text
from lastro.words.language import Language
from lastro.words.opening import opening

# Sections of a paper; the others are about the campaign itself.
_PAPER = frozenset(
    {"decision", "effects", "interactions", "claims", "published", "results", "really", "missing", "statistics",
     "growth", "limitations"}
)  # fmt: skip
_INVALID = N_(
    "{attempts} judged invalid. An invalid attempt is excluded from all means; its trial is repeated at most twice, "
    "and again after each `lastro resume --invalid`."
)


def paper_blocks(content: Content) -> Iterator[doc.Block]:
    """Yield the blocks of the report that a paper needs: the answer, the sections with tables, and the limitations."""
    in_paper = True
    for block in results_blocks(content):
        if isinstance(block, doc.Heading):
            in_paper = block.anchor in _PAPER
        if in_paper and not isinstance(block, doc.CommandLine):
            yield block


def results_blocks(content: Content, page_figures: PageFigures = NOT_DRAWN) -> Iterator[doc.Block]:
    """Yield the report of a campaign: the answer, results, statistics, what is missing, and how to repeat it."""
    report, say = content.report, content.say
    title = report.study.title or report.study.name
    decision, tiles = decision_of(report), tiles_of([report], say)
    sentences = opening(report, say, content.analysis, short_answer(decision, say))
    yield doc.Title(title, sentences, words.summary(report, say), say("Lastro report"), tiles)
    yield from notices(say, unfinished=not report.progress.finished)
    yield from decision_section(decision, say, papers.recommended_by(report.study.name), page_figures.of("decision"))
    yield from _effects(content, page_figures)
    yield from _claims(content, page_figures)
    yield from published_blocks(content, page_figures)
    yield from _results(content)
    yield from _missing(content)
    yield from _course(content, page_figures)
    yield from statistics_blocks(content)
    yield from doc.section(say("Growth"), *_captioned(growth_tables(report, say), content), anchor="growth")
    yield from _provenance(content)
    yield from _study(report, say)
    yield from doc.section(say("Testbed"), doc.Figures(page_figures.of("topology")), anchor="testbed")
    commands = (doc.CommandLine(what, line) for what, line in words.commands(report, say))
    yield from doc.section(say("How to repeat it"), *commands, anchor="repeat", short=say("Repeat"))
    yield from doc.section(say("Limitations"), doc.Items(tuple(words.limitations(report, say))), anchor="limitations")


def notices(say: Language, *, unfinished: bool) -> Iterator[doc.Block]:
    """Yield a note on texts that are not translated, and for an unfinished campaign or suite how to continue it."""
    if say.code != "en":
        yield doc.Paragraph(say(words.AS_WRITTEN), dim=True)
    if unfinished:
        yield doc.CommandLine(say(words.CONTINUE).removesuffix(":"), "lastro resume", say("unfinished"))


def tiles_of(reports: Sequence[CampaignResults], say: Language) -> tuple[tuple[str, str, str], ...]:
    """Return the key numbers below a title as (number, label, kind): of treatments, and of trials in each state.

    `kind` is the state, which selects the colour of the number; it is empty for treatments, and where the number is
    zero."""
    states = (
        ("valid", say("valid trials")),
        ("invalid", say("invalid trials")),
        ("unavailable", say("trials unavailable here")),
    )
    tiles = [(sum(len(report.rows) for report in reports), say("treatments"), "")]
    tiles += [(sum(report.progress.counts.get(state, 0) for report in reports), text, state) for state, text in states]
    waiting = sum(map(words.waiting, reports))
    tiles += [(waiting, say("trials not run yet"), "pending")] if waiting else []
    return tuple((say.integer(number), text, kind if number else "") for number, text, kind in tiles)


def _captioned(tables: Iterable[doc.Table], content: Content) -> tuple[doc.Table, ...]:
    return tuple(captioned(table, content.report, content.say) for table in tables if table)


def _effects(content: Content, page_figures: PageFigures) -> Iterator[doc.Block]:
    """Yield the sections on values (curves, every trial), effects, and interactions; only those with content."""
    report, metrics, say = content.report, content.analysis.metrics, content.say
    title, short = say("How metrics vary with numeric factors"), say("Curves")
    drawn = {(metric.metric, metric.factor): metric.figure for metric in page_figures if metric.kind == "curve"}
    tables = {key: captioned(table, report, say) for key, table in curve_tables(report, say).items()}
    curves = tuple(replace(drawn.get(key, doc.Figure("")), table=table) for key, table in tables.items())
    yield from doc.section(title, doc.Figures(curves), anchor="curves", short=short)
    trials = (
        replace(figure, note=view.metric.summary)
        for view in report.views
        for figure in page_figures.of("distribution", metric=view.index)
    )
    yield from doc.section(say("Every trial"), doc.Figures(tuple(trials)), anchor="trials", short=say("Trials"))
    effects = _captioned((effects_table(metric, say) for metric in metrics), content)
    numbers = _in_numbers(page_figures.of("effects"), effects, say)
    yield from doc.section(say("What each factor does"), *numbers, anchor="effects", short=say("Effects"))
    interactions = _captioned(
        (interaction_table(metric, interaction, say) for metric in metrics for interaction in metric.interactions),
        content,
    )
    if interactions:
        yield doc.Heading(say("Where effects depend on each other"), "interactions", say("Interactions"))
        which = say("Interactions that explain at least 1 % of the variation and stay significant after correction.")
        yield doc.Paragraph(which, dim=True)
        yield from _in_numbers(page_figures.of("interaction"), interactions, say)


def _in_numbers(figures: tuple[doc.Figure, ...], tables: tuple[doc.Table, ...], say: Language) -> Iterator[doc.Block]:
    """Yield figures with their tables folded below them, or the tables without a fold if there are no figures."""
    yield doc.Figures(figures)
    yield from (doc.Fold(say("The same in numbers"), tables),) if figures else tables


def _claims(content: Content, page_figures: PageFigures) -> Iterator[doc.Block]:
    """Yield the section on the claims: their tally, their figures and their table; nothing without judged claims."""
    say = content.say
    if judged := _captioned([claims_table(content.judgements, content.claims_note, say)], content):
        tally, figures = doc.Paragraph(content.claims_tally), doc.Figures(page_figures.of("claims"))
        yield from doc.section(say("Claims"), tally, figures, *judged, anchor="claims")


def _results(content: Content) -> Iterator[doc.Block]:
    """Yield the grid of results, the tables of searches, and the tables of what was really measured."""
    report, say = content.report, content.say
    searches, grid = _captioned(tables_of(report, say), content), results_grid(content)
    title = words.titled(say("Results"), words.place(report, say))
    yield from doc.section(title, grid, *searches, anchor="results", short=say("Results"))
    really = really_table(report)
    tables = (really, *part_tables(report, say), doses_table(report, say), remarks_table(report, say))
    yield from doc.section(
        say("What was really measured"),
        doc.Paragraph(say(words.REALLY) if really else ""),
        *_captioned(tables, content),
        anchor="really",
        short=say("Really measured"),
    )


def _missing(content: Content) -> Iterator[doc.Block]:
    """Yield the section on treatments that are unavailable here, invalid attempts, and trials that have not run yet."""
    report, say = content.report, content.say
    (gaps,) = _captioned([gaps_table(report, say)], content) or (None,)
    yield doc.Heading(say("What is missing, and why"), "missing", say("Missing"))
    if gaps:
        yield doc.Notes(say("Unavailable on this host"), tuple(_gaps(report, say)), gaps)
    if report.invalid_attempts:
        yield doc.Paragraph(say(_INVALID, attempts=say.count(len(report.invalid_attempts), "attempt")))
        yield from _captioned([invalid_table(report, say)], content)
    if not report.progress.finished:
        yield doc.Paragraph(words.not_run_yet(report, say))
    elif not (gaps or report.invalid_attempts):
        yield doc.Paragraph(say(words.NOTHING_MISSING))


def _gaps(report: CampaignResults, say: Language) -> Iterator[tuple[str, tuple[doc.Text, ...]]]:
    """Yield (anchor, lines) of a note on each reason for unavailability; cells of the grid of results link there."""
    for number, gap in enumerate(report.gaps, 1):
        where = (doc.Span(gap.where, "strong"), doc.Span(" · ", "dim")) if gap.where else ()
        counts = f"{say.count(len(gap.treatments), 'treatment')}, {say.count(gap.n_trials, 'trial')}"
        texts: list[doc.Text] = [
            (doc.Span(f"[{number}]", "strong"), doc.Span(" "), *where, doc.Span(counts)),
            gap.reason,
        ]
        if gap.remedy:
            texts.append((doc.Span(say("Remedy: {remedy}", remedy=gap.remedy), "dim"),))
        yield f"gap-{number}", tuple(texts)


def _course(content: Content, page_figures: PageFigures) -> Iterator[doc.Block]:
    """Yield the sections on the campaign over time, with its events, and on the resources that trials used."""
    report, metrics, say = content.report, content.analysis.metrics, content.say
    yield doc.Heading(say("Time course"), "time")
    yield doc.Figures(page_figures.of("scenario"))
    sentences = doc.Items(
        tuple(text for metric in metrics for text in time_sentences(metric, content.analysis.alpha, say))
    )
    events = doc.Table(
        "events",
        "",
        ("UTC", say("event"), say("what")),
        tuple((at.replace("T", " ").removesuffix("Z"), say(kind), text) for at, kind, text in report.events),
        long=frozenset({2}),
        whole=True,
    )
    if not report.attempts:
        yield doc.Paragraph(say("No trial has run yet."))
    yield doc.Figures(page_figures.of("course"), beside=tuple(filter(None, (sentences, events))))
    yield doc.Heading(say("Resources"), "resources")
    if not (resources := words.resources(report, say)):
        yield doc.Paragraph(say("No trial recorded any."))
        return
    yield doc.Paragraph(say("Mean over the valid trials, with minimum and maximum."), dim=True)
    yield from _captioned(
        (property_table(name, title, table, say, ours=True) for name, title, table in resources), content
    )


def _provenance(content: Content) -> Iterator[doc.Block]:
    """Yield the residual differences between platforms, the provenance, and the noise floor of the host."""
    report, say = content.report, content.say
    yield doc.Heading(say("Residual differences"), "residuals", listed=False)
    if report.residuals:
        yield doc.Paragraph(say(words.RESIDUALS))
        table = property_table("residuals", "", report.residuals, say, ours=False)
        yield replace(table, tags=tuple(say("differs") if row.differs else "" for row in report.residuals.rows))
    else:
        yield doc.Paragraph(say("No trial recorded any."))
    yield doc.Heading(say("Provenance"), "provenance")
    yield doc.Facts(chapters) if (chapters := report.provenance.chapters) else doc.Paragraph(say("None was recorded."))
    yield doc.Facts(report.calibrations, say("Calibrations"))
    # The guest of a real host is None; as a fact, it would be shown as unknown.
    facts = {name: value for name, value in (report.noise_floor or {}).items() if (name, value) != ("guest", None)}
    title = words.titled(say("Noise floor of this host"), words.place(report, say))
    yield doc.Facts(facts, title)


def _study(report: CampaignResults, say: Language) -> Iterator[doc.Block]:
    """Yield the section on the study as it was run: scenario, factors, design, settings, exclusions, and its file."""
    study, design = report.study, report.study.design
    yield doc.Heading(say("The study"), "study", listed=False)
    yield doc.Paragraph(study.description)
    designed = [say.count(design.replicates, "replicate"), design.order, say("seed {seed}", seed=design.seed)]
    designed += [say("profile {profile}", profile=study.profile)] if study.profile else []
    designed += [" ".join(study.changes)] if study.changes else []
    excluded = {
        "; ".join(f"{name} = {', '.join(map(str, levels))}" for name, levels in rule.when.items()): rule.reason
        for rule in study.exclusions
    }
    facts = {
        say("scenario"): study.scenario,
        say("factors"): {factor.name: ", ".join(map(str, factor.levels)) for factor in study.factors},
        say("design"): ", ".join(designed),
        say("settings"): ", ".join(f"{name} = {level}" for name, level in study.settings.items()),
    }
    if fraction := Fraction.of(study):
        facts[say("fraction")] = fraction_text(fraction, design.fraction, say)
        facts[say("defining relation")] = relation_text(fraction)
        facts[say("measured together")] = fraction.chains()
    yield doc.Facts(facts | ({say("excluded"): excluded} if excluded else {}))
    yield doc.Fold(say("The study file, as run"), (doc.Code(study.source),))

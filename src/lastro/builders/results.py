"""The document on the results of a campaign, in each of its forms: page, paper, terminal, and short."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lastro import document as doc
from lastro import papers
from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.decision import SlaDecision, decision_of, table_rows
from lastro.analysis.searches import searches
from lastro.analysis.table_choice import TableChoice
from lastro.builders import conditions
from lastro.builders.content import Content, notices, tiles_of
from lastro.builders.decision import decision_answer, decision_section, short_answer
from lastro.builders.page_figures import NO_FIGURES, PageFigures
from lastro.builders.published_tables import published_blocks
from lastro.builders.results_grid import results_grid
from lastro.builders.stat_tables import claims_table, effects_table, interaction_table
from lastro.builders.statistics import statistics_blocks, time_sentences
from lastro.builders.tables import curve_tables, growth_tables, ratios_table, searches_table, table_with_place
from lastro.plain import plain
from lastro.stats.notes import N_
from lastro.study.fraction import Fraction
from lastro.words import campaign as words
from lastro.words.absences import explanations, remarks_on_ratios
from lastro.words.caveats import caveats
from lastro.words.fraction import fraction_text, relation_text
from lastro.words.key_findings import key_findings
from lastro.words.language import Language
from lastro.words.opening import opening, warnings
from lastro.words.phrases import join_names
from lastro.words.platform_line import platform_line
from lastro.words.reasons import merge_reasons
from lastro.words.remarks import short

Form = Literal["page", "paper", "terminal", "short"]

_INVALID = N_(
    "{attempts} judged invalid. An invalid attempt is excluded from all means; its trial is repeated at most twice, "
    "and again after each `lastro resume --invalid`."
)
_REST = N_("The whole report, with the statistics, the provenance and the commands that repeat it:")
_MOST_PLACES = 300  # characters of the directories in a command; a longer list is replaced by DIR
_MOST_TRIALS = 7  # numbers of trials that a line names


@dataclass(frozen=True, slots=True)
class _ShownResults:
    """The content of a document on results, its form, its figures, and the treatments of the table in a terminal.

    `ranked` is true if the treatments are in the order of the decision."""

    content: Content
    form: Form
    figures: PageFigures
    decision: SlaDecision | None
    rows: Sequence[Row]
    ranked: bool

    @property
    def report(self) -> CampaignResults:
        return self.content.report

    @property
    def say(self) -> Language:
        return self.content.say


@dataclass(frozen=True, slots=True)
class _Section:
    """A section of the document on results: the function that yields its blocks, and the forms that show it.

    A form in `folded` shows it only if everything is to be shown."""

    blocks: Callable[[_ShownResults], Iterable[doc.Block]]
    forms: tuple[Form, ...]
    folded: tuple[Form, ...] = ()


def results_blocks(
    content: Content,
    form: Form,
    figures: PageFigures = NO_FIGURES,
    choice: TableChoice | None = None,
    *,
    everything: bool = False,
) -> Iterator[doc.Block]:
    """Yield the document on the results of a campaign, in the order of `_SECTIONS`.

    The form is "page", also for Markdown; "paper", without the sections on the campaign itself; "terminal"; or "short",
    for a comment on a pull request. `choice` selects and orders the treatments of the
    table in a terminal. With `everything`, folded sections are shown, too."""
    decision = decision_of(content.report)
    rows = table_rows(content.report, decision, choice)
    ranked = bool(decision and not (choice and choice.sort))
    shown = _ShownResults(content, form, figures, decision, rows, ranked)
    for section in _SECTIONS:
        if form in section.forms or (everything and form in section.folded):
            yield from section.blocks(shown)


def _title(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the title with the answer and a summary, and notices; in a terminal, the answer is the last section."""
    report, say = shown.report, shown.say
    title = report.study.title or report.study.name
    if shown.form != "terminal":
        sentences = opening(report, say, shown.content.analysis, short_answer(shown.decision, say))
        yield doc.Title(title, sentences, words.summary(report, say), say("Lastro report"), tiles_of([report], say))
    else:
        treatments, trials = say.count(len(report.rows), "treatment"), say.count(report.progress.n_trials, "trial")
        tally = f"{treatments}, {trials}: {words.counts_text(report.progress.counts, say)}"
        n, n_all, scope = len(shown.rows), len(report.rows), []
        if n < n_all:
            scope.append(say("{n} of {treatments} shown", n=n, treatments=say.count(n_all, "treatment")))
        if shown.ranked and shown.decision and shown.decision.question.cost:
            scope.append(say("sorted by the service levels: what holds them first, the cheapest at the top"))
        elif shown.ranked:
            scope.append(say("sorted by the service levels: what holds them first"))
        yield doc.Title(title)
        yield doc.Items((tally, *words.premises(report, say), *scope))
    yield from notices(say, unfinished=shown.form in ("page", "short") and not report.progress.finished)


def _with_place(tables: Iterable[doc.Table], shown: _ShownResults) -> tuple[doc.Table, ...]:
    return tuple(table_with_place(table, shown.report, shown.say) for table in tables if table)


def _decision(shown: _ShownResults) -> Iterator[doc.Block]:
    recommended = papers.recommended_by(shown.report.study.name)
    yield from decision_section(shown.decision, shown.say, recommended, shown.figures.of("decision"))


def _values(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the sections on the curves and on every trial; in the short form, all figures that are in files."""
    report, say = shown.report, shown.say
    if shown.form == "short":
        figures = tuple(page_figure.figure for page_figure in shown.figures)
        yield from doc.section(say("Figures"), doc.Figures(figures))
        return
    title = say("How metrics vary with numeric factors")
    drawn = {(each.plan.metric, each.plan.factor): each.figure for each in shown.figures if each.plan.kind == "curve"}
    tables = {key: table_with_place(table, report, say) for key, table in curve_tables(report, say).items()}
    curves = tuple(replace(drawn.get(key, doc.Figure("")), table=table) for key, table in tables.items())
    yield from doc.section(title, doc.Figures(curves), anchor="curves", short=say("Curves"))
    trials = (
        replace(figure, note=view.metric.summary)
        for view in report.views
        for figure in shown.figures.of("distribution", metric=view.index)
    )
    yield from doc.section(say("Every trial"), doc.Figures(tuple(trials)), anchor="trials", short=say("Trials"))


def _effects(shown: _ShownResults) -> Iterator[doc.Block]:
    metrics, say = shown.content.analysis.metrics, shown.say
    effects = _with_place((effects_table(metric, say) for metric in metrics), shown)
    numbers = _figures_with_tables(shown.figures.of("effects"), effects, say)
    yield from doc.section(say("What each factor does"), *numbers, anchor="effects", short=say("Effects"))
    interactions = _with_place(
        (interaction_table(metric, interaction, say) for metric in metrics for interaction in metric.interactions),
        shown,
    )
    if interactions:
        yield doc.Heading(say("Where effects depend on each other"), "interactions", say("Interactions"))
        which = say("Interactions that explain at least 1 % of the variation and stay significant after correction.")
        yield doc.Paragraph(which, dim=True)
        yield from _figures_with_tables(shown.figures.of("interaction"), interactions, say)


def _figures_with_tables(
    figures: tuple[doc.Figure, ...], tables: tuple[doc.Table, ...], say: Language
) -> Iterator[doc.Block]:
    """Yield figures with their tables folded below them, or the tables without a fold if there are no figures."""
    yield doc.Figures(figures)
    yield from (doc.Fold(say("The same in numbers"), tables),) if figures else tables


def _claims(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the section on the claims: their tally, their figures and their table; nothing without judged claims."""
    content, say = shown.content, shown.say
    if shown.form == "short":
        yield doc.Paragraph(f"{say('Claims')}: {content.claims_tally}" if content.claims_tally else "")
    elif judged := _with_place([claims_table(content.judgements, content.claims_note, say)], shown):
        tally = doc.Paragraph(content.claims_tally)
        figures = doc.Figures(shown.figures.of("claims"))
        yield from doc.section(say("Claims"), tally, figures, *judged, anchor="claims")


def _results(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the grid of results with the tables of searches or, in the short form, a table of ratios."""
    report, say = shown.report, shown.say
    title = words.title_with_place(say("Results"), words.place(report, say))
    if shown.form == "short":
        if table := ratios_table(shown.content):
            marks = (f"{short(kind, say)}." for kind in report.kinds_of_marks)
            legend = doc.Items((*remarks_on_ratios(report, say), *marks))
            yield from doc.section(title, doc.Paragraph(" ".join(explanations(report, say))), legend, table)
        return
    rows = [row for row in shown.rows if row.status != "unavailable"] if shown.form == "terminal" else None
    grid = results_grid(shown.content, rows)
    bounds = _with_place((searches_table(report, search, say) for search in searches(report)), shown)
    yield from doc.section(title, grid, *bounds, anchor="results", short=say("Results"))


def _actual_conditions(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the section on what was really measured; in a terminal, only what the neighbours did."""
    report, say = shown.report, shown.say
    doses = conditions.doses_table(report, say)
    if shown.form == "terminal":
        yield from _with_place([doses], shown)
        return
    really = conditions.really_table(report)
    yield from doc.section(
        say("What was really measured"),
        doc.Paragraph(say(words.REALLY) if really else ""),
        *_with_place(
            (really, *conditions.part_tables(report, say), doses, conditions.remarks_table(report, say)), shown
        ),
        anchor="really",
        short=say("Really measured"),
    )


def _missing(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the section on treatments that are unavailable here, invalid attempts, and trials that have not run yet.

    A terminal and the short form list invalid attempts by reason; a terminal has no section if nothing is missing."""
    report, say, is_brief = shown.report, shown.say, shown.form in ("terminal", "short")
    nothing = report.progress.finished and not (report.gaps or report.invalid_attempts)
    if nothing and shown.form == "terminal":
        return
    yield doc.Heading(say("What is missing, and why"), "missing", say("Missing"))
    (gaps,) = _with_place([conditions.gaps_table(report, say)], shown) or (None,)
    notes = tuple(conditions.gap_notes((("", gap) for gap in report.gaps), say))
    yield doc.Notes(say("Unavailable on this host"), notes, None if is_brief else gaps)
    if is_brief:
        yield doc.Items(tuple(_invalid_reasons(report, say)), title=say("Invalid attempts"))
    elif report.invalid_attempts:
        yield doc.Paragraph(say(_INVALID, attempts=say.count(len(report.invalid_attempts), "attempt")))
        yield from _with_place([conditions.invalid_table(report, say)], shown)
    if not report.progress.finished:
        yield doc.Paragraph(say("{trials} not run yet.", trials=say.count(words.waiting(report), "trial")))
    elif nothing:
        yield doc.Paragraph(say(words.NOTHING_MISSING))


def _invalid_reasons(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield each reason for invalid attempts with its trials, the most frequent first: 'no traffic (trial 3)'."""
    reasons = merge_reasons(
        (reason, attempt.trial) for attempt in report.invalid_attempts for reason in attempt.reasons
    )
    for reason, trials in sorted(reasons, key=lambda group: -len(set(group[1]))):
        numbers = sorted(set(trials))
        noun = say("trial") if len(numbers) == 1 else say("trials")
        yield f"{reason} ({noun} {join_names(list(map(str, numbers)), say, _MOST_TRIALS)})"


def _time_course(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the sections on the campaign over time, with its events, and on the resources that trials used."""
    report, analysis, say = shown.report, shown.content.analysis, shown.say
    yield doc.Heading(say("Time course"), "time")
    yield doc.Figures(shown.figures.of("scenario"))
    sentences = doc.Items(
        tuple(text for metric in analysis.metrics for text in time_sentences(metric, analysis.alpha, say))
    )
    columns = ("UTC", say("event"), say("what"))
    rows = tuple((at.replace("T", " ").removesuffix("Z"), say(kind), text) for at, kind, text in report.events)
    events = doc.Table("events", "", columns, rows, long=frozenset({2}), whole=True)
    if not report.attempts:
        yield doc.Paragraph(say("No trial has run yet."))
    yield doc.Figures(shown.figures.of("course"), beside=tuple(filter(None, (sentences, events))))
    yield doc.Heading(say("Resources"), "resources")
    if not (resources := words.resources(report, say)):
        yield doc.Paragraph(say("No trial recorded any."))
        return
    yield doc.Paragraph(say("Mean over the valid trials, with minimum and maximum."), dim=True)
    yield from _with_place(
        (conditions.property_table(name, title, table, say, ours=True) for name, title, table in resources), shown
    )


def _growth(shown: _ShownResults) -> Iterator[doc.Block]:
    say = shown.say
    yield from doc.section(say("Growth"), *_with_place(growth_tables(shown.report, say), shown), anchor="growth")


def _provenance(shown: _ShownResults) -> Iterator[doc.Block]:
    report, say = shown.report, shown.say
    yield doc.Heading(say("Residual differences"), "residuals", listed=False)
    if report.residuals:
        yield doc.Paragraph(say(words.RESIDUALS))
        table = conditions.property_table("residuals", "", report.residuals, say, ours=False)
        yield replace(table, tags=tuple(say("differs") if row.differs else "" for row in report.residuals.rows))
    else:
        yield doc.Paragraph(say("No trial recorded any."))
    yield doc.Heading(say("Provenance"), "provenance")
    yield doc.Facts(chapters) if (chapters := report.provenance.chapters) else doc.Paragraph(say("None was recorded."))
    yield doc.Facts(report.calibrations, say("Calibrations"))
    # The guest of a real host is None; as a fact, it would be shown as unknown.
    facts = {name: value for name, value in (report.noise_floor or {}).items() if (name, value) != ("guest", None)}
    title = words.title_with_place(say("Noise floor of this host"), words.place(report, say))
    yield doc.Facts(facts, title)


def _study(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the sections on the study as it was run, with its design, exclusions and file, and on the testbed."""
    study, design, say = shown.report.study, shown.report.study.design, shown.say
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
    yield from doc.section(say("Testbed"), doc.Figures(shown.figures.of("topology")), anchor="testbed")


def _repeat(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the commands that repeat the campaign or, in the short form, the one that writes the whole report."""
    say = shown.say
    if shown.form == "short":
        report = shown.report
        is_merged = report.members and not report.of_fleet
        directories = [member.directory for member in report.members] if is_merged else [report.directory]
        places = shlex.join(map(plain, directories))
        language = [] if say.code == "en" else ["--lang", say.code]
        output = ["-o", "report.md"] if is_merged else []
        options = shlex.join(["--format", "md", "--full", *language, *output])
        command = f"lastro report {places if len(places) <= _MOST_PLACES else 'DIR'} {options}"
        yield doc.CommandLine(say(_REST).removesuffix(":"), command)
        return
    commands = (doc.CommandLine(what, line) for what, line in words.commands(shown.report, say))
    yield from doc.section(say("How to repeat it"), *commands, anchor="repeat", short=say("Repeat"))


def _limitations(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the limitations; in a terminal, only the one that a sequential campaign has."""
    report, say = shown.report, shown.say
    if shown.form == "terminal":
        yield doc.Paragraph(words.sequential_note(report, say) if report.study.design.sequential else "")
        return
    yield from doc.section(say("Limitations"), doc.Items(tuple(words.limitations(report, say))), anchor="limitations")


def _closing(shown: _ShownResults) -> Iterator[doc.Block]:
    """Yield the sentences with which the other forms begin: in a terminal, a reader sees the end of the output."""
    report, say, analysis = shown.report, shown.say, shown.content.analysed
    yield doc.Items(tuple(decision_answer(shown.decision, say)) if shown.decision else ())
    yield doc.Items((*key_findings(report, say, analysis), *caveats(report, say)))
    yield doc.Items(tuple(filter(None, [platform_line(report, say, analysis)])))
    yield doc.Items(warnings(report, say), tag=say("note"))


_SECTIONS = (
    _Section(_title, ("page", "paper", "terminal", "short")),
    _Section(_decision, ("page", "paper", "short")),
    _Section(_values, ("page", "short")),
    _Section(_effects, ("page", "paper"), folded=("terminal",)),
    _Section(_claims, ("page", "paper", "short")),
    _Section(lambda shown: published_blocks(shown.content, shown.figures), ("page", "paper")),
    _Section(_results, ("page", "paper", "terminal", "short")),
    _Section(_actual_conditions, ("page", "paper", "terminal")),
    _Section(_missing, ("page", "paper", "terminal", "short")),
    _Section(_time_course, ("page",)),
    _Section(lambda shown: statistics_blocks(shown.content), ("page", "paper"), folded=("terminal",)),
    _Section(_growth, ("page", "paper", "terminal")),
    _Section(_provenance, ("page",)),
    _Section(_study, ("page",)),
    _Section(_repeat, ("page", "short")),
    _Section(_limitations, ("page", "paper", "terminal")),
    _Section(_closing, ("terminal",)),
)

"""The report as one self-contained HTML page: it needs no network, script or font.

All text from a study or a trial passes through jinja2's autoescape. Only figures by Lastro and markup that consists of
numbers are trusted."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from lastro import __version__
from lastro.analysis.as_published import MatchedBars
from lastro.analysis.model import MetricAnalysis
from lastro.analysis.properties import ALL
from lastro.analysis.scaling import scalings
from lastro.builders import stat_tables
from lastro.builders.content import Content
from lastro.builders.part_properties import part_tables
from lastro.builders.published_tables import INTRODUCTION, NOTHING_OF_IT, bars_table, printed_table
from lastro.builders.results_view import groups, hoisted_factors
from lastro.builders.search_tables import tables_of
from lastro.builders.statistics_words import (
    check_sentences,
    metric_summary,
    noise_floor_sentence,
    statistics_sentences,
    time_sentences,
)
from lastro.builders.tables import curve_tables, doses_table, growth_tables, invalid_table, really_table, remarks_table
from lastro.figures import NARROW_IN, WIDE_IN, FigurePlan, plans
from lastro.figures.scenario_additions import growth_of
from lastro.figures.svg import own_ids
from lastro.report.templating import environment
from lastro.words import campaign as words
from lastro.words.language import Language
from lastro.words.numbers import direction_text
from lastro.words.numeric import slope_text, slopes_note
from lastro.words.opening import opening
from lastro.words.published import title_of
from lastro.words.remarks import meaning

_TONES = {"▲": "better", "▼": "worse", "✓": "better", "✕": "worse"}


def render_html(content: Content) -> str:
    """Return the page as a string. The same report gives the same bytes."""
    return html_environment().get_template("report.html.j2").render(_context(content))


def html_environment() -> Environment:
    """Return the jinja2 environment of the page templates."""
    made = environment()
    made.globals["tone"] = lambda text: _TONES.get(text[:1], "")
    return made


def _context(content: Content) -> dict[str, Any]:
    report, say = content.report, content.say
    hoisted = hoisted_factors(report)
    drawn = _drawn(content)
    context: dict[str, Any] = {
        "say": say,
        "report": report,
        "version": __version__,
        "title": report.study.title or report.study.name,
        "opening": opening(report, say),
        "summary": words.summary(report, say),
        "place": words.place(report, say),
        "noise_floor": noise_floor_sentence(content.analysis, say),
        "drawn": drawn,
        "metrics": [_metric(content, metric) for metric in content.analysis.metrics],
        "claims": stat_tables.claims_table(content.judgements, content.claims_note, say),
        "claims_tally": content.claims_tally,
        "published": list(_published(content, drawn["published"])),
        "published_introduction": INTRODUCTION,
        "limitations": words.limitations(report, say),
        "meaning": meaning,
        "really": [
            table
            for table in (
                really_table(report, say),
                *part_tables(report, say),
                doses_table(report, say),
                remarks_table(report, say),
            )
            if table
        ],
        "confidence": words.percent(report.study.design.confidence),
        "tiles": _tiles(content),
        "factors": [factor.name for factor in report.varying[hoisted:]] or [say("treatment")],
        "directions": [direction_text(metric, say) for metric in report.metrics],
        "groups": list(groups(content, hoisted)),
        "searches": tables_of(report, say),
        "invalid": invalid_table(report, say),
        "scalings": scalings(report),
        "growth": growth_of(report),
        "growths": [replace(table, note="") for table in growth_tables(report, say)],
        "slope_text": slope_text,
        "slopes_note": slopes_note,
        "commands": words.commands(report, say),
        "all_trials": ALL,
        "baseline": ", ".join(f"{name} = {level}" for name, level in report.study.design.baseline.items()),
        "words": words,
        "resources": words.resources(report, say),
        "is_mapping": lambda value: isinstance(value, Mapping),
        "is_list": lambda value: isinstance(value, list | tuple),
    }
    return context | {"contents": list(_contents(context, say))}


def _contents(context: Mapping[str, Any], say: Language) -> Iterator[tuple[str, str]]:
    """Yield (anchor, name) for every section of the page."""
    drawn = context["drawn"]
    sections = (
        ("curves", say("Curves"), drawn["curve"]),
        ("trials", say("Trials"), drawn["distribution"]),
        ("effects", say("Effects"), drawn["effects"] or drawn["variation"]),
        ("interactions", say("Interactions"), drawn["interaction"]),
        ("claims", say("Claims"), context["claims"]),
        ("published", say("As published"), context["published"]),
        ("results", say("Results"), True),
        ("really", say("Really measured"), context["really"]),
        ("missing", say("Missing"), True),
        ("time", say("Time course"), True),
        ("resources", say("Resources"), True),
        ("statistics", say("Statistics"), True),
        ("scaling", say("Scaling"), context["scalings"] or context["growths"]),
        ("provenance", say("Provenance"), True),
        ("testbed", say("Testbed"), drawn["topology"]),
        ("repeat", say("Repeat"), True),
        ("limitations", say("Limitations"), True),
    )
    return ((anchor, name) for anchor, name, there in sections if there)


def _published(content: Content, drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the tables of the source, then its figures, each with its table; a figure without data has no plate."""
    confidence, say = content.report.study.design.confidence, content.say
    plates = {each["title"]: each for each in drawn}
    for printed in content.published.tables if content.published else ():
        yield {"table": printed_table(printed, confidence, say), "plate": None, "note": ""}
    for found in content.published.figures if content.published else ():
        passage = found.figure.passage
        title = title_of(passage, say)
        plate = plates.get(title)
        table = bars_table(found, confidence, say, noted=not plate) if isinstance(found, MatchedBars) else None
        if plate:
            plate["note"] = passage.notes(say.code).removesuffix(".")
        yield {"table": table, "plate": plate, "note": "" if plate or table else say(NOTHING_OF_IT, title=title)}


def _tiles(content: Content) -> list[tuple[str, str, str]]:
    """Return (number, words, CSS class) for each tile in the band under the title."""
    report, say = content.report, content.say
    counts = report.progress.counts
    waiting = words.waiting(report)
    tiles = [
        (len(report.rows), say("treatments"), ""),
        (counts.get("valid", 0), say("valid trials"), "valid"),
        (counts.get("invalid", 0), say("invalid trials"), "invalid"),
        (counts.get("unavailable", 0), say("trials unavailable here"), "unavailable"),
    ]
    tiles += [(waiting, say("trials not run yet"), "pending")] if waiting else []
    return [(say.integer(number), label, kind if number else "") for number, label, kind in tiles]


def _metric(content: Content, metric: MetricAnalysis) -> dict[str, Any]:
    """Return the sentences and tables of one metric."""
    say = content.say
    return {
        "name": metric.metric.name,
        "summary": metric_summary(metric, say),
        "statistics": statistics_sentences(metric, content.analysis.alpha, say),
        "effects": stat_tables.effects_table(metric, say),
        "interactions": [stat_tables.interaction_table(metric, found, say) for found in metric.interactions],
        "checks": list(check_sentences(metric, say)),
        "time": list(time_sentences(metric, content.analysis.alpha, say)),
        "tables": stat_tables.tables_behind(metric, say),
    }


# Figures


def _drawn(content: Content) -> dict[str, list[dict[str, Any]]]:
    """Return {kind: [figure]} in their order, each with title, note, SVG and, for a curve, its table."""
    drawn: dict[str, list[dict[str, Any]]] = defaultdict(list)
    tables = curve_tables(content.report, content.say)
    for plan in plans(content.report, content.analysis, content.say, content.judgements, content.published):
        if svg := plate(plan):
            metric = None if plan.metric is None else content.report.metrics[plan.metric]
            note = metric.summary if metric is not None and plan.kind == "distribution" else ""
            table = tables.get((plan.metric or 0, plan.factor))
            drawn[plan.kind].append(
                {"title": plan.title, "note": note, "svg": svg, "metric": plan.metric, "table": table}
            )
    return drawn


def plate(plan: FigurePlan) -> Markup:
    """Return the figure in a wide and a narrow version, of which the page shows one; empty without data."""
    drawn = ((kind, plan.picture(width_in)) for kind, width_in in (("desk", WIDE_IN), ("phone", NARROW_IN)))
    return Markup("").join(inline_svg(picture.svg(), plan.title, kind) for kind, picture in drawn if picture)


def inline_svg(document: str, label: str, kind: str) -> Markup:
    """Embed a figure drawn by Lastro: without XML prologue, with unique ids, as wide as the page allows."""
    body = own_ids(document[document.index("<svg") :], f"f{zlib.crc32(document.encode()):x}-")
    width_pt = re.search(r'<svg[^>]* width="([\d.]+)pt"', body)
    width = float(width_pt[1]) if width_pt else 600.0
    head = Markup('<svg class="{}" role="img" aria-label="{}" style="max-width:{:.0f}px" ').format(
        kind, label, width * 1.9
    )
    start = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", body[: body.index(">")].removeprefix("<svg"))
    style = re.compile(r"<style [^>]*>.*?</style>", re.DOTALL)
    return head + Markup(start.strip() + style.sub("", body[body.index(">") :]))

"""The files of a bundle that are made from its campaign alone: reports, tables, figures and records.

`lastro bundle` writes them, and `lastro verify` makes them again to compare them. They contain neither the current date
nor directories of this machine, and do not depend on its locale. Computed numbers in JSON have five significant digits:
the last digits of a double depend on the processor, because libraries choose the order of additions by processor."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app.contents import content_from, suite_section
from lastro.builders.data.encoder import encode
from lastro.campaign import suite as suites
from lastro.plain import json_text, without_controls
from lastro.results.database import IN_BUNDLE
from lastro.results.read import CampaignData, load_campaign
from lastro.results.store import Store
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.builders.content import Content

REPORT = "report"
RECORD = "record"
_DIGITS = 5
_STABLE_DIGITS = 9  # rounded to first: else the noise of a double would decide whether 0.125 is rounded up or down
_MEASURED = "values"  # key of a metric in `builders.data.results` whose values are measured, not computed

Document = tuple[str, bytes]


def documents(bundle: Path, say: Language) -> Iterator[Document]:
    """Yield (name, contents) of every file that is made from the campaign or the suite in a bundle.

    Raises: StoreError when its database is damaged."""
    home = bundle / IN_BUNDLE
    if not suites.is_suite(home):
        yield from _campaign_documents(home, "", say)
        return
    from lastro.builders.suite import suite_blocks
    from lastro.render.html import html

    suite, sections = suites.read(home), []
    for member in suite.studies:
        content = None
        if suites.has_campaign(home, member):
            content = yield from _campaign_documents(home / member.name, f"{member.name}/", say)
        sections.append(suite_section(home, member, content, f"{member.name}/report.html"))
    page = html(suite_blocks(suite.label, suite.description, sections, say, suite.source), say, IN_BUNDLE)
    yield f"{REPORT}/report.html", _text(page)


def _campaign_documents(directory: Path, inner: str, say: Language) -> Generator[Document, None, Content]:
    """Yield the documents of one campaign, and return the content of its report.

    `inner` is the campaign's folder within a suite."""
    with Store.open(directory, readonly=True) as store:
        data = replace(load_campaign(store), directory=f"{IN_BUNDLE}/{inner}".rstrip("/"))
        yield from _records(data, store, f"{RECORD}/{inner}")
    claims = directory / "claims.toml"
    content = content_from(data, claims if claims.is_file() else None, say)
    yield from _reports(data, content, f"{REPORT}/{inner}")
    return content


def _records(data: CampaignData, store: Store, folder: str) -> Iterator[Document]:
    """Yield the provenance of a campaign, and the transcript of each attempt."""
    testbeds = {member.directory: member.provenance.chapters for member in data.members}
    chapters = {
        "provenance": data.provenance.chapters,
        **({"testbeds": testbeds} if testbeds else {}),
        "calibrations": data.calibrations,
        "noise_floor": data.noise_floor,
        "events": [dict(zip(("at_utc", "kind", "text"), event, strict=True)) for event in data.events],
    }
    yield f"{folder}provenance.json", _json(chapters)
    levels = {row.treatment.index: dict(row.treatment.levels) for row in data.treatments}
    for attempt in data.attempts:
        head = {"trial": attempt.trial, "attempt": attempt.attempt, "started_utc": attempt.started_utc}
        steps = {"levels": levels[attempt.treatment], "steps": store.transcript(attempt.trial, attempt.attempt)}
        yield f"{folder}transcripts/trial-{attempt.trial}-attempt-{attempt.attempt}.json", _json(head | steps)


def _reports(data: CampaignData, content: Content, folder: str) -> Iterator[Document]:
    """Yield the figures, the reports in all formats, and the tables of a campaign."""
    from lastro.builders.data.results import document
    from lastro.builders.page_figures import draw_figures, link_figures, planned_figures
    from lastro.builders.results import results_blocks
    from lastro.figures import pictures
    from lastro.render.html import html
    from lastro.render.latex import latex
    from lastro.render.markdown import markdown
    from lastro.results.export import to_csv

    links, say = {}, content.say
    for picture in pictures(planned_figures(content)):
        links[picture.title] = f"figures/{picture.name}.svg"
        yield f"{folder}{links[picture.title]}", _text(picture.svg())
    page = html(results_blocks(content, "page", draw_figures(planned_figures(content))), say, content.report.directory)
    yield f"{folder}report.html", _text(page)
    whole = results_blocks(content, "page", link_figures(planned_figures(content), links))
    yield f"{folder}report.md", _text(markdown(whole, say))
    yield f"{folder}report.tex", _text(latex(results_blocks(content, "paper"), say))
    yield f"{folder}tables/trials.csv", to_csv(data).encode()
    results = document(content.report, content.published, content.analysis)
    yield f"{folder}tables/results.json", _json(_rounded(results))


def _text(text: str) -> bytes:
    return without_controls(text).encode("utf-8", "replace")


def _json(value: dict[str, Any]) -> bytes:
    return (json_text(encode(value, {})) + "\n").encode("utf-8", "replace")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{float(f'{value:.{_STABLE_DIGITS}g}'):.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: element if key == _MEASURED else _rounded(element) for key, element in value.items()}
    return [_rounded(element) for element in value] if isinstance(value, list) else value

"""One document on results: every form has sections of the page in their order, in each language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from lastro.app.contents import content_of
from lastro.builders.results import Form, results_blocks
from lastro.document import Grid, Heading
from lastro.words.language import LANGUAGES, language

from ...support.campaigns import METRICS, make_campaign, make_study
from ...support.documents import render_terminal


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """AppArmor cannot run, two trials are invalid, and service levels are decided."""
    factors = {"isolation": ("none", "cgroups", "apparmor")}
    sla = {"throughput": ">= 1000 Mbit/s"}
    return make_campaign(
        tmp_path_factory.mktemp("forms") / "c",
        make_study(factors, metrics=METRICS[:2], baseline={"isolation": "none"}, replicates=6, sla=sla),
        value=lambda levels, block, metric: 1000.5 + 100 * (levels["isolation"] == "none") + block,
        unavailable=lambda levels: ("no AppArmor", "boot another") if levels["isolation"] == "apparmor" else None,
        doubts=lambda levels, block, attempt: ["no traffic"] if levels["isolation"] == "cgroups" and block < 3 else [],
    )


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_form_has_sections_of_the_page_in_its_order(directory: Path, code: str) -> None:
    content = content_of([directory], language(code), all_metrics=False)
    blocks = {form: list(results_blocks(content, form, everything=True)) for form in get_args(Form)}
    headings = {form: [each.text for each in blocks[form] if isinstance(each, Heading)] for form in blocks}
    page = headings.pop("page")
    assert len(page) == len(set(page)) > 8
    for form, own in headings.items():
        assert own and own == [heading for heading in page if heading in own], form
    of_page, of_screen = (
        next(each for each in blocks[form] if isinstance(each, Grid)) for form in ("page", "terminal")
    )
    assert [row for row in of_page.rows if not row.cells[-1].absent] == list(of_screen.rows) and of_screen.rows
    assert (of_page.head, of_page.note, of_page.legend) == (of_screen.head, of_screen.note, of_screen.legend)


def test_a_terminal_speaks_portuguese_with_the_numbers_of_english(directory: Path) -> None:
    report = content_of([directory], language("en"), all_metrics=False).report
    english, shown = (
        "\n".join(line.plain for line in render_terminal(report, 90, language(code))) for code in ("en", "pt-BR")
    )
    for words in ("ensaios: 10 válido(s)", "quanto maior, melhor", "linha de base", "Indisponível nesta máquina",
                  "Solução:", "no traffic (ensaios ", "cumpre throughput", "em ordem dos níveis"):  # fmt: skip
        assert words in shown, words
    assert not re.search(r"\b(higher is better|baseline|trials?|valid|interval|shown|sorted|Remedy)\b", shown)
    means = re.findall(r"\d+\.\d+ ± \d+\.\d+", english)
    assert len(means) > 2 and re.findall(r"\d+,\d+ ± \d+,\d+", shown) == [mean.replace(".", ",") for mean in means]

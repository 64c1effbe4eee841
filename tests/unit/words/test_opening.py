"""A campaign that lost many trials says so first in every document, and last on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.builders.content import Content
from lastro.results.provenance import HostFacts, Provenance
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.words.campaign import host_line
from lastro.words.language import ENGLISH, language
from lastro.words.opening import invalid_fraction, many_invalid_warning

from ...support.campaigns import PROVENANCE, make_campaign, make_study
from ...support.documents import render_html, render_latex, render_markdown, render_terminal

WARNING = (
    "2 of 6 trials that can run here are invalid (33 %): the results are based on the others only."
    " `lastro resume --invalid` tries them again."
)


@pytest.fixture
def report(tmp_path: Path) -> CampaignResults:
    """Nine trials: three valid ones too few would be too easy; three cannot run here, and two stay invalid."""
    directory = make_campaign(
        tmp_path / "campaign",
        make_study({"isolation": ("none", "cgroups", "apparmor")}, replicates=3, baseline={"isolation": "none"}),
        doubts=lambda levels, block, attempt: ["disturbed"] if levels["isolation"] == "cgroups" and block < 3 else [],
        unavailable=lambda levels: ("no AppArmor", None) if levels["isolation"] == "apparmor" else None,
    )
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store))


@pytest.mark.usefixtures("undrawn")
def test_it_is_said_first_in_documents_and_last_on_a_terminal(report: CampaignResults) -> None:
    content = Content(report, analyse(report), ENGLISH)
    assert render_markdown(content).split("\n\n")[1] == f"**{WARNING.replace('`', chr(92) + '`')}**"
    page = render_html(content)
    warning = WARNING.replace(" %", "\xa0%")
    assert page.index("</h1>") < page.index(f'<p class="opening">{warning}</p>') < page.index('<p class="lead">')
    assert r"\textbf{2 of 6 trials that can run here are invalid (33 \%)" in render_latex(content)
    shown = " ".join(" ".join(line.plain for line in render_terminal(report, 80)).split())
    assert shown.endswith(WARNING)


def test_it_is_said_in_portuguese_too(report: CampaignResults) -> None:
    said = many_invalid_warning(report.progress.counts, language("pt-BR"))
    assert said.startswith("2 de 6 ensaios que podem ser executados aqui são inválidos (33\xa0%)")


@pytest.mark.parametrize(
    ("counts", "fraction", "said"),
    [
        ({"valid": 90, "invalid": 10, "unavailable": 500}, 0.1, False),
        ({"valid": 89, "invalid": 11, "unavailable": 500}, 0.11, True),
        ({"valid": 2, "invalid": 1, "pending": 97}, 0.01, False),
        ({"unavailable": 9}, 0.0, False),
        ({}, 0.0, False),
    ],
)
def test_it_is_said_above_a_tenth_of_what_can_run(counts: dict[str, int], fraction: float, said: bool) -> None:
    assert invalid_fraction(counts) == pytest.approx(fraction)
    assert bool(many_invalid_warning(counts, ENGLISH)) is said


def test_the_line_of_the_host_has_all_that_is_recorded() -> None:
    line = "edge-7, AMD EPYC 7B13, 2 CPUs, 23.5 GiB, 6.1.0-27-amd64"
    assert host_line(Provenance.of(PROVENANCE).host, ENGLISH) == line and host_line(HostFacts(), ENGLISH) == ""

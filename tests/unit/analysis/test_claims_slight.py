"""A claim that says "slightly" has a bound, and a claim that is not quite the published one has a note."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lastro import papers
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.claim import Claim, Claims
from lastro.analysis.claims.load import load_claims, parse_claims
from lastro.builders.claims import JudgedClaims, claims_blocks
from lastro.builders.data.claims import claims_document
from lastro.builders.stat_tables import claims_table
from lastro.figures.claims import draw_claims
from lastro.render.terminal import terminal_lines
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.study.load import load
from lastro.words.claims import reason_text
from lastro.words.language import ENGLISH, language

from ...support.campaigns import Levels, make_campaign, make_study

STUDY = make_study({"platform": ("native", "crun")}, replicates=6)
TEXT = """
[[claim]]
id = "slower"
says = "crun carries slightly less than the bare host"
compare = { metric = "throughput", of = { platform = "crun" }, to = { platform = "native" } }
direction = "lower"
slight = 0.1
note = "Here over one link."
note_in = { pt-BR = "Aqui por um enlace." }
"""
OPPOSITE = TEXT.replace('crun" }, to = { platform = "native', 'native" }, to = { platform = "crun').replace(
    '"lower"', '"higher"'
)


def judged(directory: Path, ratio: float, text: str = TEXT) -> tuple[Claims, Judgement, CampaignResults]:
    """The judgement of the claim where crun carries `ratio` times as much as the bare host."""

    def value(levels: Levels, block: int, metric: str) -> float:
        noise = random.Random(f"{sorted(levels.items())}:{block}").gauss(0, 0.2)
        return 100 * (ratio if levels["platform"] == "crun" else 1.0) + noise

    make_campaign(directory, STUDY, value=value, notes=lambda levels, block: {})
    claims = parse_claims(text, "c.toml", STUDY)
    with Store.open(directory) as store:
        report = build_report(load_campaign(store))
    return claims, judge(claims, report)[0], report


@pytest.mark.parametrize("text", [TEXT, OPPOSITE])
@pytest.mark.parametrize(
    ("ratio", "verdict", "reason"),
    [
        (0.97, "reproduced", "the whole interval lies below a difference of 10\xa0%"),
        (0.5, "same direction, another size", "the whole interval lies beyond a difference of 10\xa0%"),
        (1 / 1.1, "same direction, too imprecise", "the interval reaches beyond a difference of 10\xa0%"),
        (1.03, "contradicted", "the effect is significant, in the opposite direction"),
    ],
)
def test_slightly_is_a_bound_in_both_directions(
    tmp_path: Path, text: str, ratio: float, verdict: str, reason: str
) -> None:
    _, found, _ = judged(tmp_path / "c", ratio, text)
    assert (found.verdict, reason_text(found)) == (verdict, reason)
    assert draw_claims([found], ENGLISH) is not None


def test_a_note_stands_beside_the_verdict_everywhere(tmp_path: Path) -> None:
    claims, found, report = judged(tmp_path / "c", 0.97)
    document = claims_document(JudgedClaims(claims, (found,), report))
    assert document["claims"][0]["note"] == "Here over one link." and document["claims"][0]["slight"] == 0.1
    for say, note in ((ENGLISH, "Here over one link."), (language("pt-BR"), "Aqui por um enlace.")):
        assert claims_table([found], "", say).rows[0][-1].endswith(f"; {note}")
        assert note in "\n".join(
            terminal_lines(claims_blocks("", {"": JudgedClaims(claims, (found,), report)}, say), 200, say)
        )


def published_claims() -> dict[str, Claim]:
    found = {}
    for name in papers.names():
        if file := papers.claims(name.replace("/", "-")):
            claims = load_claims(file, load(papers.find(name), schemas())).claims
            found |= {f"{name}: {claim.id}": claim for claim in claims}
    return found


def test_no_published_claim_says_slightly_of_any_difference() -> None:
    """A direction alone would hold for three times the time, too."""
    for name, claim in published_claims().items():
        if any(word in claim.says for word in ("slightly", "somewhat", "a little")):
            assert claim.slight == 0.1 or (claim.published and claim.published.tolerance), name


def test_every_note_on_a_published_claim_is_told_in_portuguese_too() -> None:
    for name, claim in published_claims().items():
        assert not claim.note or claim.note_text("pt-BR") != claim.note, name

"""Claims on what a host lacks: judged on their own levels where these were measured, else on stand-ins, by name."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.build import build_report
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.load import parse_claims
from lastro.builders.claims import JudgedClaims
from lastro.builders.data.claims import claims_document
from lastro.builders.stat_tables import claims_table
from lastro.errors import StudyError
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.words.claims import reason_text, tally_text, verdict_text
from lastro.words.language import ENGLISH, language

from ...support.campaigns import Levels, make_campaign, make_study

STUDY = make_study({"platform": ("native", "crun", "runc"), "isolation": ("none", "cgroups")}, replicates=6)
TEXT = """
[[claim]]
id = "slower"
says = "crun carries less than the bare host"
compare = { metric = "throughput", of = { platform = "crun" }, to = { platform = "native" } }
direction = "lower"
stand_in = { levels = { platform = { crun = "runc" } } }
[[claim]]
id = "first"
says = "the bare host carries most"
order = { metric = "throughput", factor = "platform", falling = ["native", "crun"] }
stand_in = { levels = { platform = { crun = "runc" } }, metric = "latency_max" }
"""


def value(levels: Levels, block: int, metric: str) -> float:
    noise = random.Random(f"{sorted(levels.items())}:{block}").gauss(0, 1)
    carried = {"native": 100.0, "crun": 120.0, "runc": 90.0}[str(levels["platform"])] + noise
    return carried if metric == "throughput" else 1000 / carried


def judged(directory: Path, *lacking: str, text: str = TEXT) -> tuple[dict[str, Judgement], dict[str, Any]]:
    make_campaign(
        directory, STUDY, value=value, notes=lambda levels, block: {},
        unavailable=lambda levels: ("not here", None) if levels["platform"] in lacking else None,
    )  # fmt: skip
    claims = parse_claims(text, "c.toml", STUDY)
    with Store.open(directory) as store:
        report = build_report(load_campaign(store))
    found = judge(claims, report)
    return {one.claim.id: one for one in found}, claims_document(JudgedClaims(claims, found, report))


def test_of_several_stand_ins_the_first_that_was_measured_takes_the_place(tmp_path: Path) -> None:
    text = TEXT.replace("crun", "none-such").replace(
        'stand_in = { levels = { platform = { none-such = "runc" } } }',
        'stand_in = [{ levels = { platform = { none-such = "crun" } } }, '
        '{ levels = { platform = { none-such = "runc" } } }]',
    )
    told = [judged(tmp_path / name, *lacking, text=text) for name, lacking in (("a", ()), ("b", ("crun",)))]
    assert [[each.measured for each in found["slower"].stand_in] for found, _ in told] == [[("crun",)], [("runc",)]]
    assert [found["slower"].verdict for found, _ in told] == ["contradicted", "reproduced"], "crun carries more"


def test_what_was_published_is_judged_where_it_was_measured(tmp_path: Path) -> None:
    found, document = judged(tmp_path / "c")
    assert {one.verdict for one in found.values()} == {"contradicted"}, "crun carries more"
    assert all(one.stand_in == () and "stand-in" not in verdict_text(one) for one in found.values())
    assert document["claims"][0]["verdict"] == "contradicted" and document["claims"][0]["stand_in"] == []


def test_a_verdict_on_a_stand_in_says_so_everywhere(tmp_path: Path) -> None:
    found, document = judged(tmp_path / "c", "crun")
    slower, first = found["slower"], found["first"]
    assert verdict_text(slower) == "✓ reproduced, stand-in"
    assert verdict_text(slower, language("pt-BR")) == "✓ reproduzida, substituto"
    assert reason_text(slower).startswith("stand-in: runc in place of crun; ")
    assert reason_text(slower, language("pt-BR")).startswith("substituto: runc no lugar de crun; ")
    assert tally_text([slower, first]).endswith("(2 on a stand-in).")
    assert verdict_text(first) == "✕ contradicted, stand-in", "by the metric of the stand-in"
    assert document["claims"][1]["metric"] == "latency_max"
    assert document["claims"][0]["verdict"] == "reproduced, stand-in"
    assert document["claims"][0]["stand_in"] == [{"published": "crun", "measured": ["runc"]}]
    assert json.dumps(document)
    table = claims_table([slower], "", ENGLISH)
    assert table.rows[0][-1].startswith("✓ reproduced, stand-in: ")


def test_without_a_stand_in_either_the_reason_is_that_of_what_was_published(tmp_path: Path) -> None:
    found, document = judged(tmp_path / "c", "crun", "runc")
    assert verdict_text(found["slower"]) == "– untestable here"
    assert "is unavailable: not here" in reason_text(found["slower"])
    assert document["claims"][0]["stand_in"] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{ crun = ", "{ cron = "), "claim[0].stand_in[0].levels.platform.cron: is not a level that the claim names"),
        (('"latency_max" }', '"latency" }'), "claim[1].stand_in[0].metric: study small has no metric 'latency'"),
        (('= "runc" } } }', '= "native" } } }'), "has the stand-in 'native', which the claim names too"),
        (
            ('= "runc" } }, metric', '= ["runc", "native"] } }, metric'),
            "claim[1].stand_in[0].levels.platform.crun: has several",
        ),
    ],
)
def test_a_stand_in_that_is_none_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_claims(TEXT.replace(*change, 1), "c.toml", replace(STUDY, name="small"))
    assert message in f"{caught.value.message} {caught.value.hint}"

"""The published claims of kagami2017: each is judged, and reproduced in a world in which what was published is so."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lastro import papers
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.claim import Claim, Claims
from lastro.analysis.claims.kinds.additive import Additive
from lastro.analysis.claims.kinds.alike import Alike
from lastro.analysis.claims.kinds.order import Order
from lastro.analysis.claims.kinds.recovery import Recovery
from lastro.analysis.claims.load import load_claims
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.study.load import load
from lastro.words.claims import reason_text
from lastro.words.language import language

from ...support.campaigns import KAGAMI, Levels, make_campaign, make_study
from ...support.kagami_truth import ANOMALIES, mean_of, published_value

FILE = papers.claims("kagami2017")
STUDY = replace(make_study(KAGAMI, replicates=12), name="kagami2017")
NO_APPARMOR = ("AppArmor is not in this kernel", "boot another kernel")


def campaign(directory: Path, **options: Any) -> CampaignResults:
    study = replace(STUDY, design=replace(STUDY.design, replicates=options.pop("replicates", 12)))
    make_campaign(directory, study, value=published_value, notes=lambda levels, block: {}, **options)
    with Store.open(directory) as store:
        return build_report(load_campaign(store))


@pytest.fixture(scope="module")
def claims() -> Claims:
    assert FILE is not None
    return load_claims(FILE, STUDY)


@pytest.fixture(scope="module")
def judged(claims: Claims, tmp_path_factory: pytest.TempPathFactory) -> tuple[Judgement, ...]:
    return judge(claims, campaign(tmp_path_factory.mktemp("kagami") / "full"))


def test_every_claim_is_reproduced_where_the_published_is_so(judged: tuple[Judgement, ...]) -> None:
    others = {one.claim.id: (one.verdict, reason_text(one)) for one in judged if one.verdict != "reproduced"}
    assert others == {}
    assert len(judged) == 54


def opposite(claim: Claim, levels: Levels, block: int, metric: str) -> float:
    """What a trial would measure in a world of which the opposite of a claim is true."""
    value = published_value(levels, block, metric)
    if isinstance(claim.statement, Recovery):  # what protects makes it worse
        lost = levels["isolation"] == "cgroups" and levels["anomaly"] != "none"
        return value * (0.3 if metric == "throughput" else 3.0) if lost else value
    if isinstance(claim.statement, Additive):  # an anomaly that only one function feels
        return value * (3.0 if (levels["function"], levels["anomaly"]) == ("nat", "memory") else 1.0)
    if isinstance(claim.statement, Alike) or claim.direction == "alike":
        return value * 2.0 ** sum(KAGAMI[name].index(str(level)) for name, level in levels.items())
    if isinstance(claim.statement, Order) and claim.statement.of:  # each effect with the other sign
        return {"throughput": 9e3}.get(metric, 9.0) - value
    return {"throughput": 9e6}.get(metric, 1.0) / value


def test_every_claim_is_contradicted_where_its_opposite_is_so(claims: Claims, tmp_path: Path) -> None:
    """So each can come out both ways, and a verdict of "reproduced" means something."""
    kinds: dict[str, list[Claim]] = {}
    for claim in claims.claims:
        likeness = isinstance(claim.statement, Alike) or claim.direction == "alike"
        effects = "effects" if getattr(claim.statement, "of", {}) else ""
        kinds.setdefault("likeness" if likeness else f"{type(claim.statement).__name__} {effects}", []).append(claim)
    others = {}
    for kind, found in kinds.items():
        study = replace(STUDY, design=replace(STUDY.design, replicates=6))
        world = partial(opposite, found[0])
        make_campaign(tmp_path / kind, study, value=world, notes=lambda levels, block: {})
        with Store.open(tmp_path / kind) as store:
            judged = judge(replace(claims, claims=tuple(found)), build_report(load_campaign(store)))
        others |= {one.claim.id: (one.verdict, reason_text(one)) for one in judged if one.verdict != "contradicted"}
    assert others == {}


def test_a_quick_look_judges_every_claim_with_a_part_of_the_design(claims: Claims, tmp_path: Path) -> None:
    """Two blocks of fewer than half of the treatments: enough for most of what was published, and against none."""
    quick = replace(load(papers.find("kagami2017"), schemas()).with_profile("quick"), name="kagami2017")
    make_campaign(tmp_path / "c", quick, value=published_value, notes=lambda levels, block: {})
    with Store.open(tmp_path / "c") as store:
        assert len(store.treatments()) == 80
        judged = judge(claims, build_report(load_campaign(store)))
    verdicts = Counter(one.verdict for one in judged)
    assert set(verdicts) <= {"reproduced", "not distinguishable here"} and verdicts["reproduced"] > 40


def test_every_claim_stands_on_the_whole_design(judged: tuple[Judgement, ...]) -> None:
    for one in judged:
        assert one.effects is not None and one.effects.strata == one.effects.all_strata, one.claim.id
        assert one.n_blocks == 12 and one.part is not None and one.part.effect.pairing == "paired"


def test_the_world_of_the_test_is_the_published_one() -> None:
    """The true means, not the judge, give back the figures of the file."""
    plane = [(a, f) for a in KAGAMI["attachment"] for f in KAGAMI["function"]]

    def mean(metric: str, isolation: str, *anomalies: str) -> float:
        levels = [
            {"attachment": a, "function": f, "isolation": isolation, "anomaly": x} for a, f in plane for x in anomalies
        ]
        return sum(mean_of(one, metric) for one in levels) / len(levels)

    ideal, lost = mean("throughput", "none", "none"), mean("throughput", "none", *ANOMALIES)
    assert lost / ideal == pytest.approx(0.8961, abs=1e-4)
    assert lost - ideal == pytest.approx(-312.39, abs=0.1)
    assert (mean("throughput", "cgroups", *ANOMALIES) - lost) / (ideal - lost) == pytest.approx(0.6259, abs=1e-3)
    assert mean("throughput", "cgroups+apparmor", *ANOMALIES) / ideal == pytest.approx(0.9619, abs=1e-4)
    peaks = mean("latency_max", "none", "none")
    assert mean("latency_max", "none", *ANOMALIES) / peaks == pytest.approx(2.2978, abs=1e-4)
    assert mean("latency_max", "none", "memory") - peaks == pytest.approx(2.18, abs=0.01)


def test_without_apparmor_its_claims_are_untestable_and_say_why(claims: Claims, tmp_path: Path) -> None:
    report = campaign(tmp_path / "c", unavailable=lambda levels: NO_APPARMOR if "apparmor" in str(levels) else None)
    judged = judge(claims, report)
    untestable = {one.claim.id for one in judged if one.verdict == "untestable here"}
    assert untestable == {one.claim.id for one in judged if one.claim.id.startswith(("apparmor", "both"))}
    for one in judged:
        if one.claim.id in untestable:
            assert reason_text(one).startswith(
                "isolation = apparmor, cgroups+apparmor is unavailable: AppArmor is not in this"
            )
        else:
            assert one.verdict == "reproduced", (one.claim.id, reason_text(one))
    partly = next(one for one in judged if one.claim.id == "direct-over-bridge")
    assert reason_text(partly).endswith("over 24 of 48 conditions of the design")


def test_with_one_block_every_claim_is_untestable(claims: Claims, tmp_path: Path) -> None:
    judged = judge(claims, campaign(tmp_path / "c", replicates=1))
    assert {one.verdict for one in judged} == {"untestable here"}
    assert all(reason_text(one).startswith("n = 1: ") and one.p is None for one in judged)
    first = judged[0].part
    assert first is not None and first.effect.value == pytest.approx(1.05, abs=0.02)  # a first look, without interval
    assert first.effect.interval is None


def test_every_claim_has_its_place_and_its_portuguese(claims: Claims) -> None:
    for claim in claims.claims:
        assert claim.where.startswith("section "), claim.id
        assert claim.text("pt-BR") != claim.text("en"), claim.id
        assert claim.published is None or claim.published.printed, claim.id


def test_tolerances_are_what_the_head_of_the_file_says(claims: Claims) -> None:
    for claim in claims.claims:
        if claim.published is None or claim.published.tolerance is None:
            continue
        measure, figure = claim.published.judged
        effect = abs(figure - 1) if measure == "ratio" else abs(figure)
        wanted = 0.2 if measure == "share" else effect / 2
        assert claim.published.tolerance == pytest.approx(wanted, rel=0.01), claim.id


def test_reasons_are_said_in_portuguese(claims: Claims, tmp_path: Path) -> None:
    report = campaign(tmp_path / "c", replicates=2)
    for one in judge(claims, report):
        assert reason_text(one) != reason_text(one, language("pt-BR")), one.claim.id


def test_an_interaction_is_judged_in_every_cell(judged: tuple[Judgement, ...]) -> None:
    for one in judged:
        if isinstance(one.claim.statement, Additive):
            assert one.effects is not None and len(one.effects.parts) == 15

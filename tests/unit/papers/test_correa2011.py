"""The study of routing control planes: it is short, and its claims are reproduced where what was published is so."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lastro import papers, registry
from lastro.analysis.build import build_report
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.claim import Claim
from lastro.analysis.claims.kinds.alike import Alike
from lastro.analysis.claims.kinds.level import Absolute
from lastro.analysis.claims.kinds.order import Order
from lastro.analysis.claims.load import load_claims
from lastro.campaign.duration import forecast
from lastro.figures.claims import draw_claims
from lastro.figures.scenario import draw_milestones
from lastro.results.additions import Milestones
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.scenarios.base import Scenario, schemas
from lastro.scenarios.routing.additions import FIGURES
from lastro.scenarios.routing.phase_recorder import quiet_suffices
from lastro.study.design import treatments
from lastro.study.load import load
from lastro.study.model import Study
from lastro.words.claims import measured_text, reason_text
from lastro.words.language import ENGLISH

from ...support.campaigns import Levels, make_campaign

MISSING = ("openvz", "xen", "gvisor", "kvm", "virtualbox")  # on a usual host
# Table 1 in s and table 2 in MB at boot, in regular operation and after a failure; 3x3 and 4x4.
BOOT = {("lxc", "veth-bridge"): (31, 62), ("lxc", "ovs"): (32, 63), ("openvz", "veth-bridge"): (39, 74)}
MEMORY: dict[tuple[str, str], tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    ("lxc", "veth-bridge"): ((169, 180, 206), (259.5, 276, 314)),
    ("lxc", "ovs"): ((175, 185, 228), (269.75, 286, 369)),
    ("openvz", "veth-bridge"): ((180, 226, 268), (337.25, 350.5, 693)),
}
XEN_BOOT, XEN_MEMORY = (43, 78), ((1152, 1152, 1152), (2048, 2048, 2048))
FIRST = {"openvz": 39, "lxc": 50, "xen": 130}


@pytest.fixture(scope="module")
def study() -> Study:
    return load(papers.find("correa2011"), schemas())


@pytest.fixture(scope="module")
def claims(study: Study) -> tuple[Claim, ...]:
    file = papers.claims("correa2011")
    assert file is not None
    return load_claims(file, study).claims


def published_value(levels: Levels, block: int, metric: str) -> float:
    noise = random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, 1e-3)
    return _mean(levels, metric) * (1 + noise)


def _mean(levels: Levels, metric: str) -> float:
    platform, links = str(levels["platform"]), str(levels["attachment"])
    size, hello_s = ("3x3", "4x4").index(str(levels["topology"])), int(levels["hello_s"])
    if metric == "boot":
        return (XEN_BOOT if platform == "xen" else BOOT.get((platform, links), (30, 60)))[size]
    if metric == "memory_growth_after":
        return 1.0
    if metric in ("memory_growth", "memory_growth_failure", "memory_spread"):
        if platform == "xen":
            return 1.0
        boot, regular, failure = MEMORY.get((platform, links), MEMORY["lxc", "veth-bridge"])[size]
        growth = failure / regular if metric == "memory_growth_failure" else regular / boot
        return 100 * (growth - 1)
    if metric.startswith("memory_") and metric not in ("memory_router", "memory_drift"):
        phase = ("booted", "regular", "failure", "recovery").index(metric.removeprefix("memory_"))
        table = XEN_MEMORY if platform == "xen" else MEMORY.get((platform, links), MEMORY["lxc", "veth-bridge"])
        return (*table[size], table[size][1])[phase]  # the paper has none of a recovery
    if metric in ("first_ospf_packet", "initial_last_update"):
        return FIRST.get(platform, 45) * (1 + size / 2)
    if metric in ("failure_last_update", "recovery_last_update"):
        slower = {("lxc", "ovs"): 1.0, ("openvz", "veth-bridge"): 1.05, ("lxc", "veth-bridge"): 1.1}
        return 4 * hello_s * slower.get((platform, links), 1.3)
    if metric == "cpu_fallen":
        return {"lxc": 20.0, "openvz": 25.0}.get(platform, 70.0)
    return {"cpu_regular": 1.0, "cpu_failure": 2.5, "cpu_recovery": 2.5}.get(metric, 100.0)


def judged(study: Study, claims: tuple[Claim, ...], directory: Path, **options: Any) -> dict[str, Judgement]:
    """The verdicts on some claims by a campaign of what the paper measured, since none of them is on anything else."""
    published = study.with_profile("published")
    small = replace(published, design=replace(published.design, replicates=6, baseline={}))
    make_campaign(directory, small, notes=lambda levels, block: {}, **{"value": published_value, **options})
    file = papers.claims("correa2011")
    assert file is not None
    found, wanted = load_claims(file, small), {claim.id for claim in claims}
    own = replace(found, claims=tuple(claim for claim in found.claims if claim.id in wanted))
    with Store.open(directory) as store:
        return {one.claim.id: one for one in judge(own, build_report(load_campaign(store)))}


def test_the_quick_look_takes_twenty_minutes_at_most(study: Study) -> None:
    quick = study.with_profile("quick")
    rows = [row for row in treatments(quick) if row.levels["platform"] not in MISSING]
    here = [row.levels for row in rows]
    assert len(here) == 16 and {levels["hello_s"] for levels in here} == {1}
    assert 0 < forecast(quick, registry.get("scenario", "routing"), rows).total_s < 20 * 60, "probing included"


def test_plans_know_that_each_platform_is_tried_with_three_routers() -> None:
    levels = [{"platform": platform, "implementation": "frr"} for platform in ("native", "native", "docker")]
    scenario = registry.get(Scenario, "routing")
    assert 4 < scenario.probing_s(levels) - super(scenario, scenario).probing_s(levels) < 10


def test_the_paper_profile_is_what_was_published(study: Study) -> None:
    paper = study.with_profile("paper")
    assert paper.design.replicates == 30 and paper.design.confidence == 0.9
    assert {factor.name: factor.levels for factor in paper.factors}["hello_s"] == (1, 5, 10)
    assert (paper.settings["settle_s"], paper.settings["failure_s"]) == (600, 120)
    assert all((row.levels["platform"], row.levels["attachment"]) != ("openvz", "ovs") for row in treatments(paper))
    assert "qemu-tcg" in {row.levels["platform"] for row in treatments(paper)}


def test_the_profile_published_has_three_virtualizers_and_takes_days_rather_than_weeks(study: Study) -> None:
    published, paper = study.with_profile("published"), study.with_profile("paper")
    rows = treatments(published)
    assert {row.levels["platform"] for row in rows} == {"lxc", "openvz", "xen"} and len(rows) == 30
    assert published.design.replicates == 30 and published.settings == paper.settings
    days = [
        forecast(each, registry.get("scenario", "routing"), treatments(each)).total_s / 86400
        for each in (published, paper)
    ]
    assert days[0] < 10 and days[1] > 40
    assert published.settings["platform.xen.memory"] == "128M"


@pytest.mark.parametrize("profile", ["", "quick", "standard", "paper", "published", "emulated"])
def test_every_exchange_is_waited_for_to_its_end(study: Study, profile: str) -> None:
    chosen = study.with_profile(profile) if profile else study
    for row in treatments(chosen):
        found = quiet_suffices({**chosen.settings, **row.levels})
        assert found, reason_text(found)


def test_claims_have_their_place_their_portuguese_and_half_the_effect_as_tolerance(claims: tuple[Claim, ...]) -> None:
    assert len(claims) == 100
    for claim in claims:
        assert claim.where.startswith("section 5"), claim.id
        assert claim.text("pt-BR") != claim.text("en"), claim.id
        if claim.published is not None and claim.published.ratio is not None:
            below_half = claim.id.startswith("cpu-falls")  # "less than 50 %" is all below it
            wanted = 0.25 if below_half else abs(claim.published.ratio - 1) / 2
            assert claim.published.tolerance == pytest.approx(wanted, rel=0.01), claim.id
            assert claim.published.printed, claim.id


def test_every_claim_is_reproduced_where_the_published_is_so(
    study: Study, claims: tuple[Claim, ...], tmp_path: Path
) -> None:
    found = judged(study, claims, tmp_path / "c")
    others = {name: one.verdict for name, one in found.items() if one.verdict != "reproduced"}
    assert others == {"growth-regular-openvz": "contradicted"}, "by table 2, whose means are 25.6 and 3.9 %"
    assert found["growth-regular-openvz"].claim.contradicted_by is not None
    level = found["level-failure-cpu-lxc"]
    assert reason_text(level).startswith("the data show that the mean is at most 3 % in every condition; the worst is ")
    assert measured_text(level).endswith(" % in the worst condition")
    figure = draw_claims(list(found.values()), ENGLISH)
    assert figure is not None and {"mean (%)", "mean (s)"} <= {axes.get_xlabel() for axes in figure.axes}


def opposite(kind: str, levels: Levels, block: int, metric: str) -> float:
    """What a trial would measure in a world of which the opposite of the claims of a kind is true."""
    value = published_value(levels, block, metric)
    if kind == "level":
        return 10 * value
    if kind == "likeness":
        ranks = (("lxc", "openvz", "xen"), ("veth-bridge", "ovs"))
        pairs = zip((str(levels["platform"]), str(levels["attachment"])), ranks, strict=True)
        return value * 2.0 ** sum(rank.index(level) for level, rank in pairs if level in rank)
    return 1e4 / value


def kind_of(claim: Claim) -> str:
    alike = isinstance(claim.statement, Alike) or claim.direction == "alike"
    return "level" if isinstance(claim.statement, Absolute) else "likeness" if alike else "difference"


def test_every_claim_is_contradicted_where_its_opposite_is_so(
    study: Study, claims: tuple[Claim, ...], tmp_path: Path
) -> None:
    verdicts = {}
    for kind in sorted({kind_of(claim) for claim in claims}):
        own = tuple(claim for claim in claims if kind_of(claim) == kind)
        found = judged(study, own, tmp_path / kind, value=partial(opposite, kind))
        verdicts |= {name: one.verdict for name, one in found.items()}
    assert len(verdicts) == len(claims)
    assert {name: verdict for name, verdict in verdicts.items() if verdict != "contradicted"} == {}


def test_the_report_draws_when_each_phase_ended(study: Study, tmp_path: Path) -> None:
    short = study.with_profile("quick")
    make_campaign(tmp_path / "c", short, value=published_value, notes=lambda levels, block: {})
    with Store.open(tmp_path / "c") as store:
        report = build_report(load_campaign(store))
    (phases,) = (figure for figure in FIGURES if isinstance(figure, Milestones))
    figure = draw_milestones(phases, report, ENGLISH)
    assert figure is not None
    (axes,) = figure.axes
    assert len(axes.get_yticks()) == len(report.rows) == 22
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(phases.metrics)


def test_claims_on_what_a_host_lacks_are_untestable(study: Study, claims: tuple[Claim, ...], tmp_path: Path) -> None:
    def missing(levels: Levels) -> tuple[str, str | None] | None:
        return ("not on this host", "find another") if levels["platform"] in MISSING else None

    found = judged(study, claims, tmp_path / "c", unavailable=missing)
    needing = {claim.id for claim in claims if {"openvz", "xen"} & named(claim)}
    assert {name for name, one in found.items() if one.verdict == "untestable here"} == needing
    assert len(claims) - len(needing) >= 15


def named(claim: Claim) -> set[str]:
    said = claim.statement
    sides: list[Mapping[str, tuple[Any, ...]]] = [getattr(said, side, {}) for side in ("of", "to", "at")]
    sides += [side for group in getattr(said, "sides", ()) for side in group]
    found = {str(level) for side in sides for level in side.get("platform", ())}
    groups = said.falling if isinstance(said, Order) and said.factor == "platform" else ()
    levels = getattr(said, "levels", ()) if getattr(said, "factor", "") == "platform" else ()
    return found | {str(level) for group in groups for level in group} | set(map(str, levels))

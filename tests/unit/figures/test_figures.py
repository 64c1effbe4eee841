"""Figures: each can be drawn of every campaign, shows every trial and n, says all of its words in the language, and is

the same twice."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_effects import ClaimContrast, ClaimEffects
from lastro.analysis.claims import Judgement
from lastro.analysis.claims.claim import PublishedFigure
from lastro.analysis.claims.kinds import AnyClaim
from lastro.analysis.noise_floor import applicable_floor
from lastro.figures import FigurePlan, Picture, pictures, plans
from lastro.figures.claims import draw_claims
from lastro.figures.style import style
from lastro.figures.svg import compact
from lastro.figures.time_course import HOST_READINGS
from lastro.meters.host import HostMeter
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.stats.intervals import Estimate, Interval
from lastro.stats.noise_floor import FORMAT
from lastro.words.language import ENGLISH, language

from ...support.campaigns import KAGAMI, METRICS, Levels, make_campaign, make_study
from ...support.fates import CAMPAIGNS
from ...support.products import some

DOT = re.compile(r"[Mm]-?\d+[ -]\d+h0")


def report_of(directory: Path) -> CampaignResults:
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store))


def drawn(report: CampaignResults, code: str = "en") -> dict[str, Picture]:
    say = ENGLISH if code == "en" else language(code)
    return {picture.name: picture for picture in pictures(plans(report, analyse(report), say))}


def one_drawn(report: CampaignResults, name: str) -> Picture | None:
    """The figure of this name, alone."""
    plan = next((plan for plan in plans(report, analyse(report)) if plan.name == name), None)
    return plan.picture() if plan else None


def texts(svg: str) -> str:
    return "\n".join(re.findall(r"<text[^>]*>(.*?)</text>", svg))


@pytest.fixture(params=some(CAMPAIGNS, 3), scope="module")
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    """Every campaign, with one metric: the others are drawn alike."""
    return report_of(CAMPAIGNS[request.param](tmp_path_factory.mktemp("figures") / request.param))


@pytest.fixture(scope="module")
def of_first_metric(report: CampaignResults) -> list[tuple[FigurePlan, Picture]]:
    made = ((plan, plan.picture()) for plan in plans(report, analyse(report)) if not plan.metric)
    return [(plan, picture) for plan, picture in made if picture]


Drawn = list[tuple[FigurePlan, Picture]]


def test_every_campaign_can_be_drawn_and_every_trial_is_a_point(
    report: CampaignResults, of_first_metric: Drawn
) -> None:
    for plan, picture in of_first_metric:
        svg = picture.svg()
        assert "n = " in texts(svg) or plan.kind == "course" or not report.progress.counts.get("valid"), plan.name
        if plan.kind == "distribution":
            assert len(DOT.findall(svg)) == sum(len(row.cells[0].points) for row in report.rows)


def test_readings_of_the_host_have_the_names_that_trials_note() -> None:
    noted = {"steal_percent", "foreign_cpus", *(metric.name for metric in HostMeter.metrics)}
    assert set(HOST_READINGS) <= noted


def test_every_trial_is_drawn_once_and_a_course_is_always_there(
    report: CampaignResults, of_first_metric: Drawn
) -> None:
    kinds = {plan.kind for plan, _ in of_first_metric}
    assert ("distribution" in kinds or "curve" in kinds) == bool(report.metrics)
    assert ("course" in kinds) == bool(report.attempts)


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    return report_of(make_campaign(tmp_path_factory.mktemp("normal") / "c", make_study(metrics=METRICS[:1])))


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    """An anomaly that hurts without isolation only; throughput that grows with instances, to a point."""

    def value(levels: Levels, block: int, metric: str) -> float:
        n = int(levels["instances"])
        hurt = 0.6 if levels["anomaly"] == "memory" and levels["isolation"] == "none" else 1.0
        return 100 * hurt * n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)) * (1 + 0.01 * (((n + block) % 5) - 2))

    factors = {"isolation": ("none", "cgroups"), "anomaly": ("none", "memory"), "instances": (1, 2, 4, 8, 16)}
    study = make_study(factors, metrics=METRICS[:1], baseline={"isolation": "none", "anomaly": "none"})
    return report_of(make_campaign(tmp_path_factory.mktemp("disturbed") / "c", study, value=value))


@pytest.fixture(scope="module")
def english(disturbed: CampaignResults) -> dict[str, Picture]:
    return drawn(disturbed)


@pytest.fixture(scope="module")
def portuguese(disturbed: CampaignResults) -> dict[str, Picture]:
    return drawn(disturbed, "pt-BR")


@pytest.mark.slow
def test_two_renders_give_the_same_bytes(disturbed: CampaignResults) -> None:
    first, second = drawn(disturbed), drawn(disturbed)
    for name, picture in first.items():
        assert picture.svg() == second[name].svg(), name
        assert picture.png() == second[name].png(), name
        assert picture.pdf() == second[name].pdf(), name


def test_one_drawing_is_svg_png_and_pdf(normal: CampaignResults) -> None:
    picture = one_drawn(normal, "throughput")
    assert picture is not None
    assert picture.svg().startswith("<?xml") and picture.pdf().startswith(b"%PDF")
    width, height = struct.unpack(">II", picture.png()[16:24])
    assert width == 800 and height > 160


def test_an_interaction_is_drawn_with_its_words(english: dict[str, Picture]) -> None:
    interaction = next(name for name in english if name.startswith("interaction") and "anomaly" in name)
    words = texts(english[interaction].svg())
    assert "isolation = none" in words and "isolation = cgroups" in words and "memory" in words


def test_a_noise_floor_marks_the_effects(normal: CampaignResults) -> None:
    kept = {"floor": 0.03, "n_pairs": 20, "ratio": 1.001, "interval": {"low": 0.99, "high": 1.01}}
    report = replace(normal, noise_floor={"format": FORMAT, "blocks": 5, "metrics": {"throughput": kept}})
    drawn = one_drawn(report, "effects-throughput")
    assert drawn is not None
    assert "noise floor of this host, ± 3 %" in texts(drawn.svg()) and "n = 5 blocks, " in texts(drawn.svg())
    rescaled = replace(normal, noise_floor={"format": FORMAT, "blocks": 20, "metrics": {"throughput": kept}})
    floor = applicable_floor(rescaled.views[0])
    assert floor is not None and floor.share == 0.06
    assert floor.note is not None and "measured for 20 blocks and scaled to the 5" in floor.note


def test_claims_are_drawn_with_what_was_published() -> None:
    contrast = Estimate(0.93, Interval(0.91, 0.95, 0.95), 12, p=0.001, df=11, pairing="paired")
    wide = Estimate(0.5, Interval(-40.0, 60.0, 0.95), 12, p=0.4, df=11, pairing="paired")
    compare = {"metric": "latency", "of": {"isolation": "cgroups"}, "to": {"isolation": "none"}}
    found = []
    for name, measure, effect, published in (
        ("cost", "ratio", contrast, PublishedFigure(ratio=0.9, tolerance=0.02)),
        ("recovered", "share", wide, PublishedFigure(share=0.6, tolerance=0.1)),
        ("unpublished", "difference", contrast, None),
    ):
        part = ClaimContrast("", measure, effect, None, 0.001, 0.999)  # type: ignore[arg-type]
        claim = AnyClaim.model_validate({"id": name, "says": "it costs", "compare": compare, "published": published})
        found.append(Judgement(claim, "reproduced", "ms", ClaimEffects((part,), 1, 1), part, 0.01, 0.01, 12))
    with style():
        figure = draw_claims(found, ENGLISH)
    assert figure is not None
    words = texts(Picture("claims", "", figure).svg())
    assert all(name in words for name in ("cost", "recovered", "unpublished")) and words.count("n = 12") == 3
    assert "loss recovered (%)" in words and "difference (ms)" in words
    assert draw_claims([], ENGLISH) is None


def test_no_word_of_ours_stays_english(english: dict[str, Picture], portuguese: dict[str, Picture]) -> None:
    assert english.keys() == portuguese.keys()
    of_the_study = "throughput isolation anomaly instances none cgroups memory function source sink mbit start"
    in_both = "holm total normal cpus shapiro wilk brown forsythe"
    for name, picture in portuguese.items():
        words = set(re.findall(r"[a-z]{4,}", texts(picture.svg()).lower()))
        same = words & set(re.findall(r"[a-z]{4,}", texts(english[name].svg()).lower()))
        assert same <= {*of_the_study.split(), *in_both.split()}, name


def test_numbers_on_axes_have_the_marks_of_the_language(portuguese: dict[str, Picture]) -> None:
    words = texts(portuguese["effects-throughput"].svg())
    assert re.search(r"×\d,\d", words) and not re.search(r"×\d\.\d", words)


def test_points_become_one_path_and_text_is_left_alone() -> None:
    use = '<use xlink:href="#m" x="10.123456" y="20" style="fill: #0072b2; fill-opacity: 0.5"/>'
    marks = f'<g id="points-2.2"><defs><path d="M 0 1"/></defs><g clip-path="url(#p)">{use}{use}</g>\n</g>'
    svg = f'{marks}<text x="1.23456">1.23456</text>'
    short = compact(svg)
    assert "M101 200h0m0 0h0" in short and "<use" not in short and 'clip-path="url(#i0)"' in short
    assert '<text x="1.23">1.23456</text>' in short and "stroke-width: 22" in short
    assert "scale(.1)" in short


def test_identifiers_do_not_depend_on_the_last_digits_of_coordinates() -> None:
    one, other = (f'<svg ><rect id="{name}"/><path clip-path="url(#{name})"/></svg>' for name in ("p1f", "pa0"))
    assert compact(one) == compact(other)


@pytest.mark.slow
def test_2160_trials_are_drawn_in_time_and_small(tmp_path: Path) -> None:
    """All are there, as points, and no figure is a burden for a page."""
    study = make_study(KAGAMI, replicates=12, metrics=METRICS[:1], baseline={"isolation": "none", "anomaly": "none"})
    svgs = {name: picture.svg() for name, picture in drawn(report_of(make_campaign(tmp_path / "c", study))).items()}
    assert len(DOT.findall(svgs["throughput"])) == 2160
    assert sum(map(len, svgs.values())) < 800_000

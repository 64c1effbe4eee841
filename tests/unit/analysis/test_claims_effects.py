"""Which treatments a claim compares, with what weights, and what is said where it cannot be tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.build import build_report
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.load import parse_claims
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.study.model import Exclusion, Level, Study
from lastro.words.claims import reason_text

from ...support.campaigns import Levels, make_campaign, make_study

FACTORS: dict[str, tuple[Level, ...]] = {"link": ("bridge", "direct"), "isolation": ("none", "a+b"), "streams": (1, 4)}
METRICS = (Metric("throughput", "Mbit/s", "higher", ""),)
STUDY = make_study(FACTORS, replicates=3, metrics=METRICS, settings={"platform": "runc"})
DIRECT = (
    'compare = { metric = "throughput", of = { link = "direct" }, to = { link = "bridge" }%s }\ndirection = "higher"\n'
)


def value(levels: Levels, block: int, metric: str) -> float:
    mean = 100.0 * {"bridge": 1, "direct": 2}[str(levels["link"])] * {"none": 1, "a+b": 3}[str(levels["isolation"])]
    return mean + 1000 * (levels["streams"] == 4) + (block - 2) * 0.1


def one(directory: Path, statement: str, study: Study = STUDY, **options: Any) -> Judgement:
    """The judgement of one claim on a campaign, that of `value` unless another is given."""
    campaign = make_campaign(directory / "c", study, **{"value": value, "notes": lambda levels, block: {}} | options)
    with Store.open(campaign) as store:
        report = build_report(load_campaign(store))
    return judge(parse_claims(f'[[claim]]\nid = "x"\nsays = "s"\n{statement}', "c.toml", study), report)[0]


def effect(judgement: Judgement) -> float:
    assert judgement.part is not None and judgement.part.effect.value is not None, reason_text(judgement)
    return judgement.part.effect.value


def test_what_is_not_named_is_averaged_over(tmp_path: Path) -> None:
    found = one(tmp_path, DIRECT % "")
    assert effect(found) == pytest.approx((200 + 600 + 1200 + 1600) / (100 + 300 + 1100 + 1300))
    assert found.effects is not None and (found.effects.strata, found.effects.all_strata) == (4, 4)


def test_a_condition_picks_and_a_joined_level_has_no_order(tmp_path: Path) -> None:
    found = one(tmp_path, DIRECT % ', at = { isolation = "b + a", streams = 1, platform = "runc" }')
    assert effect(found) == pytest.approx(2)
    assert found.effects is not None and found.effects.all_strata == 1


def test_a_level_named_twice_counts_once(tmp_path: Path) -> None:
    text = 'compare = { metric = "throughput", of = { isolation = ["a+b", "b+a"] }, to = { isolation = "none" } }\n'
    assert effect(one(tmp_path, text + 'direction = "higher"')) == pytest.approx((300 + 600 + 1300 + 1600) / 2600)


def test_a_list_of_levels_is_their_mean(tmp_path: Path) -> None:
    text = 'compare = { metric = "throughput", of = { isolation = ["none", "a+b"] }, to = { isolation = "none" }, '
    found = one(tmp_path, text + 'at = { link = "bridge", streams = 1 } }\ndirection = "higher"')
    assert effect(found) == pytest.approx(2)


def test_only_conditions_with_both_sides_count(tmp_path: Path) -> None:
    gone = {"link": "direct", "isolation": "a+b", "streams": 4}
    found = one(tmp_path, DIRECT % "", unavailable=lambda levels: ("no such thing", None) if levels == gone else None)
    assert effect(found) == pytest.approx((200 + 600 + 1200) / (100 + 300 + 1100))
    assert reason_text(found).endswith("over 3 of 4 conditions of the design")


@pytest.mark.parametrize("lacking", ["throughput", "jitter"])
def test_of_several_metrics_the_one_with_the_fewest_conditions_counts(tmp_path: Path, lacking: str) -> None:
    study = make_study(FACTORS, replicates=3, metrics=(*METRICS, Metric("jitter", "ms", "lower", "")))
    gone = {"link": "direct", "isolation": "a+b", "streams": 4}
    text = 'extreme = { metric = "throughput", also = ["jitter"], of = { link = "direct" }, to = { link = "bridge" }, '
    text += 'over = { isolation = ["none", "a+b"] } }\npublished = { ratio = 2.0, tolerance = 0.1 }'
    found = one(
        tmp_path,
        text,
        study,
        value=lambda levels, block, metric: (
            None if metric == lacking and levels == gone else value(levels, block, metric)
        ),
    )
    assert found.effects is not None and (found.effects.strata, found.effects.all_strata) == (1, 2)
    assert reason_text(found).endswith("over 1 of 2 conditions of the design")


def test_what_the_design_excludes_is_not_counted(tmp_path: Path) -> None:
    study = make_study(
        FACTORS, replicates=3, metrics=METRICS, exclusions=(Exclusion({"link": ("direct",), "streams": (4,)}, "no"),)
    )
    found = one(tmp_path, DIRECT % "", study)
    assert effect(found) == pytest.approx(2)
    assert found.effects is not None and (found.effects.strata, found.effects.all_strata) == (2, 2)


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ('isolation = "a+c"', "the study has no isolation a+c; did you mean a+b?"),
        ("streams = 9", "the study has no streams 9"),
        ('platform = "docker"', "this study holds platform at runc, and does not vary it"),
    ],
)
def test_levels_that_the_study_lacks_make_a_claim_untestable(tmp_path: Path, at: str, reason: str) -> None:
    found = one(tmp_path, DIRECT % f", at = {{ {at} }}")
    assert (found.verdict, reason_text(found)) == ("untestable here", reason)


def test_every_reason_for_what_is_missing_is_said(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        DIRECT % "",
        unavailable=lambda levels: ("no direct link here", "buy one") if levels["link"] == "direct" else None,
    )
    assert reason_text(found) == "link = direct is unavailable: no direct link here"
    assert found.p is None and found.effects is None


def test_what_is_unavailable_is_named_where_it_has_no_level_in_common(tmp_path: Path) -> None:
    """A reason that holds of some of every level of every factor has no level in common: then treatments are named."""
    found = one(
        tmp_path,
        DIRECT % "",
        unavailable=lambda levels: (
            None if levels["link"] == "bridge" and levels["streams"] != 4 else ("none left", None)
        ),
    )
    assert "direct" in reason_text(found) and reason_text(found).endswith("is unavailable: none left")


def test_invalid_and_pending_treatments_are_told_from_unavailable_ones(tmp_path: Path) -> None:
    doubts = one(tmp_path / "1", DIRECT % "", doubts=lambda x, b, a: ["no traffic"] if x["link"] == "direct" else [])
    assert reason_text(doubts) == "every attempt at a treatment that it needs was invalid"
    unfinished = one(tmp_path / "2", DIRECT % ", at = { streams = 1 }", stop_after=12)
    assert unfinished.verdict in {"untestable here", "not distinguishable here", "reproduced"}


def test_an_order_of_effects_compares_differences(tmp_path: Path) -> None:
    text = 'order = { metric = "throughput", factor = "link", falling = ["direct", "bridge"], '
    study = make_study(FACTORS, replicates=6, metrics=METRICS, settings={"platform": "runc"})
    found = one(tmp_path, text + 'of = { isolation = "a+b" }, to = { isolation = "none" } }', study)
    assert effect(found) == pytest.approx(400 - 200)
    assert found.verdict == "reproduced" and found.part is not None and found.part.measure == "difference"


def test_an_interaction_is_a_deviation_from_the_sum_of_main_effects(tmp_path: Path) -> None:
    found = one(tmp_path, 'additive = { metric = "throughput", factors = ["link", "isolation"] }\nmargin = 0.01')
    assert found.verdict == "contradicted" and found.effects is not None
    means = {"bridge · none": 600, "bridge · a+b": 800, "direct · none": 700, "direct · a+b": 1100}
    grand = sum(means.values()) / 4
    shares = {part.label: part.effect.value for part in found.effects.parts}
    assert shares == pytest.approx({
        "bridge · none": (600 - 700 - 650 + grand) / grand,
        "bridge · a+b": (800 - 700 - 950 + grand) / grand,
        "direct · none": (700 - 900 - 650 + grand) / grand,
        "direct · a+b": (1100 - 900 - 950 + grand) / grand,
    })  # fmt: skip


def test_a_study_that_does_not_vary_a_factor_has_no_interaction(tmp_path: Path) -> None:
    found = one(tmp_path, 'additive = { metric = "throughput", factors = ["link", "platform"] }\nmargin = 0.01')
    assert reason_text(found) == "this study does not vary platform"

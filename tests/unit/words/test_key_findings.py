"""The answer of a report in plain sentences: campaigns whose truth is known, and no contradiction below the answer."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.findings import MetricFindings, findings, level_groups
from lastro.analysis.model import MetricAnalysis
from lastro.builders.statistics import statistics_sentences
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.stats.noise_floor import FORMAT
from lastro.study.model import Level
from lastro.words.key_findings import MOST, key_findings
from lastro.words.language import ENGLISH, language
from lastro.words.phrases import Amount

from ...support.campaigns import KAGAMI, METRICS, Levels, make_campaign, make_study

EDGE: dict[str, tuple[Level, ...]] = {
    "platform": ("native", "runc", "docker", "gvisor", "qemu-tcg"),
    "attachment": ("veth-bridge", "macvlan-bridge"),
}
COSTS = {"qemu-tcg": 0.05, "docker": 0.9, "macvlan-bridge": 1.086}


def report_of(
    directory: Path,
    factors: Mapping[str, tuple[Level, ...]] = EDGE,
    *,
    costs: Mapping[str, float] = COSTS,
    noise: Mapping[str, float] | None = None,
    metrics: tuple[Metric, ...] = METRICS[:1],
    replicates: int = 4,
    **options: Any,
) -> CampaignResults:
    """Of a campaign in which every level multiplies what is measured, with noise of each block and of each trial."""
    study = make_study(factors, replicates=replicates, metrics=metrics, baseline=options.pop("baseline", None))
    study = replace(study, margins=options.pop("margins", {}))

    def value(levels: Levels, block: int, metric: str) -> float:
        found = 1000 * (1 + random.Random(f"{block}:{metric}").gauss(0, 0.05))
        for level in levels.values():
            found *= costs.get(str(level), 1.0)
        own = random.Random(f"{sorted(levels.items())}:{block}:{metric}")
        return found * (1 + own.gauss(0, (noise or {}).get(metric, 0.01)))

    directory = make_campaign(directory / "c", study, **{"value": value} | options)
    with Store.open(directory) as store:
        return build_report(load_campaign(store))


def said(report: CampaignResults, code: str = "en") -> list[str]:
    return [sentence.replace("\xa0", " ") for sentence in key_findings(report, language(code))]


def no_gvisor(levels: Levels) -> tuple[str, None] | None:
    return ("gVisor cannot run this NAT", None) if levels["platform"] == "gvisor" else None


def test_each_factor_has_a_sentence_each_metric_another_and_what_is_missing_comes_last(tmp_path: Path) -> None:
    noise = {"throughput": 0.01, "jitter": 0.5, "latency_mean": 0.002}
    report = report_of(tmp_path, metrics=METRICS[:3], noise=noise, unavailable=no_gvisor)
    assert said(report) == [
        "Against native, throughput is on average 95.05 % [94.97, 95.13] lower with qemu-tcg, "
        "11 % [9, 12] lower with docker; between native and runc, throughput differs on average by less than 3 %.",
        "With macvlan-bridge, throughput is on average 9 % [7, 10] higher than with veth-bridge.",
        "With qemu-tcg, jitter is on average 93 % [84, 97] lower than with native.",
        "With qemu-tcg, latency_mean is on average 95.00 % [94.98, 95.02] lower than with native; with docker, "
        "latency_mean is on average 10.1 % [9.9, 10.4] lower than with native.",
        "Not measured here: platform = gvisor (gVisor cannot run this NAT).",
    ]


def test_in_portuguese_too(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"platform": ("native", "runc", "docker")})
    assert said(report, "pt-BR") == [
        "Com docker, throughput é 10 % [8; 13] menor do que com native; "
        "entre native e runc, throughput difere em menos de 3 %."
    ]


def test_the_study_says_which_difference_counts_as_none(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"platform": ("native", "runc")})
    assert said(report) == ["Between native and runc, throughput differs by less than 3 %."]
    strict = replace(report, study=replace(report.study, margins={"throughput": 0.01}))
    (text,) = said(strict)
    assert text.startswith("Whether throughput with runc differs from that with native is undecided with 4 blocks; ")


def test_what_so_few_blocks_leave_open_is_undecided_and_more_blocks_decide_it(tmp_path: Path) -> None:
    links: dict[str, tuple[Level, ...]] = {"attachment": ("veth-bridge", "macvlan-bridge")}
    noise = {"throughput": 0.06}
    (few,) = said(report_of(tmp_path / "few", links, noise=noise, replicates=3))
    found = re.fullmatch(
        "Whether throughput with macvlan-bridge differs from that with veth-bridge is undecided with 3 blocks; "
        "([0-9]+) more would decide with a probability of 50 %, ([0-9]+) with 80 %.",
        few,
    )
    assert found and int(found[1]) < int(found[2]), few
    (many,) = said(report_of(tmp_path / "many", links, noise=noise, replicates=3 + 2 * int(found[2])))
    assert many.startswith("With macvlan-bridge, throughput is ")


def test_a_factor_of_two_or_more_is_said_in_times_and_numbers_have_their_factor(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"count": (1, 4)}, costs={"4": 3.5})
    assert said(report) == ["With count = 4, throughput is 3.45 times [3.42, 3.47] that with count = 1."]


def test_without_a_level_of_nothing_the_words_are_no_neighbour_and_no_isolation(tmp_path: Path) -> None:
    factors: dict[str, tuple[Level, ...]] = {"isolation": ("none", "cgroups"), "anomaly": ("none", "memory")}
    report = report_of(tmp_path, factors, metrics=METRICS[:2], costs={"memory": 0.7})
    text = " ".join(said(report))
    assert text.startswith("Without isolation, the memory neighbour takes 3")
    assert "With the memory neighbour, jitter is on average 3" in text and "lower than with no neighbour" in text


def test_a_metric_that_may_be_zero_changes_by_its_unit(tmp_path: Path) -> None:
    def value(levels: Levels, block: int, name: str) -> float:
        lost = random.Random(f"{levels}:{block}").gauss(0.1, 0.2)
        return max(0.0, lost) + 3 * (levels["platform"] == "docker")

    loss = Metric("loss", "%", "lower", "")
    report = report_of(tmp_path, {"platform": ("native", "runc", "docker")}, metrics=(loss,), value=value)
    (text,) = said(report)
    assert re.match(
        r"With docker, loss is [23]\.\d percentage points \[\d\.\d, \d\.\d\] higher than with native; "
        r"whether loss with runc differs from that with native is undecided with 4 blocks",
        text,
    ), text


def test_names_that_say_nothing_alone_have_their_factor(tmp_path: Path) -> None:
    factors: dict[str, tuple[Level, ...]] = {"cache": ("off", "on"), "first": ("a", "b"), "second": ("a", "b")}
    text = " ".join(said(report_of(tmp_path, factors, costs={"on": 1.5})))
    assert "With cache = on, throughput is on average 50 % " in text and "higher than with cache = off." in text
    assert "Between first = a and first = b, throughput differs on average by less than" in text


def test_the_factor_that_matters_is_not_cut_off_by_those_that_do_not(tmp_path: Path) -> None:
    factors: dict[str, tuple[Level, ...]] = {f"f{n}": (f"a{n}", f"b{n}") for n in range(6)}
    report = report_of(tmp_path, factors, costs={"b5": 0.5}, metrics=METRICS[:2], replicates=2)
    assert said(report)[0].startswith("With b5, throughput is on average 50") and len(said(report)) == MOST


def test_isolation_without_none_is_a_factor_like_any_other(tmp_path: Path) -> None:
    factors: dict[str, tuple[Level, ...]] = {"isolation": ("cgroups", "apparmor"), "anomaly": ("none", "cpu")}
    sentences = said(report_of(tmp_path, factors, costs={"cpu": 0.8, "apparmor": 0.5}))
    assert sentences[0].startswith("The cpu neighbour takes ")
    assert sentences[1].startswith("With apparmor, throughput is on average 49.7 % [48.8, 50.6] lower than")


def test_what_isolation_gains_without_a_neighbour_is_said(tmp_path: Path) -> None:
    factors: dict[str, tuple[Level, ...]] = {"isolation": ("none", "cgroups"), "anomaly": ("none", "cpu")}
    (text,) = said(report_of(tmp_path, factors, costs={"cgroups": 1.5}))
    assert "; without a neighbour, throughput is " in text and "better with isolation by cgroups." in text


def test_levels_without_trials_are_missed_and_do_not_hide_the_others(tmp_path: Path) -> None:
    """Every trial of one is invalid, another has one valid trial."""
    report = report_of(
        tmp_path,
        {"platform": ("native", "runc", "docker", "lxc")},
        doubts=lambda levels, block, attempt: (
            ["disturbed"] if levels["platform"] == "runc" or (levels["platform"] == "lxc" and block > 1) else []
        ),
    )
    sentences = said(report)
    assert sentences[0].startswith("With docker, throughput is 1") and sentences[0].endswith(
        "; too few valid trials of lxc in common with the other levels."
    )
    assert sentences[-1] == "No valid trial of platform = runc."


def test_the_only_treatment_that_could_be_measured_is_named(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"platform": ("native", "gvisor")}, unavailable=no_gvisor)
    first, last = said(report)
    assert first == "With 4 blocks, throughput is 988 ± 74 Mbit/s (platform = native)."
    assert last == "Not measured here: platform = gvisor (gVisor cannot run this NAT)."


def test_levels_that_were_never_measured_together_cannot_be_compared(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        {"platform": ("native", "gvisor"), "function": ("nat", "dpi")},
        unavailable=lambda levels: ("no", None) if (levels["platform"], levels["function"]) in APART else None,
    )
    assert (
        "The effect of platform on throughput is not known: its levels were measured under no common condition."
        in said(report)
    )


APART = {("native", "nat"), ("gvisor", "dpi")}


def test_a_difference_is_never_written_as_none() -> None:
    assert Amount(3.0, 0.03, 6.1).text(ENGLISH).replace("\xa0", " ") == "3.00 % [0.03, 6.10]"
    assert Amount(2.1, 1.2, 3.9, " times", nothing=1.0).text(ENGLISH) == "2.1 times [1.2, 3.9]"
    assert Amount(40.0, 39.9999992, 40.0000008).text(ENGLISH).replace("\xa0", " ") == "40.00 % [40.00, 40.00]"
    assert Amount(-1, -6, 4.4).limit(ENGLISH) == "5\xa0%", "no bound is rounded down"


def test_a_difference_below_the_noise_floor_is_given_with_that_remark(tmp_path: Path) -> None:
    links: dict[str, tuple[Level, ...]] = {"attachment": ("veth-bridge", "macvlan-bridge")}
    (without,) = said(report_of(tmp_path, links))
    for floor, remark in ((0.2, ", less than the noise floor of this host."), (1e-9, ".")):
        floors = {"throughput": {"floor": floor, "treatment": "veth-bridge"}}
        with Store.open(tmp_path / "c") as store:
            store.save_noise_floor({"format": FORMAT, "blocks": 4, "confidence": 0.95, "metrics": floors})
            report = build_report(load_campaign(store))
        assert said(report) == [without.removesuffix(".") + remark]


@pytest.mark.parametrize(
    ("replicates", "factors", "answer"),
    [
        (1, EDGE, ["With one block, no difference in throughput is distinguishable from chance."]),
        (4, {"platform": ("native",)}, ["With 4 blocks, throughput is 988 ± 74 Mbit/s."]),
    ],
)
def test_what_cannot_be_compared_is_said(
    replicates: int, factors: dict[str, tuple[Level, ...]], answer: list[str], tmp_path: Path
) -> None:
    assert said(report_of(tmp_path, factors, replicates=replicates)) == answer


def test_before_anything_was_measured_there_is_no_answer(tmp_path: Path) -> None:
    assert said(report_of(tmp_path, unavailable=lambda levels: ("no", None))) == []


def test_however_much_there_is_to_say_six_sentences_say_it(tmp_path: Path) -> None:
    """Four neighbours, two other factors, four metrics, something missing."""
    report = report_of(
        tmp_path,
        KAGAMI,
        metrics=METRICS,
        replicates=3,
        costs={"memory": 0.7, "cpu": 0.8, "disk": 0.9, "io": 0.95, "veth-direct": 1.2},
        unavailable=lambda levels: ("no AppArmor", None) if "apparmor" in str(levels["isolation"]) else None,
    )
    sentences = said(report)
    assert len(sentences) == MOST
    assert sentences[0].startswith("Without isolation, the memory neighbour takes") and "veth-direct" in " ".join(
        sentences
    )
    assert sentences[-1].startswith("Not measured here: isolation = ")
    assert not re.search(r"\bp [<=]", " ".join(sentences))


def check_one_story(metric: MetricAnalysis, found: MetricFindings) -> None:
    """The effects, the key findings, their intervals and the sentences agree exactly."""
    text = " ".join(statistics_sentences(metric, ENGLISH))
    effects = {(effect.factor, effect.level): effect for effect in metric.effects}
    pairs = {(factor.factor, level): factor.of(level) for factor in found.factors for level in factor.others}
    assert effects.keys() == pairs.keys()
    for at, pair in pairs.items():
        assert pair.comparison == effects[at].comparison
        differs = effects[at].decision == "different"
        nothing = 1 if pair.relative else 0
        assert pair.differs == differs == (not pair.interval.low <= nothing <= pair.interval.high), at
        if ratio := effects[at].ratio.interval:
            assert differs == (not ratio.low <= 1 <= ratio.high), at
    different = {at for at, effect in effects.items() if effect.decision == "different"}
    said = {
        (factor.factor, level) for factor in found.compared for level in level_groups(factor, found.margin).differing
    }
    assert said == different
    assert ("No level of any factor differs significantly" in text) == (not different)
    assert ("The largest effect is that of" in text) == bool(different)


def test_no_report_contradicts_itself(tmp_path: Path) -> None:
    """Random campaigns: few blocks, and effects near the noise."""
    decisions = set()
    for seed in range(100):
        rng = random.Random(seed)
        names = ("native", "runc", "docker", "lxc")[: rng.randint(2, 4)]
        factors: dict[str, tuple[Level, ...]] = {"platform": names, "attachment": ("a", "b")[: rng.randint(1, 2)]}
        costs = {level: rng.uniform(0.9, 1.1) for level in (*names, "a", "b")}
        report = report_of(
            tmp_path / str(seed),
            factors,
            costs=costs,
            metrics=METRICS[:2],
            noise={"throughput": rng.choice([0.003, 0.03]), "jitter": rng.choice([0.01, 0.1])},
            replicates=rng.randint(2, 4),
        )
        found, analysis = findings(report), analyse(report)
        assert found is not None
        of_metric = {each.metric: each for each in (found.first, *found.others)}
        for metric in analysis.metrics:
            check_one_story(metric, of_metric[metric.metric])
            decisions |= {effect.decision for effect in metric.effects}
    assert decisions == {"different", "same"}, "campaigns of one answer prove nothing"

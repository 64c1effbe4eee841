"""The opening sentences of a study of noisy neighbours: campaigns whose truth is known, and what is held back."""

from __future__ import annotations

import math
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
from lastro.analysis.interference import interference
from lastro.builders.content import Content
from lastro.builders.data.results import document
from lastro.results.read import load_campaign
from lastro.results.samples import AT_LEAST, Metric, Outcome, Remark
from lastro.results.store import Store
from lastro.stats.noise_floor import FORMAT
from lastro.study.model import Level
from lastro.words.interference import interference_sentences
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH, language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.documents import render_html, render_latex, render_markdown, render_terminal
from ...support.products import one_of

THROUGHPUT, JITTER, LATENCY = METRICS[0], METRICS[1], METRICS[2]
ONE: dict[str, tuple[Level, ...]] = {"isolation": ("none", "cgroups"), "anomaly": ("none", "cpu")}
FRACTIONS = {"cpu": 0.4, "disk": 0.2, "memory": 0.1, "io": 0.0, "none": 0.0}  # of what is lost, by neighbour
BACK = {"none": 0.0, "cgroups": 0.75, "apparmor": 0.0}  # of that, by isolation


def report_of(
    directory: Path,
    factors: Mapping[str, tuple[Level, ...]] = ONE,
    *,
    fractions: Mapping[str, float] = FRACTIONS,
    back: Mapping[str, float] = BACK,
    cost: float = 0.0,
    noise: float = 0.01,
    metric: Metric = THROUGHPUT,
    replicates: int = 8,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> CampaignResults:
    """Of a campaign in which a neighbour takes a fraction of 1000, or adds it, and isolation gives a share of it back,

    at a cost to it, with noise of which each trial has its own."""
    study = make_study(factors, replicates=replicates, metrics=(metric,), settings=settings or {"platform": "runc"})
    sign = -1 if metric.better == "higher" else 1

    def value(levels: Levels, block: int, name: str) -> float:
        isolation = str(levels.get("isolation", "none"))
        lost = fractions[str(levels["anomaly"])] * (1 - back[isolation])
        lost *= {"docker": 0.5}.get(str(levels.get("platform")), 1.0)
        mean = 1000 * (1 + sign * lost) * (1 + sign * cost * (isolation != "none"))
        return mean * (1 + random.Random(f"{sorted(levels.items())}:{block}").gauss(0, noise))

    quiet: dict[str, Any] = {"notes": lambda levels, block: {}, "value": value}
    campaign = make_campaign(directory / "c", study, **quiet | options)
    with Store.open(campaign) as store:
        return build_report(load_campaign(store))


def whole(report: CampaignResults, code: str = "en") -> list[str]:
    return [sentence.replace("\xa0", " ") for sentence in interference_sentences(interference(report), language(code))]


def said(report: CampaignResults, code: str = "en") -> list[str]:
    """Without the cost of isolation where it is not distinguishable from zero: that has tests of its own."""
    cost = r"(; the cost of isolation by|^The cost of isolation by|; o custo do isolamento por) .* zero \(.*\)\.$"
    return [text for each in whole(report, code) if (text := re.sub(cost, ".", each)) != "."]


def test_one_sentence_has_the_loss_and_what_comes_back(tmp_path: Path) -> None:
    assert said(report_of(tmp_path, noise=0.02)) == [
        "Without isolation, the cpu neighbour takes 40 % [39, 41] of throughput; "
        "isolation by cgroups recovers 73 % [69, 77] of it."
    ]


def test_more_is_better_or_less(tmp_path: Path) -> None:
    report = report_of(tmp_path, metric=LATENCY, fractions={"none": 0.0, "cpu": 2.1})
    assert said(report) == [
        "Without isolation, the cpu neighbour adds 209 % [206, 212] to latency_mean; "
        "isolation by cgroups removes 75.3 % [74.5, 76.0] of it."
    ]
    assert said(report, "pt-BR") == [
        "Sem isolamento, o vizinho cpu acrescenta 209 % [206; 212] a latency_mean; "
        "o isolamento por cgroups elimina 75,3 % [74,5; 76,0] disso."
    ]


def test_a_metric_without_a_direction_only_changes(tmp_path: Path) -> None:
    assert said(report_of(tmp_path, metric=replace(JITTER, better="neither"))) == [
        "The cpu neighbour changes jitter by 40 % [38, 41]; isolation by cgroups removes 76 % [74, 78] of it."
    ]


def test_of_a_metric_below_zero_the_loss_has_the_unit(tmp_path: Path) -> None:
    """A ratio of two numbers below zero grows as they fall."""

    def level(levels: Levels, block: int, name: str) -> float:
        return -60 - 6.0 * (levels["anomaly"] == "cpu") - 0.1 * (block % 3) - 0.1 * (len(str(levels)) * block % 4)

    signal = Metric("signal", "dBm", "higher", "")
    assert said(report_of(tmp_path / "d", {"anomaly": ("none", "cpu")}, metric=signal, value=level)) == [
        "The cpu neighbour takes 5.95 dBm [5.85, 6.05] of signal."
    ]
    percent = replace(signal, unit="%")
    assert "6.15 percentage points [" in said(report_of(tmp_path / "p", metric=percent, value=level))[0]


def test_without_an_effect_the_most_that_may_be_lost_is_said(tmp_path: Path) -> None:
    none = {"none": 0.0, "cpu": 0.0}
    assert said(report_of(tmp_path / "t", fractions=none, replicates=3)) == [
        "Without isolation, no effect of the cpu neighbour on throughput is distinguishable with 3 blocks; "
        "at most 3 % is lost."
    ]
    assert said(report_of(tmp_path / "l", fractions=none, replicates=3, metric=LATENCY)) == [
        "Without isolation, no effect of the cpu neighbour on latency_mean is distinguishable with 3 blocks; "
        "at most 2 % is added."
    ]


def test_a_neighbour_that_helps_is_said_to(tmp_path: Path) -> None:
    assert said(report_of(tmp_path, fractions={"none": 0.0, "cpu": -0.1})) == [
        "Without isolation, with the cpu neighbour, throughput is 10 % [9, 11] better."
    ]


def test_a_share_known_too_badly_is_undecided(tmp_path: Path) -> None:
    assert said(report_of(tmp_path, fractions={"none": 0.0, "cpu": 0.012}, replicates=6)) == [
        "Without isolation, the cpu neighbour takes 1.6 % [0.5, 2.7] of throughput; "
        "how much of it isolation by cgroups recovers is undecided."
    ]


def test_isolation_that_does_nothing_or_harm_is_not_said_to_help(tmp_path: Path) -> None:
    factors = {**ONE, "isolation": ("none", "cgroups", "apparmor")}
    assert said(report_of(tmp_path / "n", factors, replicates=5)) == [
        "Without isolation, the cpu neighbour takes 40.2 % [39.3, 41.0] of throughput; "
        "isolation by cgroups recovers 73 % [71, 76] of it; "
        "the recovery by apparmor is not distinguishable from zero (1 % [−2, 4])."
    ]
    assert said(report_of(tmp_path / "h", back={"none": 0.0, "cgroups": -0.5})) == [
        "Without isolation, the cpu neighbour takes 40.2 % [39.6, 40.7] of throughput; "
        "isolation by cgroups makes it 50 % [48, 52] larger."
    ]


def test_a_recovery_is_distinguishable_where_its_interval_excludes_zero_on_logarithms_too(tmp_path: Path) -> None:
    """A recovered fraction is arithmetic, as is its test. Next to 5 %, their degrees of freedom may still differ."""
    found, decisions = 0, set()
    for seed in range(30):

        def value(levels: Levels, block: int, name: str, seed: int = seed) -> float:
            lost = 0.5 * (1 - 0.15 * (levels["isolation"] != "none")) * (levels["anomaly"] != "none")
            own = random.Random(f"{seed}{sorted(levels.items())}{block}").gauss(0, 0.12)
            return 1000 * (1 - lost) * math.exp(own)

        report = report_of(tmp_path / str(seed), replicates=6, value=value)
        model, opening = report.models[0], interference(report)
        assert model is not None and opening is not None
        for one in opening.recoveries.get("cpu", ()):
            if one.decided and one.p is not None and abs(one.p - 0.05) > 0.005:
                _, low, high = one.recovered.spread
                assert low is not None and high is not None
                assert one.distinguishable == (not low <= 0 <= high)
                found += model.log
                decisions.add(one.distinguishable)
    assert found >= 10 and decisions == {True, False}


def test_what_isolation_costs_without_a_neighbour_is_appended_whether_it_is_significant_or_not(tmp_path: Path) -> None:
    free = r"the cost of isolation by cgroups without a neighbour is not distinguishable from zero "
    found = whole(report_of(tmp_path / "f"))[0].partition("of it; ")[2]
    assert re.fullmatch(free + r"\((−?\d\.\d) % \[−\d\.\d, \d\.\d\]\)\.", found), found
    assert (
        said(report_of(tmp_path / "t", cost=0.05))[0].partition("of it; ")[2]
        == "without a neighbour, isolation by cgroups takes 4.6 % [3.9, 5.2] of throughput."
    )
    assert (
        said(report_of(tmp_path / "l", cost=0.05, metric=LATENCY))[0].partition("of it; ")[2]
        == "without a neighbour, isolation by cgroups adds 5.5 % [4.6, 6.3] to latency_mean."
    )


def test_each_neighbour_has_its_sentence_the_worst_first_and_four_at_most(tmp_path: Path) -> None:
    factors = {**ONE, "anomaly": ("none", "io", "memory", "cpu", "disk", "net")}
    found = said(report_of(tmp_path, factors, cost=0.05, fractions=FRACTIONS | {"net": 0.3}))
    assert [sentence.split()[3] for sentence in found[:-1]] == ["cpu", "net", "disk", "memory"]
    assert found[-1] == "Without a neighbour, isolation by cgroups takes 4.6 % [3.9, 5.3] of throughput."


def test_what_only_the_correction_hides_says_so(tmp_path: Path) -> None:
    factors: dict[str, tuple[Level, ...]] = {"anomaly": ("none", "cpu", "disk", "io")}
    fractions = {"none": 0.0, "disk": 0.0, "io": 0.0, "cpu": 0.015}
    assert said(report_of(tmp_path, factors, fractions=fractions, replicates=3))[0] == (
        "No effect of the cpu neighbour on throughput is distinguishable with 3 blocks after correction for "
        "3 comparisons; at most 4.2 % is lost."
    )


def test_over_several_platforms_there_is_one_sentence_on_all_of_them(tmp_path: Path) -> None:
    """The worst of several, picked after looking, would need an error rate of its own."""
    assert said(report_of(tmp_path, {"platform": ("docker", "native", "runc"), **ONE})) == [
        "Without isolation, the cpu neighbour takes 33.3 % [32.9, 33.7] of throughput; "
        "isolation by cgroups recovers 73 % [72, 75] of it."
    ]


def test_levels_that_cannot_run_are_named_with_the_reason(tmp_path: Path) -> None:
    def gone(name: str, level: str) -> dict[str, Any]:
        return {"unavailable": lambda levels: ("no such thing", None) if levels[name] == level else None}

    assert said(report_of(tmp_path / "c", **gone("isolation", "cgroups"))) == [
        "The cpu neighbour takes 40.2 % [39.6, 40.7] of throughput; "
        "the effect of isolation by cgroups is not known (isolation = cgroups is unavailable: no such thing)."
    ]
    assert said(report_of(tmp_path / "a", **gone("anomaly", "cpu"))) == [
        "The cost of the neighbour is not known here (cpu): anomaly = cpu is unavailable: no such thing."
    ]
    assert said(report_of(tmp_path / "n", **gone("anomaly", "none"))) == [
        "The cost of the neighbour is not known here (cpu): anomaly = none is unavailable: no such thing."
    ]


def test_conditions_that_were_lost_are_counted(tmp_path: Path) -> None:
    factors = {"platform": ("docker", "native", "runc"), **ONE}
    lost = {"platform": "runc", "isolation": "cgroups"}
    report = report_of(
        tmp_path,
        factors,
        replicates=7,
        unavailable=lambda levels: ("no", None) if lost.items() <= levels.items() else None,
    )
    assert (
        said(report)[0] == "Without isolation, the cpu neighbour takes 33.2 % [32.8, 33.6] of throughput; "
        "isolation by cgroups recovers 73 % [71, 75] of it."
    )


def test_invalid_and_pending_trials_leave_no_number(tmp_path: Path) -> None:
    invalid = report_of(
        tmp_path / "i", doubts=lambda levels, block, attempt: ["lost"] if levels["anomaly"] == "cpu" else []
    )
    assert said(invalid) == [
        "The cost of the neighbour is not known here (cpu): every attempt at a treatment that it needs was invalid."
    ]
    assert said(report_of(tmp_path / "p", stop_after=0)) == []
    assert said(report_of(tmp_path / "one", stop_after=4)) == [
        "The cost of the neighbour is not known here (cpu): n = 1: the spread is not known with fewer than two blocks."
    ]


def test_of_a_lower_bound_nothing_is_made(tmp_path: Path) -> None:
    def notes(levels: Levels, block: int) -> dict[str, Any]:
        bounded = levels == {"isolation": "none", "anomaly": "none"}
        outcome = Outcome()
        if bounded:
            outcome.add_caveat(Remark(AT_LEAST, "enough", ("throughput",)))
        return outcome.notes

    assert said(report_of(tmp_path, notes=notes)) == [
        "The cost of the neighbour is not known here (cpu): "
        "only a lower bound is known for isolation = none; anomaly = none."
    ]


def test_a_cost_below_the_noise_floor_is_given_with_that_remark(tmp_path: Path) -> None:
    kept = {"format": FORMAT, "blocks": 8, "metrics": {"throughput": {"floor": 0.5, "treatment": "none"}}}
    report = report_of(tmp_path)
    (without,), (text,) = (said(each) for each in (report, replace(report, noise_floor=kept)))
    assert ", less than the noise floor of this host" in text
    assert text.replace(", less than the noise floor of this host", "") == without


def test_a_study_without_isolation_or_without_a_neighbour(tmp_path: Path) -> None:
    assert said(report_of(tmp_path / "n", {"anomaly": ("none", "cpu")})) == [
        "The cpu neighbour takes 39.9 % [39.0, 40.7] of throughput."
    ]
    held = report_of(tmp_path / "h", {"anomaly": ("none", "cpu")}, settings={"isolation": "cgroups"})
    assert said(held)[0].endswith("of throughput, measured only with isolation by cgroups.")
    varied = {"anomaly": ("none", "cpu"), "isolation": ("cgroups", "apparmor")}
    assert said(report_of(tmp_path / "v", varied))[0].endswith(", measured only with isolation by cgroups, apparmor.")
    assert said(report_of(tmp_path / "a", {"anomaly": ("cpu", "disk"), "isolation": ("none", "cgroups")})) == []
    with Store.open(make_campaign(tmp_path / "w")) as store:
        assert interference(build_report(load_campaign(store))) is None


@pytest.mark.usefixtures("undrawn")
def test_it_opens_every_document_and_ends_what_a_terminal_shows(tmp_path: Path) -> None:
    report = report_of(tmp_path, cost=0.05)
    lines = [line.plain for line in render_terminal(report, 80)]
    assert lines[:3] == ["What isolation costs on this host", "4 treatments, 32 trials: 32 valid", ""]
    assert lines[-4:] == [
        "",
        "Without isolation, the cpu neighbour takes 40.2 % [39.6, 40.7] of throughput;",
        "    isolation by cgroups recovers 63 % [61, 65] of it; without a neighbour,",
        "    isolation by cgroups takes 4.6 % [3.9, 5.2] of throughput.",
    ]
    markdown = render_markdown(content(report)).split("\n\n")
    assert markdown[0] == "# What isolation costs on this host"
    assert markdown[1].startswith(
        r"**Without isolation, the cpu neighbour takes 40.2 % \[39.6, 40.7\] of throughput; "
        r"isolation by cgroups recovers"
    )
    assert r"\textbf{Without isolation, the cpu neighbour takes 40.2 \% {[}39.6, 40.7{]} of" in render_latex(
        content(report)
    )
    page = render_html(content(report))
    assert page.index("</h1>") < page.index('<p class="opening">Without isolation') < page.index('<p class="lead">')
    assert document(report)["key_findings"] == list(key_findings(report, ENGLISH))


def content(report: CampaignResults) -> Content:
    return Content(report, analyse(report), ENGLISH)


# Error rates, over campaigns of five blocks

TIMES = 200


def shifted(seed: int, lost: float, back: float, walk: float) -> Any:
    """Values on a host whose speed walks from block to block, as all its trials feel it alike."""
    speeds, chance = [1.0], random.Random(seed)
    for _ in range(8):
        speeds.append(speeds[-1] * (1 + chance.gauss(0, walk)))

    def value(levels: Levels, block: int, name: str) -> float:
        own = random.Random(f"{seed}:{sorted(levels.items())}:{block}").gauss(0, 0.03)
        kept = 1.0 if levels["anomaly"] == "none" else 1 - lost * (1 - (back if levels["isolation"] != "none" else 0))
        return 1000 * speeds[block] * kept * (1 + own)

    return value


def openings(tmp_path: Path, lost: float, back: float, walk: float) -> list[str]:
    """Of as many campaigns, which are one in the store: only what was measured differs."""
    study = make_study(ONE, replicates=5, metrics=(THROUGHPUT,), settings={"platform": "runc"})
    with Store.open(make_campaign(tmp_path / "c", study, notes=lambda levels, block: {})) as store:
        template = load_campaign(store)
    levels = {row.treatment.index: row.treatment.levels for row in template.treatments}
    found = []
    for seed in range(TIMES):
        value, name = shifted(seed, lost, back, walk), THROUGHPUT.name
        attempts = [
            replace(one, measurements={name: value(levels[one.treatment], one.block, name)})
            for one in template.attempts
        ]
        found.append(said(build_report(replace(template, attempts=attempts)))[0])
    return found


@pytest.mark.parametrize("walk", one_of([0.1, 0.0]), ids=["a host that walks", "independent"])
def test_intervals_of_the_opening_hold_the_truth(tmp_path: Path, walk: float) -> None:
    """At 95 %, 10 of 200 miss; more than 18 are as rare as one such test in a hundred."""
    pattern = r"takes [\d.]+ % \[([\d.]+), ([\d.]+)\].* recovers [\d.]+ % \[([−\d.]+), ([\d.]+)\] of it"
    ends = [re.search(pattern, text) for text in openings(tmp_path, 0.4, 0.75, walk)]
    numbers = [[float(end.replace("−", "-")) for end in match.groups()] for match in ends if match]
    assert len(numbers) == TIMES
    assert sum(not low <= 40 <= high for low, high, _, _ in numbers) <= 18
    assert sum(not low <= 75 <= high for _, _, low, high in numbers) <= 18


@pytest.mark.parametrize("walk", one_of([0.1, 0.0]), ids=["a host that walks", "independent"])
def test_a_neighbour_that_takes_nothing_is_hardly_ever_blamed(tmp_path: Path, walk: float) -> None:
    blamed = [text for text in openings(tmp_path, 0.0, 0.0, walk) if ", no effect of" not in text]
    assert len(blamed) <= 18, blamed

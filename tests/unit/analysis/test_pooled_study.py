"""One study on several hosts: which effects are pooled, over which strata, and what is said where they cannot be."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.claims import Judgement
from lastro.analysis.claims.load import parse_claims
from lastro.analysis.pooled_study import PooledEffect, PooledStudy, pool_hosts
from lastro.app.contents import hosts_of, load_data
from lastro.builders.pool import opening_sentences, pool_blocks
from lastro.errors import InputError
from lastro.figures import NARROW_IN, WIDE_IN
from lastro.figures.forest import forest_plans
from lastro.render.fitting import LIMIT, markdown_within
from lastro.render.markdown import markdown
from lastro.render.terminal import terminal_lines
from lastro.results.merge import merge_campaigns
from lastro.results.read import CampaignData
from lastro.results.samples import Metric
from lastro.study.model import Factor, Level, Study, baseline_among
from lastro.words.claims import reason_text
from lastro.words.language import ENGLISH, LANGUAGES, language
from lastro.words.numbers import ratio_range

from ...support.campaigns import PROVENANCE, Levels, make_campaign, make_study

FACTORS: dict[str, tuple[Level, ...]] = {"platform": ("native", "runc"), "isolation": ("none", "cgroups")}
METRICS = (Metric("throughput", "Mbit/s", "higher", ""),)
STUDY = make_study(FACTORS, replicates=4, metrics=METRICS, baseline={"platform": "native", "isolation": "none"})
RUNC = {"edge-1": 0.80, "edge-2": 0.84, "edge-3": 0.88, "edge-4": 0.92}
CLAIMS = """
[[claim]]
id = "slower"
says = "runc is slower than native"
compare = { metric = "throughput", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
[[claim]]
id = "alike"
says = "cgroups cost nothing"
alike = { metric = "throughput", factor = "isolation", levels = ["none", "cgroups"] }
margin = 0.05
[[claim]]
id = "rate"
says = "at least 10 Mbit/s"
level = { metric = "throughput", at_least = 10, unit = "Mbit/s" }
[[claim]]
id = "sum"
says = "isolation costs the same on both platforms"
additive = { metric = "throughput", factors = ["platform", "isolation"] }
margin = 0.05
"""


def on(host: str, **more: Any) -> dict[str, Any]:
    facts = {"hostname": host, "kernel": "6.1.0", "cpu_model": "EPYC", "cpus": 2, **more}
    return {**PROVENANCE, "host": facts, "lastro": {"version": "0.1.0"}}


def campaign(home: Path, host: str, study: Study = STUDY, name: str = "", **options: Any) -> Path:
    """A campaign of a host that is fast or slow, with its own effect of runc and noise of 1 %."""

    def value(levels: Levels, block: int, metric: str) -> float:
        effect = RUNC.get(host, 1.0) if levels["platform"] == "runc" else 1.0
        noise = random.Random(f"{host}:{name}:{sorted(levels.items())}:{block}").gauss(0, 0.01)
        return 100 * len(host + name) * effect * (1 + noise)

    chosen = {"value": value, "provenance": on(host), "notes": lambda levels, block: {}} | options
    return make_campaign(home / (name or host), study, **chosen)


def pooled(home: Path, hosts: Sequence[str] = (*RUNC,), **options: Any) -> PooledStudy:
    claims = parse_claims(CLAIMS, "claims.toml", STUDY)
    return pool_hosts(hosts_of([campaign(home, host, **options) for host in hosts]), claims=claims)


def said_of(found: PooledStudy) -> str:
    """What a terminal shows of a study on several hosts, as one line."""
    return " ".join(" ".join(terminal_lines(pool_blocks(found, ENGLISH), 100, ENGLISH)).split())


def effects(found: PooledStudy) -> Mapping[str, PooledEffect]:
    return {effect.level: effect for effect in found.effects}


def test_the_mean_over_hosts_is_that_of_their_ratios_whatever_their_speed(tmp_path: Path) -> None:
    found = pooled(tmp_path)
    runc = effects(found)["runc"]
    assert [host.name for host in found.hosts] == [*RUNC]
    assert runc.mean is not None and runc.pooled is not None and runc.mean.interval is not None
    assert [one.ratio.value for one in runc.hosts] == pytest.approx([*RUNC.values()], abs=0.02)
    assert runc.mean.value == pytest.approx(math.prod(RUNC.values()) ** 0.25, abs=0.01) and runc.verdict == "worse"
    assert runc.pooled.tau.value == pytest.approx(0.06, abs=0.02) and runc.pooled.q_p < 0.001
    assert runc.prediction is not None
    assert runc.prediction.low < runc.mean.interval.low < 0.86 < runc.mean.interval.high < runc.prediction.high
    assert effects(found)["cgroups"].verdict == "same"
    said = " ".join(opening_sentences(found, ENGLISH))
    assert f"A new host will see throughput {ratio_range(runc.prediction, ENGLISH)} (platform: runc / native)." in said


def test_claims_are_judged_over_hosts_and_on_each(tmp_path: Path) -> None:
    slower, alike, rate, added = pooled(tmp_path).claims
    assert (slower.pooled.verdict, alike.pooled.verdict) == ("reproduced", "reproduced")
    assert slower.pooled.part is not None and slower.pooled.part.effect.n == 4 and slower.pooled.part.beside is None
    assert [one.verdict for one in slower.on_each] == ["reproduced"] * 4
    for alone in (rate, added):
        assert alone.pooled.verdict == "untestable here", "neither is about a ratio or a recovery"
        assert alone.pooled.why_not[0].endswith("other effects are judged on each host alone")
        assert [one.verdict for one in alone.on_each] == ["reproduced"] * 4


def test_a_comparison_in_every_condition_is_pooled_in_each(tmp_path: Path) -> None:
    slower = CLAIMS[: CLAIMS.index('[[claim]]\nid = "alike"')]
    text = slower.replace('to = { platform = "native" }', 'to = { platform = "native" }, over = "worst"')
    hosts = hosts_of([campaign(tmp_path, host) for host in RUNC])
    (claim,) = pool_hosts(hosts, claims=parse_claims(text, "claims.toml", STUDY)).claims
    assert claim.pooled.verdict == "reproduced" and claim.pooled.effects is not None
    assert [part.label for part in claim.pooled.effects.parts] == ["runc / native · none", "runc / native · cgroups"]
    assert reason_text(claim.pooled).startswith("the effect is significant, in this direction, in every condition")


def test_a_published_difference_is_not_compared_over_hosts_and_the_reason_is_told(tmp_path: Path) -> None:
    text = """
[[claim]]
id = "slower"
says = "runc is about 90 Mbit/s slower than native"
compare = { metric = "throughput", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { difference = -90, unit = "Mbit/s", tolerance = 80, printed = "90 Mbit/s" }
"""
    hosts = hosts_of([campaign(tmp_path, host) for host in RUNC])
    (claim,) = pool_hosts(hosts, claims=parse_claims(text, "claims.toml", STUDY)).claims
    assert [one.verdict for one in claim.on_each] == ["reproduced"] * 4
    why = "the published figure is a difference, and only ratios are pooled over hosts"
    assert claim.pooled.verdict == "same direction, too imprecise" and reason_text(claim.pooled) == why
    assert "só razões são reunidas" in reason_text(claim.pooled, language("pt-BR"))


NEIGHBOURS = make_study(
    {"isolation": ("none", "cgroups"), "anomaly": ("none", "cpu")},
    replicates=4,
    metrics=METRICS,
    baseline={"isolation": "none", "anomaly": "none"},
)
RECOVERY = """
[[claim]]
id = "recovered"
says = "cgroups recover 60 % of what a neighbour takes"
published = { share = 0.6, tolerance = 0.2, printed = "60 %" }

[claim.recovery]
metric = "throughput"
ideal = { isolation = "none", anomaly = "none" }
without = { isolation = "none", anomaly = "cpu" }
protected = { isolation = "cgroups", anomaly = "cpu" }
"""
LOST = {"edge-1": 0.5, "edge-2": 0.4, "edge-3": 0.3, "edge-4": 0.45}
NONE_LOST = dict(zip(LOST, (0.02, -0.02, 0.01, -0.01), strict=True))


def judged_recovery(
    home: Path, recovers: float, lost: Mapping[str, float] = LOST, study: Study = NEIGHBOURS, **options: Any
) -> Judgement:
    """The claim where hosts of very unequal speed lose these fractions, and a protection recovers part of them."""
    rng, hosts = random.Random(f"{recovers}"), [*lost]

    def campaign_of(host: str) -> Path:
        def value(levels: Levels, block: int, metric: str) -> float:
            loss = lost[host] if levels["anomaly"] == "cpu" else 0.0
            left = 1 - (recovers if levels["isolation"] == "cgroups" else 0.0)
            return 10 ** hosts.index(host) * (1 - loss * left) * (1 + rng.gauss(0, 0.005))

        return campaign(home, host, study, value=value, **options)

    found = hosts_of([campaign_of(host) for host in hosts])
    (claim,) = pool_hosts(found, claims=parse_claims(RECOVERY, "claims.toml", study)).claims
    return claim.pooled


def test_a_recovery_is_judged_over_hosts_that_each_count_once_whatever_their_speed(tmp_path: Path) -> None:
    claim = judged_recovery(tmp_path, 0.6)
    assert claim.verdict == "reproduced" and claim.part is not None and claim.part.effect.interval is not None
    assert claim.part.measure == "share" and claim.part.effect.n == 4
    assert claim.part.effect.value == pytest.approx(0.6, abs=0.02)


def test_a_recovery_of_a_time_is_one_where_hosts_lose_many_times_of_it(tmp_path: Path) -> None:
    """One host waits 40 times as long, and the others twice: it does not count for more than two of them."""
    times = replace(NEIGHBOURS, metrics=(replace(METRICS[0], better="lower"),))
    claim = judged_recovery(tmp_path, 0.6, dict(zip(LOST, (-39.0, -1.0, -1.2, -0.8), strict=True)), times)
    assert claim.verdict == "reproduced" and claim.part is not None
    assert claim.part.effect.value == pytest.approx(0.6, abs=0.02)


def test_hosts_on_which_nothing_is_left_count_as_a_whole_loss(tmp_path: Path) -> None:
    claim = judged_recovery(tmp_path, 0.6, LOST | {"edge-1": 1.0, "edge-2": 1.0})
    assert claim.verdict == "reproduced" and claim.part is not None and claim.part.effect.n == 4


@pytest.mark.parametrize(
    ("recovers", "lost", "verdict", "why"),
    [
        (0.2, LOST, "same direction, another size", ""),
        (-0.5, LOST, "contradicted", ""),
        (0.6, NONE_LOST, "untestable here", "there is nothing to recover"),
        (0.6, dict([*LOST.items()][:2]), "untestable here", "too few hosts have this effect: 2"),
    ],
)
def test_a_recovery_over_hosts_comes_out_each_way(
    tmp_path: Path, recovers: float, lost: Mapping[str, float], verdict: str, why: str
) -> None:
    claim = judged_recovery(tmp_path, recovers, lost)
    assert claim.verdict == verdict and reason_text(claim).startswith(why)


def test_two_hosts_give_no_mean_and_no_spread(tmp_path: Path) -> None:
    found = pooled(tmp_path, ("edge-1", "edge-4"))
    runc = effects(found)["runc"]
    assert runc.mean is runc.prediction is None and runc.verdict == ""
    assert runc.between_hosts is not None and runc.between_hosts.value == pytest.approx(0.92 / 0.80, abs=0.03)
    assert runc.between_hosts.interval is not None and not runc.between_hosts.interval.holds(1)
    assert runc.absent_because == ("too few hosts have this effect: 2; it takes 3 to show how much hosts differ",)
    assert {one.pooled.verdict for one in found.claims} == {"untestable here"}
    assert "Two hosts cannot show how much hosts differ" in said_of(found)


def test_a_host_that_lacks_the_baseline_does_not_choose_the_reference(tmp_path: Path) -> None:
    """Without native, `--only` makes runc the baseline of its campaign; the others still compare with native."""
    factors = (Factor("platform", ("runc",)), *STUDY.factors[1:])
    baseline = baseline_among(STUDY.design.baseline, factors)
    lacking = replace(STUDY, factors=factors, design=replace(STUDY.design, baseline=baseline))
    first, *others = RUNC
    directories = [campaign(tmp_path, first, lacking), *(campaign(tmp_path, host) for host in others)]
    found = effects(pool_hosts(hosts_of(directories)))
    assert list(found) == ["runc", "cgroups"] and found["runc"].reference == "native"
    assert [one.ratio is None for one in found["runc"].hosts] == [True, False, False, False]
    assert found["runc"].pooled is not None and found["cgroups"].pooled is not None
    with pytest.raises(InputError, match="the baseline's platform is runc and native"):
        renamed = replace(STUDY, design=replace(STUDY.design, baseline={"platform": "runc", "isolation": "none"}))
        hosts_of([campaign(tmp_path, "edge-9", renamed), *directories[1:]])


def test_campaigns_of_one_host_count_as_one(tmp_path: Path) -> None:
    again = campaign(tmp_path, "edge-1", name="again")
    others = [campaign(tmp_path, host) for host in RUNC]
    hosts = hosts_of([*others, again])
    assert [host.name for host in hosts] == [*RUNC]
    assert len(hosts[0].campaigns) == 2 and len(hosts[0].report.members) == 2
    text = said_of(pool_hosts(hosts))
    assert "are of one host, edge-1, and count as one" in text
    assert effects(pool_hosts(hosts))["runc"].pooled is not None


def test_one_host_an_unknown_host_and_another_study_are_refused(tmp_path: Path) -> None:
    one = campaign(tmp_path, "edge-1")
    with pytest.raises(InputError, match="all of these campaigns are of one host, edge-1"):
        hosts_of([one, campaign(tmp_path, "edge-1", name="again")])
    with pytest.raises(InputError, match="does not record its host"):
        hosts_of([one, campaign(tmp_path, "nowhere", provenance={"lastro": {}})])
    other = make_study(FACTORS, metrics=METRICS, settings={"tcp_s": 5})
    with pytest.raises(InputError, match="are not campaigns of one study"):
        hosts_of([one, campaign(tmp_path, "edge-2", other)])


def test_hosts_of_one_name_are_told_apart_by_their_processors(tmp_path: Path) -> None:
    made = [campaign(tmp_path, "debian", name=f"c{n}", provenance=on("debian", cpus=n)) for n in (2, 4, 8)]
    assert [host.name for host in hosts_of(made)] == ["debian (EPYC, 2)", "debian (EPYC, 4)", "debian (EPYC, 8)"]


def fleet(home: Path, testbeds: Sequence[str], hosts: Sequence[str]) -> CampaignData:
    """A campaign in which testbeds of these names measured, each on a host that is called as told."""
    whole = merge_campaigns(
        [load_data(campaign(home, host, name=name)) for name, host in zip(testbeds, hosts, strict=True)]
    )
    members = zip(whole.members, testbeds, strict=True)
    return replace(
        whole,
        directory=str(home),
        members=tuple(replace(member, directory=name, testbed=True) for member, name in members),
    )


def test_testbeds_of_a_fleet_are_hosts_even_if_they_are_clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, home = ("rack-1", "rack-2", "rack-3"), tmp_path / "f"
    data = fleet(home, names, ("debian", "debian", "edge-1"))
    monkeypatch.setattr("lastro.app.contents.load_all", lambda directories: [data])
    hosts = hosts_of([home])
    assert [host.name for host in hosts] == ["debian (EPYC, 2, rack-1)", "debian (EPYC, 2, rack-2)", "edge-1"]
    again = load_data(campaign(tmp_path, "edge-1"))
    monkeypatch.setattr("lastro.app.contents.load_all", lambda directories: [data, again])
    (merged,) = (host for host in hosts_of([home, tmp_path]) if host.name == "edge-1")
    assert merged.campaigns == (f"{home}: rack-3", again.directory), "its testbed has another name than its host"


def test_anonymous_hosts_are_taken_as_different_and_the_pool_says_so(tmp_path: Path) -> None:
    made = [campaign(tmp_path, "anonymous", name=name) for name in ("c1", "c2", "c3")]
    found = pool_hosts(hosts_of(made))
    assert [host.campaigns for host in found.hosts] == [(str(each),) for each in made]
    assert effects(found)["runc"].pooled is not None
    said = "Hosts named anonymous are taken as different from each other and from all other hosts."
    assert said in said_of(found)
    with pytest.raises(InputError, match="all of these campaigns are of one host"):
        hosts_of([made[0], made[0]])


def test_means_are_over_what_every_host_measured(tmp_path: Path) -> None:
    """On one host, cgroups cannot be had under runc: there, the effect of cgroups is that on native alone."""
    made = [campaign(tmp_path, host) for host in ("edge-1", "edge-2", "edge-3")]
    gap = campaign(
        tmp_path, "edge-4", unavailable=lambda levels: ("no cgroups", None) if [*levels.values()] == ["runc", "cgroups"]
        else None,
    )  # fmt: skip
    cgroups = effects(pool_hosts(hosts_of([*made, gap])))["cgroups"]
    assert (cgroups.strata, cgroups.all_strata) == (1, 2) and cgroups.pooled.estimate.n == 4


def test_a_host_without_a_level_is_left_out_and_says_why(tmp_path: Path) -> None:
    made = [campaign(tmp_path, host) for host in ("edge-1", "edge-2", "edge-3")]
    without = campaign(
        tmp_path, "edge-4",
        unavailable=lambda levels: ("no runc", "install it") if levels["platform"] == "runc" else None,
    )  # fmt: skip
    found = pool_hosts(hosts_of([*made, without]))
    runc = effects(found)["runc"]
    assert runc.pooled is not None and runc.pooled.estimate.n == 3
    assert runc.hosts[3].ratio is None and "no runc" in runc.hosts[3].absent_because[0]
    assert "unavailable: no runc" in markdown(pool_blocks(found, ENGLISH), ENGLISH)


def test_values_without_spread_or_with_one_block_have_no_weight(tmp_path: Path) -> None:
    made = [campaign(tmp_path, host) for host in ("edge-1", "edge-2")]
    constant = campaign(tmp_path, "edge-3", value=lambda levels, block, metric: 100 / 7 + len(str(levels["platform"])))
    single = campaign(
        tmp_path, "edge-4", make_study(FACTORS, replicates=1, metrics=METRICS, baseline=STUDY.design.baseline)
    )
    runc = effects(pool_hosts(hosts_of([*made, constant, single])))["runc"]
    assert [bool(one.effect) for one in runc.hosts] == [True, True, False, False] and runc.pooled is None
    assert "nothing varied" in runc.hosts[2].absent_because[0] and "one value" in runc.hosts[3].absent_because[0]


def test_an_unknown_metric_names_the_nearest(tmp_path: Path) -> None:
    hosts = hosts_of([campaign(tmp_path, host) for host in ("edge-1", "edge-2")])
    with pytest.raises(InputError, match="metric 'thruput' is not in every campaign"):
        pool_hosts(hosts, metrics=["thruput"])


@pytest.mark.parametrize("code", ["en", "pt-BR"])
@pytest.mark.parametrize("width_in", [WIDE_IN, NARROW_IN])
def test_the_forest_plot_has_a_row_for_each_host_and_two_more(tmp_path: Path, code: str, width_in: float) -> None:
    say = language(code)
    found = pooled(tmp_path)
    platform, isolation = [plan.picture(width_in) for plan in forest_plans(found, say)]
    assert platform is not None and isolation is not None and platform.name == "forest-throughput-platform"
    svg = platform.svg()
    assert all(host in svg for host in RUNC) and say("mean over hosts") in svg and say("new host") in svg
    assert say.number("×0.8") in svg


def test_a_forest_plot_without_any_ratio_is_not_drawn(tmp_path: Path) -> None:
    hosts = hosts_of([campaign(tmp_path, host, stop_after=0) for host in ("edge-1", "edge-2")])
    found = pool_hosts(hosts)
    assert [plan for plan in forest_plans(found, ENGLISH) if plan.picture()] == []
    assert terminal_lines(pool_blocks(found, ENGLISH), 80, ENGLISH)[0].startswith("Two hosts cannot show")


@pytest.mark.parametrize("code", LANGUAGES)
def test_markdown_fits_into_a_comment_unless_all_of_it_is_wanted(tmp_path: Path, code: str) -> None:
    found, say = pooled(tmp_path), language(code)
    each = say("{metric} on each host", metric="throughput (Mbit/s)")
    command = "lastro pool --format md --all"
    some = markdown_within(pool_blocks(found, say), say, command)
    assert each in some and "lastro pool" not in some
    many = replace(found, metrics=found.metrics * 90)
    short = markdown_within(pool_blocks(many, say), say, command)
    whole = markdown(pool_blocks(many, say), say)
    assert LIMIT - 5000 < len(short.encode()) <= LIMIT < len(whole.encode())
    assert short.count(say("mean over hosts")) > 90 and "`lastro pool --format md --all`" in short, "means come first"

"""Campaigns of one study, put together: levels, blocks and trials of the whole, and what is said of it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro import cli, papers
from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.host_facts import compare_members
from lastro.analysis.trends import correlated_orders
from lastro.builders.content import Content
from lastro.errors import InputError
from lastro.results.merge import merge_campaigns
from lastro.results.read import CampaignData, load_campaign
from lastro.results.samples import Series
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.study.load import load
from lastro.study.model import Design, Factor, baseline_among
from lastro.study.selection import Selection
from lastro.words.campaign import premises
from lastro.words.language import ENGLISH

from ...support.campaigns import PROVENANCE, Levels, make_campaign, make_study, plausible_value
from ...support.documents import render_markdown

SPEED = {"native": 1.0, "lxc": 0.9, "xen": 0.8}
FILE = '[design]\nbaseline = { platform = "native" }\n'
CLAIM = """[[claim]]
id = "xen"
says = "Xen carries less than LXC."
direction = "lower"
compare = { metric = "throughput", of = { platform = "xen" }, to = { platform = "lxc" } }
"""
Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(
        name: str, platforms: tuple[str, ...], *, day: float = 1.0, host: dict[str, str] | None = None, **others: Any
    ) -> Path:
        def value(levels: Levels, block: int, metric: str) -> float:
            return plausible_value(levels, block + round(100 * day), metric) * day * SPEED[str(levels["platform"])]

        def series(levels: Levels, block: int) -> list[Series]:
            return [Series(f"{name} {block} {levels['platform']}", "Mbit/s", (day,))]

        provenance = copy.deepcopy(PROVENANCE)
        provenance["host"].update({"kernel": "6.1"} | (host or {}))
        factors = (Factor("platform", platforms),)
        study = make_study(
            {"platform": platforms},
            replicates=others.pop("replicates", 3),
            baseline=baseline_among({"platform": "native"}, factors),  # as `--only` leaves it
            source=FILE,
        )
        study = replace(study, **others.pop("study", {}))
        return make_campaign(tmp_path / name, study, value=value, series=series, provenance=provenance, **others)

    return make


def loaded(*directories: Path) -> list[CampaignData]:
    found = []
    for directory in directories:
        with Store.open(directory, readonly=True) as store:
            found.append(load_campaign(store))
    return found


def test_levels_blocks_and_trials_of_the_whole(made: Made) -> None:
    a, b = made("a", ("native", "lxc")), made("b", ("native", "xen"), day=1.2, replicates=2)
    whole = merge_campaigns(loaded(a, b))
    assert whole.study.factors[0].levels == ("native", "lxc", "xen") and whole.study.design.replicates == 5
    assert [row.treatment.levels["platform"] for row in whole.treatments] == ["native", "lxc", "xen"]
    assert [trial.number for trial in whole.trials] == list(range(1, 11))
    assert {attempt.block for attempt in whole.attempts if attempt.treatment == 2} == {4, 5}
    assert [(member.blocks, member.trials) for member in whole.members] == [
        (range(1, 4), range(1, 7)), (range(4, 6), range(7, 11)),
    ]  # fmt: skip
    report = build_report(whole)
    throughput = report.views[0].cells
    assert [len(cell.points) for cell in throughput] == [5, 3, 2]
    for cell, ratio in zip(throughput[1:], (0.9, 0.8), strict=True):
        assert cell.ratio and cell.ratio.interval and cell.ratio.interval.holds(ratio)


def test_series_come_from_the_campaign_of_their_trial(made: Made) -> None:
    whole = merge_campaigns(loaded(made("a", ("native", "lxc")), made("b", ("native", "xen"), replicates=2)))
    last = whole.attempts[-1]
    read = whole.later_series([(last.trial, last.attempt), (1, 1)])
    names = [{one.name for one in series} for series in read]
    assert any(name.startswith("b 2 ") for name in names[0]) and any(name.startswith("a 1 ") for name in names[1])


def test_what_one_campaign_could_run_is_not_missing(made: Made) -> None:
    def without_xen(levels: Levels) -> tuple[str, str | None] | None:
        return ("no hypervisor", None) if levels["platform"] in {"xen", "lxc"} else None

    a = made("a", ("native", "lxc", "xen"), unavailable=without_xen)
    b = made("b", ("native", "xen"))
    rows = {str(row.treatment.levels["platform"]): row for row in build_report(merge_campaigns(loaded(a, b))).rows}
    assert {name: row.status for name, row in rows.items()} == {
        "native": "measured", "lxc": "unavailable", "xen": "measured",
    }  # fmt: skip
    assert rows["xen"].trials == {"valid": 3} and rows["lxc"].reason == "no hypervisor"


def test_how_they_differ_and_what_links_them(made: Made) -> None:
    a = made("a", ("native", "lxc"))
    b = made("b", ("native", "xen"), host={"kernel": "6.12"})
    c = made("c", ("xen",), host={"hostname": "other"})
    said = " ".join(premises(build_report(merge_campaigns(loaded(a, b))), ENGLISH))
    assert "The numbers are of 2 campaigns" in said and "kernel (6.1 / 6.12)" in said
    assert "through what several campaigns measured: native." in said and "WARNING" not in said
    report = build_report(merge_campaigns(loaded(a, c)))
    found = compare_members(report)
    assert found is not None and found.other_machine and not found.links
    said = " ".join(premises(report, ENGLISH))
    assert "WARNING: The machines differ" in said and "no treatment in common" in said
    page = render_markdown(Content(report, analyse(report), ENGLISH))
    assert "in the next campaign" not in page and "a.toml" not in page
    assert f"lastro report {report.members[0].directory} && lastro report" in page and "lastro plan" not in page
    xen = report.views[0].cells[-1]
    assert xen.summary and xen.ratio and (xen.ratio.value, xen.ratio.interval, xen.decision) == (None, None, "unknown")
    assert compare_members(build_report(merge_campaigns(loaded(a)))) is None


def baseline_of(*campaigns: CampaignData) -> object:
    return merge_campaigns(campaigns).study.design.baseline["platform"]


def test_a_campaign_without_the_baseline_is_compared_with_it_through_what_both_measured(made: Made) -> None:
    a, b = made("a", ("lxc", "xen")), made("b", ("native", "lxc"), day=1.2)
    assert loaded(a)[0].study.design.baseline == {"platform": "lxc"}
    whole = merge_campaigns(loaded(a, b))
    assert whole.study.design.baseline == {"platform": "native"}
    rows = build_report(whole).rows
    cells = {str(row.treatment.levels["platform"]): row.cells[0] for row in rows}
    assert {str(row.baseline.levels["platform"]) for row in rows if row.baseline} == {"native"}
    for platform in ("lxc", "xen"):
        ratio = cells[platform].ratio
        assert ratio and ratio.interval and ratio.interval.holds(SPEED[platform]), platform


def test_of_several_possible_baselines_it_is_that_of_the_file_else_of_the_earliest_campaign(made: Made) -> None:
    """LXC alone, and Xen with the bare host: either may be what the study compares with."""
    a, b = loaded(made("a", ("lxc",)), made("b", ("native", "xen")))
    assert baseline_of(a, b) == baseline_of(b, a) == "native"
    texts = ("", "not TOML", "design = 1", "[design]\nbaseline = 1", "[[design]]", '[design.baseline]\nplatform = "no"')
    for text in texts:
        unnamed = [replace(each, study=replace(each.study, source=text)) for each in (a, b)]
        assert (baseline_of(*unnamed), baseline_of(*reversed(unnamed))) == ("lxc", "native"), text
    cells = {row.treatment.label: row.cells[0] for row in build_report(merge_campaigns([a, b])).rows}
    assert cells["xen"].ratio and cells["xen"].ratio.interval and cells["xen"].ratio.interval.holds(0.8)
    lxc = cells["lxc"]
    assert lxc.summary and lxc.ratio and (lxc.ratio.value, lxc.decision) == (None, "unknown"), "nothing links them"


def test_levels_that_no_campaign_compares_with_the_baseline(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [str(made("a", ("lxc",))), str(made("b", ("xen",), host={"kernel": "6.12"}))]
    assert baseline_of(*loaded(*map(Path, both))) == "lxc"
    claims = tmp_path / "claims.toml"
    claims.write_text(CLAIM)
    assert cli.main(["claims", *both, "--claims", str(claims), "--json"]) == 0
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert claim["verdict"] == "untestable here" and "no common treatment" in claim["reason"], claim


def test_the_levels_of_a_paper_that_need_two_kernels(tmp_path: Path) -> None:
    """Measured as `--only` says, without the bare host or with it on one of the kernels."""
    study = load(papers.find("correa2011"), schemas()).with_profile("quick")
    study = replace(study, design=replace(study.design, replicates=2))

    def part(*platforms: str) -> CampaignData:
        chosen = Selection(only=(f"platform={','.join(platforms)}",)).of(study, schemas()[study.scenario])
        name = tmp_path / "-".join(platforms)
        return loaded(make_campaign(name, chosen, value=lambda levels, block, metric: 1.0 + block))[0]

    lxc, xen, both = part("lxc"), part("xen"), part("native", "xen")
    assert [each.study.design.baseline["platform"] for each in (lxc, xen, both)] == ["lxc", "xen", "native"]
    assert (baseline_of(lxc, xen), baseline_of(lxc, both), baseline_of(xen, both)) == ("lxc", "native", "native")


def test_the_options_of_each_campaign_are_told_unless_all_had_the_same(made: Made) -> None:
    options = [("--only", f"platform=native,{other}") for other in ("lxc", "xen")]
    a, b = (made(words[1][-3:], ("native", words[1][-3:]), study={"changes": words}) for words in options)
    told = " ".join(premises(build_report(merge_campaigns(loaded(a, b))), ENGLISH))
    assert all(f"; changed by --only platform=native,{other})" in told for other in ("lxc", "xen")), told
    assert "The study was changed" not in told, "not the whole of it"
    same = [made(f"same-{name}", ("native", "lxc"), study={"changes": options[0]}) for name in "ab"]
    told = " ".join(premises(build_report(merge_campaigns(loaded(*same))), ENGLISH))
    assert "The study was changed by --only platform=native,lxc." in told and "; changed by" not in told


def test_campaigns_that_have_both_levels_and_another_baseline_are_refused(made: Made) -> None:
    other = {"design": Design(replicates=3, baseline={"platform": "lxc"})}
    campaigns = [made("c", ("xen",)), made("a", ("native", "lxc")), made("b", ("native", "lxc"), study=other)]
    with pytest.raises(InputError, match="the baseline's platform is native and lxc"):
        merge_campaigns(loaded(*campaigns[1:]))
    with pytest.raises(InputError, match=r"c and .*b are not .* the baseline's platform is xen and lxc"):
        merge_campaigns(loaded(*campaigns))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"tcp_s": 30, "anomaly": "none", "platform": "runc"}}, "the setting tcp_s is 15 and 30"),
        ({"name": "other"}, "the study name is small and other"),
        ({"metrics": ()}, "the list of metrics is"),
        ({"variants": {"after": {"tcp_s": 5}}}, r"the setting variants\.after\.tcp_s is not set and 5"),
        ({"design": Design(replicates=3)}, "the list of factors of the baseline is platform and none"),
    ],
)
def test_other_studies_are_refused(made: Made, changes: dict[str, Any], words: str) -> None:
    a, b = made("a", ("native", "lxc")), made("b", ("native", "xen"), study=changes)
    with pytest.raises(InputError, match=words):
        merge_campaigns(loaded(a, b))
    with pytest.raises(InputError, match="given twice"):
        merge_campaigns(loaded(a, a))


def test_each_command_takes_several(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(made("a", ("native", "lxc"))), str(made("b", ("native", "xen"), host={"kernel": "6.12"}))]
    claims = tmp_path / "claims.toml"
    claims.write_text(CLAIM)
    assert cli.main(["results", *both]) == 0
    assert "The numbers are of 2 campaigns" in capsys.readouterr().out.replace("\n", " ")
    assert cli.main(["claims", *both, "--claims", str(claims), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["claims"][0]["verdict"] == "reproduced", document["claims"]
    assert cli.main(["report", *both]) == 2
    assert "name the file with -o" in capsys.readouterr().err
    page = tmp_path / "page.md"
    assert cli.main(["report", *both, "--format", "md", "-o", str(page)]) == 0
    assert "The campaigns differ in: kernel (6.1 / 6.12)." in page.read_text()


def test_noise_that_lasts_is_found_within_each_campaign(made: Made) -> None:
    """Otherwise means would keep intervals that do not hold; and a step between the campaigns is no such noise."""
    a, b = made("a", ("native", "lxc"), replicates=12), made("b", ("native", "xen"), day=1.5, replicates=12)
    whole = merge_campaigns(loaded(a, b))
    assert not correlated_orders(build_report(whole).views, 0.05)
    last, lasting = 0.0, []
    for one in whole.attempts:
        last = 0.95 * last + random.Random(one.trial).gauss(0, 0.03)
        lasting.append(
            replace(one, measurements={name: value * (1 + last) for name, value in one.measurements.items()})
        )
    assert "throughput" in correlated_orders(build_report(replace(whole, attempts=lasting)).views, 0.05)

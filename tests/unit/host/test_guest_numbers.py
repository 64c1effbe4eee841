"""Numbers of guests where they could be taken for those of hosts: among other campaigns, and beside published ones."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro import cli
from lastro.analysis.as_published import MatchedBars
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.claim import Claims, Source
from lastro.analysis.claims.kinds import AnyClaim
from lastro.analysis.claims.load import parse_claims
from lastro.analysis.compare import compare
from lastro.analysis.host_facts import named_facts
from lastro.analysis.pooled_study import machine, pool_hosts
from lastro.app.contents import content_of, hosts_of, load_data, load_together
from lastro.app.provenance import changed_facts
from lastro.builders.claims import JudgedClaims
from lastro.builders.compare import compare_blocks
from lastro.builders.content import Content
from lastro.builders.data.claims import claims_document
from lastro.builders.data.results import document
from lastro.builders.page_figures import planned_figures
from lastro.builders.pool import pool_blocks, warnings
from lastro.builders.suite import StudySection
from lastro.builders.tables import table_with_place
from lastro.campaign.duration import emulated_guests
from lastro.document import Heading, Table
from lastro.figures import pictures
from lastro.guest import _facts, several_guests_chapter
from lastro.host.testbed_file import load
from lastro.render.markdown import markdown
from lastro.results.export import to_csv
from lastro.results.members import Member
from lastro.results.provenance import Provenance
from lastro.results.samples import Metric, depends_on_speed
from lastro.results.segments import change_texts
from lastro.results.store import Store
from lastro.words.campaign import place, premises
from lastro.words.claims import reason_text
from lastro.words.comparison import comparison_notes, not_compared
from lastro.words.language import ENGLISH, language

from ...support.campaigns import PROVENANCE, Levels, make_campaign, make_study, plausible_value
from ...support.documents import render_pool, render_suite
from ..analysis.test_build import report_of
from ..image.test_guest_host import guest_of
from ..papers.test_eiras2018 import published_value, study_of

PORTUGUESE = language("pt-BR")
LEVEL = {"metric": "throughput", "value": 1.5, "tolerance": 0.5, "unit": "Mbit/s"}


def in_guest(accelerator: str, cgroups: str = "v2") -> dict[str, Any]:
    plan = replace(guest_of(load(Path("guest"))), cgroups=cgroups)
    return {**PROVENANCE, "guest": _facts(plan, accelerator, "")}


TCG, TCG_V1, KVM = in_guest("tcg"), in_guest("tcg", "v1"), in_guest("kvm")
SOFTWARE, SOFTWARE_V1 = (f"a guest emulated in software (2G, cgroup {version}, AppArmor)" for version in ("v2", "v1"))
ON_KVM = "a guest on KVM (2G, cgroup v2, AppArmor)"


# Several campaigns, or several testbeds


def whole(directory: Path, *provenances: dict[str, Any]) -> CampaignResults:
    """The report of campaigns of one study that were measured in these places."""
    made = [
        make_campaign(directory / str(at), make_study(replicates=2), provenance=each)
        for at, each in enumerate(provenances)
    ]
    return build_report(load_together(made))


@pytest.mark.parametrize(
    ("provenances", "title", "emulated", "partly", "caption"),
    [
        ((TCG, TCG), SOFTWARE, True, False, "in an emulated guest"),
        (
            (TCG_V1, TCG), f"2 of 2 campaigns in {SOFTWARE_V1}; {SOFTWARE}",
            True, False, "in an emulated guest",
        ),
        ((PROVENANCE, TCG, TCG), f"2 of 3 campaigns in {SOFTWARE}", True, True, "partly in an emulated guest"),
        ((KVM, TCG), f"2 of 2 campaigns in {ON_KVM}; {SOFTWARE}", True, True, "partly in an emulated guest"),
        ((KVM, PROVENANCE), f"1 of 2 campaigns in {ON_KVM}", False, True, "partly in a guest"),
    ],
)  # fmt: skip
def test_a_guest_among_several_campaigns_is_named(
    provenances: tuple[dict[str, Any], ...], title: str, emulated: bool, partly: bool, caption: str, tmp_path: Path
) -> None:
    report = whole(tmp_path, *provenances)
    assert document(report)["guest"] == {"title": title, "emulated": emulated, "partly": partly}
    table = Table("results", "Throughput", ("platform",), (("native",),))
    assert table_with_place(table, report, ENGLISH).title == f"Throughput, {caption}"
    said = premises(report, ENGLISH)[0]
    assert title in said and ("not comparable with those of any host" in said) == emulated


def test_hosts_alone_are_no_guest(tmp_path: Path) -> None:
    report = whole(tmp_path, PROVENANCE, PROVENANCE)
    assert report.members and report.guest is None and place(report, ENGLISH) == ""


def test_it_is_said_in_portuguese_too(tmp_path: Path) -> None:
    report = whole(tmp_path, PROVENANCE, TCG)
    assert place(report, PORTUGUESE) == "em parte em uma máquina virtual emulada"
    said = premises(report, PORTUGUESE)[0]
    assert said.startswith(f"Medido em máquinas virtuais: 1 de 2 campanhas em {SOFTWARE}.") and "não são comp" in said


def test_a_guest_among_the_testbeds_of_a_fleet_is_named(tmp_path: Path) -> None:
    report = report_of(make_campaign(tmp_path, make_study(replicates=3)))
    beds = {"ada": PROVENANCE, "bea": PROVENANCE, "vm": TCG}
    members = [
        Member(name, Provenance.of(found), {at}, (), testbed=True) for at, (name, found) in enumerate(beds.items(), 1)
    ]
    fleet = replace(report, members=tuple(members))
    assert fleet.guest is not None and fleet.guest.emulated and fleet.guest.partly
    assert fleet.guest.title == f"1 of 3 testbeds in {SOFTWARE}" and place(fleet, ENGLISH) != ""


def test_a_stated_level_is_not_judged_if_a_part_is_emulated(tmp_path: Path) -> None:
    claims = Claims(Source(), (AnyClaim.model_validate({"id": "fast", "says": "it is fast", "level": LEVEL}),))
    mixed, hosts = whole(tmp_path / "mixed", PROVENANCE, TCG), whole(tmp_path / "hosts", PROVENANCE, PROVENANCE)
    (found,) = judge(claims, mixed)
    assert found.verdict == "untestable here" and "some of it was measured in a guest" in reason_text(found)
    assert claims_document(JudgedClaims(claims, (found,), mixed))["guest"]["partly"] is True
    assert judge(claims, hosts)[0].verdict == "contradicted"


# Published differences


def scaled(directory: Path, provenance: dict[str, Any]) -> Content:
    """A campaign in which what eiras2018 published of several proxies is so."""
    make_campaign(
        directory, study_of("eiras2018/scaling"), value=published_value, provenance=provenance,
        notes=lambda levels, block: {},
    )  # fmt: skip
    return content_of([directory], ENGLISH, all_metrics=False)


def marked(found: Content) -> set[str]:
    assert found.published is not None
    return {
        bar.mark.claim.id
        for figure in found.published.figures
        if isinstance(figure, MatchedBars)
        for panel in figure.panels
        for bar in panel.bars
        if bar.mark is not None
    }


@pytest.mark.parametrize(
    ("provenance", "verdict", "marks"),
    [(PROVENANCE, "reproduced", 2), (KVM, "reproduced", 2), (TCG, "same direction, too imprecise", 0)],
)
def test_milliseconds_of_a_host_are_not_reproduced_in_software(
    provenance: dict[str, Any], verdict: str, marks: int, tmp_path: Path
) -> None:
    found = scaled(tmp_path, provenance)
    judged = {one.claim.id: one for one in found.judgements}
    for name in ("two-over-one-nat", "two-over-one-routed"):
        one = judged[name]
        assert one.verdict == verdict, reason_text(one)
        in_software = "it is about a figure of a host, and the host was a guest emulated in software"
        assert (reason_text(one) == in_software) == ("emulada" in reason_text(one, PORTUGUESE)) == (marks == 0)
        assert one.part and one.part.beside and one.part.beside.interval, "the difference is still shown"
    assert len(marked(found)) == marks
    assert judged["more-than-two-nat"].verdict == "reproduced", "a ratio is judged everywhere"


DIFFERENCES = """
[[claim]]
id = "time"
says = "runc answers 10 ms sooner"
compare = { metric = "delay", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { difference = -10, unit = "ms", tolerance = 5 }
[[claim]]
id = "ratio"
says = "runc takes a tenth less"
compare = { metric = "delay", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { ratio = 0.9, difference = -10, unit = "ms", tolerance = 0.05 }
[[claim]]
id = "memory"
says = "runc takes 10 MiB less"
compare = { metric = "memory", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { difference = -10, unit = "MiB", tolerance = 5 }
[[claim]]
id = "without-ratio"
says = "with runc it is 10 ms earlier, and before the deadline"
compare = { metric = "delay_after", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { difference = -10, unit = "ms", tolerance = 5 }
[[claim]]
id = "far"
says = "runc answers 50 ms sooner"
compare = { metric = "noisy", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { difference = -50, unit = "ms", tolerance = 5 }
"""


def differences(directory: Path, provenance: dict[str, Any]) -> dict[str, Judgement]:
    def value(levels: Levels, block: int, metric: str) -> float:
        noise = random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, 1)
        if metric == "noisy":
            return 100.0 + 5 * noise
        return (90.0 if levels["platform"] == "runc" else 100.0) + noise - (95.0 if metric == "delay_after" else 0.0)

    units = {"delay": "ms", "delay_after": "ms", "memory": "MiB", "noisy": "ms"}
    metrics = tuple(Metric(name, unit, "lower", "", signed=True) for name, unit in units.items())
    study = make_study({"platform": ("native", "runc")}, replicates=6, metrics=metrics)
    made = make_campaign(directory, study, value=value, provenance=provenance, notes=lambda levels, block: {})
    judged = judge(parse_claims(DIFFERENCES, "claims.toml", study), report_of(made))
    return {one.claim.id: one for one in judged}


def test_ratios_and_sizes_are_judged_in_software_as_on_a_host(tmp_path: Path) -> None:
    host, guest = (differences(tmp_path / str(at), each) for at, each in enumerate((PROVENANCE, TCG)))
    assert {name: one.verdict for name, one in host.items()} == {
        "time": "reproduced", "ratio": "reproduced", "memory": "reproduced", "without-ratio": "reproduced",
        "far": "not distinguishable here",
    }  # fmt: skip
    changed = {name: one.verdict for name, one in guest.items() if one.verdict != host[name].verdict}
    assert changed == {"time": "same direction, too imprecise", "without-ratio": "same direction, too imprecise"}
    assert host["without-ratio"].part and host["without-ratio"].part.measure == "difference"
    assert "would have been detected" in reason_text(host["far"]), "50 ms are beyond its interval"
    assert "would have been detected" not in reason_text(guest["far"]), "but not 50 ms of another machine"


def test_times_rates_and_use_depend_on_the_speed_of_the_processor() -> None:
    assert all(map(depends_on_speed, ("ms", "s", "µs", "1/s", "Mbit/s", "MiB/s", "ms/s", "CPU", "%")))
    assert not any(map(depends_on_speed, ("MiB", "B", "1", "")))


# Comparisons, pools and suites


def below(provenance: dict[str, Any], name: str) -> dict[str, Any]:
    return {**provenance, "controller": {"hostname": name, "machine": f"id of {name}"}}


def test_a_guest_on_another_machine_is_another_host() -> None:
    """Inside, all guests have one name, and in software one CPU model."""
    here, there = below(TCG, "ada"), below(TCG, "bea")
    assert named_facts(here)["host"] == "ada" and machine(here) != machine(there)
    assert named_facts(below(PROVENANCE, "ada"))["host"] == PROVENANCE["host"]["hostname"], (
        "the controller of a real host"
    )
    assert changed_facts(here, below(TCG, "ada")) == {}
    assert change_texts(changed_facts(here, there)) == [
        "host was ada, is bea",
        "ID of the machine below the guest was id of ada, is id of bea",
    ]
    assert changed_facts(below(PROVENANCE, "ada"), below(PROVENANCE, "bea")) == {}


def of(directory: Path, provenance: dict[str, Any], shift: float = 1.0, **study: Any) -> CampaignResults:
    def value(levels: Levels, block: int, metric: str) -> float:
        return shift * (plausible_value(levels, block, metric) or 0.0)

    return report_of(make_campaign(directory, make_study(replicates=4, **study), value=value, provenance=provenance))


def test_a_comparison_of_two_guests_says_so(tmp_path: Path) -> None:
    guests, hosts = (
        compare(of(tmp_path / f"{at}a", each), of(tmp_path / f"{at}b", each, 1.01))
        for at, each in enumerate((TCG, PROVENANCE))
    )
    said = [markdown(compare_blocks(each, ENGLISH), ENGLISH) for each in (guests, hosts)]
    assert f"A and B: Measured in {SOFTWARE}" in said[0] and "Measured in" not in said[1]
    mixed = compare(of(tmp_path / "c", PROVENANCE), of(tmp_path / "d", KVM, 1.01))
    assert any(note.startswith(f"B: Measured in {ON_KVM}") for note in comparison_notes(mixed)) and mixed.n_tests


def test_no_time_of_an_emulated_guest_is_compared_with_a_host(tmp_path: Path) -> None:
    metrics = (Metric("delay", "ms", "lower", ""), Metric("memory", "MiB", "lower", ""))
    places = enumerate((PROVENANCE, TCG))
    found = compare(*(of(tmp_path / str(at), each, 1 + at / 100, metrics=metrics) for at, each in places))
    tested = {cell.metric.name: cell.test is not None for cell in found.cells}
    assert tested == {"delay": False, "memory": True}
    (why,) = {not_compared(cell) for cell in found.cells if cell.metric.name == "delay"}
    assert why and "emulated" in why and all(cell.ratio is None for cell in found.cells if cell.metric.name == "delay")


def test_a_pool_names_its_guests_and_each_caption_says_so(tmp_path: Path) -> None:
    places = (PROVENANCE, below(TCG, "ada"), below(TCG, "bea"))
    found = pool_hosts(hosts_of([_made(tmp_path / str(at), each) for at, each in enumerate(places)]))
    assert [host.name for host in found.hosts] == ["edge-7", "ada", "bea"]
    (said,) = (each for each in warnings(found, ENGLISH) if "Measured in" in each)
    assert said.startswith(f"ada and bea: Measured in {SOFTWARE}")
    blocks = list(pool_blocks(found, ENGLISH))
    titles = [block.title for block in blocks if isinstance(block, Table) and block.title]
    titles.append(next(block.text for block in blocks if isinstance(block, Heading)))
    assert len(titles) > 2 and all(title.endswith(", partly in an emulated guest") for title in titles)
    page = render_pool(found, ENGLISH)
    assert page.count(", partly in an emulated guest") > len(titles)


def _made(directory: Path, provenance: dict[str, Any]) -> Path:
    return make_campaign(directory, make_study(replicates=4), provenance=provenance)


def test_a_page_of_a_suite_says_it_in_its_captions(tmp_path: Path) -> None:
    made = [_made(tmp_path / str(at), each) for at, each in enumerate((TCG, PROVENANCE))]
    contents = [content_of([each], ENGLISH, all_metrics=False) for each in made]
    pages = [
        render_suite("s", "", "out", [StudySection("one", "", content, None, False, "one.html")], ENGLISH)
        for content in contents
    ]
    captions = [re.findall(r"<figcaption><b>(.*?)</b>", page) for page in pages]
    assert captions[0] == [f"{title}, in an emulated guest" for title in captions[1]] != []


def test_a_figure_in_a_file_says_it_in_its_title(tmp_path: Path) -> None:
    content = content_of([_made(tmp_path, TCG)], ENGLISH, all_metrics=False)
    picture = next(pictures(planned_figures(content)))
    assert picture.title.endswith(", in an emulated guest")


def test_guests_of_one_campaign_of_which_one_is_emulated(tmp_path: Path) -> None:
    two = {"old": _facts(guest_of(load(Path("guest"))), "kvm", ""), "new": TCG["guest"]}
    provenance = {
        **PROVENANCE,
        "guest": several_guests_chapter(two),
        "guests": {name: {"guest": each} for name, each in two.items()},
    }
    study = make_study({"guest": ("old", "new")}, replicates=2)
    made = make_campaign(tmp_path, study, provenance=provenance, notes=lambda levels, block: {})
    assert place(report_of(made), ENGLISH) == "partly in an emulated guest"
    rows = list(csv.DictReader(io.StringIO(to_csv(load_data(made)))))
    assert {(row["guest"], row["measured_in"]) for row in rows} == {("old", "guest"), ("new", "emulated guest")}
    with Store.open(made, readonly=True) as store:
        assert emulated_guests(store) == 1


def test_a_trial_is_shown_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = (("tcg", TCG, ", in an emulated guest"), ("host", PROVENANCE, ""))
    for name, provenance, head in places:
        directory = str(_made(tmp_path / name, provenance))
        assert cli.main(["show", directory, "1"]) == 0
        assert f"measurements{head}\n" in capsys.readouterr().out
        assert cli.main(["show", directory, "1", "--json"]) == 0
        (attempt,) = json.loads(capsys.readouterr().out)["attempts"]
        assert attempt.get("measured_in") == (None if name == "host" else "emulated guest")

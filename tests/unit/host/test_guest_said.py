"""Whatever shows results of a guest says so, and whether the guest was emulated; nothing says it of a host."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lastro import cli
from lastro.analysis.advice import advise
from lastro.analysis.compare import compare
from lastro.analysis.gate_plan import gate_plan
from lastro.analysis.noise_floor import NoiseFloors, noise_floors, to_dict
from lastro.analysis.pooled_study import pool_hosts
from lastro.app import bundle
from lastro.app.contents import content_of, hosts_of
from lastro.builders import advice as advised
from lastro.builders.crate import Crate, CrateCampaign
from lastro.builders.crate_readme import readme
from lastro.builders.data import comparison as compare_document
from lastro.builders.data import pool as pool_document
from lastro.builders.data.comparison import workflow_commands
from lastro.builders.gate_plan import gate_plan_blocks, gate_plan_document
from lastro.builders.noise_floor import noise_floor_blocks
from lastro.campaign import suite as suites
from lastro.campaign.suite import read_folder
from lastro.cli._conclude import conclude
from lastro.document import Document
from lastro.render.terminal import terminal_lines
from lastro.results.provenance import Provenance
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.study.aa_study import aa_study
from lastro.study.design import treatments, trials
from lastro.study.load import load
from lastro.study.margins import Margins
from lastro.words.language import ENGLISH

from ...support.campaigns import METRICS, PROVENANCE, make_campaign, make_study
from ...support.documents import render_html
from ..analysis.test_build import report_of
from ..campaign.test_suite_progress import COMPUTE
from .test_guest_numbers import KVM, ON_KVM, PORTUGUESE, SOFTWARE, TCG, below, of

EMULATED = {"title": SOFTWARE, "emulated": True, "partly": False}
SENTENCE = f"Measured in {SOFTWARE}: times and rates are not comparable with those of any host."


def line(text: str) -> str:
    """A text whose lines were wrapped, as one line."""
    return " ".join(text.split())


def shown(document: Document) -> str:
    """What a terminal shows of a document, as one line."""
    return line(" ".join(terminal_lines(document, 100, ENGLISH)))


# Statuses


def test_a_status_names_the_guest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, provenance, guest in (("tcg", TCG, EMULATED), ("host", PROVENANCE, None)):
        made = make_campaign(tmp_path / name, make_study(replicates=2), provenance=provenance)
        assert cli.main(["status", str(made)]) == 0
        assert (SENTENCE in line(capsys.readouterr().out)) == (guest is not None)
        assert cli.main(["status", str(made), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["guest"] == guest


def suite_in(home: Path, *provenances: dict[str, Any]) -> Path:
    """A suite of one study more than these places: the last one has not begun."""
    names = [f"study{at}" for at in range(len(provenances) + 1)]
    for name in names:
        (home / f"{name}.toml").write_text(COMPUTE.format(name=name, time_s=10))
    studies = [load(home / f"{name}.toml", schemas()) for name in names]
    suites.create(home / "out", read_folder(home), "mine", studies, lambda name: None)
    for study, provenance in zip(studies, provenances, strict=False):
        rows = treatments(study)
        with Store.create(home / "out" / study.name, study, rows, trials(study, len(rows)), provenance):
            pass
    return home / "out"


@pytest.mark.parametrize(
    ("provenances", "said"),
    [
        ((TCG, TCG), f" {SENTENCE}"),
        ((TCG, PROVENANCE, TCG), f" study0 and study2: {SENTENCE}"),
        ((TCG, KVM), f" study1: Measured in {ON_KVM}: the figures are those of a virtual machine."),
        ((PROVENANCE,), ""),
    ],
)
def test_a_suite_says_once_which_of_its_studies_are_of_a_guest(
    provenances: tuple[dict[str, Any], ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = suite_in(tmp_path, *provenances)
    assert cli.main(["status", str(place)]) == 0
    status = line(capsys.readouterr().out)
    conclude(place, ENGLISH, report=False, most_invalid=None)
    for text in (status, line(capsys.readouterr().out)):
        assert said in text and text.count("Measured in") == len({id(each) for each in provenances} - {id(PROVENANCE)})
        assert (": Measured" in text) == said.startswith(" study"), "names, unless it holds for all"
    assert cli.main(["status", str(place), "--json"]) == 0
    *begun, waiting = json.loads(capsys.readouterr().out)["studies"]
    assert [each["guest"] is None for each in begun] == [each is PROVENANCE for each in provenances]
    assert "guest" not in waiting, "where it will run is not known"


# Commands on noise and replicates


def floors_of(home: Path, *provenances: dict[str, Any]) -> NoiseFloors:
    study = make_study(metrics=METRICS[:1], replicates=3, baseline={"isolation": "none"})
    made = (make_campaign(home / str(at), aa_study(study), provenance=each) for at, each in enumerate(provenances))
    return noise_floors([report_of(each) for each in made], study)


def test_a_noise_floor_of_a_guest_is_not_that_of_this_host(tmp_path: Path) -> None:
    guest, host = floors_of(tmp_path / "guest", TCG), floors_of(tmp_path / "host", PROVENANCE)
    said = shown(noise_floor_blocks(guest, ENGLISH))
    assert said.startswith(SENTENCE) and "on this host" not in said
    assert "the baseline differs from itself, in an emulated guest, by more than that in 5 % of campaigns" in said
    assert to_dict(guest, "")["guest"] == EMULATED and to_dict(host, "")["guest"] is None
    assert "the baseline differs from itself on this host by more" in shown(noise_floor_blocks(host, ENGLISH))
    assert shown(noise_floor_blocks(host, ENGLISH)).startswith("metric ")
    mixed = to_dict(floors_of(tmp_path / "mixed", PROVENANCE, TCG), "")["guest"]
    assert mixed == {"title": f"1 of 2 campaigns in {SOFTWARE}", "emulated": True, "partly": True}


@pytest.mark.usefixtures("undrawn")
def test_a_page_names_the_guest_of_its_noise_floor_and_no_unknown_one_of_a_host(tmp_path: Path) -> None:
    pages = []
    for name, provenance in (("tcg", TCG), ("host", PROVENANCE)):
        study = make_study(metrics=METRICS[:1], replicates=3, baseline={"isolation": "none"})
        made = make_campaign(tmp_path / name / "c", study, provenance=provenance)
        with Store.open(made) as store:
            store.save_noise_floor(to_dict(floors_of(tmp_path / name, provenance), "2026-11-02T12:00:00Z"))
        pages.append(render_html(content_of([made], ENGLISH, all_metrics=False)))
    assert "<h3>Noise floor of this host, in an emulated guest</h3>" in pages[0]
    assert "<h3>Noise floor of this host</h3>" in pages[1] and '<th scope="row">guest</th>' not in pages[1]


def test_advice_from_a_guest_gives_no_time_of_this_host(tmp_path: Path) -> None:
    study = make_study({"platform": ("native", "runc")}, replicates=5, metrics=METRICS[:1])
    for name, provenance, guest in (("tcg", TCG, EMULATED), ("host", PROVENANCE, None)):
        advice = advise(report_of(make_campaign(tmp_path / name, study, provenance=provenance)), 0.05)
        assert advised.document(advice)["guest"] == guest
        said = shown(advised.advice_blocks(advice, ENGLISH))
        where = "in an emulated guest" if guest else "here"
        assert re.search(rf"5 blocks planned; a block takes [\d.]+ (s|min [\d.]+ s) {where} ", said), said
        assert (SENTENCE in said) == (guest is not None)


def test_a_gate_that_is_planned_from_a_guest_says_where_its_noise_is_from(tmp_path: Path) -> None:
    study = make_study(replicates=5, metrics=METRICS[:1])
    for name, provenance, guest in (("tcg", TCG, EMULATED), ("host", PROVENANCE, None)):
        pilot = report_of(make_campaign(tmp_path / name, study, provenance=provenance))
        plan = gate_plan(study, treatments(study), pilot, Margins(0.05), float)
        said = shown(gate_plan_blocks(plan, ENGLISH))
        note = "measured in an emulated guest, so the noise of a gate on a host, or in another guest, may differ."
        assert (f"It was {note}" in said) == (guest is not None) == ("measured in" in said)
        assert gate_plan_document(plan)["guest"] == guest


# Comparisons and pools


def test_each_suite_of_junit_has_the_sentences_on_guests(tmp_path: Path) -> None:
    guests = compare(of(tmp_path / "a", TCG), of(tmp_path / "b", TCG, 1.01), margins=Margins(0.05))
    found = ElementTree.fromstring(compare_document.junit(guests))
    assert len(found) == len(METRICS)
    for suite in found:
        assert suite[0].tag == "properties", "schemas of JUnit want it before the cases"
        (said,) = suite[0]
        assert said.get("name") == "guest" and str(said.get("value")).startswith(f"A and B: {SENTENCE}")
    hosts = compare(of(tmp_path / "c", PROVENANCE), of(tmp_path / "d", PROVENANCE, 1.01), margins=Margins(0.05))
    assert not ElementTree.fromstring(compare_document.junit(hosts)).findall(".//properties")


def test_annotations_of_guests_say_so(tmp_path: Path) -> None:
    host, guest = of(tmp_path / "a", PROVENANCE), of(tmp_path / "b", KVM, 0.5)
    lines = workflow_commands(compare(host, guest, margins=Margins(0.05)))
    assert lines[0].startswith("::error ")
    notices = [each for each in lines if each.startswith("::notice title=lastro compare::")]
    assert notices == lines[-2:] and "WARNING: A and B ran on different kinds of machines" in notices[0]
    assert notices[1].endswith(f"::B: Measured in {ON_KVM}: the figures are those of a virtual machine.")
    assert workflow_commands(compare(host, guest)) == [], "without a figure there is nothing to say"


@pytest.mark.parametrize(
    ("provenances", "guest"),
    [
        ((TCG, TCG), EMULATED),
        ((PROVENANCE, TCG), {"title": f"1 of 2 campaigns in {SOFTWARE}", "emulated": True, "partly": True}),
        ((KVM, KVM), {"title": ON_KVM, "emulated": False, "partly": False}),
        ((PROVENANCE, PROVENANCE), None),
    ],
)
def test_a_comparison_has_its_guests_in_json(
    provenances: tuple[dict[str, Any], ...], guest: dict[str, Any] | None, tmp_path: Path
) -> None:
    a, b = (of(tmp_path / str(at), each, 1 + at / 100) for at, each in enumerate(provenances))
    assert compare_document.document(compare(a, b))["guest"] == guest


def test_a_pool_has_its_guests_in_json(tmp_path: Path) -> None:
    places = (PROVENANCE, below(TCG, "ada"), below(TCG, "bea"))
    study = make_study(replicates=4, metrics=METRICS[:1])
    made = [make_campaign(tmp_path / str(at), study, provenance=each) for at, each in enumerate(places)]
    found = pool_hosts(hosts_of(made))
    document = pool_document.document(found)
    assert document["guest"] == {"title": f"2 of 3 hosts in {SOFTWARE}", "emulated": True, "partly": True}
    assert [host["guest"] for host in document["hosts"]] == [None, EMULATED, EMULATED]
    assert {"guest", *EMULATED} <= set(re.findall(r"\w+", str(pool_document.__doc__)))
    assert found.guest is not None and PORTUGUESE.note(found.guest.title) == f"2 de 3 máquinas em {SOFTWARE}"
    hosts = pool_document.document(pool_hosts(hosts_of([made[0], make_host(tmp_path)])))
    assert hosts["guest"] is None and [host["guest"] for host in hosts["hosts"]] == [None, None]


def make_host(directory: Path) -> Path:
    """A campaign on another real host."""
    other = {**PROVENANCE, "host": {**PROVENANCE["host"], "hostname": "edge-8"}}
    return make_campaign(directory / "edge-8", make_study(replicates=4, metrics=METRICS[:1]), provenance=other)


# Pages and bundles


@pytest.mark.usefixtures("undrawn")
def test_tables_of_resources_in_html_have_the_caption_of_markdown(tmp_path: Path) -> None:
    factors = {"platform": ("native", "runc"), "streams": (1, 2, 4)}
    study = make_study(factors, replicates=2, metrics=METRICS[:1], baseline={"platform": "native"})
    heads = {}
    for name, provenance in (("tcg", TCG), ("host", PROVENANCE)):
        made = make_campaign(tmp_path / name, study, provenance=provenance)
        page = render_html(content_of([made], ENGLISH, all_metrics=False))
        heads[name] = set(re.findall(r"<h4>(.*?)</h4>", page))
    tables = {"Used by each instance, from its own cgroup", "Disturbances of the host"}
    assert tables <= heads["host"] and not tables & heads["tcg"]
    assert {f"{title}, in an emulated guest" for title in tables} <= heads["tcg"]


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles without reports, which take long."""
    monkeypatch.setattr(bundle, "documents", lambda *_: [])


def test_the_readme_of_a_bundle_names_the_guest(bundled: None, tmp_path: Path) -> None:
    for name, provenance in (("tcg", TCG), ("host", PROVENANCE)):
        made = make_campaign(tmp_path / name, make_study(replicates=2), provenance=provenance)
        bundle.write_bundle(made, tmp_path / f"{name}-bundle", bundle.BundleOptions())
        text = line((tmp_path / f"{name}-bundle" / "README.md").read_text())
        assert (SENTENCE in text) == (name == "tcg") == ("Measured in" in text)


def test_the_readme_of_a_bundle_does_not_tell_where_a_kernel_was(bundled: None, tmp_path: Path) -> None:
    guest = TCG["guest"] | {"full_title": f"{SOFTWARE} with /home/aroeira/bzImage"}
    made = make_campaign(tmp_path / "c", make_study(replicates=2), provenance={**TCG, "guest": guest})
    bundle.write_bundle(made, tmp_path / "bundle", bundle.BundleOptions(anonymous=True))
    text = (tmp_path / "bundle" / "README.md").read_text()
    assert f"Measured in {SOFTWARE} with" in line(text) and "aroeira" not in text


def test_the_readme_of_a_suite_names_the_studies_of_guests(bundled: None, tmp_path: Path) -> None:
    of_host, in_guest = (
        CrateCampaign("campaign/" + name, name, "", 6, 6, 0, "2026-11-02T10:00", "2026-11-02T11:00", Provenance())
        for name in ("cpu", "disk")
    )
    in_guest = replace(in_guest, guest=report_of(make_campaign(tmp_path / "c", provenance=TCG)).guest)
    text = readme(Crate("mine", "", "", (of_host, in_guest), {"Lastro": "0"}, "en"))
    assert f"\n\ndisk: {SENTENCE}" in text

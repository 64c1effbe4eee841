"""`lastro doctor` on this host: real attempts, told as they are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro import registry
from lastro.host.ledger import STATE_DIR
from lastro.host.lock import lock
from lastro.results.store import Store

from ..cli.conftest import is_error, lastro, study_text
from ..support.scenarios import SHORT, TOLERANT

pytestmark = pytest.mark.root


def test_two_platforms() -> None:
    done = lastro("doctor", "--platform", "native", "--platform", "runc", "--json", "--wait")
    assert done.code == 0, done.err
    assert "trying native" in done.err and "trying runc" in done.err
    document = done.json
    assert document["host"]["host"]["cpus"] > 0
    matrix = {(cell["platform"], cell["attachment"], cell["isolation"]): cell for cell in document["matrix"]}
    n = 2 * len(registry.names("attachment")) * len(registry.names("isolation"))
    assert len(matrix) == len(document["matrix"]) == n
    assert matrix["runc", "veth-direct", "seccomp"]["available"]
    assert "cannot confine" in matrix["native", "veth-direct", "seccomp"]["reason"]
    attempts = {(part["kind"], part["name"], part["on"]): part for part in document["parts"]}
    for (platform, attachment, isolation), cell in matrix.items():
        both = [attempts["attachment", attachment, platform], attempts["isolation", isolation, platform]]
        assert cell["available"] == all(part["available"] for part in both)
        assert cell["available"] or cell["reason"] in [part["reason"] for part in both]


def test_a_platform_that_is_none() -> None:
    is_error(lastro("doctor", "--platform", "dokcer"), 2, "no platform is named 'dokcer'", "did you mean 'docker'?")
    done = lastro("doctor", "--platform", "docker:storage=punchcards", "--wait")
    assert done.code == 0, "an option that cannot be had is a finding, not an error"
    assert "punchcards" in done.out and len(done.out.splitlines()) < 40


def test_a_study_alone_is_tried_and_the_answer_fits_a_screen(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text({"platform": ["native", "runc"]}, scenario="chain", attachment="veth-direct"))
    done = lastro("doctor", "--study", study, "--wait")
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines() if line.startswith(("native", "runc"))] == [
        ["native", "1/1", "1/1", "1/1", "1/1"], ["runc", "1/1", "1/1", "1/1", "1/1"],
    ]  # fmt: skip
    assert "starting native … (1/2)" in done.err and "2 platforms start; 4 parts are tried on each, about " in done.err
    assert "trying native … (1/8, about " in done.err and "trying runc … (5/8, about " in done.err


def test_doctor_prints_the_properties_of_what_a_study_names(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text({"platform": ["runc"]}, scenario="chain", attachment="veth-direct"))
    done = lastro("doctor", "--properties", "--study", study, "--json", "--wait")
    assert done.code == 0, done.err
    found = {(each["part"], each["name"]): each for each in done.json["properties"]}
    assert found["runc", "interfaces"]["text"] == "at least 16"
    assert found["veth-direct", "members"]["value"] == 2
    assert "finding properties: platform runc" in done.err


@pytest.mark.slow
def test_a_campaign_records_the_properties_of_its_parts(tmp_path: Path) -> None:
    study, campaign = tmp_path / "study.toml", tmp_path / "campaign"
    settings = {**SHORT["chain"], **TOLERANT, "attachment": "veth-direct"}
    study.write_text(study_text({"platform": ["runc"]}, scenario="chain", replicates=1, **settings))
    done = lastro("run", study, "--properties", "--no-report", "--wait", "-o", campaign)
    assert done.code == 0, done.err
    assert "finding properties of attachment veth-direct …" in done.err
    with Store.open(campaign, readonly=True) as store:
        found = store.provenance.chapters["properties"]
    assert found["attachment"]["veth-direct"]["members"]["text"] == "2"
    assert "boot id" in found["platform"]["runc"]["own_kernel"]["how"]
    assert lastro("report", campaign, "--format", "md", "--full", "-o", tmp_path / "report.md").code == 0
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| veth-direct | 2 | yes | yes | not known |" in text


def test_properties_are_not_looked_for_on_a_fleet(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text({"platform": ["runc"]}, scenario="chain", attachment="veth-direct"))
    done = lastro("run", study, "--properties", "--fleet", tmp_path / "fleet.toml")
    is_error(done, 2, "--properties is not for campaigns on a fleet", "lastro doctor --testbed FILE --properties")


def test_where_the_host_is_taken_haste_tries_nothing() -> None:
    with lock(STATE_DIR, "somebody else"):
        done = lastro("doctor", "--quick")
        assert done.code == 0 and "nothing was tried: this host is in use by somebody else" in done.out
        is_error(lastro("doctor"), 6, "somebody else")

"""`lastro show --topology`: text, JSON, figures, and what is said where nothing was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ..support.campaigns import METRICS, Levels, make_campaign, make_study
from ..support.topologies import chain
from .conftest import is_error, lastro


def built(levels: Levels, block: int) -> dict[str, Any]:
    return {"topology": chain(anomaly=str(levels["anomaly"]).removeprefix("none")).as_note(), "host": {}}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two blocks of two treatments, of which only the first block has run."""
    study = make_study({"anomaly": ("none", "cpu")}, replicates=2, metrics=METRICS[:1])
    return make_campaign(tmp_path_factory.mktemp("topology") / "c", study, notes=built, stop_after=2)


def number_of(campaign: Path, anomaly: str, block: int) -> int:
    documents = [lastro("show", campaign, number, "--json").json for number in range(1, 5)]
    found = {(each["levels"]["anomaly"], each["block"]): each["trial"] for each in documents}
    return found[anomaly, block]


def test_text_fits_the_terminal_and_shows_the_neighbour(campaign: Path) -> None:
    disturbed, quiet = (
        lastro("show", campaign, number_of(campaign, each, 1), "--topology") for each in ("cpu", "none")
    )
    assert disturbed.code == quiet.code == 0
    assert disturbed.out.splitlines()[1] == "anomaly = cpu"
    assert "│ neighbour " in disturbed.out and "neighbour" not in quiet.out
    assert "└─ out0 198.18.0.10/24 (veth) ─" in quiet.out and "runc 1.1.5" in quiet.out
    assert max(map(len, disturbed.out.splitlines())) <= 80


def test_a_small_terminal_is_enough(campaign: Path) -> None:
    done = lastro("show", campaign, 1, "--topology", env={"COLUMNS": "60"})
    assert done.code == 0 and max(map(len, done.out.splitlines())) <= 60


def test_json_is_the_topology_alone(campaign: Path) -> None:
    number = number_of(campaign, "cpu", 1)
    document = lastro("show", campaign, number, "--topology", "--json").json
    assert set(document) == {"trial", "attempt", "nodes", "links", "loads", "witnesses"}
    assert (document["trial"], document["attempt"]) == (number, 1)
    assert document["links"][0]["a"] == {"role": "source", "port": "out0", "address": "198.18.0.10/24", "kind": "veth"}


def test_figures_go_to_a_file_or_to_standard_output(campaign: Path, tmp_path: Path) -> None:
    file = tmp_path / "chain.svg"
    done = lastro("show", campaign, 1, "--topology", "-o", file)
    assert (done.code, done.out) == (0, f"{file}\n")
    assert ElementTree.fromstring(file.read_text()).tag.endswith("svg")
    assert lastro("show", campaign, 1, "--topology", "-o", "-").out == file.read_text()
    lastro("show", campaign, 1, "--topology", "-o", tmp_path / "chain.pdf")
    assert (tmp_path / "chain.pdf").read_bytes().startswith(b"%PDF")


def test_a_trial_that_has_not_run_shows_another_of_its_treatment(campaign: Path) -> None:
    later, earlier = number_of(campaign, "cpu", 2), number_of(campaign, "cpu", 1)
    done = lastro("show", campaign, later, "--topology")
    assert done.out.startswith(f"Topology of trial {later}, as trial {earlier} of the same treatment was built\n")
    assert "neighbour" in done.out


def test_what_cannot_be_shown_is_said_in_a_sentence(campaign: Path, tmp_path: Path) -> None:
    is_error(lastro("show", campaign, 9, "--topology"), 2, "has no trial 9", "numbered 1 to 4")
    is_error(lastro("show", campaign, 1, "--topology", "--attempt", 5), 2, "no attempt 5")
    is_error(lastro("show", campaign, 1, "-o", "x.svg"), 2, "add --topology")
    is_error(lastro("show", campaign, 1, "--topology", "-o", tmp_path / "x.jpg"), 2, "'.jpg'", ".svg, .png, .pdf")
    assert lastro("show", campaign, 1, "--topology", "--commands").code == 2
    study = make_study({"anomaly": ("none", "cpu")}, replicates=1, metrics=METRICS[:1])
    old = make_campaign(tmp_path / "old", study, notes=lambda levels, block: {}, stop_after=1)
    is_error(lastro("show", old, 1, "--topology"), 2, "trial 1 has no recorded topology")
    is_error(lastro("show", old, 2, "--topology"), 2, "trial 2 has not run (pending)", "during set-up")


def test_the_plain_view_names_the_option_and_not_the_record(campaign: Path) -> None:
    out = lastro("show", campaign, 1).out
    assert "  topology: see --topology\n" in out and "hub-br" not in out

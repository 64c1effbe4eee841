"""`lastro claims` on synthetic campaigns of every fate, as a user sees it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.cli import main

from ..support.campaigns import KAGAMI, make_campaign, make_study
from ..support.kagami_truth import published_value

STUDY = replace(make_study(KAGAMI, replicates=2), name="kagami2017")
NO_APPARMOR = ("AppArmor is not in this kernel", "boot another kernel")
MINE = """
[[claim]]
id = "slower"
says = "cgroups slow the flow [bold] down"
compare = { metric = "throughput", of = { isolation = "cgroups" }, to = { isolation = "none" }, at = {anomaly = "cpu"} }
direction = "lower"
[[claim]]
id = "unknown"
says = "a network anomaly costs more"
compare = { metric = "throughput", of = { anomaly = "networt" }, to = { anomaly = "none" } }
direction = "lower"
"""


def kagami(directory: Path, **options: Any) -> Path:
    options = {"value": published_value, "notes": lambda levels, block: {}} | options
    return make_campaign(directory, options.pop("study", STUDY), **options)


CAMPAIGNS: dict[str, Callable[[Path], Path]] = {
    "normal": kagami,
    "one-block": lambda d: kagami(d, study=replace(STUDY, design=replace(STUDY.design, replicates=1))),
    "not-begun": lambda d: kagami(d, stop_after=0),
    "unfinished": lambda d: kagami(d, stop_after=300),
    "everything-invalid": lambda d: kagami(d, doubts=lambda levels, block, attempt: ["no traffic"]),
    "everything-unavailable": lambda d: kagami(d, unavailable=lambda levels: NO_APPARMOR),
    "no-apparmor": lambda d: kagami(d, unavailable=lambda levels: NO_APPARMOR if "apparmor" in str(levels) else None),
    "constant": lambda d: kagami(d, value=lambda levels, block, metric: 3.0),
    "zero": lambda d: kagami(d, value=lambda levels, block, metric: 0.0),
    "negative": lambda d: kagami(d, value=lambda levels, block, metric: -published_value(levels, block, metric)),
    "wild": lambda d: kagami(d, value=lambda levels, block, metric: (-1) ** block * 10.0 ** (9 * block)),
    "one-metric-missing": lambda d: kagami(
        d, value=lambda x, block, metric: None if metric == "jitter" else published_value(x, block, metric)
    ),
}  # fmt: skip


@pytest.fixture(params=CAMPAIGNS, scope="module")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CAMPAIGNS[request.param](tmp_path_factory.mktemp("claims") / request.param)


def test_every_campaign_gets_its_table_and_its_document(campaign: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["claims", str(campaign)]) == 0
    out = capsys.readouterr().out
    assert out.count("section ") >= 50 and "\x1b" not in out
    assert max(len(line) for line in out.splitlines()) <= 100
    assert main(["claims", str(campaign), "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert len(document["claims"]) == sum(document["tally"].values()) == 54
    assert all(claim["reason"] for claim in document["claims"])
    for claim in document["claims"]:
        untestable = claim["verdict"] == "untestable here"
        nothing_lost = "nothing to recover" in claim["reason"]
        assert (claim["p_adjusted"] is None) == untestable or (untestable and nothing_lost)
        assert untestable or (
            claim["p"] <= claim["p_adjusted"] and claim["decided_by"] in {p["label"] for p in claim["parts"]}
        )
    if campaign.name in ("one-block", "not-begun", "everything-invalid", "everything-unavailable"):
        assert document["tally"]["untestable here"] == 54


@pytest.fixture(scope="module")
def as_published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kagami(tmp_path_factory.mktemp("claims") / "c")


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_the_table_fits_any_terminal(as_published: Path, width: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["claims", str(as_published)]) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= int(width)


@pytest.fixture
def mine(as_published: Path, tmp_path: Path) -> tuple[str, Path]:
    """A copy of that campaign, and claims of one's own."""
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return str(shutil.copytree(as_published, tmp_path / "c")), file


def test_claims_of_ones_own(mine: tuple[str, Path], capsys) -> None:
    directory, file = mine
    assert main(["claims", directory, "--claims", str(file)]) == 0
    out = capsys.readouterr().out
    assert "2 claims: 1 contradicted, 1 untestable here" in out
    assert "[bold]" in out
    assert main(["claims", directory, "--claims", str(file), "--json"]) == 0
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert claims[1]["reason"] == "the study has no anomaly networt"


def test_a_file_in_the_campaign_goes_before_the_papers(mine: tuple[str, Path], capsys) -> None:
    directory, file = mine
    (Path(directory) / "claims.toml").write_text(file.read_text())
    assert main(["claims", directory]) == 0
    assert "2 claims" in capsys.readouterr().out


def test_a_gate_exits_with_4(mine: tuple[str, Path], capsys) -> None:
    directory, file = mine
    assert main(["claims", directory, "--claims", str(file), "--fail-on", "contradicted"]) == 4
    assert main(["claims", directory, "--fail-on", "contradicted"]) == 0
    assert main(["claims", directory, "--claims", str(file), "--fail-on", "not-reproduced"]) == 4
    capsys.readouterr()


def test_the_verdicts_by_blocks_and_the_advice_on_open_claims(mine: tuple[str, Path], capsys) -> None:
    directory, file = mine
    (Path(directory) / "claims.toml").write_text(file.read_text())
    assert main(["claims", directory, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main(["claims", directory, "--blocks", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    verdicts = {claim["id"]: claim["verdict"] for claim in document["claims"]}
    assert document["by_blocks"] == [{"n_blocks": 2, "verdicts": verdicts, "tally": document["tally"]}]
    assert plain == document | {"by_blocks": None}
    assert main(["claims", directory, "--blocks"]) == 0
    out = capsys.readouterr().out
    assert "Verdicts after the first blocks" in out and "No verdict changed." in out
    (Path(directory) / "claims.toml").write_text(file.read_text().replace('"cgroups" }', '"apparmor" }'))
    assert main(["advise-replicates", directory, "--json"]) == 0
    assert [claim["id"] for claim in json.loads(capsys.readouterr().out)["claims"]] == ["slower"]
    assert main(["advise-replicates", directory, "--lang", "pt-BR"]) == 0
    assert "Afirmações ainda em aberto" in capsys.readouterr().out


def test_in_portuguese(mine: tuple[str, Path], capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["claims", mine[0], "--lang", "pt-BR"]) == 0
    out = capsys.readouterr().out
    assert "54 afirmações: " in out and "reproduzida" in out and "Sob anomalias, macvlan" in out
    assert "×1,0" in out


def test_what_a_source_says_against_itself_is_beside_the_verdict(as_published: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    directory = str(as_published)
    assert main(["claims", directory]) == 0
    assert "the source contradicts itself: a loss of 115.31 Mbit/s is 3.81 %" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["claims", directory, "--lang", "pt-BR"]) == 0
    assert "a própria fonte se contradiz: uma perda de 115,31 Mbps" in " ".join(capsys.readouterr().out.split())
    assert main(["claims", directory, "--json"]) == 0
    found = {claim["id"]: claim["contradicted_by"] for claim in json.loads(capsys.readouterr().out)["claims"]}
    contradicted = {"anomalies-throughput", "apparmor-throughput", "both-throughput"}
    assert {name for name, passage in found.items() if passage} == contradicted
    assert found["both-throughput"]["where"] == "section 5, paragraph 3"


def test_a_study_without_claims(tmp_path: Path, capsys) -> None:
    assert main(["claims", str(make_campaign(tmp_path / "c"))]) == 2
    assert "no paper with claims has a study named small" in capsys.readouterr().err


def test_a_claims_file_of_another_study(tmp_path: Path, capsys) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    directory = make_campaign(tmp_path / "c", make_study({"isolation": ("none", "cgroups")}, settings={}))
    assert main(["claims", str(directory), "--claims", str(file)]) == 2
    assert "study small has no factor 'anomaly'" in capsys.readouterr().err

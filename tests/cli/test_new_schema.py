"""`lastro new` and `lastro schema`, and what every command that reads a study does with its arguments."""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from lastro import papers
from lastro.app.studies import load_study, suite_of
from lastro.cli import main
from lastro.cli._common import selection, study_arguments
from lastro.errors import InputError
from lastro.scenarios.base import schemas
from lastro.study.load import load
from lastro.study.model import Study

from .conftest import is_error, lastro


def loaded(*words: str) -> Study:
    parser = argparse.ArgumentParser()
    study_arguments(parser, lambda hosts: None)
    args = parser.parse_args(words)
    return load_study(args.study, selection(args))


def test_new_writes_a_study_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new"]) == 0
    assert "lastro plan study.toml" in capsys.readouterr().out
    assert load(Path("study.toml"), schemas()).name == "my-study"
    assert loaded("study.toml", "--profile", "quick").design.replicates == 2


def test_new_never_overwrites_unless_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "edge-box.toml"
    file.write_text("precious")
    assert main(["new", str(file)]) == 2
    assert file.read_text() == "precious"
    assert "--force" in capsys.readouterr().err
    assert main(["new", str(file), "--force"]) == 0
    assert load(file, schemas()).name == "edge-box"


def test_new_writes_to_standard_output_under_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "-", "--name", "edge-2"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["study"]["name"] == "edge-2"


def test_new_copies_a_published_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    assert main(["new", str(file), "--from", "trindade2018/cpu"]) == 0
    assert file.read_text() == papers.find("trindade2018/cpu").read_text()
    assert main(["new", "-", "--from", "kagami2017", "--name", "edge"]) == 0
    written = capsys.readouterr().out.partition("\n")[2]
    assert tomllib.loads(written)["study"]["name"] == "edge" and "# Paper, table 2" in written


def test_new_copies_a_suite_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    assert main(["new", str(folder), "--from", "trindade2018"]) == 0
    given, own = suite_of("trindade2018"), suite_of(str(folder))
    assert given and own and [study.name for study in own.studies] == [study.name for study in given.studies]
    assert {file.name for file in folder.iterdir()} == {file.name for file in given.folder.path.glob("*.toml")}
    assert main(["new", str(folder), "--from", "trindade2018"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["new", str(folder), "--from", "trindade2018", "--force"]) == 0
    for words in (["-"], [], [str(tmp_path / "other"), "--name", "x"]):
        assert main(["new", *words, "--from", "trindade2018"]) == 2
        assert "trindade2018 is a suite of studies" in capsys.readouterr().err


def test_built_in_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studies", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(papers.names()) < set(listed)
    suites = {name for name, each in listed.items() if each["scenario"] is None}
    assert suites == {"trindade2018", "mendes2019", "eiras2018"}
    assert all(listed[name]["scenario"] == loaded(name).scenario for name in papers.names())
    assert {name for name in papers.names() if "/" not in name and not listed[name]["claims"]} == {
        "chains", "demo", "edge", "internal-dos", "lifecycle", "load",
    }  # fmt: skip
    assert main(["studies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*listed] and max(map(len, lines)) < 160


def test_a_built_in_study_goes_before_a_folder_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a campaign of it, which `lastro run load -o load` made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "load").mkdir()
    assert loaded("load").name == "load" and suite_of("load") is None
    with pytest.raises(InputError, match="is a directory without study files"):
        suite_of("./load")
    assert papers.built_in("paper:kagami2017") == "kagami2017", "as indexes of suites have it"


@pytest.mark.parametrize("name", ["Edge", "a b", '"', "../x"])
def test_new_refuses_what_cannot_name_a_study(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "-", "--name", name]) == 2
    assert "is not a valid study name" in capsys.readouterr().err


def test_new_says_where_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "nowhere" / "study.toml")]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
    assert main(["new", str(tmp_path), "--force"]) == 2
    assert "cannot be written: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["chain"]])
def test_schema_prints_what_editors_complete_from(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *words]) == 0
    validator = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    study = papers.find("kagami2017").read_text(encoding="utf-8")
    assert validator.is_valid(tomllib.loads(study))
    assert not validator.is_valid(tomllib.loads(study.replace("replicates = 12", "replicate = 12", 1)))


def test_schema_knows_its_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "chian"]) == 2
    assert "did you mean 'chain'?" in capsys.readouterr().err


def test_a_paper_is_a_study() -> None:
    study = loaded("kagami2017", "--profile", "quick")
    assert (study.name, study.profile, study.design.replicates) == ("kagami2017", "quick", 2)
    with pytest.raises(InputError) as caught:
        loaded("kagami2071")
    assert caught.value.hint == "did you mean 'kagami2017'?"


def test_a_study_of_a_paper_is_loaded() -> None:
    study = loaded("trindade2018/uplink", "--profile", "quick")
    assert (study.name, study.profile, study.settings["load_s"]) == ("trindade2018-uplink", "quick", 1)
    with pytest.raises(InputError, match="mendes2019 is a suite of 4 studies"):
        loaded("mendes2019")


@pytest.mark.parametrize("member", [*papers.studies("mendes2019"), *papers.studies("trindade2018")])
@pytest.mark.parametrize("profile", ["quick", "standard", "paper"])
def test_every_study_of_a_paper_is_planned(member: str, profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", member, "--profile", profile, "--no-probe", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["expected_s"] > 0


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InputError, match="has no profile 'quik'") as caught:
        loaded("kagami2017", "--profile", "quik")
    assert (caught.value.hint, caught.value.exit_code) == ("did you mean 'quick'?", 2)


def test_a_new_part_has_a_name_of_its_own(tmp_path: Path) -> None:
    is_error(lastro("new", "--part", "anomaly", "cpu", cwd=tmp_path), 2, "anomaly 'cpu' already exists")
    is_error(
        lastro("new", "--part", "anomaly", "My Part", cwd=tmp_path), 2, "'My Part' is not a valid part name", "a-z"
    )
    assert lastro("new", "--part", "anomaly", "cold-cache", cwd=tmp_path).code == 0
    is_error(lastro("new", "--part", "anomaly", "cold-cache", cwd=tmp_path), 2, "already exists", "--force")
    assert lastro("new", "--part", "anomaly", "cold-cache", "--force", cwd=tmp_path).code == 0
    text = (tmp_path / "parts/anomalies/cold_cache.py").read_text()
    assert "class ColdCache(Anomaly):" in text and 'name = "cold-cache"' in text and "my-part" not in text


def test_a_folder_of_parts_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = lastro("parts", env={"LASTRO_PARTS": str(tmp_path / "nowhere")})
    is_error(done, 2, f"LASTRO_PARTS names {tmp_path}/nowhere, which is not a directory")

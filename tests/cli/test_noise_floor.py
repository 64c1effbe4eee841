"""`lastro noise-floor`, end to end on the scenario without a host: runs, resumes, is kept with its campaign."""

from __future__ import annotations

import argparse
import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.analysis.noise_floor import stored_floors
from lastro.app import campaigns, noise_floor
from lastro.app.studies import load_study, load_testbed
from lastro.cli import noise_floor as command
from lastro.errors import InputError
from lastro.host.testbed_file import TestbedFile
from lastro.results.store import Store
from lastro.study.aa_study import aa_study
from lastro.study.model import Study
from lastro.study.selection import Selection

from ..support.campaigns import METRICS, PROVENANCE, make_campaign, make_study
from .conftest import Bench, finish, interrupt, is_error, lastro, n_done, rows, start, until

BASELINE = {"level": "a"}


def kept_with(directory: Path) -> Any:
    """What a campaign keeps of an A/A campaign; None when there was none."""
    with Store.open(directory, readonly=True) as store:
        return store.noise_floor()


def test_it_runs_the_baseline_twice_a_block_and_keeps_the_floors_with_the_campaign(bench: Bench) -> None:
    assert bench.run(baseline=BASELINE, replicates=6).code == 0
    done = lastro("noise-floor", bench.directory)
    aa = bench.directory / "noise-floor"
    assert done.code == 0, done
    assert "A/A campaign: 1 of 1 baseline treatments, 12 blocks, 12 trials, about 12 ms" in done.err
    assert [row[3] for row in rows(aa)] == ["valid"] * 12 and {row[2] for row in rows(aa)} == {0}
    kept = kept_with(bench.directory)
    assert set(kept["metrics"]) == {"speed", "delay"} and (kept["blocks"], kept["pairs"]) == (6, 6)
    floors = stored_floors(kept_with(bench.directory))
    assert all(0.01 < floor.share < 0.3 and floor.blocks == 6 for floor in floors.values())
    assert kept_with(aa)["metrics"] == kept["metrics"], "and in the A/A campaign itself"
    assert f"kept with {bench.directory}" in done.out and "noise floor" in done.out
    assert lastro("report", bench.directory, drawn=False).code == 0, "the report is not confused by it"


def test_the_floors_of_an_earlier_lastro_are_not_read(bench: Bench) -> None:
    bench.run(baseline=BASELINE, replicates=3)
    kept = {"format": 1, "blocks": 3, "metrics": {"speed": {"floor": 0.02, "treatment": "a"}}}
    with Store.open(bench.directory) as store:
        store.save_calibration("noise floor", kept)
        assert store.noise_floor() is None and store.calibrations() == {}
    assert lastro("noise-floor", bench.directory).code == 0
    assert kept_with(bench.directory)["pairs"] == 3, "a new one takes its place"


def test_neither_its_help_nor_a_report_calls_it_a_calibration(tmp_path: Path) -> None:
    """That is another thing: a run that finds what trials must know."""
    study = make_study(metrics=METRICS[:1], baseline={"isolation": "none"})
    campaign, aa = make_campaign(tmp_path / "c", study), make_campaign(tmp_path / "aa", aa_study(study))
    reports = [
        lastro("report", campaign, "--format", "md", "--full", "--lang", lang, "-o", "-") for lang in ("en", "pt-BR")
    ]
    shown = [lastro("--help"), lastro("noise-floor", "--help"), lastro("noise-floor", campaign, "-o", aa)]
    reports += [lastro("report", campaign, "--lang", "pt-BR", "-o", "-", drawn=False)]
    assert all(done.code == 0 for done in (*shown, *reports))
    said = ["lastro noise-floor", "lastro noise-floor", "Piso de ruído desta máquina"]
    assert [words in done.out for words, done in zip(said, reports, strict=True)] == [True] * 3
    assert not [done for done in (*shown, *reports) if "calibra" in (done.out + done.err).lower()]


def test_judging_again_runs_nothing_and_says_the_same(bench: Bench) -> None:
    bench.run(baseline=BASELINE, replicates=4)
    first = lastro("noise-floor", bench.directory, "--json").json
    again = lastro("noise-floor", bench.directory, "--json")
    assert again.err == "" and {**again.json, "at_utc": ""} == {**first, "at_utc": ""}
    assert len(rows(bench.directory / "noise-floor")) == 8


def test_a_campaign_whose_noise_floor_is_known_goes_on(bench: Bench) -> None:
    """The floors stay, and are not among the calibrations that its trials need."""
    process = bench.begin(baseline=BASELINE, replicates=20, calibration="good", trial_s=0.02)
    bench.wait_until_done(3)
    interrupt(process)
    assert finish(process).code == 130
    assert lastro("noise-floor", bench.directory).code == 0
    before = kept_with(bench.directory)
    assert lastro("resume", bench.directory, "--no-report").code == 0
    assert before and kept_with(bench.directory) == before
    with Store.open(bench.directory, readonly=True) as store:
        assert set(store.calibrations()) == {"ceiling/a", "ceiling/b"}
        assert all(set(attempt.notes["calibrations"]) <= {"ceiling/a", "ceiling/b"} for attempt in store.attempts())


def test_interrupted_it_resumes_like_any_campaign_and_is_then_kept(bench: Bench) -> None:
    bench.run(baseline=BASELINE, replicates=10)
    text = bench.home / "study.toml"
    text.write_text(text.read_text().replace("[design]", "trial_s = 0.05\n[design]"))
    slow = bench.home / "slow"
    assert lastro("run", text, "-o", slow, "--no-report").code == 0
    process = start("noise-floor", slow)
    aa = slow / "noise-floor"
    until(lambda: n_done(aa) >= 2, "two trials")
    interrupt(process, signal.SIGTERM)
    ended = finish(process)
    assert ended.code == 143 and "lastro resume" in ended.err
    is_error(lastro("noise-floor", slow), 2, "is unfinished", f"lastro resume {aa}")
    assert kept_with(slow) is None
    assert lastro("resume", aa, "--no-report").code == 0
    done = lastro("noise-floor", slow)
    assert done.code == 0 and kept_with(slow)


def test_several_campaigns_show_how_much_equal_ones_differ(bench: Bench) -> None:
    """Only those that do not exist yet run, so some may run on another day."""
    bench.run(baseline=BASELINE, replicates=3)
    assert lastro("noise-floor", bench.directory, "--json").json["between"] is None
    done = lastro("noise-floor", bench.directory, "--campaigns", 3)
    assert done.err.count("A/A campaign: 1 of 1 baseline treatments") == 2, "one was there"
    assert "Between 3 A/A campaigns, begun within" in " ".join(done.out.split())
    places = [bench.directory / name for name in ("noise-floor", "noise-floor-2", "noise-floor-3")]
    assert all((place / "campaign.db").exists() for place in places)
    kept = kept_with(bench.directory)["between"]
    assert kept["campaigns"] == 3 and kept["spreads"].keys() == {"speed", "delay"}
    assert kept["first_utc"] < kept["last_utc"]
    again = lastro("noise-floor", bench.directory, "--json")
    assert again.err == "" and again.json["between"] == kept, "without the option, all that exist count"
    is_error(lastro("noise-floor", bench.directory, "--campaigns", 0), 2, "--campaigns 0 is not from 1 to 100")


def test_a_study_file_has_a_campaign_of_its_own(bench: Bench) -> None:
    study = bench.write({"level": ["a", "b"], "step": [0, 5, 9]}, baseline={"level": "b"}, replicates=3)
    aa = bench.home / "aa"
    done = lastro("noise-floor", study, "-o", aa)
    assert done.code == 0 and "3 of 3 baseline treatments, 6 blocks, 18 trials" in done.err
    assert f"kept in {aa}" in done.out and set(stored_floors(kept_with(aa))) == {"speed", "delay"}
    named = lastro("noise-floor", study, cwd=bench.home)
    assert named.code == 0 and list((bench.home / "campaigns").glob("synthetic-noise-floor-*"))


def test_the_floors_of_a_study_file_can_be_kept_with_a_campaign_of_it(bench: Bench) -> None:
    aa = bench.home / "aa"
    assert lastro("noise-floor", bench.write(baseline=BASELINE, replicates=3), "-o", aa).code == 0
    bench.run(baseline=BASELINE, replicates=3)
    assert lastro("noise-floor", bench.directory, "-o", aa).err == ""
    assert stored_floors(kept_with(bench.directory)).keys() == {"speed", "delay"}


def test_an_hour_is_enough_unless_everything_is_wanted(bench: Bench) -> None:
    """Six baseline treatments of 60 s in 20 blocks take two hours: half of them run, and it is said."""
    study = bench.write({"level": ["a", "b"], "step": list(range(6))}, baseline=BASELINE, replicates=10, trial_s=60)
    process = start("noise-floor", study, "-o", bench.directory)
    until(lambda: (bench.directory / "campaign.db").exists(), "the campaign")
    interrupt(process)
    ended = finish(process)
    assert ended.code == 130 and "2 of 6 baseline treatments, 20 blocks, 40 trials, about 40 min" in ended.err
    assert "(--all runs all of them)" in ended.err and len(rows(bench.directory)) == 40


def test_another_host_is_refused_unless_it_is_wanted(bench: Bench) -> None:
    bench.run(baseline=BASELINE, replicates=3)
    with sqlite3.connect(bench.directory / "campaign.db") as db:
        (text,) = db.execute("SELECT value FROM meta WHERE key = 'provenance'").fetchone()
        facts = json.loads(text)
        facts["host"]["kernel"] = "2.6.32"
        db.execute("UPDATE meta SET value = ? WHERE key = 'provenance'", (json.dumps(facts),))
    db.close()
    is_error_of = lastro("noise-floor", bench.directory)
    assert is_error_of.code == 2 and "kernel was 2.6.32" in is_error_of.err
    assert lastro("noise-floor", bench.directory, "--changed-host").code == 0
    assert "kernel was" in kept_with(bench.directory)["changed_host"][0]


def test_trials_that_stay_invalid_leave_a_floor_that_says_so(bench: Bench) -> None:
    study = bench.write({"fault": ["always-invalid", "none"]}, baseline={"fault": "always-invalid"}, replicates=3)
    done = lastro("noise-floor", study, "-o", bench.directory)
    assert done.code == 0 and "no floor: 0 complete pairs" in done.out
    assert stored_floors(kept_with(bench.directory)) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [({"replicates": 3}, "names no baseline"), ({"replicates": 1, "baseline": BASELINE}, "has only one block")],
)
def test_a_study_without_a_noise_floor_is_one_error(bench: Bench, options: dict[str, Any], words: str) -> None:
    is_error(lastro("noise-floor", bench.write(**options), "-o", bench.directory), 2, words)
    assert not bench.directory.exists()


def test_bad_arguments_are_one_error(bench: Bench) -> None:
    study = bench.write(baseline=BASELINE, replicates=3)
    lastro("run", study, "-o", bench.directory, "--no-report")
    other = bench.home / "other"
    lastro("run", bench.write({"level": ["a", "c"]}, baseline=BASELINE), "-o", other, "--no-report")
    is_error(lastro("noise-floor", bench.directory, "-o", other), 2, "is not an A/A campaign of this study")
    is_error(lastro("noise-floor", bench.directory, "--profile", "quick"), 2, "--profile is for study files")
    is_error(lastro("noise-floor", bench.home / "nothing"), 2, "no such file")
    is_error(lastro("noise-floor", bench.home), 2, "holds no campaign")
    assert lastro("noise-floor", bench.directory).code == 0
    is_error(lastro("noise-floor", bench.directory / "noise-floor"), 2, "is an A/A campaign itself")


def test_a_testbed_that_cannot_be_used_is_one_error_before_anything_runs(bench: Bench) -> None:
    study, file = bench.write(baseline=BASELINE, replicates=3), bench.home / "testbed.toml"
    is_error(lastro("noise-floor", study, "-o", bench.directory, "--testbed", file), 2, "testbed.toml")
    file.write_text('[server]\naddress = "192.0.2.3"\n')
    is_error(lastro("noise-floor", study, "-o", bench.directory, "--testbed", file), 2, "testbed.toml", "links")
    assert not bench.directory.exists()
    file.write_text("")
    done = lastro("noise-floor", study, "-o", bench.directory, "--testbed", file)
    assert done.code == 0, "an empty one is all on this machine"
    file.write_text("[dut]\ncpus = 'none'\n")
    is_error(lastro("noise-floor", study, "-o", bench.directory, "--testbed", file), 2, "testbed.toml", "cpus")


FAR = '[dut]\naddress = "192.0.2.2"\ncpus = "0-1"\nlinks = { client = "eth1", server = "eth2" }\n'
NEAR = '[client]\nlinks = { dut = "eth7" }\n[server]\nlinks = { dut = "eth8" }\n'


class Host:
    """Stands where a host would be taken: it keeps the testbed that was asked for, and runs nothing."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[str | None] = []
        patch.setattr(noise_floor, "require_root", lambda name: None)
        patch.setattr(campaigns, "scenario_on_host", self.take)
        patch.setattr(campaigns, "provenance", self.facts)
        patch.setattr(campaigns, "_run_trials", lambda *of: None)

    @contextmanager
    def take(self, study: Any, purpose: str, *, wait: bool, file: TestbedFile | None) -> Iterator[Any]:
        self.asked.append(file.file if file else None)
        yield SimpleNamespace()

    def facts(self, study: Any, scenario: Any, file: TestbedFile | None) -> dict[str, Any]:
        return {**PROVENANCE, "testbed": chapter(file)} if file else PROVENANCE


def chapter(file: TestbedFile) -> dict[str, Any]:
    return {"file": file.file, "roles": file.provenance(), "shared_cpus": []}


def judged(*words: object) -> None:
    """The command inside this process."""
    parser = argparse.ArgumentParser()
    command.configure(parser)
    command.run(parser.parse_args([*map(str, words)]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "three.toml"
    place.write_text(FAR + NEAR)
    return place


def begun_on(directory: Path, file: Path | None, study: Study) -> Path:
    facts = {**PROVENANCE, "testbed": chapter(load_testbed(file) or TestbedFile({}))} if file else PROVENANCE
    return make_campaign(directory, study, provenance=facts)


def test_the_testbed_that_is_named_is_used_and_recorded(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, aa = Host(monkeypatch), tmp_path / "aa"
    with pytest.raises(InputError, match="unfinished"):  # since nothing ran
        judged("eiras2018/capacity", "--profile", "standard", "-o", aa, "--testbed", file)
    with Store.open(aa, readonly=True) as store:
        places = store.provenance.chapters["testbed"]
        assert store.provenance.chapters[noise_floor.MARK] == "eiras2018-capacity"
    assert host.asked == [str(file)] and places["file"] == str(file)
    assert places["roles"]["dut"]["cpu_set"] == "0-1" and "192.0.2.2" in places["roles"]["dut"]["reached"]


@pytest.mark.parametrize("named", [False, True])
def test_without_one_it_is_the_campaigns_own(
    tmp_path: Path, file: Path, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, other = Host(monkeypatch), tmp_path / "other.toml"
    other.write_text("")
    study = load_study("eiras2018/capacity", Selection("standard"))
    campaign = begun_on(tmp_path / "c", file, study)
    with pytest.raises(InputError, match="unfinished"):
        judged(campaign, *(["--testbed", other] if named else []))
    with pytest.raises(InputError, match="unfinished"):
        judged(begun_on(tmp_path / "here", None, study))
    assert host.asked == [str(other if named else file), None]


def test_floors_of_another_testbed_are_refused_unless_they_are_wanted(tmp_path: Path, file: Path) -> None:
    study = make_study({"platform": ("native", "runc")}, metrics=METRICS[:1], baseline={"platform": "native"})
    campaign = begun_on(tmp_path / "c", file, study)
    same, here = (begun_on(tmp_path / name, place, aa_study(study)) for name, place in (("same", file), ("here", None)))
    with pytest.raises(InputError) as caught:
        judged(campaign, "-o", here)
    assert "dut was on 192.0.2.2, CPUs 0-1, cards eth1, eth2, is on this machine" in caught.value.message
    assert "client was on this machine, cards eth7, is on this machine" in caught.value.message
    assert kept_with(campaign) is None
    file.unlink()  # what has run already needs it no more
    judged(campaign, "-o", same)
    assert kept_with(campaign)
    judged(campaign, "-o", here, "--changed-host")
    assert any("dut was on" in change for change in kept_with(campaign)["changed_host"])

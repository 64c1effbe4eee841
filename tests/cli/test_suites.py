"""Several studies as one: a folder of study files, or a paper with several, is run, interrupted and resumed whole."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from lastro.cli import main
from lastro.errors import ImageError

from .conftest import finish, interrupt, is_error, lastro, rows, schedule, start, until
from .suites import GOOD, LEVELS, WITH_A_GAP, n_done, write_folder

ORDER = ("uplink", "memory", "cpu", "disk")


def test_every_study_runs_one_after_the_other_and_one_that_cannot_hides_none(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine", WITH_A_GAP, order=ORDER), tmp_path / "out"
    done = lastro("run", folder, "-o", place, "--no-report")
    assert done.code == 3
    assert re.findall(r"^study \d of 4: (\w+)", done.err, re.MULTILINE) == list(ORDER)
    assert "study memory cannot run here: no treatment of this study can run here" in done.err
    assert "  remedy: `lastro doctor` shows what can" in done.err.splitlines()
    assert done.err.splitlines()[-1] == "did not run here: memory"
    states = {member: Counter(row[3] for row in rows(place / member)) for member in ORDER}
    assert states == {
        "uplink": {"valid": 4}, "memory": {"unavailable": 2}, "cpu": {"valid": 12},
        "disk": {"valid": 6, "unavailable": 6},
    }  # fmt: skip
    assert [re.search(rf"^{name}  .*", done.out, re.MULTILINE) is not None for name in ORDER] == [True] * 4
    assert f"lastro results {place}" in done.out
    index = json.loads((place / "suite.json").read_text())
    assert index["format"] == "lastro-suite/1" and index["title"] == "A suite of tests"
    assert [(member["name"], member["seed"], bool(member["stopped"])) for member in index["studies"]] == [
        (name, 7, name == "memory") for name in ORDER
    ]
    assert (place / "cpu" / "claims.toml").is_file()


def test_a_study_that_cannot_run_is_said_again_if_it_was_killed_before_the_index_said_so(tmp_path: Path) -> None:
    place = tmp_path / "out"
    assert lastro("run", write_folder(tmp_path / "mine", WITH_A_GAP), "-o", place, "--no-report").code == 3
    said = json.loads((place / "suite.json").read_text())
    for member in said["studies"]:
        member["stopped"] = member["remedy"] = None
    (place / "suite.json").write_text(json.dumps(said))
    (place / "uplink" / "campaign.db").unlink()  # so that another study is left, too
    done = lastro("resume", place, "--no-report")
    assert done.code == 3 and done.err.splitlines()[-1] == "did not run here: memory"
    stopped = {
        member["name"]: member["stopped"] for member in json.loads((place / "suite.json").read_text())["studies"]
    }
    assert "no treatment of this study can run here" in stopped["memory"]


def test_progress_counts_the_trials_of_all_studies(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", trial_s=0.05)
    done = lastro("run", folder, "-o", tmp_path / "out", "--no-report")
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if line.startswith("[")]
    counts = [tuple(map(int, re.findall(r"\d+", line)[:2])) for line in lines]
    assert [n for n, _ in counts] == list(range(1, 23)), "one count over all studies"
    assert counts[0] == (1, 28) and counts[-1] == (22, 22), "six trials turn out to be unavailable"
    assert [line.split()[1] for line in lines] == ["cpu"] * 12 + ["disk"] * 6 + ["uplink"] * 4
    assert "disk  trial 1  block 1" in lines[12], "the number that `lastro show` takes"
    assert all(line.endswith(" left") for line in lines[:-1]) and lines[-1].endswith("done")


def test_it_names_a_directory_by_itself_and_writes_every_report(tmp_path: Path) -> None:
    write_folder(tmp_path / "mine")
    done = lastro("run", "mine/", "--profile", "quick", cwd=tmp_path, drawn=False)
    assert done.code == 0
    (made,) = (tmp_path / "campaigns").iterdir()
    assert made.name.startswith("mine-")
    assert all((made / name / "report.html").is_file() for name in (*GOOD, "."))
    assert json.loads((made / "suite.json").read_text())["profile"] == "quick"
    assert {member: len(rows(made / member)) for member in GOOD} == {"cpu": 2, "disk": 6, "uplink": 2}


def test_an_error_outside_a_trial_ends_its_study_and_not_the_others(tmp_path: Path) -> None:
    """One when it is asked what can run, and one after two of four trials. Each says what it is; resume goes on."""
    members = {"far": ({"fault": ["unreachable"]}, {}), "held": ({"fault": ["leftover"]}, {"replicates": 4})}
    folder, place = write_folder(tmp_path / "mine", {**members, "uplink": GOOD["uplink"]}, claims=""), tmp_path / "out"
    done = lastro("run", folder, "-o", place, "--no-report")
    assert done.code == 3
    assert "study far was ended by an error: the connection to far-dut was lost" in done.err
    assert "study held was ended by an error: mount /x cannot be removed: it is busy" in done.err
    assert "  remedy: see what holds it, then `lastro resume`" in done.err.splitlines()
    assert "cannot run here" not in done.err and done.err.splitlines()[-1] == "ended by an error: far, held"
    assert Counter(row[3] for row in rows(place / "held")) == {"valid": 1, "pending": 3}
    assert n_done(place) == 5, "the last study ran all the same"
    status = lastro("status", place)
    assert re.search(r"^held .* stopped, .* to go$", status.out, re.MULTILINE) and "could not run" not in status.out
    assert "held was ended by an error: mount /x" in status.out and "\n  remedy: see what holds it" in status.out
    assert lastro("report", place, drawn=False).code == 0
    page = (place / "report.html").read_text()
    assert "ended by an error" in page and "could not run" not in page and "Remedy: see what holds it" in page
    for n_valid in (2, 3, 4):
        again = lastro("resume", place, "--no-report")
        assert again.code == 3 and Counter(row[3] for row in rows(place / "held"))["valid"] == n_valid
    stopped = [member["stopped"] for member in lastro("status", place, "--json").json["studies"]]
    assert bool(stopped[0]) and stopped[1:] == [None, None], "what has come to its end is not stopped"


# Plans


def test_the_plan_has_a_line_for_each_study_and_the_sum(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", WITH_A_GAP, trial_s=1.0)
    text = lastro("plan", folder)
    assert text.code == 0
    table = text.out[: text.out.index("unavailable here:")]
    cells = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert cells["cpu"][:4] == ["2", "6", "12", "0"]
    assert cells["disk"][:4] == ["6", "2", "12", "6"]
    assert cells["memory"][:4] == ["1", "2", "2", "2"]
    assert cells["all"][:3] == ["11", "30", "8"]
    assert "disk (3 of 6 treatments), memory (1 of 1 treatments): this fault cannot be had here" in text.out
    plan = lastro("plan", folder, "--json", "--schedule").json
    assert plan["format"] == "lastro-suite-plan/1" and plan["trials"] == 30
    assert [member["suite_study"] for member in plan["studies"]] == ["cpu", "disk", "memory", "uplink"]
    assert plan["expected_s"] == pytest.approx(sum(member["expected_s"] for member in plan["studies"]), abs=0.5)
    assert plan["expected_s"] == pytest.approx(22, rel=0.05)
    assert all(member["schedule"] for member in plan["studies"])
    quick = lastro("plan", folder, "--profile", "quick", "--no-probe")
    assert "profile quick" in quick.out and "availability was not probed" in quick.out


def test_a_paper_with_several_studies_is_planned_whole() -> None:
    text = lastro("plan", "trindade2018", "--profile", "quick", "--no-probe")
    assert text.code == 0
    names = [line.split()[0] for line in text.out.splitlines()[4:12]]
    members = ["cpu", "cpu-size", "memory", "disk", "disk-fio", "uplink", "uplink-peer", "application"]
    assert names == members, "in the paper's order"
    assert re.search(r"^all +\d+ +\d+ +\? +\d+ (min|h)", text.out, re.MULTILINE)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_plan_of_which_no_study_could_be_probed(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_image(*_: object) -> None:
        raise ImageError("mmdebstrap is missing", "install it")

    monkeypatch.setattr("lastro.app.plans.plan_of", no_image)
    assert main(["plan", "trindade2018", "--profile", "quick", *more]) == 3
    told = capsys.readouterr()
    assert "mmdebstrap is missing" in told.out and "install it" in told.out and not told.err


def test_a_study_that_is_lost_while_it_is_probed_leaves_the_others_their_plans(tmp_path: Path) -> None:
    members = {"far": ({"fault": ["unreachable"]}, {}), "uplink": GOOD["uplink"]}
    folder = write_folder(tmp_path / "mine", members, claims="")
    text = lastro("plan", folder)
    assert text.code == 3 and not text.err
    table = text.out[: text.out.index("unavailable here:")]
    cells = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert cells["far"] == ["all"] and cells["uplink"][:4] == ["2", "2", "4", "0"]
    assert "far (all): the connection to far-dut was lost: no route to host" in text.out
    assert "lost" in lastro("plan", folder, "--json").json["studies"][0]["unavailable"]


# Interruption


def test_interrupted_it_resumes_with_the_study_in_flight_and_then_the_others(tmp_path: Path) -> None:
    folder, place, whole = write_folder(tmp_path / "mine", trial_s=0.05), tmp_path / "out", tmp_path / "whole"
    assert lastro("run", folder, "-o", whole, "--no-report").code == 0
    process = start("run", folder, "-o", place, "--no-report")
    until(lambda: n_done(place) >= 14, "a trial of the second study")
    interrupt(process)
    stopped = finish(process)
    assert stopped.code == 130
    assert stopped.err.splitlines()[-1] == f"lastro: interrupted: in study disk; continue with `lastro resume {place}`"
    facts = lastro("status", place, "--json").json
    assert [member["begun"] for member in facts["studies"]] == [True, True, False]
    assert facts["trials"] == 28 and not facts["finished"] and facts["remaining_s"] > 0.2
    assert facts["next"] == f"lastro resume {place}"
    for file in folder.glob("*.toml"):
        file.unlink()  # what was begun does not depend on what it came from
    done = lastro("resume", place, "--no-report")
    assert done.code == 0
    assert re.findall(r"^study \d of 3: (\w+)", done.err, re.MULTILINE) == ["disk", "uplink"]
    assert all(schedule(place / name) == schedule(whole / name) for name in GOOD)
    assert n_done(place) == n_done(whole) == 22


def test_sigterm_ends_it_as_cleanly(tmp_path: Path) -> None:
    place = tmp_path / "out"
    process = start("run", write_folder(tmp_path / "mine", trial_s=0.05), "-o", place, "--no-report")
    until(lambda: n_done(place) >= 2, "two trials")
    interrupt(process, signal.SIGTERM)
    stopped = finish(process)
    assert stopped.code == 143 and f"lastro resume {place}" in stopped.err
    assert all(row[3] != "running" for row in rows(place / "cpu"))


def test_killed_again_and_again_it_has_every_trial_once(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine", trial_s=0.02), tmp_path / "out"
    process = start("run", folder, "-o", place, "--no-report")
    for at_least in (1, 12, 15, 19):
        until(lambda at_least=at_least: n_done(place) >= at_least, f"{at_least} trials")
        process.kill()
        process.communicate()
        process = start("resume", place, "--no-report")
    assert finish(process).code == 0
    assert n_done(place) == 22
    for member in GOOD:
        assert all(row[4] == 1 for row in rows(place / member) if row[3] == "valid"), member


def test_killed_before_its_index_is_written_it_is_begun_anew(tmp_path: Path) -> None:
    """Study files are copied first: without the index there is no suite, and nothing in the way of one."""
    folder, place = write_folder(tmp_path / "mine"), tmp_path / "out"
    (place / "cpu").mkdir(parents=True)
    (place / "cpu" / "study.toml").write_text("half a file")
    is_error(lastro("resume", place), 2, "holds no campaign")
    assert lastro("run", folder, "--profile", "quick", "-o", place, "--no-report").code == 0


def test_resumed_with_nothing_left_it_tries_what_was_unavailable_once_more(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine", WITH_A_GAP), tmp_path / "out"
    assert lastro("run", folder, "-o", place, "--no-report").code == 3
    before = {member: rows(place / member) for member in WITH_A_GAP}
    again = lastro("resume", place, "--no-report")
    assert again.code == 3, "a study still cannot run"
    assert {member: rows(place / member) for member in WITH_A_GAP} == before
    healthy = write_folder(tmp_path / "healthy", {"cpu": (LEVELS, {})})
    assert lastro("run", healthy, "-o", tmp_path / "two", "--no-report").code == 0
    again = lastro("resume", tmp_path / "two", "--no-report")
    assert again.code == 0 and "nothing is left to run" in again.out


def test_one_study_can_be_resumed_by_itself(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine", trial_s=0.05), tmp_path / "out"
    process = start("run", folder, "-o", place, "--no-report")
    until(lambda: n_done(place) >= 2, "two trials")
    interrupt(process)
    assert finish(process).code == 130
    assert lastro("resume", place / "cpu", "--no-report").code == 0
    assert n_done(place) == 12


# What cannot be


def test_an_unsound_study_ends_it_before_anything_runs(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine"), tmp_path / "out"
    (folder / "disk.toml").write_text("[study]\n")
    is_error(lastro("run", folder, "-o", place), 2, "disk.toml", "is missing")
    assert not place.exists()


def test_a_profile_that_one_study_lacks(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    is_error(lastro("plan", folder, "--profile", "paper"), 2, "cpu.toml has no profile 'paper'", "valid names: quick")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("studies = ['cpu', 'dsk']", ("studies[1]", "this folder has no study 'dsk'", "did you mean 'disk'?")),
        ("studies = ['cpu', 'cpu']", ("studies[1]", "'cpu' is already listed")),
        ("published = ['dsk']", ("published[0]", "this folder has no study 'dsk'", "did you mean 'disk'?")),
        ("studies = 3", ("studies", "must be a list")),
        ("order = []", ("order", "is not a valid key")),
        ("title = [1]", ("title", "must be a string")),
        ("studies = ['cpu'", ("is not TOML",)),
    ],
)
def test_an_order_that_cannot_be(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    folder = write_folder(tmp_path / "mine")
    (folder / "suite.toml").write_text(text)
    is_error(lastro("plan", folder), 2, "suite.toml", *words)


def test_folders_that_are_no_suite(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    is_error(lastro("run", tmp_path / "empty"), 2, "is a directory without study files", "lastro new")
    folder, place = write_folder(tmp_path / "mine"), tmp_path / "out"
    assert lastro("run", folder, "--profile", "quick", "-o", place, "--no-report").code == 0
    is_error(lastro("run", folder, "-o", place), 2, "already holds a suite", f"lastro resume {place}")
    is_error(lastro("run", place), 2, "holds a campaign or a suite, not a study", f"lastro resume {place}")
    is_error(
        lastro("plan", place / "cpu"), 2, "holds a campaign or a suite, not a study", f"lastro resume {place / 'cpu'}"
    )
    is_error(lastro("noise-floor", folder), 2, "holds no campaign")


def test_a_campaign_in_the_place_of_a_study_is_not_taken_for_its_own(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine"), tmp_path / "out"
    assert lastro("run", folder / "disk.toml", "--profile", "quick", "-o", place / "cpu", "--no-report").code == 0
    before = (place / "cpu" / "study.toml").read_bytes()
    is_error(lastro("run", folder, "-o", place), 2, f"{place / 'cpu'} already holds a campaign", "another -o DIR")
    assert (place / "cpu" / "study.toml").read_bytes() == before
    assert [file.name for file in place.iterdir()] == ["cpu"]


@pytest.fixture
def gap(tmp_path: Path) -> Path:
    """A suite of which the study `disk` has not begun; `mine` beside it is where it came from."""
    place = tmp_path / "out"
    assert lastro("run", write_folder(tmp_path / "mine"), "--profile", "quick", "-o", place, "--no-report").code == 0
    for file in (place / "disk").glob("campaign.db*"):
        file.unlink()
    return place


def test_a_study_is_not_run_in_the_place_of_one_of_the_suite(gap: Path) -> None:
    told = is_error(lastro("run", gap.parent / "mine" / "uplink.toml", "-o", gap / "disk"), 2, f"lastro resume {gap}")
    assert f"{gap / 'disk'} is reserved for a study of the suite in {gap}" in told
    assert lastro("run", gap.parent / "mine" / "uplink.toml", "-o", gap / "more", "--no-report").code == 0


def test_a_campaign_of_another_study_is_never_taken_for_one_of_the_suite(gap: Path, tmp_path: Path) -> None:
    study = (gap / "disk" / "study.toml").read_bytes()
    foreign = tmp_path / "foreign"
    assert lastro("run", tmp_path / "mine" / "disk.toml", "-o", foreign, "--no-report").code == 0  # of no profile
    shutil.copytree(foreign, gap / "disk", dirs_exist_ok=True)
    for name in ("status", "results", "report", "resume"):
        is_error(lastro(name, gap), 2, f"the campaign in {gap / 'disk'} is not that of study 'disk'", "move it away")
    for file in (gap / "disk").glob("campaign.db*"):
        file.unlink()
    (gap / "disk" / "study.toml").write_bytes(study)
    assert lastro("resume", gap, "--no-report").code == 0 and len(rows(gap / "disk")) == 6


def test_a_study_runs_by_the_text_with_which_the_suite_began(gap: Path) -> None:
    copy, index = gap / "disk" / "study.toml", gap / "suite.json"
    copy.write_text(copy.read_text().replace("seed = 7", "seed = 7 # lucky"))
    for name in ("status", "resume"):
        is_error(lastro(name, gap), 2, f"{copy} has changed since the suite began")
    document = json.loads(index.read_text())
    for member in document["studies"]:
        del member["digest"]  # as indexes were before there were any
    index.write_text(json.dumps(document))
    assert lastro("resume", gap, "--no-report").code == 0 and len(rows(gap / "disk")) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a readable index"),
        ("[]", "is not a readable index"),
        ('{"format": "lastro-suite/1"}', "is not a readable index"),
        ('{"format": "lastro-suite/2"}', "update Lastro"),
        ("[" * 100_000, "is nested too deeply"),
        ("../cpu", "not a valid directory name"),
        ("..", "not a valid directory name"),
        ("a\0b", "not a valid directory name"),
    ],
)
def test_an_index_that_is_damaged_or_newer(tmp_path: Path, text: str, words: str) -> None:
    place = tmp_path / "out"
    place.mkdir()
    member = {"name": text, "study": "x", "title": "", "seed": 1, "stopped": None, "remedy": None}
    head = {"format": "lastro-suite/1", "name": "x", "title": "", "description": "", "source": "x", "profile": None}
    (place / "suite.json").write_text(json.dumps({**head, "studies": [member]}) if "directory" in words else text)
    for name in ("status", "results", "resume"):
        is_error(lastro(name, place), 5, "suite.json", words)


def test_a_suite_is_narrowed_and_stays_so_when_it_is_resumed(tmp_path: Path) -> None:
    folder, place = write_folder(tmp_path / "mine", GOOD, order=("cpu", "disk", "uplink")), tmp_path / "out"
    chosen = ("--only", "level=a,b", "--only", "fault=none", "--replicates", "2")
    plan = json.loads(lastro("plan", folder, *chosen, "--json").out)
    assert (plan["trials"], plan["changes"]) == (2 * (2 + 2 + 2), list(chosen))
    assert lastro("run", folder, *chosen, "-o", place, "--no-report").code == 0
    assert [len(rows(place / name)) for name in ("cpu", "disk", "uplink")] == [4, 4, 4]
    told = "The study was changed by --only 'level=a,b'"
    for words in (
        ("results", place / "cpu"),
        ("claims", place / "cpu"),
        ("report", place / "cpu", "--format", "md", "-o", "-"),
    ):
        assert told.replace("'", "") in " ".join(lastro(*words).out.split()).replace("`", ""), words
    (place / "disk" / "campaign.db").unlink()
    assert lastro("resume", place, "--no-report").code == 0
    assert len(rows(place / "disk")) == 4
    wrong = lastro("run", folder, "--only", "levl=a", "-o", tmp_path / "other")
    is_error(wrong, 2, "--only: no study of", "has a factor 'levl'", "did you mean 'level'?")
    assert not (tmp_path / "other").exists()

"""The gate of GitHub Actions and GitLab CI: both declare what ci/gate reads, and the script does its work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from .conftest import ENVIRONMENT, lastro, study_text
from .test_compare import pair, steady
from .test_history import campaign

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ci" / "gate"
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "ci" / "gitlab" / "lastro-gate.yml"
PAGE = ROOT / "docs" / "ci.md"
PROGRAM = Path(sys.executable).with_name("lastro")
KEPT = "lastro-history"  # the directory that both CI systems keep between jobs
NAMES = set(re.findall(r"^#   (GATE_\w+)", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE))


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return found


def template() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of the GitLab template, and its job."""
    head, body = yaml.safe_load_all(GITLAB.read_text(encoding="utf-8"))
    (job,) = body.values()
    return head["spec"]["inputs"], job


# Declarations


def test_the_script_reads_the_variables_that_its_head_explains() -> None:
    code = re.sub(r"^#.*", "", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"GATE_[A-Z_]+", code)) == NAMES


def test_the_action_hands_each_input_to_the_script_and_to_no_shell_line() -> None:
    inputs = action()["inputs"]
    before, step, after = action()["runs"]["steps"]
    assert set(step["env"]) == NAMES
    assert before["with"]["path"] == after["with"]["path"] == KEPT and before["with"]["key"] == after["with"]["key"]
    assert before["with"]["key"].startswith(before["with"]["restore-keys"]), "the newest of any job is found"
    assert before["if"] in after["if"] and f"startsWith(inputs.history, '{KEPT}/')" in before["if"]
    assert step["env"] == {f"GATE_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in inputs}
    assert step["run"] == '"$GITHUB_ACTION_PATH/ci/gate"'
    assert all(value["description"] and "default" in value for value in inputs.values())


def test_the_outputs_of_the_action_are_those_that_the_script_writes() -> None:
    format_ = re.search(r"printf '(exit-code=.*)' \\", SCRIPT.read_text(encoding="utf-8"))
    assert format_ is not None
    assert set(re.findall(r"([\w-]+)=%s", format_[1].replace("\\n", " "))) == set(action()["outputs"])
    for name, output in action()["outputs"].items():
        assert output["value"] == f"${{{{ steps.gate.outputs.{name} }}}}" and output["description"]


def test_the_template_of_gitlab_uses_every_input_and_no_other() -> None:
    inputs, job = template()
    body = GITLAB.read_text(encoding="utf-8").partition("\n---\n")[2]
    assert set(re.findall(r"\$\[\[ inputs\.([\w-]+) \]\]", body)) == set(inputs)
    assert {name for name in job["variables"] if name.startswith("GATE_")} == NAMES
    assert job["script"][-1] == ".lastro/ci/gate"
    assert job["cache"] == {"key": KEPT, "when": "always", "paths": [f"{KEPT}/"]}
    assert job["artifacts"]["when"] == "always", "a report of a failed gate is what one wants to read"
    assert all(value["description"] for value in inputs.values())


def test_both_have_the_same_inputs_and_defaults() -> None:
    inputs, own = template()[0], {"repository", "ref", "job", "stage", "tags"}
    assert set(inputs) - own == set(action()["inputs"])
    for name in set(inputs) - own:
        default = inputs[name].get("default")
        assert str(default).lower() == str(action()["inputs"][name].get("default")).lower(), name


def test_the_page_shows_sound_yaml_with_inputs_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)]
    workflow, pipeline, nightly = blocks
    steps = [step for each in (workflow, nightly) for job in each["jobs"].values() for step in job["steps"]]
    used = [step["with"] for step in steps if "lastro" in step.get("uses", "")]
    assert len(used) == 2 and {name for each in used for name in each} <= set(action()["inputs"])
    (included,) = pipeline["include"]
    assert set(included["inputs"]) <= set(template()[0])
    assert included["file"] == f"/{GITLAB.relative_to(ROOT)}"
    rows = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", text, re.MULTILINE)
    assert re.findall(r"[\w-]+", " ".join(rows)) == list(action()["inputs"])


# The script


@dataclass
class Gate:
    """A checkout in which a CI system runs the script."""

    home: Path

    def run(self, **variables: object) -> subprocess.CompletedProcess[str]:
        environment = {name: text for name, text in ENVIRONMENT.items() if not name.startswith(("GATE_", "GITHUB_"))}
        environment |= {"PATH": f"{self.home / 'bin'}:{os.environ['PATH']}", "GATE_LASTRO": str(PROGRAM)}
        environment |= {name: str(value) for name, value in variables.items()}
        return subprocess.run(
            [SCRIPT], cwd=self.home, env=environment, capture_output=True, text=True, timeout=120
        )  # fmt: skip

    def on_github(self, **variables: object) -> subprocess.CompletedProcess[str]:
        files = {"GITHUB_STEP_SUMMARY": self.summary, "GITHUB_OUTPUT": self.home / "output"}
        return self.run(GITHUB_ACTIONS="true", **files, **variables)

    @property
    def summary(self) -> Path:
        return self.home / "summary"

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.home / "output").read_text().splitlines())


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A baseline, and a candidate that is a fifth slower under AppArmor."""
    return pair(tmp_path_factory.mktemp("campaigns"), b=steady("b", slow="apparmor", factor=0.8))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """With a `sudo` that changes nothing, where the tests do not run as root."""
    (tmp_path / "bin").mkdir()
    sudo = tmp_path / "bin" / "sudo"
    sudo.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    return Gate(tmp_path)


@pytest.mark.parametrize("shell", [["sh", "-n"], ["bash", "-n"], ["shellcheck", "--shell", "sh"]])
def test_the_script_is_sound(shell: list[str]) -> None:
    if shutil.which(shell[0]):  # shellcheck may be missing
        done = subprocess.run([*shell, SCRIPT], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.access(SCRIPT, os.X_OK)


def test_slower_is_4_with_summary_annotations_junit_and_outputs(gate: Gate, campaigns: tuple[Path, Path]) -> None:
    a, b = campaigns
    done = gate.on_github(GATE_BASELINE=a, GATE_CAMPAIGN=b, GATE_FAIL_OVER="5%", GATE_METRICS="throughput")
    assert done.returncode == 4, done
    report = lastro("compare", a, b, "--fail-over", "5%", "--metric", "throughput", "--format", "md").out
    assert gate.summary.read_text() == report and report in done.stdout
    errors = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert len(errors) == 2 and all(line.startswith("::error title=throughput regressed") for line in errors)
    assert gate.outputs == {
        "exit-code": "4",
        "report": "lastro-reports/gate.md",
        "junit": "lastro-reports/gate.xml",
        "campaign": str(b),
    }
    assert (gate.home / gate.outputs["report"]).read_text() == report
    assert ElementTree.parse(gate.home / gate.outputs["junit"]).getroot().get("failures") == "2"
    assert sorted(path.name for path in (gate.home / "lastro-reports").iterdir()) == ["gate.md", "gate.xml"]


def test_not_slower_is_0_and_elsewhere_than_on_github_there_are_no_annotations(
    gate: Gate, campaigns: tuple[Path, Path]
) -> None:
    a, b = campaigns
    done = gate.run(
        GATE_BASELINE=a, GATE_CAMPAIGN=b, GATE_FAIL_OVER="30%", GATE_METRICS="throughput, jitter",
        GATE_CONFIDENCE="0.9", GATE_FAIL_LOST="true", GATE_REPORTS="my reports",
    )  # fmt: skip
    assert done.returncode == 0, done
    assert "::" not in done.stdout and "no regression of more than 30 %" in done.stdout
    suites = ElementTree.parse(gate.home / "my reports" / "gate.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["throughput", "jitter"]


def test_without_a_margin_it_compares_and_never_fails(gate: Gate, campaigns: tuple[Path, Path]) -> None:
    done = gate.run(GATE_BASELINE=campaigns[0], GATE_CAMPAIGN=campaigns[1])
    assert done.returncode == 0 and "Gate:" not in done.stdout and "apparmor" in done.stdout


def test_bad_input_is_2_and_an_annotation(gate: Gate, campaigns: tuple[Path, Path]) -> None:
    a, b = campaigns
    for words, variables in (
        ("GATE_STUDY is empty", {"GATE_CAMPAIGN": b}),
        ("need GATE_BASELINE", {"GATE_STUDY": "demo", "GATE_FAIL_LOST": "true"}),
        ("GATE_CAMPAIGN and GATE_STUDY are empty", {"GATE_BASELINE": a}),
        ("GATE_HISTORY is for campaigns", {"GATE_STUDY": "demo", "GATE_HISTORY": "h.db", "GATE_B": "cpus=1"}),
        ("GATE_CAMPAIGN and GATE_STUDY are empty", {"GATE_HISTORY": "h.db"}),
        ("could not be added to the history", {"GATE_HISTORY": "h.db", "GATE_CAMPAIGN": "nowhere"}),
        ("nowhere holds no campaign", {"GATE_BASELINE": a, "GATE_CAMPAIGN": "nowhere"}),
        ("not a fraction below 1", {"GATE_BASELINE": a, "GATE_CAMPAIGN": b, "GATE_FAIL_OVER": "150%"}),
        ("did you mean 'throughput'?", {"GATE_BASELINE": a, "GATE_CAMPAIGN": b, "GATE_METRICS": "throughputs *"}),
    ):
        done = gate.on_github(**variables)
        assert done.returncode == 2 and words in done.stderr, (words, done)
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("::")]
        name = "compare" if "GATE_BASELINE" in variables else "history" if "GATE_HISTORY" in variables else "ab"
        assert line.startswith(f"::error title=lastro {name}::") and words in line
    assert not gate.summary.exists()


def test_a_study_is_run_before_it_is_compared(gate: Gate) -> None:
    study = gate.home / "study.toml"
    study.write_text(study_text(replicates=4) + "[profiles.quick]\nreplicates = 3\n")
    assert lastro("run", study, "-o", gate.home / "baseline", "--no-report").code == 0
    variables = {"GATE_BASELINE": "baseline", "GATE_STUDY": "study.toml", "GATE_PROFILE": "quick"}
    done = gate.on_github(**variables, GATE_FAIL_OVER="90%")
    assert done.returncode == 0, done
    assert gate.outputs["campaign"] == "lastro-reports/campaign"
    assert "profile: A none, B quick" in gate.summary.read_text()
    again = gate.on_github(**variables)
    assert again.returncode == 2 and "already holds a campaign" in again.stderr
    assert "::error title=lastro compare::lastro run study.toml ended with exit code 2" in again.stdout


def test_a_history_grows_from_job_to_job_and_fails_from_the_change_on(gate: Gate, tmp_path: Path) -> None:
    """Seven jobs, the last three with a slower build; each is a checkout of its own in which the cache was unpacked.

    Those in the middle add their campaigns without the script."""
    file = f"{KEPT}/h.db"
    for number in range(1, 8):
        made = campaign(tmp_path, number, {"runc": 0.2} if number > 4 else {})
        if 1 < number < 6:
            assert lastro("history", "add", made, "--file", gate.home / file, "--label", "0" * 12).code == 0
            continue
        variables = {"GATE_HISTORY": file, "GATE_CAMPAIGN": made, "GITHUB_SHA": f"{number:040x}"}
        done = gate.on_github(**variables, GATE_METRICS="throughput", GATE_SENTINEL="platform=native")
        assert done.returncode == (4 if number == 7 else 0), done
    assert "1 change for the worse" in gate.summary.read_text() and gate.outputs["exit-code"] == "4"
    (error,) = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert error.startswith("::error title=lastro history::1 change for the worse"), error
    root = ElementTree.parse(gate.home / gate.outputs["junit"]).getroot()
    assert root.get("failures") == "1" and "worse at 000000000000" in ElementTree.tostring(root, encoding="unicode")
    listed = lastro("history", "list", "--file", gate.home / file).out
    assert listed.count("000000000000") == 7, "labels are the beginnings of commits"


def test_with_a_baseline_the_history_is_kept_and_told_as_well(gate: Gate, campaigns: tuple[Path, Path]) -> None:
    a, b = campaigns
    variables = {"GATE_BASELINE": a, "GATE_CAMPAIGN": b, "GATE_METRICS": "throughput", "GATE_LABEL": "v2"}
    done = gate.on_github(**variables, GATE_HISTORY="h.db", GATE_FAIL_OVER="5%")
    assert done.returncode == 4 and "Nothing can be decided yet" in gate.summary.read_text(), done
    assert "v2" in lastro("history", "list", "--file", gate.home / "h.db").out


def test_a_study_of_a_history_runs_by_itself(gate: Gate) -> None:
    (gate.home / "study.toml").write_text(study_text(replicates=2))
    done = gate.run(GATE_STUDY="study.toml", GATE_HISTORY="h.db", GATE_LABEL="v1")
    assert done.returncode == 0 and "h.db: 1 added" in done.stderr, done


STEPS = {"GATE_A": "step=400", "GATE_STUDY": "study.toml"}


@pytest.fixture
def two(gate: Gate) -> Gate:
    (gate.home / "study.toml").write_text(study_text({"level": ["a"]}, replicates=6))
    return gate


def test_without_a_baseline_both_variants_run_in_the_same_blocks(two: Gate) -> None:
    done = two.on_github(**STEPS, GATE_B="step=300\n\ntrial_s=0.002\n")
    assert done.returncode == 4, done
    answer = lastro("ab", two.home / "lastro-reports" / "campaign").out.splitlines()[0]
    assert (
        answer.startswith("b is slower by ") and f"::error title=lastro ab::{answer}".replace("%", "%25") in done.stdout
    )
    assert (
        answer in two.summary.read_text().replace("\\", "")
        and "b: step = 300, trial_s = 0.002" in two.summary.read_text()
    )
    assert two.outputs["exit-code"] == "4" and two.outputs["campaign"] == "lastro-reports/campaign"
    root = ElementTree.parse(two.home / two.outputs["junit"]).getroot()
    assert root.get("failures") == "1" and root[0].find("testcase").get("name") == "b"  # type: ignore[union-attr]


@pytest.mark.parametrize(("fails", "code"), [("false", 0), ("true", 8)])
def test_what_is_undecided_warns_or_fails(two: Gate, fails: str, code: int) -> None:
    """A change of just the margin, and little time."""
    limits = {"GATE_FAIL_OVER": "0.4%", "GATE_WITHIN": "1s", "GATE_FAIL_UNDECIDED": fails, "GATE_METRICS": "speed"}
    done = two.on_github(**STEPS, GATE_B="step=398", **limits)
    assert done.returncode == code, done
    assert two.outputs["exit-code"] == "8" and "::warning title=lastro ab::not enough" in done.stdout
    assert ElementTree.parse(two.home / two.outputs["junit"]).getroot().get("skipped") == "1"


def test_a_change_that_is_none_passes(two: Gate) -> None:
    done = two.run(**STEPS, GATE_B="step=405", GATE_FAIL_OVER="20%")
    assert done.returncode == 0 and done.stdout.startswith("# no change larger than "), done
    assert ElementTree.parse(two.home / "lastro-reports" / "gate.xml").getroot().get("failures") == "0"


def test_a_summary_that_github_would_refuse_is_cut(gate: Gate) -> None:
    stand_in = gate.home / "lastro"
    stand_in.write_text("#!/bin/sh\nseq -f '| row %.0f |' 200000\n")
    stand_in.chmod(0o755)
    done = gate.on_github(GATE_BASELINE="a", GATE_CAMPAIGN="b", GATE_LASTRO=stand_in)
    assert done.returncode == 0
    text = gate.summary.read_text()
    assert 900_000 < len(text) < 2**20 and text.endswith(
        "\nThe report is longer than GitHub shows; gate.md has all of it.\n"
    )
    assert all(re.fullmatch(r"\| row \d+ \|", line) for line in text.splitlines()[:-2])


def test_lastro_is_installed_from_the_repository_where_it_is_not_in_the_path(tmp_path: Path) -> None:
    """`python3` is a stand-in whose venv has a pip that installs a stand-in of lastro."""
    repository, tools = tmp_path / "lastro", tmp_path / "bin"
    for script in (SCRIPT, SCRIPT.parents[1] / "tools" / "install-locked"):
        (repository / script.parent.name).mkdir(parents=True)
        shutil.copy(script, repository / script.parent.name)
    tools.mkdir()
    for name in ("sh", "cat", "mkdir", "rm", "dirname", "tr", "chmod", "mktemp"):
        (tools / name).symlink_to(str(shutil.which(name)))
    pip = 'echo "pip $*"; printf "#!/bin/sh\\\\necho compared\\\\n" > ${0%pip}lastro; chmod +x ${0%pip}lastro'
    (tools / "python3").write_text(
        f"#!/bin/sh\nmkdir -p $3/bin; printf '%s\\n' '#!/bin/sh' '{pip}' > $3/bin/pip; chmod +x $3/bin/pip\n"
    )
    (tools / "python3").chmod(0o755)
    environment = {"PATH": str(tools), "GATE_BASELINE": "a", "GATE_CAMPAIGN": "b"}
    done = subprocess.run(
        [repository / "ci" / "gate"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done
    assert f"--require-hashes --only-binary :all: --requirement {repository}/requirements/run.txt\n" in done.stdout
    assert f"--no-deps --no-build-isolation {repository}\n" in done.stdout and "compared" in done.stdout

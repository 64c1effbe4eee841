"""`lastro new --ask`: five answers become a study that fits the time and ends with a decision."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lastro.app.first_study import Answers, FirstStudy, first_study
from lastro.campaign.duration import forecast
from lastro.registry import get
from lastro.scenarios.base import Scenario, schemas
from lastro.study.design import treatments
from lastro.study.load import load, parse
from lastro.study.model import Study


def ask(file: Path | str, *answers: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lastro", "new", "--ask", str(file), *more],
        input="".join(f"{answer}\n" for answer in answers), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def expected_s(study: Study) -> float:
    return forecast(study, get(Scenario, study.scenario), treatments(study)).total_s


def test_empty_answers_are_the_usual_ones(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    done = ask(file, "", "", "", "", "")
    assert done.returncode == 0, done.stderr
    study = load(file, schemas())
    assert study.name == "edge" and study.sla == {"throughput": ">= 2 Gbit/s", "latency_p95": "< 1 ms"}
    levels = {factor.name: factor.levels for factor in study.factors}
    assert levels["platform"] == ("native", "docker") and levels["anomaly"] == ("none", "memory")
    assert study.settings["function"] == "firewall" and study.cost == {"cpu_per_gbit": 1.0}
    assert 300 < expected_s(study) <= 900 and "left out" not in done.stderr
    assert f"`lastro run {file}`" in done.stdout


@pytest.mark.parametrize(("time", "dropped"), [("1h", 0), ("20 min", 0), ("6 min", 1), ("3 min", 2)])
def test_the_design_is_the_largest_that_fits_and_says_what_it_cannot_answer(
    time: str, dropped: int, tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    done = ask(file, "firewall", "native, runc, docker, lxc", "memory, disk", "throughput > 3 Gbit/s", time)
    assert done.returncode == 0, done.stderr
    study = load(file, schemas())
    assert expected_s(study) <= {"1h": 3600, "20 min": 1200, "6 min": 360, "3 min": 180}[time]
    said = [line for line in done.stderr.splitlines() if line.startswith("left out for the time: ")]
    assert len(said) == dropped == file.read_text().count("# Left out for the time: ")
    assert study.design.replicates >= 3 and study.settings["udp_s"] == 0


def test_of_two_platforms_half_of_the_combinations_may_fit() -> None:
    def answered(within_s: float) -> FirstStudy:
        levels = ("throughput > 3 Gbit/s",)
        return first_study("s", Answers(("firewall",), ("native", "docker"), ("none", "memory"), levels, within_s))

    found = next(each for within_s in range(400, 0, -10) if (each := answered(within_s)).left_out)
    assert 'fraction = "1/2"' in found.text and found.left_out[0].startswith("half of the combinations; ")
    study = parse(found.text, "s", schemas())
    assert len(treatments(study)) == 8 and {factor.name for factor in study.factors} == {
        "platform", "attachment", "isolation", "anomaly"
    }  # fmt: skip


def test_a_wrong_answer_is_one_clear_error_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    for answers, words in (
        (("fierwall",), "did you mean 'firewall'?"),
        (("nat", "dokcer"), "did you mean 'docker'?"),
        (("nat", "docker", "memory", "speed > 3"), "no metric is named 'speed'"),
        (("nat", "docker", "memory", "throughput > 3 ms"), "is not in Mbit/s"),
        (("nat", "docker", "memory", "", "soon"), "write it as in 30min"),
        (("nat", "docker", "memory", "", "10 s"), "at the least"),
        (("nat", "docker"), "there is no answer"),
        (("firewall:rulse=5",), "did you mean 'rules'?"),
        (("nat", 'docker:storage="\\n[study]'), "is not a valid storage"),
        (("nat", "docker", "memory", "jitter < 1 ms, jitter < 2 ms"), "jitter has two service levels"),
        (("nat", "docker", "memory", "throughput > 1e400"), "is not a number with a unit"),
    ):
        done = ask(file, *answers)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, answers
        assert not file.exists()
    file.write_text("mine")
    assert "already exists" in ask(file).stderr and file.read_text() == "mine"
    assert "leave out --part" in ask("-", more=("--from", "demo")).stderr


@pytest.mark.parametrize("name", ["", "a b", "../x", "é"])
def test_a_wrong_name_is_refused_before_the_first_question(name: str) -> None:
    done = ask("-", more=("--name", name))
    assert done.returncode == 2 and "is not a valid study name" in done.stderr and "What runs?" not in done.stderr


def test_an_answer_in_another_encoding_is_one_error() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-m", "lastro", "new", "--ask", "-"], input=b"firewall\n\xff\n",
        capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
    )  # fmt: skip
    assert done.returncode == 2 and b"the answer is not UTF-8 text" in done.stderr and done.stdout == b""


def test_on_a_terminal_a_wrong_answer_costs_no_other_one(tmp_path: Path) -> None:
    """The time is the last question: too short a one is asked again, too. Ctrl-C ends it."""
    file = tmp_path / "s.toml"
    said = on_terminal(file, "nat", "dokcer", "docker", "", "", "10 s", "15 min")
    assert said.count("On what could it run?") == 2 and said.count("How long may it take?") == 2
    assert "at the least" in said and load(file, schemas()).settings["function"] == "nat"
    assert "Traceback" not in on_terminal(tmp_path / "t.toml", "nat", "\x03", code=130)
    assert not (tmp_path / "t.toml").exists()


def on_terminal(file: Path, *answers: str, code: int = 0) -> str:
    """Answer on a terminal, each question once it is there, and return what it shows."""
    said, deadline_s = "", time.monotonic() + 60
    pid, ours = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
        os.execv(sys.executable, [sys.executable, "-m", "lastro", "new", "--ask", str(file)])

    def more() -> str:
        if not select.select([ours], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"nothing more was said after {said!r}")
        return os.read(ours, 4096).decode()

    for answer in answers:
        before = said.count("] ")
        while said.count("] ") == before:
            said += more()
        os.write(ours, answer.encode() if answer == "\x03" else f"{answer}\n".encode())
    with suppress(OSError):  # the end of a terminal
        while text := more():
            said += text
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, said
    return said


def test_one_platform_alone_and_a_level_of_jitter_make_a_study_too() -> None:
    done = ask("-", "none", "runc", "none", "jitter < 0.1 ms", "10 min")
    assert done.returncode == 0, done.stderr
    assert 'function = "none"' in done.stdout and "udp_s = 0" not in done.stdout and "ping_s = 0.5" in done.stdout

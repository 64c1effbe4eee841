"""The tutorial for real: its commands from top to bottom, as a reader types them; and `make demo`. What they print has
the shape of what is shown. tests/cli/test_tutorial.py compares word by word what no measurement changes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lastro import papers
from lastro.campaign.duration import forecast
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.scenarios.chain import ChainScenario
from lastro.study import design
from lastro.study.load import load

from ..cli.conftest import Finished, finish, interrupt, n_done, no_stragglers, start, until
from ..support.scenarios import TOLERANT
from ..support.shown import ROOT, Command, candidates, commands, shape

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

TUTORIAL = commands(ROOT / "docs" / "tutorial.md")
OWN = "A function of your own"
RATE_MBIT_S = 100
TIMEOUT_S = 900  # other tests may hold the host


def typed(place: Path, command: Command, parts: str = "") -> Finished:
    """What a command of the tutorial did; one that needs the host waits for it."""
    return finish(start(*_words(command), cwd=place, env={"LASTRO_PARTS": parts}, drawn=False), TIMEOUT_S)


def _words(command: Command) -> list[str]:
    program, *words = shlex.split(command.line)
    assert program == "lastro"
    return [*words, *(["--wait"] if words[0] in ("doctor", "plan", "resume", "run") else [])]


def make_tolerant(file: Path) -> None:
    """The limits of a study let whoever else uses this host do so."""
    text = file.read_text(encoding="utf-8")
    limits = "".join(f"{name} = {value}\n" for name, value in TOLERANT.items())
    assert text.count("[settings]\n") == 1
    file.write_text(text.replace("[settings]\n", f"[settings]\n{limits}"), encoding="utf-8")


# A function of your own


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(ROOT / "examples", directory / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    make_tolerant(directory / "examples" / "shaper.toml")
    return directory


@pytest.fixture(scope="module")
def own(place: Path) -> dict[str, tuple[Command, Finished]]:
    """The commands of the section, by their first word, and what each did."""
    found, parts = {}, ""
    for command in (command for command in TUTORIAL if command.section == OWN):
        if command.line.startswith("export "):
            parts = command.line.partition("=")[2]
            continue
        done = typed(place, command, parts)
        assert done.code == 0, (command.line, done.err[-2000:])
        found[shlex.split(command.line)[1]] = command, done
    return found


def test_the_part_is_listed_and_the_plan_finds_it_working(own: dict[str, tuple[Command, Finished]]) -> None:
    assert re.search(r"^  shaper ", own["parts"][1].out, re.MULTILINE)
    assert "all of them can run on this host" in own["plan"][1].out


def test_the_run_prints_what_is_shown(own: dict[str, tuple[Command, Finished]]) -> None:
    """But for attempts that were repeated, and for the time that is left, which may have minutes on a busy host.

    A trial that is repeated ends after others of its block."""
    command, done = own["run"]
    lines, table = command.shown
    printed = [line for line in done.err.splitlines() if line.startswith("[") and " invalid, " not in line]
    found, shown = ([_steady(line) for line in some] for some in (printed, lines.splitlines()))
    if " invalid, " in done.err:
        found, shown = (sorted(line.partition("]")[2] for line in some) for some in (found, shown))
    assert found == shown
    assert shape(done.out.partition("\n\n±")[0]) == shape(table.partition("\n\n±")[0])


def _steady(line: str) -> str:
    return shape(re.sub(r" +\(attempt \d\)", "", line.rpartition("  ")[0]))


def test_the_shaper_holds_its_rate(own: dict[str, tuple[Command, Finished]], place: Path) -> None:
    with Store.open(place / "shaped", readonly=True) as store:
        levels = {row.treatment.index: row.treatment.levels["function"] for row in store.treatments()}
        valid = {levels[a.treatment]: a for a in store.attempts() if a.valid}
        refused = [reason for a in store.attempts() for reason in a.reasons]
        commands = store.transcript(valid["shaper"].trial, valid["shaper"].attempt) if "shaper" in valid else []
    assert set(valid) == {"none", "shaper"}, refused
    throughput = {name: attempt.measurements["throughput"] for name, attempt in valid.items()}
    assert 0.7 * RATE_MBIT_S < throughput["shaper"] < 1.15 * RATE_MBIT_S
    assert throughput["none"] > 5 * RATE_MBIT_S
    assert valid["shaper"].notes["generator_limited"] is False
    assert any("tbf" in record.get("argv", ()) for record in commands)
    assert (place / "shaped" / "report.html").exists()


def test_the_part_says_that_it_has_no_click_configuration(place: Path) -> None:
    file, text = place / "click.toml", (place / "examples" / "shaper.toml").read_text(encoding="utf-8")
    file.write_text(text.replace("[settings]\n", '[settings]\nimplementation = "click"\n'), encoding="utf-8")
    plan: Any = json.loads(typed(place, Command("", "lastro plan click.toml --json", True), "examples/parts").out)
    assert plan["treatments"][1]["levels"]["function"] == "shaper"
    assert "lick" in plan["treatments"][1]["unavailable"]


# The first study


@pytest.mark.slow
@pytest.mark.measures
def test_a_first_study_as_it_is_told(tmp_path: Path) -> None:
    """Interrupted in the middle and continued, as the reader is asked to do, it takes as long as was foretold."""
    done: dict[str, Finished] = {}
    shown = {}
    took_s = 0.0
    for command in (command for command in TUTORIAL if command.section != OWN):
        name, began_s = shlex.split(command.line)[1], time.monotonic()
        shown[name] = command.shown
        done[name] = _interrupted(tmp_path, command) if name == "run" else typed(tmp_path, command)
        took_s += time.monotonic() - began_s if name in ("run", "resume") else 0.0
        assert done[name].code == (130 if name == "run" else 0), (command.line, done[name].err[-2000:])
        if name == "new":
            make_tolerant(tmp_path / "first.toml")
    assert "all of them can run on this host" in done["plan"].out
    assert all(re.search(rf"^{platform}\b", done["doctor"].out, re.MULTILINE) for platform in ("native", "runc"))
    assert "lastro resume first" in done["run"].err and "lastro resume first" in done["status"].out
    assert "8 treatments, 16 trials: 16 valid" in done["resume"].out
    assert candidates(*shown["decide"]) == candidates(done["decide"].out)
    assert (tmp_path / "first" / "report.html").exists() and (tmp_path / "first.csv").exists()
    study = load(tmp_path / "first.toml", schemas()).with_profile("quick")
    expected_s = forecast(study, ChainScenario, design.treatments(study)).total_s
    assert 0.6 < took_s / expected_s < 1.5, (took_s, expected_s)


def _interrupted(place: Path, command: Command) -> Finished:
    """Ctrl-C after three trials."""
    process = start(*_words(command), cwd=place, env={"LASTRO_PARTS": ""})
    until(lambda: n_done(place / "first") >= 3, "three trials", TIMEOUT_S)
    interrupt(process, signal.SIGINT)
    return finish(process)


# The demo


@pytest.mark.slow
@pytest.mark.measures
def test_the_demo_prints_the_table_of_the_readme(tmp_path: Path) -> None:
    """Up to its rows; which ratios are distinguishable, and so the answer below, is another host's."""
    (shown,) = [shown for command in commands(ROOT / "README.md") for shown in command.shown]
    shutil.copy(papers.find("demo"), tmp_path / "demo.toml")
    make_tolerant(tmp_path / "demo.toml")
    done = typed(tmp_path, Command("", "lastro run demo.toml --output demo", True))
    assert done.code == 0, done.err[-2000:]
    path, _, table = done.out.partition("\n")
    assert path == "demo/report.html" and "8 treatments, 40 trials: 40 valid" in table
    assert shape(table.partition("\n\n±")[0]) == shape(shown.partition("\n\n±")[0])

"""The tutorial, for real: one file adds a network function, which is listed, planned, and does what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lastro.results.store import Store

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "examples" / "parts"
STUDY = ROOT / "examples" / "shaper.toml"
RATE_MBIT_S = 100


def lastro(*words: str, parts: Path | None = PARTS) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LASTRO_PARTS": str(parts or ""), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "lastro", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False, env=environment, cwd=ROOT)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial's study with one replicate, and with limits that let whoever else uses this host do so."""
    text = STUDY.read_text(encoding="utf-8")
    limits = "max_foreign_cpus = 4\nmax_steal_percent = 100\nmax_wait_s = 0"
    changes = {
        "ping_interval_ms = 10\n": f"ping_interval_ms = 10\n{limits}\n",
        "replicates = 3\n": "replicates = 1\n",
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file = tmp_path_factory.mktemp("tutorial") / "shaper.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_one_file_is_all_that_the_part_needs() -> None:
    assert [file.name for file in PARTS.rglob("*") if file.is_file() and file.suffix != ".pyc"] == ["shaper.py"]
    listed = {row["name"]: row for row in json.loads(lastro("parts", "function", "--json").stdout)}
    assert listed["shaper"]["origin"].endswith("shaper.py") and not listed["shaper"]["broken"]
    assert "shaper" not in lastro("parts", "function", parts=None).stdout


def test_without_its_folder_the_study_names_an_unknown_function(study: Path) -> None:
    done = lastro("plan", str(study), "--no-probe", parts=None)
    assert done.returncode == 2
    assert "no function is named 'shaper'" in done.stderr


def test_the_plan_knows_the_part_and_finds_it_working(study: Path) -> None:
    done = lastro("plan", str(study), "--wait", "--json")
    assert done.returncode == 0, done.stderr
    plan: Any = json.loads(done.stdout)
    assert plan["probed"]
    assert [t["levels"]["function"] for t in plan["treatments"]] == ["none", "shaper"]
    assert [t["unavailable"] for t in plan["treatments"]] == [None, None]


def test_the_part_says_that_it_has_no_click_configuration(study: Path) -> None:
    file = study.with_name("click.toml")
    file.write_text(study.read_text().replace("[settings]\n", '[settings]\nimplementation = "click"\n'))
    plan: Any = json.loads(lastro("plan", str(file), "--wait", "--json").stdout)
    assert plan["treatments"][1]["levels"]["function"] == "shaper"
    assert "lick" in plan["treatments"][1]["unavailable"]


def test_a_real_run_shows_the_rate_of_the_shaper(study: Path, tmp_path: Path) -> None:
    directory = tmp_path / "shaped"
    done = lastro("run", str(study), "--profile", "quick", "--wait", "-o", str(directory))
    assert done.returncode == 0, done.stderr[-2000:]
    with Store.open(directory, readonly=True) as store:
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
    assert "shaper" in done.stdout and (directory / "report.html").exists()

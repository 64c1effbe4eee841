"""What ended commands as a bug in Lastro: impossible numbers, half characters, unknown keys, a lost directory."""

from __future__ import annotations

import ast
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lastro
from lastro.campaign.executor import _outcome
from lastro.errors import StudyError
from lastro.host import facts
from lastro.host.files import LocalFiles, start_time, stat_fields
from lastro.host.testbed_file import parse
from lastro.results.samples import Outcome, Series
from lastro.results.store import Store
from lastro.shapes import LEAST_MEASURED, MOST_MEASURED, MisshapenData, is_measurable, number, parse_json

from ..support.campaigns import make_campaign, make_study

# Numbers


@pytest.mark.parametrize("value", [1e-310, 1e-200, 1e-31, 1e31, 1e99, -1e-310, -1e99, math.nan])
def test_a_number_that_no_tool_measures_is_refused(value: float) -> None:
    assert not is_measurable(value)
    with pytest.raises(MisshapenData):
        number(value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 1, 1e-30, 1e30, -1e30, 12.5e9, math.inf])
def test_a_number_that_tools_measure_is_taken(value: float) -> None:
    assert number(value) == value


def test_products_of_four_and_their_ratios_are_numbers() -> None:
    assert 0 < LEAST_MEASURED**4 < MOST_MEASURED**4 < math.inf
    assert LEAST_MEASURED**4 / MOST_MEASURED**4 > 0


def test_a_trial_with_such_a_number_is_invalid_and_can_be_stored() -> None:
    series = [Series("a", "ms", (1.0, 1e99)), Series("b", "ms", (1.0, math.inf))]
    measured = Outcome({"jitter": 1e99, "loss": math.inf, "latency": 0.0}, series)
    scenario: Any = SimpleNamespace(run=lambda config, calibrations: measured, judge_apparatus=lambda outcome: None)
    found = _outcome(scenario, {}, {})
    assert found.invalid_because == ["jitter is 1e+99", "loss is inf", "the series a has 1e+99"]
    assert math.isnan(found.measurements["jitter"]) and found.measurements["loss"] == math.inf
    assert [each.name for each in found.series] == ["b"]


# Characters


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"x\ud800y"', "x?y"),
        (r'"\udfff"', "?"),
        (r'{"a\ud800": ["\udc00\ud800"]}', {"a?": ["??"]}),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\\ud800"', r"\ud800"),
        ('"\ud800"', "?"),
    ],
)
def test_half_a_character_becomes_a_question_mark(text: str, value: object) -> None:
    found = parse_json(text)
    assert found == value
    str(found).encode()


def test_text_of_others_is_stored_whatever_it_is(tmp_path: Path) -> None:
    """Names of files need not be UTF-8, and reach Python as half characters."""
    name = os.fsdecode(b"st\xffudy")
    make_campaign(tmp_path / "c", make_study(replicates=1))
    with Store.open(tmp_path / "c") as store:
        store.log("2026-11-02T10:00:00Z", "start", name)
        store.mark_unavailable(0, name, name)
        assert store.events()[-1][2] == "st?udy"
        assert store.treatments()[0].unavailable == store.treatments()[0].remedy == "st?udy"


def test_no_file_of_the_host_is_decoded_by_the_locale() -> None:
    """Nor strictly, where others choose what it contains: see the next test."""
    found = [
        f"{file}:{node.lineno}"
        for file in sorted(Path(lastro.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "read_text"
        if not node.args and not {each.arg for each in node.keywords} & {"encoding", "errors"}
    ]
    assert not found, "\n".join(["name the encoding, or what becomes of other bytes:", *found])


@pytest.mark.processes
def test_the_name_of_a_process_and_of_a_machine_may_be_any_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(b"/bin/sleep", odd := os.fsencode(tmp_path) + b"/\xff\xfe")
    with subprocess.Popen([odd, "60"]) as process:
        pid = process.pid
        assert b"\xff\xfe" in Path(f"/proc/{pid}/stat").read_bytes()
        assert start_time(pid) and stat_fields(pid)[0] in "RSD"
        (tmp_path / "cgroup.procs").write_text(f"{pid}\n")
        assert pid in LocalFiles().threads("none", [str(tmp_path)], [])
        process.kill()
    (tmp_path / "machine-id").write_bytes(b"\xff\n")
    for name in ("_HOSTNAME", "_MACHINE_ID"):
        monkeypatch.setattr(facts, name, str(tmp_path / "machine-id"))
    found = facts.controller()
    assert found["hostname"] == "\ufffd" and len(found["machine"]) == 16


# Keys


def test_an_unknown_key_of_a_guest_is_named_with_the_nearest_one() -> None:
    with pytest.raises(StudyError, match=r"guests\.old\.memry: unknown key") as caught:
        parse('kind = "guest"\n[guests.old]\nmemry = "2G"\n', "bed.toml")
    assert "memory" in str(caught.value.hint or caught.value)


# Surroundings


def test_find_is_found_without_the_users_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PATH", "")
    assert "file" in LocalFiles().listing(str(tmp_path))


@pytest.mark.processes
def test_a_working_directory_that_is_gone_is_one_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD"; exec "$0" -m lastro status somewhere'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable], cwd=gone, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 2, done
    assert "the working directory is not there" in done.stderr


@pytest.mark.processes
def test_an_empty_path_is_the_systems_own(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "lastro", "status", str(tmp_path)]
    done = subprocess.run(argv, env={**os.environ, "PATH": ""}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "holds no campaign" in done.stderr, done

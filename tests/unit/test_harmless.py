"""What ended commands as a bug in Lastro: impossible numbers, half characters, unknown keys, a lost directory."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.campaign.executor import _outcome
from lastro.errors import StudyError
from lastro.host.files import LocalFiles
from lastro.host.testbed_file import parse
from lastro.results.samples import Outcome, Series
from lastro.shapes import LEAST_MEASURED, MOST_MEASURED, MisshapenData, is_measurable, number, parsed

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
    found = parsed(text)
    assert found == value
    str(found).encode()


# Keys


def test_an_unknown_key_of_a_guest_is_named_with_the_nearest_one() -> None:
    with pytest.raises(StudyError, match=r"guests\.old\.memry: unknown key") as caught:
        parse('kind = "guest"\n[guests.old]\nmemry = "2G"\n', "bed.toml")
    assert "memory" in str(caught.value.hint or caught.value)


# Surroundings


def test_find_is_found_without_the_users_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PATH", "")
    assert "file" in LocalFiles().described(str(tmp_path))


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

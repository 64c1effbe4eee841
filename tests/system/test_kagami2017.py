"""One block of the published study in its quick profile: every treatment that this host can run, for real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lastro.results.rows import Attempt
from lastro.results.store import Store

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.measures]

TREATMENTS, UNAVAILABLE_WITHOUT_APPARMOR = 80, 30


def lastro(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "lastro", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=2400, check=False)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kagami") / "campaign"
    one_block = ("--profile", "quick", "--replicates", "1")
    done = lastro("run", "kagami2017", *one_block, "--wait", "-o", str(directory))
    assert done.returncode == 0, done.stderr[-2000:]
    return directory


def has_apparmor() -> bool:
    try:
        return Path("/sys/module/apparmor/parameters/enabled").read_text().strip() == "Y"
    except OSError:
        return False


def disturbed(attempt: Attempt) -> bool:
    return any(reason.startswith("the host was disturbed") for reason in attempt.reasons)


def test_every_treatment_ran_or_says_why_not(campaign: Path) -> None:
    with Store.open(campaign, readonly=True) as store:
        counts, treatments = store.counts(), store.treatments()
    assert len(treatments) == TREATMENTS
    assert counts["pending"] == counts["running"] == 0
    assert counts["unavailable"] == (0 if has_apparmor() else UNAVAILABLE_WITHOUT_APPARMOR)
    for row in treatments:
        if row.unavailable:
            assert "apparmor" in str(row.treatment.levels["isolation"])
            assert "AppArmor" in row.unavailable and row.remedy


def test_nearly_all_trials_are_valid_and_each_level_has_some(campaign: Path) -> None:
    """A shared host may disturb some trials three times over, which is not Lastro's; it may not empty a level."""
    with Store.open(campaign, readonly=True) as store:
        runnable = [row.treatment for row in store.treatments() if not row.unavailable]
        attempts = list(store.attempts())
    valid = {attempt.treatment for attempt in attempts if attempt.valid}
    undisturbed = {attempt.treatment for attempt in attempts if not attempt.valid and not disturbed(attempt)}
    refused = Counter(reason for attempt in attempts if not disturbed(attempt) for reason in attempt.reasons)
    assert len(undisturbed - valid) <= 0.1 * len(runnable), refused.most_common(5)
    for factor in ("attachment", "isolation", "function", "anomaly"):
        levels = {treatment.levels[factor] for treatment in runnable}
        assert levels == {treatment.levels[factor] for treatment in runnable if treatment.index in valid}


def test_measurements_are_plausible_and_anomalies_reached_their_dose(campaign: Path) -> None:
    with Store.open(campaign, readonly=True) as store:
        treatments = store.treatments()
        attempts = [attempt for attempt in store.attempts() if attempt.valid]
    for attempt in attempts:
        levels, values = treatments[attempt.treatment].treatment.levels, attempt.measurements
        assert 10 < values["throughput"] < 1_000_000
        assert 0 < values["latency_mean"] <= values["latency_max"] < 10_000
        assert 0 <= values["jitter"] < 1000
        doses: Any = attempt.notes.get("doses")
        assert (doses is None) == (levels["anomaly"] == "none")
        assert doses is None or doses["alive"]


def test_the_results_and_the_report_hold_all_treatments(campaign: Path) -> None:
    document = json.loads(lastro("results", str(campaign), "--json").stdout)
    assert len(document["treatments"]) == TREATMENTS
    page = (campaign / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 4
    assert len(page) < 5_000_000
    if not has_apparmor():
        assert "runs without AppArmor" in page

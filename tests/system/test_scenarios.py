"""Each scenario's way from a study to a report: one real campaign of two blocks, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.app.campaign_dirs import open_campaign
from lastro.scenarios.base import Scenario

from ..cli.conftest import lastro, rows, study_text
from ..support.scenarios import BUSY, SHORT, TOLERANT

pytestmark = pytest.mark.root

WITHOUT_LOAD = {"lifecycle", "routing"}  # no instrument runs in their windows, so the apparatus disturbs none

# Other tests may take the CPU time that a neighbour wants, but not its memory.
NEIGHBOUR = {"anomaly": "memory", "anomaly_memory": "16M", "anomaly_workers": 1}
STUDIES: dict[
    str, dict[str, Any]
] = {  # the keys are factors, whose levels are lists, levels that do not vary, and settings
    **SHORT,
    **{name: {**SHORT[name], **NEIGHBOUR} for name in ("chain", "proxy")},
    "load": {**SHORT["load"], **NEIGHBOUR, "at": "2kpps", "one_way": "no"},  # all of it is in its contract
    "compute": {**SHORT["compute"], "instrument": [SHORT["compute"]["instrument"], "pi:digits=10000"]},
}


def witnesses(scenario: type[Scenario], valid: bool) -> set[str]:
    """The notes of every measured window; that of a guest has its clock, too (test_window.py).

    An exposure is counted in an idle instance, so nothing is measured over time."""
    if scenario.name == "exposure" or not valid:
        return set()
    load = set() if scenario.name in WITHOUT_LOAD else {"apparatus", "elapsed_s"}
    return {"host", "usage", *load, *(["doses"] if "anomaly" in scenario.parts else [])}


@pytest.mark.parametrize("scenario", sorted(registry.names("scenario") - {"synthetic"}))
def test_a_campaign_of_two_blocks_is_measured_and_reported(scenario: str, tmp_path: Path) -> None:
    settings = {name for setting in registry.get("scenario", scenario).settings if (name := setting.name)}
    tolerant = {name: limit for name, limit in TOLERANT.items() if name in settings}
    factors = {name: levels for name, levels in STUDIES[scenario].items() if isinstance(levels, list)}
    chosen = {name: value for name, value in STUDIES[scenario].items() if name not in factors}
    study, campaign = tmp_path / "study.toml", tmp_path / "campaign"
    text = study_text({"platform": ["runc"], **factors}, scenario=scenario, **chosen, **tolerant)
    # Every metric is measured, and three are drawn.
    names = [metric.name for metric in registry.get("scenario", scenario).known_metrics()][:3]
    study.write_text(text.replace("[factors]", f"metrics = {json.dumps(names)}\n[factors]"))
    done = lastro("run", study, "-o", campaign)
    assert done.code == 0, done.err
    treatments = lastro("results", campaign, "--json").json["treatments"]
    assert len(treatments) == max((len(levels) for levels in factors.values()), default=1)
    ends = {number: (block, state) for number, block, _, state, _ in rows(campaign)}
    assert sorted(block for block, _ in ends.values()) == sorted([1, 2] * len(treatments))
    assert any(state == "valid" for _, state in ends.values()), done.err
    with open_campaign(campaign) as store:
        for attempt in store.attempts():
            busy = all(any(word in reason for word in BUSY) for reason in attempt.reasons)
            assert ends[attempt.trial][1] == "valid" or busy, attempt.reasons
            assert attempt.notes.keys() >= witnesses(registry.get("scenario", scenario), attempt.valid)
    assert "runc" in (campaign / "report.html").read_text(encoding="utf-8")

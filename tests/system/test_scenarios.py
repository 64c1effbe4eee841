"""Each scenario's way from a study to a report: one real campaign of two blocks, by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastro import registry

from ..cli.conftest import lastro, rows, study_text
from ..crash.test_kill import SHORT
from ..scenarios import TOLERANT

pytestmark = pytest.mark.root

# As short as each can be. The keys are levels that do not vary, and settings.
STUDIES: dict[str, dict[str, Any]] = {
    **SHORT,
    "application": {"isolation": "none", "rows": 1000, "time_s": 1, "memory": "512M"},
    "compute": {"isolation": "none", "instrument": "gzip:size=5M", "memory": "512M"},
    "exposure": {"isolation": "none"},
    "lifecycle": {"attachment": "veth-bridge", "instances": 2, "settle_s": 0},
    "uplink": {
        "attachment": "nat", "isolation": "none", "instrument": "iperf3-tcp", "load_s": 1, "settle_s": 0,
        "memory": "512M",
    },
}  # fmt: skip


@pytest.mark.parametrize("scenario", sorted(registry.names("scenario") - {"synthetic"}))
def test_a_campaign_of_two_blocks_is_measured_and_reported(scenario: str, tmp_path: Path) -> None:
    settings = {name for setting in registry.get("scenario", scenario).settings if (name := setting.name)}
    tolerant = {name: limit for name, limit in TOLERANT.items() if name in settings}
    study, campaign = tmp_path / "study.toml", tmp_path / "campaign"
    study.write_text(study_text({"platform": ["runc"]}, scenario=scenario, **STUDIES[scenario], **tolerant))
    done = lastro("run", study, "-o", campaign)
    assert done.code == 0, done.err
    assert [(block, state) for _, block, _, state, _ in rows(campaign)] == [(1, "valid"), (2, "valid")], done.err
    (treatment,) = lastro("results", campaign, "--json").json["treatments"]
    assert treatment["levels"] == {"platform": "runc"}
    assert "runc" in (campaign / "report.html").read_text(encoding="utf-8")

"""What tests of the scenario load share: the configuration of a treatment."""

from __future__ import annotations

from typing import Any

from lastro.scenarios.load import LoadScenario

from .scenarios import configured


def config(**chosen: Any) -> dict[str, Any]:
    levels = {"platform": "native", "attachment": "veth-direct", "function": "none", "anomaly": "none"}
    return configured(LoadScenario, **{**levels, "isolation": "none", "instrument": "trafgen", **chosen})

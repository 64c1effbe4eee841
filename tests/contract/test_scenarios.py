"""What every scenario must do, in real trials: the contract that is shipped."""

from __future__ import annotations

from typing import Any

import pytest

from lastro import registry
from lastro.testing import ScenarioContract

from ..support.scenarios import SHORT, TOLERANT, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

_OF_MACHINES = ("guest_cpus", "guest_memory")
UNMEASURED: dict[str, tuple[str, ...]] = {
    "application": (*_OF_MACHINES, "db_latency_p95", "db_latency_p99"),  # of few transactions on a busy host
    "chain": ("latency_p95", "latency_p99"),  # of few pings
    "compute": _OF_MACHINES,
    "lifecycle": ("capacity",),  # nothing asks for it
    # It is met at most_fps, unless the machine is busy; the study names no goal of its own.
    "load": ("pdr_upper", "ndr_upper", "own", "own_upper", "own_conditional", "own_exceed"),
    "proxy": ("capacity", "dut_swap"),  # of a host without swap
    "uplink": (*_OF_MACHINES, "udp_offered", "udp_throughput", "udp_loss", "jitter"),  # of TCP
}

# `make test` runs trials of them in tests/system/test_scenarios.py.
LONG = {"application", "routing"}

for name in sorted(registry.names("scenario") - {"synthetic"}):
    kind = registry.get("scenario", name)
    known = {setting.name for setting in kind.settings}
    tolerant: dict[str, Any] = {key: value for key, value in TOLERANT.items() if key in known}
    attributes = {
        "scenario": name, "short": {"platform": "runc", **SHORT[name], **tolerant},
        "unmeasured": frozenset(UNMEASURED.get(name, ())), "__module__": __name__,
        "pytestmark": [pytest.mark.slow] if name in LONG else [],
    }  # fmt: skip
    globals()[f"Test{name.capitalize()}"] = type(f"Test{name.capitalize()}", (ScenarioContract,), attributes)

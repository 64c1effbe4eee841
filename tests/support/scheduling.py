"""Which tests stay together on a worker, and which come first: those that would otherwise be waited for at the end."""

from __future__ import annotations

import pytest

# Longest first, as measured; the others follow in the order of their names.
DEAREST = (
    "tests/system/test_guest_testbed.py",
    "tests/contract/test_platforms.py::TestQemuTcg",
    "tests/system/test_scenarios.py",
    "tests/system/test_chain_campaign.py",
    "tests/crash/test_kill.py",
    "tests/system/test_ssh_testbed.py",
    "tests/system/test_compute.py",
    "tests/system/test_proxy.py",
    "tests/system/test_disk_front.py",
    "tests/system/test_routing.py",
    "tests/system/test_application.py",
    "tests/cli/test_results_report.py",
    "tests/system/test_uplink.py",
    "tests/crash/test_storm.py",
    "tests/system/test_tutorial.py",
    "tests/cli/test_campaign_commands.py",
    "tests/contract/test_platforms.py::TestLxd",
    "tests/contract/test_attachments.py",
)


def scope(nodeid: str) -> str:
    """A module, whose fixtures are dear; of the contract of platforms, a platform."""
    file, _, rest = nodeid.partition("::")
    return f"{file}::{rest.partition('::')[0]}" if file == "tests/contract/test_platforms.py" else file


def by_cost(item: pytest.Item) -> int:
    """The rank of an item's scope."""
    found = scope(item.nodeid)
    return DEAREST.index(found) if found in DEAREST else len(DEAREST)

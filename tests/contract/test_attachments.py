"""What every attachment must do, on real links: the contract that is shipped."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from lastro import registry
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing import AttachmentContract

pytestmark = pytest.mark.root

# What differs from part to part by its nature.
PROPERTIES: dict[str, dict[str, Any]] = {
    "cni": {"platforms": ("native",)},
    "nat": {"hops": 3, "counters": frozenset({"routed", "translated"})},
    "ovs": {"counters": frozenset({"switched"})},
    "ovs-dpdk": {"counters": frozenset({"switched"}), "pytestmark": pytest.mark.slow},
    "ovs-userspace": {"counters": frozenset({"switched"}), "pytestmark": pytest.mark.slow},  # nearly that of `ovs`
    "routed": {"hops": 3, "counters": frozenset({"routed"})},
    "vxlan": {"counters": frozenset({"rx below", "tx below"})},
}


def lacks_ipvlan() -> bool:
    script = "ip link add name p0 type veth peer name p1 && ip link add link p0 name i0 type ipvlan mode l2"
    return subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, check=False).returncode != 0


ABSENT = {"ipvlan"} if lacks_ipvlan() else set()
for name in sorted(
    registry.names("attachment") - {"card", "docker-nat", "host", "podman-nat"} - ABSENT
):  # cards are the user's; the others join no two instances
    title = "".join(map(str.capitalize, name.split("-")))
    globals()[f"Test{title}"] = type(
        f"Test{title}", (AttachmentContract,), {"attachment": name, "__module__": __name__, **PROPERTIES.get(name, {})}
    )


@pytest.mark.slow
class TestOvsVlan(AttachmentContract):
    attachment = "ovs:vlan=100"
    counters = frozenset({"switched"})


@pytest.mark.slow
class TestCniPtp(AttachmentContract):
    attachment = "cni:plugin=ptp"
    platforms = ("native",)
    counters = frozenset({"routed"})
    gateway = "198.18.200.254"


@pytest.mark.slow
class TestCniMacvlan(AttachmentContract):
    attachment = "cni:plugin=macvlan"
    platforms = ("native",)


@pytest.mark.slow
class TestCniBandwidth(AttachmentContract):
    attachment = "cni:rate=1G"
    platforms = ("native",)
    counters = frozenset({"limited"})


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_what_cannot_run_here_says_so_with_a_remedy(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    part = registry.get("attachment", name)()
    with part.prepare(testbed):
        found = part.probe(testbed, pool.get("native"))
    assert not found
    assert "Unknown device type" in str(found.reason)
    assert f"kernel with {name}" in str(found.remedy)

"""The raw side of the benches works on every platform that this host has, and leaves nothing."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastro.host.ledger import NETNS_DIR
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

pytestmark = pytest.mark.root

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
raw = importlib.import_module("_raw")
PLATFORMS = sorted(set(raw.RECIPES) - {"kvm"})  # which this host may lack, and which has the recipe of qemu-tcg


FIRST = {raw.RECIPES[name]: name for name in reversed(PLATFORMS)}
# One of each recipe; a machine takes seconds of two processors.
BRIEF = set(FIRST.values()) - {"qemu-tcg"}
OF_EACH_RECIPE = [name if name in BRIEF else pytest.param(name, marks=pytest.mark.slow) for name in PLATFORMS]


@pytest.mark.parametrize("platform", OF_EACH_RECIPE)
def test_an_instance_by_hand(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    if not (found := pool.availability(platform)):
        assert found.reason
        return
    name = f"by-hand-{platform}"
    with testbed.session.owned("netns", testbed.session.netns_name(name)):
        recipe = raw.RECIPES[platform](testbed, pool.get(platform), name)
        before = testbed.session.pids()
        try:
            recipe.begin()
            told = subprocess.run(["sh", "-ec", f"{recipe.inside} cat /etc/os-release"], capture_output=True, text=True)
            assert told.stdout == (testbed.image.tree / "etc" / "os-release").read_text()
            assert testbed.session.pids() - before, "it is in a group of the session, as Lastro's own instances are"
        finally:
            recipe.end()
        ended = time.monotonic() + 10.0  # Podman removes a container first and ends its own clean-up a moment later
        while testbed.session.pids() - before and time.monotonic() < ended:
            time.sleep(0.05)
        assert testbed.session.pids() <= before
        assert recipe.netns == testbed.dut or not (NETNS_DIR / recipe.netns).exists()

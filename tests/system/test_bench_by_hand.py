"""What the bench of instruments does by hand, for real: a server and its client overlap, and a flow is carried."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from lastro.testbed import Testbed

from ..support.scenarios import image_needs

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
by_hand = importlib.import_module("_by_hand")
flows = importlib.import_module("_flows")

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds


def test_commands_of_a_chroot_by_hand_overlap_and_see_the_same_files(testbed: Testbed) -> None:
    mark = testbed.session.mark()
    with by_hand.by_hand(testbed) as chroot:
        server = chroot.spawn(["sh", "-c", "echo told > /told; echo kept > /var/tmp/kept; echo up; exec sleep 60"])
        server.wait_line("up", 10)
        assert chroot.run(["cat", "/told", "/var/tmp/kept"]).text == "told\nkept\n"
        assert server.alive()
        server.stop()
    assert testbed.session.mark() == mark, "and nothing of it is left"


@pytest.mark.parametrize("name", flows.TOOLS)
def test_a_flow_by_hand_is_told_at_its_rate(testbed: Testbed, name: str) -> None:
    mark, tool = testbed.session.mark(), flows.TOOLS[name]
    with flows._joined(testbed, flows.config(name, "20M")) as (near, far):
        rate_mbit_s = flows._raw(tool, near, far, "20M")
    # Beside other tests, less may be sent or arrive; a wrong unit would be off by more.
    assert rate_mbit_s > 100 if name == "iperf3-tcp" else 10 < rate_mbit_s < 22
    assert testbed.session.mark() == mark

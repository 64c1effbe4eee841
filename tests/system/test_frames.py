"""Frames on real links: segments with the kernel's offloads, and nothing beyond the MTU without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from lastro.scenarios.chain import ChainScenario
from lastro.testbed import Testbed

from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured

pytestmark = pytest.mark.root

LARGEST_B = 1514  # an MTU of 1500, and a header of Ethernet
PLACES = [("native", "veth-bridge"), ("runc", "macvlan-bridge"), ("native", "vxlan"), ("runc", "nat")]


@pytest.fixture(scope="module")
def running(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


@pytest.mark.parametrize("place", one_of(PLACES), ids="+".join)
@pytest.mark.parametrize("offloads", ["kernel", "off"])
def test_a_function_receives_segments_or_frames_as_the_study_chooses(
    running: ChainScenario, place: tuple[str, str], offloads: str
) -> None:
    platform, attachment = place
    chosen = {**SHORT["chain"], "platform": platform, "attachment": attachment, "function": "dpi"}
    config = configured(ChainScenario, isolation="none", anomaly="none", offloads=offloads, **chosen)
    found = running.availability(config)
    assert found, found.reason
    outcome = attempted(running, config)
    assert outcome.valid, outcome.invalid_because
    frame_size_b = outcome.measurements["frame_size"]
    if offloads == "off":
        assert 1400 < frame_size_b <= LARGEST_B
        assert "remarks" not in outcome.notes
    else:
        assert frame_size_b > LARGEST_B
        assert [remark["kind"] for remark in outcome.notes["remarks"]] == ["segments beyond the MTU"]  # type: ignore[attr-defined]

"""Frames and the MTU: how offloads are switched off, and what the size of the frames then says of a trial."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments._offloads import links_made_by, switch_off_script
from lastro.attachments.base import BatchLinks, Segment
from lastro.functions.base import CounterReading
from lastro.image.rootfs import ImageAdditions
from lastro.platforms.base import Port
from lastro.results.samples import Outcome
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.frames import Frames, frames_of, judge_frames

from ...support.links import attachment
from ...support.recording import RecordingHost, recording_testbed
from ...support.scenarios import configured
from ..attachments.test_attachment_batches import chain_of

EACH = (
    "ethtool --offload $link tx off rx off tso off gso off gro off || true; "
    'ethtool --show-offload $link | grep -q "^tcp-segmentation-offload: off" || '
    "ip link set dev $link gso_max_segs 1 || true"
)
MADE = {
    "veth-direct": {"N1": ["out0"], "N2": ["in0", "out0"], "N3": ["in0"]},
    "veth-bridge": {
        "dut": ["hub-br", "hub-aa", "hub-ab", "hub-ba", "hub-bb"],
        "N1": ["out0"], "N2": ["in0", "out0"], "N3": ["in0"],
    },
    "macvlan-bridge": {"dut": ["hub-parent", "hub-peer"], "N1": ["out0"], "N2": ["in0", "out0"], "N3": ["in0"]},
    "vxlan": {
        "dut": ["under", "br-a", "vx-a", "br-b", "vx-b", "hub-aa", "hub-bb"],
        "dut-2": ["under", "br-a", "vx-a", "br-b", "vx-b", "hub-ab", "hub-ba"],
        "N1": ["out0"], "N2": ["in0", "out0"], "N3": ["in0"],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_the_links_of_a_batch_are_found_with_their_namespaces(name: str) -> None:
    testbed: Any = SimpleNamespace(dut="dut")
    assert links_made_by(attachment(name).batches(testbed, chain_of())) == MADE[name]


def test_taps_are_links_too_and_nothing_else_is() -> None:
    lines = ["tuntap add dev hub-aa mode tap", "link set hub-aa up", "route add 198.18.0.0/24 dev hub-aa"]
    assert links_made_by([("dut", lines)]) == {"dut": ["hub-aa"]}


class _Plain(BatchLinks):
    """A veth pair whose instances are not plugged: only what is said to the host counts."""

    name, summary = "plain", "a pair"

    def compile(self, segments: Any) -> list[str]:
        return ["link add name out0 netns N1 type veth peer name in0 netns N2"]

    def plug(self, segments: Any) -> None:
        pass


@pytest.mark.parametrize("offloads", [True, False])
def test_offloads_are_switched_off_by_one_command_before_the_instances_get_their_links(
    tmp_path: Path, offloads: bool
) -> None:
    host = RecordingHost()
    inside: list[tuple[list[str], str]] = []
    guest: Any = SimpleNamespace(takes_taps=True, run=lambda argv, stdin: inside.append((argv, stdin)))
    container: Any = SimpleNamespace(takes_taps=False)
    ends = (Port(guest, "out0", "198.18.0.10/24"), Port(container, "in0", "198.18.0.1/24"))
    with _Plain().connect(recording_testbed(host, tmp_path), [Segment("a", ends, offloads)]):
        told = [str(text) for text in host.stdins if "ethtool" in str(text)]
    if offloads:
        assert not told and not inside
        return
    lines = [
        f"nsenter --net=/run/netns/{netns} sh -ec 'for link; do {EACH}; done' - {name}\n"
        for netns, name in (("N1", "out0"), ("N2", "in0"))
    ]
    assert told == ["".join(lines)]
    assert (
        inside
        == [(["sh", "-e"], f"for link in out0; do {EACH}; done\n")]
        == [(["sh", "-e"], switch_off_script(["out0"]))]
    )


@pytest.mark.parametrize(
    ("platform", "offloads", "needed"),
    [("kvm", "off", True), ("kvm", "kernel", False), ("qemu-tcg", "off", True), ("runc", "off", False)],
)
def test_only_a_guest_needs_the_tool_in_its_image(platform: str, offloads: str, needed: bool) -> None:
    configs = [configured(ChainScenario, platform=platform, offloads=offloads)]
    assert ChainScenario.image_needs(RecordingHost(), configs) == (
        ImageAdditions(("ethtool",)) if needed else ImageAdditions()
    )


def chain(per_packet: bool = True) -> Any:
    return SimpleNamespace(path=SimpleNamespace(inside="in0"), function=SimpleNamespace(per_packet=per_packet))


def meter(rx_bytes: int, rx_packets: int) -> Any:
    moved = {"function.in0": {"rx_bytes": rx_bytes, "rx_packets": rx_packets}}
    return SimpleNamespace(moved=moved, mtu={"function.in0": 1500})


def test_frames_are_those_of_the_function_s_link_and_of_its_own_counter() -> None:
    assert frames_of(chain(), meter(3_000, 2), {}) == Frames(1500, 0, 1500)
    assert frames_of(chain(), meter(3_028, 2), {"crossed": CounterReading(1, 3_000)}) == Frames(1514, 3_014, 1500)
    seen = {"passed": CounterReading(4, 6_056), "crossed": CounterReading(2, 6_000)}
    assert frames_of(chain(), meter(6_000, 4), seen) == Frames(1514, 3_014, 1500), "a program sees their headers"
    seen = {"crossed": CounterReading(4, 6_000), "to_kernel": CounterReading(0, 0)}
    assert frames_of(chain(), meter(6_000, 4), seen) == Frames(1514, 1514, 1500), "forwarded by a program"
    assert frames_of(chain(), meter(0, 0), {}) is None
    assert frames_of(chain(), SimpleNamespace(moved={}, mtu={}), {}) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "fit"),
    [(Frames(1514, 0, 1500), True), (Frames(1514.1, 0, 1500), False), (Frames(1514, 9000, 1500), False)],
)
def test_a_frame_fits_with_its_header_on_the_link_and_behind_it(found: Frames, fit: bool) -> None:
    assert found.fit is fit


def judged(found: Frames | None, offloads: str, *, per_packet: bool = True) -> Outcome:
    outcome = Outcome()
    judge_frames(found, chain(per_packet), offloads, outcome)
    return outcome


LARGE = Frames(52_060.4, 52_020, 1500)


def test_large_segments_are_a_caveat_on_the_throughput_of_a_function_that_works_by_the_packet() -> None:
    outcome = judged(LARGE, "kernel")
    assert outcome.valid and outcome.measurements == {"frame_size": 52_060.4}
    (remark,) = outcome.notes["remarks"]  # type: ignore[misc]
    assert (remark["kind"], remark["metrics"]) == ("segments beyond the MTU", ["throughput"])
    assert "52060 B on average, with an MTU of 1500" in remark["text"]
    assert "remarks" not in judged(LARGE, "kernel", per_packet=False).notes


def test_without_offloads_they_invalidate_the_trial_whatever_the_function() -> None:
    for per_packet in (True, False):
        outcome = judged(LARGE, "off", per_packet=per_packet)
        assert outcome.invalid_because == [
            "offloads are off, but the function received frames of 52060 B on average, with an MTU of 1500"
        ]
        assert not outcome.notes


def test_frames_that_fit_and_no_frames_are_no_reason() -> None:
    for offloads in ("kernel", "off"):
        assert judged(None, offloads) == Outcome()
        assert judged(Frames(1510, 1514, 1500), offloads) == Outcome({"frame_size": 1510})


def test_functions_that_work_by_the_packet_say_so() -> None:
    names = ChainScenario.part_names("function")
    assert {name for name in names if registry.get("function", name).per_packet} == {"firewall", "dpi", "nat"}

"""A veth pair for each port, all on one Linux bridge: what Docker does by default."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import MEMBER_END, Segment, batch, dut_end
from lastro.attachments.separable import SwitchedLinks
from lastro.platforms.base import Port
from lastro.testbed import IN_A_GUEST, Testbed


class VethBridge(SwitchedLinks):
    name = "veth-bridge"
    summary = "a veth pair (a tap, for a virtual machine) for each port, joined by one Linux bridge"

    @property
    def remedy(self) -> str | None:  # type: ignore[override]  # a bridge without VLANs works in every kernel
        return f"use a kernel with VLAN filtering in bridges, {IN_A_GUEST}" if self.vlan else None

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        # No spanning tree and no multicast snooping: the bridge has no loops, and forwards from the first packet on.
        kind = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        if self.vlan:  # each port that joins becomes a member; without counters, nothing would prove the VLAN
            kind += f" vlan_filtering 1 vlan_default_pvid {self.vlan} vlan_stats_enabled 1"
        lines = []
        for bridge, joined in self.switches(segments).items():
            lines += [f"link add name {bridge} {kind}", f"link set {bridge} up"]
            for segment in joined:
                for end, port in segment.ends():
                    lines += [dut_end(end, port), f"link set {end} master {bridge} up"]
        return lines

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        bridge = next(iter(self.switches(segments)))
        return [dut_end(MEMBER_END, port), f"link set {MEMBER_END} master {bridge} up"]

    def counters(self, testbed: Testbed) -> dict[str, int]:
        """Return how many packets the bridges have received in the VLAN; an empty dict without a VLAN."""
        if not self.vlan:
            return {}
        shown = testbed.host.run_json(["bridge", "-n", testbed.dut, "-s", "-j", "vlan", "show"])
        entries = [entry for bridge in shown for entry in bridge["vlans"]]
        in_vlan = [entry for entry in entries if self.vlan in (entry.get("vid"), entry.get("vlan"))]
        return {"in the VLAN": sum(entry["rx_packets"] for entry in in_vlan)}

    def unplug(self, testbed: Testbed, ends: Sequence[str]) -> None:
        batch(testbed, testbed.dut, [f"link set {end} nomaster" for end in ends])

    def replug(self, testbed: Testbed, ends: Sequence[tuple[str, str]]) -> None:
        batch(testbed, testbed.dut, [f"link set {end} master {bridge}" for end, bridge in ends])

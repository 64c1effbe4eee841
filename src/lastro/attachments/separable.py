"""Attachments that can give every segment a separate switch, so that single links can be cut, as in a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from lastro.attachments.base import Attachment, BatchLinks, Segment, batch
from lastro.study.model import Setting
from lastro.testbed import Testbed

_SWITCH = "hub-br"
VLAN = Setting("vlan", 0, "VLAN of the link: the switch tags frames that a port sends; 0: none", 0, 4094)


class SeparableLinks(Attachment, ABC):
    """An attachment whose links can be cut one by one: with `separated` set, each has its own switch."""

    passes_dut: ClassVar[bool] = True  # links between network namespaces pass through the namespace of the DUT

    def ends(self, testbed: Testbed, segments: Sequence[Segment]) -> dict[str, list[str]]:
        """Return the names of the connected links' ends as {namespace: names}; by default, all are in the DUT's."""
        return {testbed.dut: [end for segment in segments for end, _ in segment.ends()]}

    @abstractmethod
    def cut(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        """Cut links at the same time: packets are lost silently or, with `carrier`, both ends lose their carrier.

        A virtual machine's port keeps its carrier even then, as long as the machine runs."""

    @abstractmethod
    def mend(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        """Revert `cut` for the same links, with the same `carrier`."""


def run_in_namespaces(testbed: Testbed, lines: Mapping[str, Sequence[str]], program: str = "ip") -> None:
    """Run `lines`, {network namespace: its `ip` or `tc` commands}, by one shell, so nearly at the same time."""
    script = []
    for netns, commands in lines.items():
        script += [f"{program} -n {netns} -batch - <<'END'", *commands, "END"]
    if script:
        testbed.host.run(["sh", "-e"], stdin="\n".join(script) + "\n")


class SwitchedLinks(SeparableLinks, BatchLinks):
    """Links whose ends in the DUT's namespace are ports of a switch: one for all segments, or one for each.

    With the option `vlan`, each end is an access port: untagged outside, in that VLAN (IEEE 802.1Q) in the switch."""

    options = (VLAN,)

    @property
    def vlan(self) -> int:
        return VLAN.of(self.chosen)

    def switches(self, segments: Sequence[Segment]) -> dict[str, list[Segment]]:
        """Return {name of a switch: segments whose ends are its ports}."""
        if self.separated:
            return {f"br-{segment.name}": [segment] for segment in segments}
        return {_SWITCH: list(segments)}

    def switch_of_ends(self, segments: Sequence[Segment]) -> dict[str, str]:
        """Return {name of a link's end in the DUT's namespace: name of the switch of which it is a port}."""
        switches = self.switches(segments).items()
        return {end: switch for switch, joined in switches for segment in joined for end, _ in segment.ends()}

    @abstractmethod
    def unplug(self, testbed: Testbed, ends: Sequence[str]) -> None:
        """Remove `ends` from their switches. Their link state stays up."""

    @abstractmethod
    def replug(self, testbed: Testbed, ends: Sequence[tuple[str, str]]) -> None:
        """Make devices ports of their switches again; `ends` are pairs (device, name of its switch)."""

    def cut(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        ends = [end for segment in segments for end, _ in segment.ends()]
        if carrier:
            batch(testbed, testbed.dut, [f"link set {end} down" for end in ends])
        else:
            self.unplug(testbed, ends)

    def mend(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        switch_of = self.switch_of_ends(segments)
        if carrier:
            batch(testbed, testbed.dut, [f"link set {end} up" for end in switch_of])
        else:
            self.replug(testbed, list(switch_of.items()))

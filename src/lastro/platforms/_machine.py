"""A virtual machine as an instance: its links end in taps, and its kernel has the network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lastro.host.shell import setting
from lastro.platforms._guest import GuestInstance
from lastro.platforms.base import Port, Tap, configuration, single_segments


class MachineInstance(GuestInstance):
    """A virtual machine; subclasses boot it. Its monitor runs in the DUT's namespace, with the taps."""

    takes_taps = True
    shares_kernel = False

    taps: Mapping[str, Tap] = {}

    def mac(self, port: str) -> str:
        """Return the address of the card for a port, by which the guest recognizes it; it is always the same."""
        digest = hashlib.sha256(f"{self.testbed.session.token} {self.spec.name} {port}".encode()).hexdigest()
        return "52:54:00:" + ":".join(digest[place : place + 2] for place in (0, 2, 4))

    def settle(self, ports: Sequence[Port]) -> None:
        """Configure the booted guest: settings of its kernel, then each card's name, address and routes."""
        self.set_sysctls(self.spec.sysctls)
        if ports:
            naming = [
                f"for d in /sys/class/net/*; do [ $(cat $d/address) != {self.mac(port.name)} ] || "
                f"ip link set dev ${{d##*/}} name {port.name}; done"
                for port in ports
            ]
            batch = "\n".join(line for port in ports for line in configuration(port))
            self.run(["sh", "-e"], stdin="\n".join([*naming, f"ip -batch - <<END\n{batch}\nEND\n"]))

    def set_sysctls(self, values: Mapping[str, str]) -> None:
        if lines := setting(values):
            self.run(["sh", "-e"], stdin="\n".join(lines) + "\n")

    def send_single_segments(self, link: str) -> None:
        self.run(["ip", *single_segments(link)])

    def links(self) -> list[dict[str, Any]]:
        """Return the interfaces by the guest's names, with the counters of the host's end of each link.

        Drivers of emulated cards count wrongly, and a witness should not depend on the system that it observes. The
        packets that a tap sends are those that the guest receives."""
        found: list[dict[str, Any]] = json.loads(self.run(["ip", "-j", "-s", "link", "show"]).stdout)
        ends = {
            end["ifname"]: end["stats64"]
            for end in self.testbed.host.run_json(["ip", "-n", self.netns, "-j", "-s", "link", "show"])
        }
        for link in found:
            tap = self.taps.get(link["ifname"])
            if tap is not None and tap.link in ends:
                ways = ("rx", "tx") if tap.kind == "macvtap" else ("tx", "rx")
                link["stats64"] = dict(zip(("rx", "tx"), (ends[tap.link][way] for way in ways), strict=True))
        return found

    def written_bytes(self) -> int:
        """Return the bytes as counted by the guest's kernel: the monitor writes later, and whole blocks."""
        text = self.run(["sh", "-c", "cat /proc/[0-9]*/io 2>/dev/null"], check=False).text
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("wchar:"))

"""Virtual machines as instances: commands over serial ports, clocks of the guest, links that end in taps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.base import Completed
from lastro.platforms.base import Instance, InstanceSpec, Port, Tap, configuration
from lastro.testbed import Testbed
from lastro.validity import ClockSample

CLIENT = Path(__file__).with_name("_guest_client.py")
# Paths of Unix sockets are short (108 bytes), so the directory must be in the session's run_dir.
SOCKET_PATTERN = "{number}.sock"
PORTS = 4  # commands at the same time: a server, a load, and two that observe or prepare
_CLOCK_READINGS = 9
_NO_ANSWER = 124  # an exit code of the client
_GONE = "lastro: the guest is gone: "  # printed by the client before the reason when it exits with another code


def most_precise_sample(text: str) -> ClockSample:
    """Return the most precise clock reading in `text`, as the client printed it: the one that took the shortest time.

    Each line is a reading of four times in ns: host before and after, guest, guest's wall clock. Raises: ValueError."""
    readings = [[int(word) for word in line.split()] for line in text.splitlines()]
    before, after, guest, real = min(readings, key=lambda reading: reading[1] - reading[0])
    return ClockSample((before + after) / 2e9, guest / 1e9, real / 1e9, (after - before) / 2e9)


class GuestInstance(Instance):
    """A virtual machine whose agent runs commands through the Unix sockets `*.sock` in the directory `sockets`.

    Each socket serves one command at a time. If `speaks_first` is true, the agent sends a message when it has opened a
    port, and nothing may be sent to the port before. Subclasses boot it. Its monitor runs in the DUT's namespace."""

    takes_taps = True
    shares_kernel = False
    own_settings = True
    speaks_first = False
    taps: Mapping[str, Tap] = {}

    def __init__(self, testbed: Testbed, spec: InstanceSpec, *, netns: str, cgroup: str, sockets: Path) -> None:
        self.sockets = sockets
        self._client = ("python3", "-I", "-S", client_on(testbed), str(sockets))
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup, enter=[*self._client, "--"])

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the agent answers. Raises: PlatformError when `timeout_s` is over, or the monitor ends."""
        option = "--hear-ready" if self.speaks_first else "--wait-ready"
        no_answer = f"its agent did not answer within {timeout_s:g} s"
        try:
            self.testbed.host.run([*self._client, option, f"{timeout_s:g}"], timeout_s=timeout_s + 10)
        except CommandTimeout as error:
            raise self.boot_error(no_answer) from error
        except CommandFailed as error:
            reason = error.stderr.strip().rpartition("\n")[2].removeprefix(_GONE)
            unanswered = error.returncode == _NO_ANSWER or not reason
            raise self.boot_error(no_answer if unanswered else reason) from error

    def boot_error(self, reason: str) -> PlatformError:
        """Return the error of a guest that did not boot because of `reason`.

        The same fault has the same text in every session, so the text omits two things: the session's token, which is
        part of file names, and the name of an instance that a probe started."""
        name = "" if self.spec.role == "probe" else f" {self.spec.name}"
        return PlatformError(f"the guest{name} did not boot: {reason.replace(self.testbed.session.token, '…')}")

    def clock(self) -> ClockSample:
        """Return the most precise of several readings. Raises: PlatformError when the guest does not answer."""
        try:
            done = self.testbed.host.run([*self._client, "--clocks", str(_CLOCK_READINGS)], timeout_s=30)
            return most_precise_sample(done.text)
        except (CommandFailed, CommandTimeout, ValueError) as error:
            raise PlatformError(f"the clocks of guest {self.spec.name} cannot be read: {error}") from error

    def mac(self, port: str) -> str:
        """Return the MAC address of the network card for `port`, by which the guest identifies the card.

        It is a hash of the session's token and the names of the instance and the port."""
        digest = hashlib.sha256(f"{self.testbed.session.token} {self.spec.name} {port}".encode()).hexdigest()
        return "52:54:00:" + ":".join(digest[place : place + 2] for place in (0, 2, 4))

    def settle(self, ports: Sequence[Port]) -> None:
        """Configure the booted guest: settings of its kernel, then the name, address and routes of each card."""
        self.set_sysctls(self.spec.sysctls)
        if ports:
            renames = [
                f"for d in /sys/class/net/*; do [ $(cat $d/address) != {self.mac(port.name)} ] || "
                f"ip link set dev ${{d##*/}} name {port.name}; done"
                for port in ports
            ]
            batch = "\n".join(line for port in ports for line in configuration(port))
            self.run(["sh", "-e"], stdin="\n".join([*renames, f"ip -batch - <<END\n{batch}\nEND\n"]))

    def _on_links(self, argv: Sequence[str], *, check: bool = True) -> Completed:
        return self.run(argv, check=check)

    def links(self) -> list[dict[str, Any]]:
        """Return the guest's interfaces, with the counters of the host's device (tap or macvtap) of each link.

        The guest's own counters are not used: drivers of emulated cards count wrongly, and a witness should not depend
        on the system that it observes. A tap sends what the guest receives; a macvtap is the other way round."""
        links: list[dict[str, Any]] = json.loads(self.run(["ip", "-j", "-s", "link", "show"]).stdout)
        host_links = self.testbed.host.run_json(["ip", "-n", self.netns, "-j", "-s", "link", "show"])
        counters = {host_link["ifname"]: host_link["stats64"] for host_link in host_links}
        for link in links:
            tap = self.taps.get(link["ifname"])
            if tap is not None and tap.link in counters:
                of_tap = counters[tap.link]
                received, sent = ("rx", "tx") if tap.kind == "macvtap" else ("tx", "rx")
                link["stats64"] = {"rx": of_tap[received], "tx": of_tap[sent]}
        return links

    def written_bytes(self) -> int:
        """Return the total bytes that the guest's running processes have written, as its kernel counts them.

        What the monitor writes is not counted, since it writes later, and whole blocks."""
        text = self.run(["sh", "-c", "cat /proc/[0-9]*/io 2>/dev/null"], check=False).text
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("wchar:"))


def client_on(testbed: Testbed) -> str:
    """Return the path of the guest client on the testbed's host; `send_client` copies it to a remote host."""
    return str(testbed.run_dir / CLIENT.name if testbed.host.remote else CLIENT)


def send_client(testbed: Testbed) -> None:
    """Copy the guest client to a remote host, for this session. Raises: Unavailable if it has no Python."""
    if testbed.host.remote:
        testbed.host.require("python3", "apt-get install python3-minimal")
        testbed.host.write_text(client_on(testbed), CLIENT.read_text(encoding="utf-8"))

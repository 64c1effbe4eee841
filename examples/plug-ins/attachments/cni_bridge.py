"""Links by a CNI plug-in, as Kubernetes makes them: a program of its own is told which interface to make, and where.

An example of docs/howto-platforms.md. Source: the CNI specification, version 1.0.0, and the plug-in `bridge`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from lastro.attachments.base import Attachment, Segment
from lastro.errors import Unavailable
from lastro.platforms.base import Port
from lastro.requirements import Requirements
from lastro.testbed import Testbed

_PROGRAMS = "/usr/lib/cni"
_BRIDGE = "hub-cni"
_NETWORK = json.dumps({"cniVersion": "1.0.0", "name": "lastro", "type": "bridge", "bridge": _BRIDGE, "ipam": {}})


class CniBridge(Attachment):
    name = "cni-bridge"
    summary = "a veth pair for each port, on one bridge, both made by the CNI plug-in `bridge`"
    requirements = Requirements(packages=("containernetworking-plugins",))

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        ports = [port for segment in segments for port in segment.ports]
        if any(port.instance.takes_taps for port in ports):
            raise Unavailable("a CNI plug-in makes no taps for virtual machines", 'choose "veth-bridge" for them')
        with ExitStack() as stack:
            stack.callback(testbed.host.run, ["ip", "-n", testbed.dut, "link", "del", _BRIDGE], check=False)
            for port in ports:
                stack.callback(_ask, testbed, "DEL", port)
                _ask(testbed, "ADD", port)
            yield


def _ask(testbed: Testbed, command: str, port: Port) -> None:
    """Have the plug-in make or remove a port, with the DUT's namespace as its host."""
    told = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": port.netns,
        "CNI_NETNS": f"/run/netns/{port.netns}",
        "CNI_IFNAME": port.name,
        "CNI_PATH": _PROGRAMS,
    }
    argv = ["nsenter", f"--net=/run/netns/{testbed.dut}", "env", *(f"{name}={value}" for name, value in told.items())]
    testbed.host.run([*argv, f"{_PROGRAMS}/bridge"], stdin=_NETWORK, check=command == "ADD")

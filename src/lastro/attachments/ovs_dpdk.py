"""Open vSwitch over DPDK: the datapath in user space polls its ports through packet sockets (af_packet), on one CPU.

The ports are those of the other attachments, so this runs on every host, without a network card and without huge pages,
which packet sockets do not need. The switch polls only while it has ports: between trials, the CPU is free. It polls on
the last CPU of the testbed, since instances that are pinned get the first ones.

DPDK reads frames as the sender's kernel prepared them for a network card, as the datapath without DPDK does. The
driver's sockets reassemble fragments (PACKET_FANOUT_FLAG_DEFRAG); a packet that is then longer than a frame is lost.

Source: "Open vSwitch with DPDK" and ovs-vswitchd.conf.db(5), Open vSwitch 3.1; the guide of af_packet, DPDK 22.11."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lastro.attachments._ovs_daemons import SWITCH
from lastro.attachments.base import Segment
from lastro.attachments.ovs_userspace import OvsUserspace
from lastro.errors import CommandFailed, TrialError, Unavailable
from lastro.host import facts
from lastro.host.base import Completed, Host
from lastro.requirements import Requirements
from lastro.testbed import Testbed

_DEBIAN = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"  # an alternative to the usual program, on Ubuntu, too
_MOST_PORTS = 32  # of DPDK as distributions build it
_MEMORY_MB = 128  # DPDK takes less than half of it, for 16,384 buffers of 3 KiB, which the ports share
# Without huge pages, DPDK must have the old layout of its memory. Nothing is shared with other processes of DPDK.
_DPDK = f"--no-huge --legacy-mem -m {_MEMORY_MB} --iova-mode=va --no-pci --no-shconf --no-telemetry"


class OvsDpdk(OvsUserspace):
    name = "ovs-dpdk"
    summary = "an Open vSwitch bridge with the datapath in user space, which polls DPDK's ports on a CPU"
    requirements = Requirements(packages=("openvswitch-switch-dpdk", "librte-mempool-ring*", "librte-net-af-packet*"))

    def switch_program(self, host: Host) -> str:
        for program in (_DEBIAN, SWITCH):
            if host.which(program) and "DPDK" in host.run([program, "--version"], check=False).text:
                return program
        raise host.lacks("ovs-vswitchd with DPDK", self.requirements.install)

    def switch_settings(self, testbed: Testbed) -> list[str]:
        chosen = {"dpdk-init": "true", "dpdk-extra": _DPDK, "pmd-cpu-mask": f"{1 << _polling_cpu(testbed):#x}"}
        return ["--", "set", "Open_vSwitch", ".", *(f"other_config:{name}={value}" for name, value in chosen.items())]

    def _start(self, testbed: Testbed) -> None:
        super()._start(testbed)
        try:
            self._vsctl(testbed, "wait-until", "Open_vSwitch", ".", "dpdk_initialized=true")
        except TrialError as error:
            raise self.failed_start(SWITCH, error) from error

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        if 2 * len(segments) > _MOST_PORTS:
            raise Unavailable(
                f"{len(segments)} links have {2 * len(segments)} ports, and DPDK has at most {_MOST_PORTS}",
                'use a smaller topology, or "ovs-userspace"',
            )
        with super().laid(testbed, segments):
            yield

    def _vsctl(self, testbed: Testbed, *words: str, check: bool = True) -> Completed:
        try:
            return super()._vsctl(testbed, *words, check=check)
        except CommandFailed as error:
            if "attaching device" in error.message:
                error.hint = f"DPDK may lack its drivers: {self.requirements.install}"
            raise

    def _add_port(self, bridge: str, end: str) -> list[str]:
        device = f"options:dpdk-devargs=net_af_packet_{end},iface={end}"
        return [*super()._add_port(bridge, end), "--", "set", "interface", end, "type=dpdk", device]

    def facts(self, testbed: Testbed) -> dict[str, Any]:
        """Return the version and hash of the switch's program, and the version of DPDK."""
        argv = (self.switch_program(testbed.host), "--version")
        _, dpdk, *_ = testbed.host.run(argv).text.splitlines()
        return {**facts.tools(testbed.host, {SWITCH: argv}), "DPDK": dpdk.removeprefix("DPDK ")}

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        polling = f"CPU {_polling_cpu(testbed)} is always busy while the links exist; what else runs there shares it"
        return {**super().residuals(testbed), "ports": "DPDK's af_packet, without huge pages", "polling": polling}


def _polling_cpu(testbed: Testbed) -> int:
    return testbed.usable_cpus[-1]
